//! A year of a group: a train sends a version a day through three stages. People act only where a rollout waits for one.
//!
//! A day is short, and so are the bakes of the policies: the laws of trains do not depend on the unit of time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use control_plane::strategist::View;
use prodspec_model::AssetId;

use super::{
    Report,
    people::{adds, answer, edits, end, freezes, help, offers, removes},
    process,
    world::World,
};
use crate::executor::Instant;

/// Duration of a day.
const DAY: Duration = Duration::from_secs(15 * 60);
/// Number of days.
const DAYS: u64 = 365;
/// Maximum duration of the end, in which people end the rollouts that wait for them.
const REST: Duration = Duration::from_secs(4 * 3600);
/// Maximum number of steps of a year.
const STEPS: u64 = 20_000_000;
/// Time for which a rollout may wait for a person until one acts.
const LATER: Duration = Duration::from_secs(600);

/// The result of a year.
#[derive(Debug, Clone)]
pub struct Year {
    /// The report of the run.
    pub report: Report,
    /// Number of rollouts of versions to stages.
    pub rollouts: usize,
    /// Those that did not end without a person, each with the reason that is shown for it.
    pub exceptions: Vec<String>,
}

/// The rollouts that were seen.
#[derive(Default)]
struct Seen {
    all: BTreeSet<(AssetId, u64)>,
    /// Those that wait for a person, with the time since which.
    waiting: BTreeMap<(AssetId, u64), Instant>,
    exceptions: BTreeMap<(AssetId, u64), String>,
}

/// Runs a year.
pub fn year(seed: u64) -> Year {
    let world = World::year(seed);
    world.executor.allow(STEPS);
    process::begin(&world);
    world.spawn(days(world.clone()));
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Seen::default()));
    world.spawn(watch(world.clone(), seen.clone()));
    let all = DAY * u32::try_from(DAYS).unwrap_or(u32::MAX);
    world.executor.run_until(Instant::default() + all);
    process::heal(&world);
    world.spawn(end(world.clone()));
    world.executor.run_until(Instant::default() + all + REST);
    world.state().judge_no_end();
    let report = world.report(seed);
    let seen = seen
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    Year {
        report,
        rollouts: seen.all.len(),
        exceptions: seen.exceptions.values().cloned().collect(),
    }
}

/// The events of each day.
async fn days(world: World) {
    for _ in 0..DAYS {
        let before = world.now();
        let half = DAY / 2;
        world.takes(Duration::ZERO, half).await;
        let digit = if world.state().random.per_mille(50) {
            3
        } else {
            0
        };
        offers(&world, Some(digit));
        world.takes(Duration::ZERO, half).await;
        let drawn = world.state().random.below(100);
        match drawn {
            0..=9 => edits(&world),
            10..=12 => adds(&world),
            13..=15 => removes(&world),
            16..=35 => freezes(&world),
            36..=45 => {
                let node = world.state().process.as_ref().map(|it| it.node);
                node.map(|node| process::kill(&world, node));
            }
            _ => {}
        }
        let left = DAY.saturating_sub(world.now().since(before));
        world.sleep(left).await;
    }
}

/// Notes the rollouts, and gives a command to those that have waited for a person.
async fn watch(world: World, seen: std::sync::Arc<std::sync::Mutex<Seen>>) {
    loop {
        world.sleep(Duration::from_secs(60)).await;
        if world.state().healed {
            return;
        }
        let Some(handle) = world.state().handle() else {
            continue;
        };
        let Some(Ok(views)) = answer(&world, handle.rollouts()).await else {
            continue;
        };
        let mut seen = seen
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for view in views.iter().filter(|view| view.live) {
            note(&world, &mut seen, view);
        }
    }
}

fn note(world: &World, seen: &mut Seen, view: &View) {
    let Some(rollout) = &view.rollout else { return };
    let of = (view.policy.clone(), rollout.id.0);
    seen.all.insert(of.clone());
    if !view.is_on_hold() && view.awaits_person.is_none() {
        seen.waiting.remove(&of);
        return;
    }
    let now = world.now();
    let since = *seen.waiting.entry(of.clone()).or_insert(now);
    if now.since(since) < LATER {
        return;
    }
    let waits: Vec<&str> = view.waits.iter().map(|wait| wait.why.as_str()).collect();
    let why = view.awaits_person.clone().unwrap_or_default();
    let why = format!(
        "{} of {}: {}; {why} {}",
        rollout.id,
        of.0,
        rollout.state,
        waits.join("; ")
    );
    seen.exceptions.entry(of).or_insert(why);
    help(world, view);
}
