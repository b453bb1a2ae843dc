//! Watches: changes of intent, conditions in production, concurrency, orphans and words, over crashes.

use plugin_sdk::operation::StartCause;
use prodspec_model::operation::{Concurrency, IntentWatch, Per, WatchOperation};

use super::{watched::*, *};

const MINUTE: Duration = Duration::from_secs(60);

/// A world with a watch. `notice` is called once for each run.
fn world(watch: &WatchOperation) -> World {
    let mut notice = keyed("notice");
    notice.info = notice.info.deadline(600 * MINUTE);
    let mut world = World::new([], [notice]);
    world.seal(&[("job/a", "1"), ("job/b", "1"), ("db/a", "1")]);
    world.watch(WATCH, Some(watch));
    world.sync();
    world
}

fn say(world: &mut World, word: ScheduleWord) -> Reply {
    world.hear(Command::Watch(id(WATCH), word))
}

/// Ends the run that calls `notice`.
fn end(world: &mut World) {
    world.answer("notice", done());
    world.sync();
}

#[test]
fn r38_change_starts_a_run_once_in_the_commit_of_its_records() {
    let mut world = world(&on_intent());
    assert!(world.noticed().is_empty(), "what is there starts nothing");
    world.seal(&[("db/a", "2"), ("job/a", "2")]);
    let commit = world.last_commit();
    let is_start = |record: &Record| matches!(record, Record::Live(..));
    let is_watch = |record: &Record| matches!(record, Record::Watch(..));
    let is_watched = |record: &Record| matches!(record, Record::Watched(_, of, Some(watched)) if of.as_str() == "job/a" && watched.running.len() == 1);
    let one = commit.iter().any(is_start) && commit.iter().any(is_watch);
    assert!(one && commit.iter().any(is_watched), "one commit");
    world.crash();
    world.sync();
    assert_eq!(world.live(), 1, "not lost: the change is found again");
    world.crash();
    world.sync();
    assert_eq!(world.live(), 1, "not twice");
    let call = world.calls.values().next().unwrap().run.clone();
    assert_eq!(call.cause.to_string(), "watch watch/jobs of job/a");
    let changed = call.changed.unwrap();
    assert_eq!(changed.assets[0].before.unwrap().0, 3);
    let chain = world
        .stored
        .live
        .values()
        .next()
        .unwrap()
        .origin
        .chain
        .clone();
    assert_eq!(chain, [WATCH]);
    world.pass(2 * MINUTE);
    world.sync();
    end(&mut world);
    world.crash();
    world.sync();
    assert_eq!(world.live(), 0, "it does not run again");
    assert!(world.stored.watched.is_empty(), "and nothing is remembered");
}

#[test]
fn r38_arrivals_and_departures_are_changes_and_other_fields_are_not() {
    let fields = IntentWatch::default().fields(["payload.content"]);
    let mut world = world(&on(fields.of(jobs())));
    let with_addon = job("job/a", "1").edit();
    let owner = prodspec_model::addons::Owner::new("search");
    let with_addon = with_addon.addon(&owner).unwrap().build().unwrap();
    let sealed = testing::seal(world.sealed.last(), vec![with_addon], &[]);
    world.sealed.push(sealed.clone());
    world.step(Event::Took(sealed, Box::default()));
    assert!(world.noticed().is_empty());
    world.seal(&[("job/b", ""), ("job/c", "1")]);
    world.sync();
    assert_eq!(world.noticed(), ["job/b", "job/c"]);
}

#[test]
fn r38_forbid_runs_the_newest_content_next() {
    let mut world = world(&on_intent());
    world.seal(&[("job/a", "2")]);
    world.sync();
    world.seal(&[("job/a", "3")]);
    world.seal(&[("job/a", "4"), ("job/b", "2")]);
    world.sync();
    assert_eq!(world.noticed(), ["job/a", "job/b"]);
    assert_eq!(world.all_watches()[0].waiting, [id("job/a")]);
    let calls: Vec<_> = world
        .calls
        .iter()
        .map(|(no, call)| (*no, call.run.clone()))
        .collect();
    let of_a = calls
        .iter()
        .find(|(_, run)| run.cause.to_string().ends_with("job/a"));
    world.calls.remove(&of_a.unwrap().0);
    world.step(Event::Answered(of_a.unwrap().0, done()));
    world.sync();
    world.crash();
    world.pass(MINUTE);
    world.sync();
    let runs = world
        .calls
        .values()
        .map(|call| call.run.changed.clone().unwrap());
    let befores: Vec<_> = runs.flat_map(|it| it.assets).collect();
    let of_a = befores.iter().find(|it| it.asset == id("job/a")).unwrap();
    assert_eq!(of_a.before.unwrap().0, 4, "what the last run got");
    assert_eq!(world.all_watches()[0].counts.coalesced, 1);
    // Content that came and went while it ran is nothing.
    world.seal(&[("job/a", "5")]);
    world.seal(&[("job/a", "4")]);
    assert!(world.all_watches()[0].waiting.is_empty());
}

#[test]
fn r38_allow_runs_beside_and_at_most_so_many() {
    let mut watch = on_intent();
    (watch.concurrency, watch.at_most) = (Concurrency::Allow, 2);
    let mut world = world(&watch);
    for content in ["2", "3", "4"] {
        world.seal(&[("job/a", content)]);
        world.sync();
    }
    assert_eq!(world.noticed(), ["job/a", "job/a"]);
    end(&mut world);
    assert_eq!(world.noticed(), ["job/a", "job/a"]);
}

#[test]
fn r38_replace_cancels_the_run_and_starts_when_it_has_ended() {
    let mut watch = on_intent();
    watch.concurrency = Concurrency::Replace;
    let mut world = world(&watch);
    world.seal(&[("job/a", "2")]);
    world.sync();
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert_eq!(world.live(), 1, "the call that is under way goes on");
    end(&mut world);
    assert_eq!(world.noticed(), ["job/a"]);
    let ended = world.stored.ended();
    assert_eq!((ended.len(), &ended[0].outcome), (1, &Outcome::Cancelled));
}

#[test]
fn r38_run_of_the_watch_is_about_all_that_changed() {
    let mut watch = on_intent();
    watch.per = Per::Watch;
    let mut world = world(&watch);
    world.seal(&[("job/a", "2"), ("job/b", "2")]);
    world.sync();
    assert_eq!((world.live(), world.noticed().len()), (1, 2));
    let cause = world.stored.live_causes().remove(0);
    assert!(matches!(cause, StartCause::Watch { asset: None, .. }));
    world.seal(&[("job/c", "1")]);
    world.seal(&[("job/a", "3")]);
    world.sync();
    end(&mut world);
    assert_eq!(world.noticed(), ["job/a", "job/c"]);
}

#[test]
fn r38_run_gets_as_many_assets_as_a_function_may_and_the_next_one_the_others() {
    let mut watch = on_intent();
    watch.per = Per::Watch;
    let mut world = world(&watch);
    let names: Vec<String> = (0..1_001).map(|n| format!("job/{n:04}")).collect();
    let jobs: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "1")).collect();
    world.seal(&jobs);
    world.sync();
    assert_eq!(world.noticed().len(), 1_000);
    end(&mut world);
    assert_eq!(world.noticed(), ["job/1000"]);
}

#[test]
fn r38_new_watch_starts_for_what_is_there_if_it_says_so() {
    let existing = IntentWatch::default().existing().of(jobs());
    let world = world(&on(existing));
    assert_eq!(world.noticed(), ["job/a", "job/b"]);
    let changed = world.calls.values().next().unwrap().run.changed.clone();
    assert_eq!(changed.unwrap().assets[0].before, None);
}

#[test]
fn r38_edited_watch_counts_from_the_moment_it_is_taken() {
    let mut world = world(&on_intent());
    let only_a = jobs().under("job/a");
    let edited = crate::watch::Wanted::of(&on(IntentWatch::default().of(only_a)));
    let intended = Intended {
        watches: [(id(WATCH), Some(edited))].into(),
        ..Intended::default()
    };
    world.seal_with(&[("job/a", "2"), ("job/b", "2")], intended);
    world.sync();
    assert!(world.noticed().is_empty());
    world.seal(&[("job/a", "3"), ("job/b", "3")]);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"]);
}

#[test]
fn r38_watch_that_is_turned_down_stops_and_its_run_ends() {
    for wanted in [on_intent(), on_status()] {
        let mut world = world(&wanted);
        world.seal(&[("job/a", "2")]);
        world.is_in_sync("job/a");
        world.is_out("job/a");
        world.pass(MINUTE);
        world.sync();
        assert_eq!(world.noticed(), ["job/a"]);
        let intended = Intended {
            turned_down: [id(WATCH)].into(),
            ..Intended::default()
        };
        world.watches.clear();
        world.seal_with(&[("job/b", "2")], intended);
        world.sync();
        assert!(world.all_watches().is_empty());
        let is_told = |(of, what): &(prodspec_model::AssetId, What)| {
            *of == id(WATCH) && matches!(what, What::Said { word, .. } if word == "turned down")
        };
        assert_eq!(world.stored.told.iter().filter(|it| is_told(it)).count(), 1);
        assert!(world.stored.watches.is_empty() && world.stored.watched.is_empty());
        assert!(world.followed.is_empty());
        world.seal(&[("job/a", "3")]);
        world.crash();
        world.sync();
        assert_eq!(world.noticed(), ["job/a"], "the run goes on");
        end(&mut world);
        assert!(world.stored.live.is_empty() && world.calls.is_empty());
    }
}

#[test]
fn r38_changes_while_no_process_owns_the_partition_are_handled() {
    let mut world = world(&on_intent());
    for content in ["2", "3"] {
        let sealed = testing::seal(world.sealed.last(), vec![job("job/a", content)], &[]);
        world.sealed.push(sealed);
    }
    assert!(world.kernel.referenced().contains(&IncarnationNo(3)));
    world.crash();
    world.sync();
    assert_eq!(world.noticed(), ["job/a"], "one run with the newest");
}

#[test]
fn r38_incarnations_that_runs_need_are_spared() {
    let mut world = world(&on_intent());
    world.seal(&[("job/a", "2")]);
    world.sync();
    for n in 0..40 {
        world.seal(&[("db/a", &n.to_string())]);
    }
    world.sync();
    let spared = world.kernel.referenced();
    let newest = world.sealed.last().unwrap().no();
    assert!(spared.contains(&IncarnationNo(3)), "before the change");
    assert!(spared.contains(&IncarnationNo(4)), "what the run got");
    let stored = world.stored.watches[&id(WATCH)].progress.handled;
    assert!(
        stored < newest && spared.contains(&stored),
        "for the next owner"
    );
    assert!(spared.contains(&newest));
}

#[test]
fn r38_watch_that_leaves_intent_goes_on_until_it_is_acknowledged() {
    let mut world = world(&on_intent());
    assert!(matches!(
        say(&mut world, ScheduleWord::Acknowledge),
        Reply::Refused(Refused::Watch { .. })
    ));
    world.watch(WATCH, None);
    world.sync();
    world.crash();
    world.seal(&[("job/a", "2")]);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"], "it runs as last seen");
    assert!(world.all_watches()[0].orphan.is_some());
    assert_eq!(say(&mut world, ScheduleWord::Acknowledge), Reply::Taken);
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert!(world.all_watches().is_empty());
    assert!(world.stored.watches.is_empty() && world.stored.watched.is_empty());
    assert_eq!(world.live(), 1, "what runs goes on");
    end(&mut world);
    // A watch that comes again is a new one, whose runs have other keys.
    world.watch(WATCH, Some(&on_intent()));
    world.seal(&[("job/a", "4")]);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"]);
    assert!(matches!(
        world.hear(Command::Watch(id("watch/none"), ScheduleWord::Pause)),
        Reply::Refused(Refused::NoWatch(_))
    ));
}

#[test]
fn r38_watch_that_comes_back_knows_its_live_run() {
    let mut world = world(&on_intent());
    world.seal(&[("job/a", "2")]);
    world.watch(WATCH, None);
    world.sync();
    assert_eq!(say(&mut world, ScheduleWord::Acknowledge), Reply::Taken);
    world.watch(WATCH, Some(&on_intent()));
    world.seal(&[("job/a", "3"), ("job/b", "2")]);
    world.sync();
    assert_eq!(world.noticed(), ["job/a", "job/b"], "one run of each asset");
    let shown = &world.all_watches()[0];
    assert_eq!(shown.waiting, [id("job/a")]);
    assert_eq!(shown.running.len(), 2);
    world.crash();
    world.sync();
    end(&mut world);
    end(&mut world);
    assert_eq!(world.noticed(), ["job/a"]);
}

#[test]
fn r38_run_that_a_watch_knows_again_is_replaced_with_all_its_assets() {
    let mut watch = on_intent();
    watch.per = Per::Watch;
    watch.concurrency = Concurrency::Replace;
    let mut world = world(&watch);
    world.seal(&[("job/a", "2"), ("job/b", "2")]);
    world.watch(WATCH, None);
    world.sync();
    assert_eq!(say(&mut world, ScheduleWord::Acknowledge), Reply::Taken);
    world.watch(WATCH, Some(&watch));
    world.seal(&[("job/a", "3")]);
    world.sync();
    end(&mut world);
    assert_eq!(world.noticed(), ["job/a", "job/b"]);
}

#[test]
fn r38_paused_watch_starts_one_run_with_the_newest_when_it_is_resumed() {
    let mut world = world(&on_intent());
    assert_eq!(say(&mut world, ScheduleWord::Pause), Reply::Taken);
    world.seal(&[("job/a", "2")]);
    world.sync();
    world.crash();
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert!(world.noticed().is_empty());
    assert_eq!(say(&mut world, ScheduleWord::Resume), Reply::Taken);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"]);
}

#[test]
fn r38_condition_that_held_long_enough_starts_one_run_until_it_was_over() {
    let mut world = world(&on_status());
    world.is_in_sync("job/a");
    world.is_out("job/a");
    world.pass(Duration::from_secs(59));
    world.is_in_sync("job/a");
    world.is_out("job/a");
    world.pass(Duration::from_secs(59));
    world.sync();
    assert!(world.noticed().is_empty());
    world.pass(Duration::from_secs(1));
    world.sync();
    assert_eq!(world.noticed(), ["job/a"]);
    let changed = world.calls.values().next().unwrap().run.changed.clone();
    assert!(changed.unwrap().status);
    end(&mut world);
    world.crash();
    world.pass(10 * MINUTE);
    world.sync();
    assert_eq!(world.live(), 0, "not again while it holds");
    world.is_in_sync("job/a");
    world.is_out("job/a");
    world.pass(MINUTE);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"], "armed again");
}

#[test]
fn r38_condition_from_before_the_watch_starts_nothing_until_it_was_over() {
    let mut world = World::new([], [keyed("notice")]);
    world.seal(&[("job/a", "1"), ("job/b", "1")]);
    world.is_out("job/a");
    world.watch(WATCH, Some(&on_status()));
    world.sync();
    // The owner dies before it was told of all standings.
    world.is_out("job/b");
    world.crash();
    world.pass(10 * MINUTE);
    world.sync();
    assert!(world.noticed().is_empty());
    // An asset that comes later is not from before.
    world.seal(&[("job/c", "1")]);
    world.is_out("job/c");
    world.is_in_sync("job/b");
    world.is_out("job/b");
    world.pass(MINUTE);
    world.sync();
    assert_eq!(world.noticed(), ["job/b", "job/c"]);
}

#[test]
fn r38_watch_on_status_follows_the_assets_that_its_filter_selects() {
    let mut world = world(&on_status());
    let followed =
        |world: &World| -> Vec<String> { world.followed.iter().map(ToString::to_string).collect() };
    assert_eq!(followed(&world), ["job/a", "job/b"]);
    world.seal(&[("job/b", ""), ("job/c", "1"), ("db/b", "1")]);
    assert_eq!(followed(&world), ["job/a", "job/c"]);
    world.crash();
    assert_eq!(followed(&world), ["job/a", "job/c"]);
    world.watch("watch/others", Some(&on_status()));
    world.watch(WATCH, Some(&on_intent()));
    assert_eq!(followed(&world), ["job/a", "job/c"], "the other one does");
    world.watch("watch/others", None);
    let word = Command::Watch(id("watch/others"), ScheduleWord::Acknowledge);
    assert_eq!(world.hear(word), Reply::Taken);
    assert!(followed(&world).is_empty());
}

#[test]
fn r38_asset_that_the_new_owner_has_not_looked_at_starts_nothing() {
    let mut watch = on_status();
    if let prodspec_model::operation::Watch::Status(on) = &mut watch.on {
        on.held_for_secs = 0;
    }
    let mut world = world(&watch);
    world.is_in_sync("job/a");
    world.is_in_sync("job/b");
    world.sync();
    world.is_forgotten("job/a");
    world.crash();
    world.pass(MINUTE);
    world.sync();
    assert!(world.noticed().is_empty());
    world.is_out("job/a");
    world.sync();
    assert_eq!(world.noticed(), ["job/a"]);
}

#[test]
fn r38_restarted_run_counts_as_live() {
    let mut world = world(&on_intent());
    world.seal(&[("job/a", "2")]);
    world.sync();
    end(&mut world);
    let ran = world.stored.ended().remove(0).id.clone();
    assert_eq!(world.reopen(&ran, &["run"]), Reply::Taken);
    world.seal(&[("job/a", "3")]);
    world.sync();
    assert_eq!(world.all_watches()[0].waiting, [id("job/a")]);
    end(&mut world);
    assert_eq!(world.all_watches()[0].running.len(), 1);
}

#[test]
fn r41_run_waits_while_too_many_executions_are_live() {
    let mut settings = Settings::default();
    settings.config.live = 1;
    let notice = keyed("notice");
    settings.functions.insert(notice.info.name.clone(), notice);
    let mut world = World::with_settings(settings);
    world.watch(WATCH, Some(&on_intent()));
    world.seal(&[("job/a", "1"), ("job/b", "1")]);
    world.sync();
    assert_eq!(world.noticed(), ["job/a"]);
    end(&mut world);
    assert_eq!(world.noticed(), ["job/b"]);
}
