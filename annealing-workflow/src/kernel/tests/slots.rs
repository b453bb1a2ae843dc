//! Random histories of schedules: crashes, pauses, edits and time in any order. No slot starts twice, and the newest one
//! is never lost.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use plugin_sdk::operation::{ExecutionId, StartCause};
use prodspec_model::operation::Concurrency;
use proptest::{
    arbitrary, collection, prop_oneof, proptest,
    strategy::{Just, Strategy},
    test_runner::Config as ProptestConfig,
};

use super::{schedules::nightly, *};
use crate::query::ExecutionQuery;

const ASSET: &str = "cron/nightly";
const EVERY: &str = "*/10 * * * *";

#[derive(Debug, Clone)]
enum Act {
    Pass(u32),
    Answer,
    Fail,
    Sync,
    Crash,
    Pause,
    Resume,
    Leave,
    Come(Concurrency),
    Acknowledge,
    Cancel,
    /// The wall clock is set this number of minutes ahead, or back if it is negative.
    Clock(i8),
}

fn concurrency() -> impl Strategy<Value = Concurrency> {
    prop_oneof![
        Just(Concurrency::Forbid),
        Just(Concurrency::Allow),
        Just(Concurrency::Replace),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (1..2_000_u32).prop_map(Act::Pass),
        6 => Just(Act::Answer),
        1 => Just(Act::Fail),
        6 => Just(Act::Sync),
        3 => Just(Act::Crash),
        1 => Just(Act::Pause),
        2 => Just(Act::Resume),
        1 => Just(Act::Leave),
        2 => concurrency().prop_map(Act::Come),
        1 => Just(Act::Acknowledge),
        1 => Just(Act::Cancel),
        1 => arbitrary::any::<i8>().prop_map(Act::Clock),
    ]
}

fn world() -> World {
    let mut world = World::new([], [keyed("reindex")]);
    world.intended(ASSET, Some(&nightly(EVERY, Concurrency::Forbid)));
    world
}

/// Returns whether the schedule has stopped.
fn act_on(world: &mut World, act: Act) -> bool {
    let word = |world: &mut World, word| {
        let asset = prodspec_model::AssetId::new(ASSET).unwrap();
        // A word that does not fit changes nothing.
        world.hear(Command::Schedule(asset, word)) == Reply::Taken
    };
    match act {
        Act::Pass(seconds) => world.pass(Duration::from_secs(seconds.into())),
        Act::Answer => answer(world, done),
        Act::Fail => answer(world, || Err(plugin::Error::permanent("broken"))),
        Act::Sync => world.sync(),
        Act::Crash => world.crash(),
        Act::Pause => drop(word(world, ScheduleWord::Pause)),
        Act::Resume => drop(word(world, ScheduleWord::Resume)),
        Act::Acknowledge => return word(world, ScheduleWord::Acknowledge),
        Act::Leave => world.intended(ASSET, None),
        Act::Come(concurrency) => world.intended(ASSET, Some(&nightly(EVERY, concurrency))),
        Act::Cancel => {
            let running = world
                .schedules()
                .into_iter()
                .flat_map(|it| it.running)
                .next();
            if let Some(id) = running {
                drop(world.say(&id, Say::Cancel));
            }
        }
        Act::Clock(minutes) => {
            world.now.wall += jiff::SignedDuration::from_mins(minutes.into());
            world.step(Event::Tick);
        }
    }
    false
}

fn answer(world: &mut World, with: impl Fn() -> Result<Ran, plugin::Error>) {
    if world.call_of("reindex").is_some() {
        world.answer("reindex", with());
    }
}

/// Lets what runs go on and end, also what was in flight at too many crashes.
fn end_runs(world: &mut World) {
    for shown in world.page(&ExecutionQuery::all()).executions {
        drop(world.say(&shown.id, Say::Replay("run".into())));
    }
    world.sync();
    answer(world, done);
    world.sync();
    world.pass(Duration::from_secs(20));
    world.sync();
}

/// Each durable execution of a slot, by slot.
fn runs(world: &World) -> BTreeMap<Timestamp, BTreeSet<ExecutionId>> {
    let mut runs: BTreeMap<Timestamp, BTreeSet<ExecutionId>> = BTreeMap::new();
    for (id, cause) in world.stored.causes() {
        let StartCause::Slot { at, .. } = cause else {
            panic!("{id} has no slot");
        };
        runs.entry(at).or_default().insert(id);
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn r37_random_histories_start_no_slot_twice_and_lose_none(acts in collection::vec(act(), 1..60)) {
        let mut world = world();
        let mut forgotten = BTreeSet::new();
        for act in acts {
            let stopped = act_on(&mut world, act);
            assert_live_fits(&world);
            if stopped {
                // It is forgotten. A new schedule of its asset counts from the moment it is taken.
                world.sync();
                forgotten.extend(runs(&world).into_values().flatten());
            }
        }
        // At rest again: the schedule is in intent, not paused, and nothing runs. Then the next slot starts on time.
        world.sync();
        world.intended(ASSET, Some(&nightly(EVERY, Concurrency::Forbid)));
        act_on(&mut world, Act::Resume);
        let mut rounds = 0;
        world.sync();
        while !world.stored.live_causes().is_empty() {
            rounds += 1;
            assert!(rounds < 100, "runs do not end");
            end_runs(&mut world);
        }
        let next = world.schedules()[0].next.unwrap();
        world.pass(Duration::try_from(next.duration_since(world.now.wall)).unwrap());
        world.crash();
        world.sync();
        let all = runs(&world);
        for (slot, runs) in &all {
            let runs: Vec<_> = runs.difference(&forgotten).collect();
            assert!(runs.len() < 2, "{slot}: {runs:?}");
        }
        let newest = world.stored.schedules.values().next().unwrap();
        assert!(all.contains_key(&next) || newest.started.contains(next), "{next} is lost: {newest:?}");
    }
}

/// The record of the schedule names the executions that are live, in the same durable state.
fn assert_live_fits(world: &World) {
    let live: BTreeSet<Timestamp> = world
        .stored
        .live_causes()
        .into_iter()
        .filter_map(|cause| match cause {
            StartCause::Slot { at, .. } => Some(at),
            _ => None,
        })
        .collect();
    if let Some(record) = world.stored.schedules.values().next() {
        let running: BTreeSet<Timestamp> = record.running.iter().copied().collect();
        assert!(running.is_subset(&live), "{running:?} of {live:?}");
    }
}
