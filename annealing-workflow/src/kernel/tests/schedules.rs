//! Schedules: slots, concurrency, orphans and words, over crashes.

use prodspec_model::{
    AssetId,
    operation::{Concurrency, CronOperation, History, Operation, PipelineStep, Schedule},
};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn nightly(cron: &str, concurrency: Concurrency) -> CronOperation {
    CronOperation {
        schedule: Schedule::new(cron),
        starting_deadline_secs: None,
        concurrency,
        history: History::default(),
        template: Operation::pipeline([PipelineStep::new("run", "reindex")]),
    }
}

/// A schedule with a slot each hour, seen at noon.
fn hourly(concurrency: Concurrency) -> World {
    let mut reindex = keyed("reindex");
    reindex.info = reindex.info.deadline(600 * MINUTE);
    let mut world = World::new([], [reindex]);
    world.intended("cron/nightly", Some(&nightly("0 * * * *", concurrency)));
    world.sync();
    world
}

fn slots(world: &World) -> Vec<String> {
    let calls = world.calls.values();
    let mut slots: Vec<String> = calls.map(|call| call.run.cause.to_string()).collect();
    slots.sort();
    slots
}

fn asset() -> AssetId {
    AssetId::new("cron/nightly").unwrap()
}

fn say(world: &mut World, word: ScheduleWord) -> Reply {
    world.hear(Command::Schedule(asset(), word))
}

#[test]
fn r37_slot_starts_the_operation_once_in_the_commit_of_its_record() {
    let mut world = hourly(Concurrency::Forbid);
    world.pass(59 * MINUTE);
    world.sync();
    assert!(slots(&world).is_empty());
    world.pass(MINUTE);
    let commit = world.last_commit();
    let is_start = |record: &Record| matches!(record, Record::Live(..));
    let is_slot = |record: &Record| matches!(record, Record::Schedule(_, Some(record)) if record.running.len() == 1);
    assert!(
        commit.iter().any(is_start) && commit.iter().any(is_slot),
        "one commit"
    );
    world.crash();
    world.sync();
    assert_eq!(
        slots(&world),
        ["slot 2026-03-04T13:00:00Z of cron/nightly"],
        "not lost"
    );
    world.crash();
    world.sync();
    assert_eq!(world.live(), 1, "not twice");
    let id = world.schedules()[0].running[0].clone();
    assert_eq!(id.to_string(), "cron.nightly-0000000001");
    world.pass(2 * MINUTE);
    world.sync();
    world.answer("reindex", done());
    world.sync();
    assert_eq!(world.live(), 0);
    let shown = &world.schedules()[0];
    assert!(shown.running.is_empty());
    assert_eq!(shown.next.unwrap().to_string(), "2026-03-04T14:00:00Z");
    assert_eq!(shown.counts.started, 1);
    world.crash();
    world.sync();
    assert!(slots(&world).is_empty(), "it does not run again");
}

#[test]
fn r37_forbid_waits_for_the_end_of_the_run_and_allow_does_not() {
    let mut world = hourly(Concurrency::Forbid);
    world.pass(125 * MINUTE);
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T13:00:00Z of cron/nightly"]);
    assert_eq!(
        world.schedules()[0].open.unwrap().to_string(),
        "2026-03-04T14:00:00Z"
    );
    world.answer("reindex", done());
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T14:00:00Z of cron/nightly"]);

    let mut world = hourly(Concurrency::Allow);
    world.pass(125 * MINUTE);
    world.sync();
    assert_eq!(slots(&world).len(), 2);
}

#[test]
fn r37_replace_cancels_the_run_and_starts_when_it_has_ended() {
    let mut world = hourly(Concurrency::Replace);
    world.pass(65 * MINUTE);
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T13:00:00Z of cron/nightly"]);
    world.pass(60 * MINUTE);
    world.sync();
    assert_eq!(
        slots(&world),
        ["slot 2026-03-04T13:00:00Z of cron/nightly"],
        "the call that is under way goes on"
    );
    world.crash();
    world.pass(MINUTE);
    world.sync();
    let call = world.answer("reindex", done());
    assert!(call.run.cancelled);
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T14:00:00Z of cron/nightly"]);
    let ended = world.stored.ended();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].outcome, Outcome::Cancelled);
}

#[test]
fn r37_schedule_that_leaves_intent_goes_on_until_it_is_acknowledged() {
    let mut world = hourly(Concurrency::Allow);
    world.pass(MINUTE);
    world.intended("cron/nightly", None);
    world.sync();
    let refused = say(&mut world, ScheduleWord::Resume);
    assert!(
        matches!(refused, Reply::Refused(Refused::Schedule { .. })),
        "{refused:?}"
    );
    world.crash();
    world.pass(60 * MINUTE);
    world.sync();
    assert_eq!(slots(&world).len(), 1, "it runs as last seen");
    assert_eq!(
        world.schedules()[0].orphan.unwrap().to_string(),
        "2026-03-04T12:01:00Z",
        "and is listed"
    );
    assert_eq!(say(&mut world, ScheduleWord::Acknowledge), Reply::Taken);
    world.pass(60 * MINUTE);
    world.sync();
    assert!(world.schedules().is_empty());
    assert!(world.stored.schedules.is_empty());
    assert_eq!(
        slots(&world).len(),
        1,
        "nothing starts, and what runs goes on"
    );
    world.answer("reindex", done());
    world.sync();
    assert_eq!(world.live(), 0);
}

#[test]
fn r37_schedule_that_comes_back_knows_its_live_run() {
    let mut world = hourly(Concurrency::Forbid);
    world.pass(60 * MINUTE);
    world.intended("cron/nightly", None);
    world.sync();
    assert_eq!(say(&mut world, ScheduleWord::Acknowledge), Reply::Taken);
    world.sync();
    world.crash();
    assert!(world.schedules().is_empty());
    let again = nightly("0 * * * *", Concurrency::Forbid);
    world.intended("cron/nightly", Some(&again));
    world.pass(60 * MINUTE);
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T13:00:00Z of cron/nightly"]);
    assert_eq!(world.schedules()[0].running.len(), 1);
    world.answer("reindex", done());
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T14:00:00Z of cron/nightly"]);
}

#[test]
fn r37_schedule_in_intent_is_not_acknowledged_away() {
    let mut world = hourly(Concurrency::Allow);
    let refused = match say(&mut world, ScheduleWord::Acknowledge) {
        Reply::Refused(refused) => refused.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused,
        "acknowledge does not fit the schedule cron/nightly now: its asset is in intent; remove it there first, or pause it"
    );
    let none = world.hear(Command::Schedule(
        AssetId::new("cron/other").unwrap(),
        ScheduleWord::Pause,
    ));
    assert!(matches!(none, Reply::Refused(Refused::NoSchedule(_))));
}

#[test]
fn r37_orphan_that_comes_back_is_none_any_more() {
    let mut world = hourly(Concurrency::Allow);
    world.intended("cron/nightly", None);
    world.sync();
    world.crash();
    world.intended(
        "cron/nightly",
        Some(&nightly("0 * * * *", Concurrency::Allow)),
    );
    world.sync();
    assert_eq!(world.schedules()[0].orphan, None);
    assert_eq!(world.stored.schedules[&asset()].orphan, None);
}

#[test]
fn r37_slots_of_a_pause_never_start_and_the_next_one_does() {
    let mut world = hourly(Concurrency::Allow);
    say(&mut world, ScheduleWord::Pause);
    world.sync();
    world.pass(61 * MINUTE);
    world.crash();
    world.pass(60 * MINUTE);
    assert_eq!(say(&mut world, ScheduleWord::Resume), Reply::Taken);
    world.sync();
    assert!(slots(&world).is_empty());
    assert_eq!(world.schedules()[0].counts.paused, 2);
    world.pass(60 * MINUTE);
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T15:00:00Z of cron/nightly"]);
}

#[test]
fn r37_edited_schedule_counts_from_the_moment_it_is_taken() {
    let mut world = hourly(Concurrency::Forbid);
    world.pass(10 * MINUTE);
    world.intended(
        "cron/nightly",
        Some(&nightly("5,20 * * * *", Concurrency::Forbid)),
    );
    world.sync();
    assert!(slots(&world).is_empty(), "12:05 was before");
    world.pass(10 * MINUTE);
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T12:20:00Z of cron/nightly"]);
}

#[test]
fn r37_wall_clock_that_ran_ahead_closes_no_slot_for_good() {
    let mut world = hourly(Concurrency::Forbid);
    let right = world.now.wall;
    world.now.wall += Duration::from_secs(3 * 24 * 3600);
    world.step(Event::Tick);
    world.sync();
    // One slot starts, by the wrong clock.
    world.answer("reindex", done());
    world.sync();
    world.now.wall = right;
    world.pass(61 * MINUTE);
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T13:00:00Z of cron/nightly"]);
}

#[test]
fn r41_slot_waits_while_too_many_executions_are_live() {
    let mut settings = Settings::default();
    settings.config.live = 1;
    let reindex = keyed("reindex");
    settings
        .functions
        .insert(reindex.info.name.clone(), reindex);
    let mut world = World::with_settings(settings);
    world.intended(
        "cron/nightly",
        Some(&nightly("0 * * * *", Concurrency::Allow)),
    );
    world.intended(
        "cron/other",
        Some(&nightly("0 * * * *", Concurrency::Allow)),
    );
    world.pass(61 * MINUTE);
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T13:00:00Z of cron/nightly"]);
    world.answer("reindex", done());
    world.pass(MINUTE);
    world.sync();
    assert_eq!(slots(&world), ["slot 2026-03-04T13:00:00Z of cron/other"]);
}

#[test]
fn r42_slot_of_a_function_that_is_not_registered_waits_for_it() {
    let mut world = hourly(Concurrency::Forbid);
    world.without("reindex");
    world.crash();
    world.pass(61 * MINUTE);
    world.sync();
    assert_eq!(world.live(), 1);
    world.with(keyed("reindex"));
    world.crash();
    world.sync();
    assert_eq!(slots(&world).len(), 1);
}

/// What the feed tells of the schedule since the last call.
fn told(world: &mut World) -> Vec<What> {
    world.sync();
    let told = std::mem::take(&mut world.stored.told).into_iter();
    told.map(|(of, what)| {
        assert_eq!(of, asset());
        what
    })
    .collect()
}

#[test]
fn r41_feed_tells_of_slots_that_never_start_and_of_words() {
    let missed = |late, forbidden, paused| What::Missed {
        late,
        forbidden,
        paused,
    };
    let mut world = hourly(Concurrency::Forbid);
    world.pass(60 * MINUTE);
    assert_eq!(told(&mut world), [], "a slot that starts is not missed");
    // The run of 13:00 goes on: 14:00 waits until 15:00 opens.
    world.pass(120 * MINUTE);
    assert_eq!(told(&mut world), [missed(0, 1, 0)]);
    world.crash();
    assert_eq!(told(&mut world), [], "once");
    assert_eq!(say(&mut world, ScheduleWord::Pause), Reply::Taken);
    world.pass(60 * MINUTE);
    assert_eq!(say(&mut world, ScheduleWord::Resume), Reply::Taken);
    let words = told(&mut world).into_iter().map(|what| match what {
        What::Said { word, by } => format!("{word} by {}", by.who),
        other => format!("{other:?}"),
    });
    let words: Vec<String> = words.collect();
    let paused = format!("{:?}", missed(0, 0, 2));
    assert_eq!(words, ["pause by ann", "resume by ann", &paused]);
}

#[test]
fn r37_run_by_a_word_starts_now_and_leaves_the_slots_as_they_are() {
    let mut world = hourly(Concurrency::Forbid);
    world.pass(10 * MINUTE);
    let Reply::Started { id, new: true, .. } = say(&mut world, ScheduleWord::Run) else {
        panic!("a start");
    };
    world.sync();
    assert_eq!(world.called(), ["reindex"]);
    let live = &world.stored.live[&id];
    assert_eq!(live.origin.by, plugin_sdk::By::new("ann", "test"));
    // One at a time, also over owners.
    world.crash();
    world.sync();
    let again = say(&mut world, ScheduleWord::Run);
    assert!(matches!(again, Reply::Refused(_)), "{again:?}");
    world.pass(55 * MINUTE);
    world.sync();
    assert_eq!(world.called(), ["reindex"], "the slot waits for the run");
    world.answer("reindex", done());
    world.sync();
    assert_eq!(
        world.called(),
        ["reindex"],
        "the slot of one o'clock starts"
    );
    let counts = world.stored.schedules[&asset()].counts;
    assert_eq!((counts.started, counts.late, counts.forbidden), (1, 0, 0));
}

#[test]
fn r37_run_by_a_word_is_refused_in_a_pause_and_without_a_schedule() {
    let mut world = hourly(Concurrency::Allow);
    say(&mut world, ScheduleWord::Pause);
    let refused = say(&mut world, ScheduleWord::Run);
    assert!(
        matches!(refused, Reply::Refused(Refused::Schedule { .. })),
        "{refused:?}"
    );
    say(&mut world, ScheduleWord::Resume);
    for _ in 0..2 {
        let run = say(&mut world, ScheduleWord::Run);
        assert!(matches!(run, Reply::Started { .. }), "{run:?}");
        world.pass(MINUTE);
        world.sync();
    }
    assert_eq!(world.called(), ["reindex", "reindex"]);
    let other = AssetId::new("cron/other").unwrap();
    let unknown = world.hear(Command::Schedule(other, ScheduleWord::Run));
    assert!(
        matches!(unknown, Reply::Refused(Refused::NoSchedule(_))),
        "{unknown:?}"
    );
}
