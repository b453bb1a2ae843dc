//! Runs a seed from beginning to end, or many seeds in parallel.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use annealing_workflow::record::Live;
use control_plane_store::{incarnations::Incarnations, record};

use crate::{
    executor::{Instant, NodeId},
    halt,
    intent::partition,
    people::care,
    process,
    report::{Report, Sum},
    scenario::Scenario,
    sealer::seal_for_ever,
    store,
    store::ProcessStore,
    trouble::{drive, go_away},
    workflows,
    world::World,
};

/// Maximum number of waits, of 20 seconds each, for the audit to end.
const AUDITED: usize = 30;

/// Interval at which the judge checks conditions that last.
const SECOND: Duration = Duration::from_secs(1);

/// Runs one seed: a phase with faults, then a phase with edits and no faults, then a phase without edits.
pub fn run(seed: u64, scenario: &Scenario) -> Report {
    let world = World::new(seed, scenario.clone());
    begin(&world);
    let mut now = Instant::default();
    let mut pass = |time: Duration| {
        let end = now + time;
        while now < end {
            now = end.min(now + SECOND);
            world.executor.run_until(now);
            world.state().judge_cures();
            world.state().judge_ways_back();
            world.state().judge_drains();
            world.state().judge_slots_on_time();
            world.verdict();
        }
    };
    pass(scenario.trouble);
    heal(&world);
    pass(scenario.drift_period * 3);
    {
        let mut state = world.state();
        state.judge.punctual_from = Some(state.now);
    }
    pass(scenario.load());
    world.state().judge_punctual();
    let rest = {
        let mut state = world.state();
        state.quiet = true;
        state.be_stubborn();
        scenario.rest() + state.bakes() * 2
    };
    pass(rest);
    audit(&world);
    for _ in 0..AUDITED {
        pass(Duration::from_secs(20));
        if world.state().judge.has_looked_at("L1") {
            break;
        }
    }
    world.state().judge_audited();
    let report = Report::of(seed, &world);
    world.end();
    report
}

/// Starts the sealer, the enforcers and the tasks that make faults and give commands.
fn begin(world: &World) {
    store::trouble(world);
    seal_for_ever(world);
    let enforcers = world.state().scenario.enforcers;
    for place in 0..enforcers {
        process::start(world, place);
    }
    let away = world.state().scenario.away;
    if let Some((after, long)) = away {
        let away = world.clone();
        world.spawn(async move {
            away.sleep(after).await;
            go_away(&away, long);
        });
    }
    world.spawn(drive(world.clone()));
    world.spawn(care(world.clone()));
    workflows::begin(world);
}

/// Ends all faults and repairs their consequences.
fn heal(world: &World) {
    let (nodes, observers, store) = {
        let mut state = world.state();
        state.heal();
        state.store.heal();
        let all = || state.processes.iter().flatten();
        let observers: Vec<_> = all().filter(|p| p.observes).map(|p| p.node).collect();
        let nodes: Vec<_> = all().filter(|p| !p.observes).map(|p| p.node).collect();
        (nodes, observers, state.store.clone())
    };
    for node in observers {
        halt::kill(world, node);
    }
    for node in nodes {
        world.executor.correct(node);
        halt::go_on(world, node);
    }
    world.note("healed", None, [0, 0]);
    let poisoned = world.clone();
    world.spawn(async move {
        let probe = control_plane_store::Store::get(&store, &["probe".into()]).await;
        if probe.is_err() {
            halt::power_cut(&poisoned);
        }
    });
}

/// Starts an audit: it reads every acknowledged incarnation and compares production with the newest one.
pub fn audit(world: &World) {
    let audits = world.clone();
    world.spawn(async move {
        let rows = ProcessStore::open(&audits, NodeId::WORLD);
        let store = Incarnations::new(rows.clone(), partition());
        let acknowledged = audits.state().sealed.acknowledged.clone();
        for sealed in &acknowledged {
            let read = store.load(sealed.no()).await.map_err(|e| e.to_string());
            audits.state().judge_kept(sealed, read);
        }
        let live = record::load_all::<Live>(&*rows, &partition()).await;
        let latest = store.latest().await;
        let mut state = audits.state();
        match latest {
            Ok(Some(latest)) => state.judge_rest(&latest),
            other => state.violated("S7", format!("the head cannot be read: {other:?}")),
        }
        match live {
            Ok(live) => {
                let live: Vec<_> = live.into_iter().map(|(id, row)| (id, row.value)).collect();
                state.judge_executions_at_rest(&live);
            }
            Err(error) => state.violated("S8", format!("executions cannot be read: {error}")),
        }
    });
}

/// Runs `count` seeds from `first` on, two at a time, and adds up their reports. `again` selects the seeds that run
/// twice, to check that both runs are equal.
pub fn run_all(
    first: u64,
    count: u64,
    scenario: impl Fn(u64) -> Scenario + Sync,
    again: impl Fn(u64) -> bool + Sync,
) -> Sum {
    let next = AtomicU64::new(first);
    let sum = Arc::new(Mutex::new(Sum::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let scenario = scenario(seed);
            let report = run(seed, &scenario);
            let same = !again(seed) || run(seed, &scenario).trace == report.trace;
            let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
            sum.add(report, same);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
    sum.clone()
}
