//! What came of one seed, and of many.

use std::collections::BTreeMap;

use annealing_enforcer::kernel::Branch;
use serde::Serialize;

use crate::{
    faults::Fault,
    judge::{EXCUSES, LOOKS, Violation},
    world::World,
};

/// What came of one seed.
#[derive(Debug, Clone)]
pub struct Report {
    /// Which one.
    pub seed: u64,
    /// How many assets there were.
    pub assets: usize,
    /// How many steps it took.
    pub steps: u64,
    /// A digest of everything that happened.
    pub trace: (u64, u64),
    /// The first thing that must never happen.
    pub violation: Option<Violation>,
    /// The last events.
    pub tail: Vec<String>,
    /// How often each fault struck, kernel branch was taken, invariant was looked at.
    pub counts: BTreeMap<String, u64>,
}

impl Report {
    /// Sums up a world that has ended.
    pub fn of(seed: u64, world: &World) -> Self {
        let panicked = world.executor.panicked();
        let mut state = world.state();
        if let Some(said) = panicked {
            state.violated("S10", format!("a task panicked: {said}"));
        }
        let mut counts = BTreeMap::new();
        for fault in Fault::ALL {
            let struck = state.struck.get(fault).copied().unwrap_or_default();
            counts.insert(format!("fault {}", fault.name()), struck);
        }
        for (name, count) in state.store.counts() {
            counts.insert(format!("store {name}"), count);
        }
        for branch in Branch::ALL {
            let taken = state
                .branches
                .values()
                .filter_map(|taken| taken.get(branch));
            counts.insert(format!("branch {branch:?}"), taken.sum());
        }
        for word in WORDS {
            let name = format!("rollout {word}");
            let times = state.rolled.get(&name).copied().unwrap_or_default();
            counts.insert(name, times);
        }
        for look in LOOKS {
            let looked = state.judge.looked.get(look).copied().unwrap_or_default();
            counts.insert(format!("judged {look}"), looked);
        }
        for excuse in EXCUSES {
            let used = state.judge.cures.excused.get(excuse);
            counts.insert(
                format!("excused {excuse}"),
                used.copied().unwrap_or_default(),
            );
        }
        counts.insert("judged lease".into(), state.leases);
        counts.insert("pushes begun".into(), state.judge.begun);
        counts.insert("pushes effective".into(), state.production.effective);
        counts.insert("removals".into(), state.production.removed);
        counts.insert(
            "incarnations".into(),
            state.sealed.acknowledged.len() as u64,
        );
        Self {
            seed,
            assets: state.plan.wishes.len(),
            steps: world.executor.steps(),
            trace: (world.executor.trace(), state.trace.digest()),
            violation: state.judge.violation.clone(),
            tail: [state.trace.tail(), state.rollouts_told()].concat(),
            counts,
        }
    }
}

/// The states that rollouts get into.
const WORDS: [&str; 7] = [
    "running",
    "paused",
    "stopped",
    "rolling back",
    "completed",
    "rolled back",
    "superseded",
];

/// What came of many seeds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Sum {
    /// How many.
    pub seeds: u64,
    /// Steps in all.
    pub steps: u64,
    /// The fewest steps that one took.
    pub fewest_steps: u64,
    /// The fewest assets that one had.
    pub fewest_assets: usize,
    /// Counters, summed.
    pub counts: BTreeMap<String, u64>,
    /// Seeds that went differently the second time.
    pub not_replayed: Vec<u64>,
    /// Seeds with a violation, what it was, and the last events of the first few.
    pub violations: Vec<(u64, String, Vec<String>)>,
}

/// How many failing seeds are told with their last events.
const TOLD: usize = 3;

impl Sum {
    /// Adds a seed. `same`: it was not run twice, or went the same way both times.
    pub fn add(&mut self, report: Report, same: bool) {
        self.fewest_steps = match self.seeds {
            0 => report.steps,
            _ => self.fewest_steps.min(report.steps),
        };
        self.fewest_assets = match self.seeds {
            0 => report.assets,
            _ => self.fewest_assets.min(report.assets),
        };
        self.seeds += 1;
        self.steps += report.steps;
        for (name, count) in report.counts {
            *self.counts.entry(name).or_default() += count;
        }
        if !same {
            self.not_replayed.push(report.seed);
        }
        if let Some(violation) = report.violation {
            let told = self.violations.len() < TOLD;
            let tail = if told { report.tail } else { Vec::new() };
            let what = format!("{}: {}", violation.invariant, violation.what);
            self.violations.push((report.seed, what, tail));
        }
    }

    /// What was never seen: green means nothing for it. An excuse that was never needed is no loss.
    pub fn never(&self) -> Vec<&str> {
        let never = self.counts.iter().filter(|(_, count)| **count == 0);
        let names = never.map(|(name, _)| name.as_str());
        names.filter(|name| !name.starts_with("excused ")).collect()
    }
}
