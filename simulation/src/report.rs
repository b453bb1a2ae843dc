//! Reports of one seed and of many seeds: counters and violations.

use std::collections::{BTreeMap, BTreeSet};

use annealing_enforcer::kernel::Branch;
use serde::Serialize;

use crate::{
    faults::Fault,
    people::words::RESCUES,
    world::World,
    world::judge::{EXCUSES, LOOKS, Violation},
};

/// Report of the run of one seed.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed that was run.
    pub seed: u64,
    /// Number of assets in intent.
    pub assets: usize,
    /// Number of steps of the executor.
    pub steps: u64,
    /// Digests of the task order and of all events; equal for equal runs.
    pub trace: (u64, u64),
    /// The first violation; `None` if every invariant held.
    pub violation: Option<Violation>,
    /// The last events and the state of the rollouts, a line each.
    pub tail: Vec<String>,
    /// Counters by name: how often each fault struck, each kernel branch was taken, and each invariant was checked.
    pub counts: BTreeMap<String, u64>,
}

impl Report {
    /// Makes the report of a world whose run has ended.
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
        for (rescue, _) in RESCUES {
            let ended = state.rescued.get(rescue).map_or(0, BTreeSet::len);
            counts.insert(rescue.into(), ended as u64);
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

/// Names of the states of a rollout that are counted.
const WORDS: [&str; 8] = [
    "running",
    "paused",
    "paused on the way back",
    "stopped",
    "rolling back",
    "completed",
    "rolled back",
    "superseded",
];

/// Sum of the reports of many seeds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Sum {
    /// Number of seeds in this sum.
    pub seeds: u64,
    /// Number of steps of all seeds.
    pub steps: u64,
    /// Minimum number of steps of a seed.
    pub fewest_steps: u64,
    /// Minimum number of assets of a seed.
    pub fewest_assets: usize,
    /// Sums of the counters, by name.
    pub counts: BTreeMap<String, u64>,
    /// Seeds whose second run differed from the first.
    pub not_replayed: Vec<u64>,
    /// Seeds with a violation, its text, and, for the first few of them, the last events.
    pub violations: Vec<(u64, String, Vec<String>)>,
}

/// Number of failing seeds that are reported with their last events.
const TOLD: usize = 3;

impl Sum {
    /// Adds the report of a seed. `same` is false if the seed ran twice and the runs differed.
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

    /// Names of the counters that are zero: a run without violations proves nothing about them. Excuses and rescues are
    /// left out, because a run may need none of them.
    pub fn never(&self) -> Vec<&str> {
        let never = self.counts.iter().filter(|(_, count)| **count == 0);
        let names = never.map(|(name, _)| name.as_str());
        let rescue = |name: &str| RESCUES.iter().any(|(rescue, _)| *rescue == name);
        let needless = |name: &&str| name.starts_with("excused ") || rescue(name);
        names.filter(|name| !needless(name)).collect()
    }

    /// Names of the counters of rescues that exceed their budget: too many rollouts depend on operators.
    pub fn over_budget(&self) -> Vec<&'static str> {
        let over = |(name, budget): &(&str, u64)| {
            let rescues = self.counts.get(*name).copied().unwrap_or_default();
            rescues * 1000 > budget * self.seeds
        };
        let over = RESCUES.iter().filter(|rescue| over(rescue));
        over.map(|(name, _)| *name).collect()
    }
}
