//! Watches on status: examples, and a model with conditions that come and go, and owners that die.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp, ToSpan};
use prodspec_model::{
    AssetId,
    operation::{
        Concurrency::{self, Allow, Forbid, Replace},
        Per,
    },
};
use proptest::{collection::vec, prelude::*, sample::select};

use super::id;
use crate::watch::{Changed, Limits, Progress, StatusWatch, WatchedRecord};

const ASSETS: [&str; 3] = ["a", "b", "c"];
const HELD_FOR: SignedDuration = SignedDuration::from_secs(60);

fn limits(concurrency: Concurrency) -> Limits {
    Limits {
        per: Per::Asset,
        concurrency,
        at_most: 4,
    }
}

fn noon() -> Timestamp {
    "2026-01-01T12:00Z".parse().unwrap()
}

#[test]
fn r38_condition_that_was_over_before_its_time_starts_nothing() {
    let mut watch = StatusWatch::new(limits(Forbid), HELD_FOR);
    watch.holds(&id("a"), noon());
    watch.is_over(&id("a"));
    watch.holds(&id("a"), noon() + 50.seconds());
    assert!(watch.starts(noon() + 109.seconds()).is_empty());
    assert_eq!(watch.starts(noon() + 110.seconds()), [[id("a")]]);
    // What is told again does not begin anew.
    watch.holds(&id("a"), noon() + 100.seconds());
    assert_eq!(watch.starts(noon() + 110.seconds()), [[id("a")]]);
}

#[test]
fn r38_condition_of_before_the_watch_starts_nothing_until_it_was_over() {
    let mut watch = StatusWatch::new(limits(Forbid), HELD_FOR);
    watch.had_its_run(&id("a"));
    watch.holds(&id("a"), noon());
    assert!(watch.starts(noon() + 1.hour()).is_empty());
    watch.is_over(&id("a"));
    watch.holds(&id("a"), noon() + 1.hour());
    assert_eq!(watch.starts(noon() + 2.hours()), [[id("a")]]);
}

#[test]
fn r38_condition_that_returns_while_its_run_is_live_waits_or_replaces_it() {
    for concurrency in [Forbid, Allow, Replace] {
        let mut watch = StatusWatch::new(limits(concurrency), HELD_FOR);
        watch.holds(&id("a"), noon());
        let run = watch.started(&[id("a")]);
        watch.is_over(&id("a"));
        watch.holds(&id("a"), noon() + 1.hour());
        let now = noon() + 2.hours();
        assert_eq!(watch.starts(now).is_empty(), concurrency != Allow);
        let cancelled = (concurrency == Replace).then_some(run);
        assert_eq!(watch.cancels(now), Vec::from_iter(cancelled));
        watch.ended(run);
        assert_eq!(watch.starts(now), [[id("a")]]);
        assert!(watch.cancels(now).is_empty());
    }
}

#[test]
fn edited_time_holds_for_conditions_that_hold() {
    let mut watch = StatusWatch::new(limits(Forbid), HELD_FOR);
    watch.holds(&id("a"), noon());
    watch.edited(limits(Forbid), HELD_FOR * 2);
    assert_eq!(watch.next_wake(noon()), Some(noon() + 120.seconds()));
    let holding: Vec<_> = watch.holding().collect();
    assert_eq!(holding, [(noon() + 120.seconds(), &id("a"))]);
    assert!(watch.starts(noon() + 119.seconds()).is_empty());
}

#[derive(Debug, Clone)]
enum Op {
    Begins(usize),
    IsOver(usize),
    Pass(i64),
    Start,
    End,
    /// The owner dies after the last commit. The next one is told all conditions.
    Crash,
}

struct World {
    watch: StatusWatch,
    limits: Limits,
    now: Timestamp,
    record: Progress,
    rows: BTreeMap<AssetId, WatchedRecord>,
    /// The conditions that hold, since when, and whether they have had their run.
    conditions: BTreeMap<AssetId, (Timestamp, bool)>,
    live: BTreeMap<u64, BTreeSet<AssetId>>,
}

impl World {
    fn step(&mut self, op: Op) {
        match op {
            Op::Begins(asset) => {
                let asset = id(ASSETS[asset]);
                let (since, _) = *self
                    .conditions
                    .entry(asset.clone())
                    .or_insert((self.now, false));
                self.watch.holds(&asset, since);
            }
            Op::IsOver(asset) => {
                self.conditions.remove(&id(ASSETS[asset]));
                self.watch.is_over(&id(ASSETS[asset]));
                self.commit();
            }
            Op::Pass(seconds) => self.now += SignedDuration::from_secs(seconds),
            Op::Start => self.start(),
            Op::End => {
                if let Some((run, _)) = self.live.pop_first() {
                    self.watch.ended(run);
                    self.commit();
                }
            }
            Op::Crash => self.crash(),
        }
    }

    fn commit(&mut self) {
        let Some(Changed {
            progress: record,
            assets,
        }) = self.watch.take_changed()
        else {
            return;
        };
        self.record = record.clone();
        for (id, row) in assets {
            match row {
                Some(row) => drop(self.rows.insert(id, row.clone())),
                None => drop(self.rows.remove(&id)),
            }
        }
    }

    fn crash(&mut self) {
        let (record, rows) = (self.record.clone(), self.rows.clone());
        self.watch = StatusWatch::restore(self.limits, HELD_FOR, record, rows);
        for asset in ASSETS.map(id) {
            match self.conditions.get(&asset) {
                Some((since, _)) => self.watch.holds(&asset, *since),
                None => self.watch.is_over(&asset),
            }
        }
    }

    fn start(&mut self) {
        for assets in self.watch.starts(self.now) {
            for asset in &assets {
                let (since, had) = self.conditions.get_mut(asset).expect("the condition holds");
                assert!(!*had, "{asset} starts twice for one condition");
                assert!(*since + HELD_FOR <= self.now, "{asset} starts early");
                *had = true;
                let busy = self.live.values().any(|live| live.contains(asset));
                assert!(
                    !busy || self.limits.concurrency == Allow,
                    "beside another run"
                );
            }
            let run = self.watch.started(&assets);
            self.live.insert(run, assets.into_iter().collect());
            assert!(self.live.len() <= self.limits.at_most);
            self.commit();
        }
    }

    /// Runs everything to its end: then no condition is without its run.
    fn rest(mut self) {
        self.step(Op::Pass(60));
        for _ in 0..20 {
            self.step(Op::Start);
            self.step(Op::End);
        }
        let had = self.conditions.values().all(|(_, had)| *had);
        assert!(had && self.live.is_empty(), "{:?}", self.conditions);
        assert_eq!(self.watch.next_wake(self.now), None);
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0..ASSETS.len()).prop_map(Op::Begins),
        3 => (0..ASSETS.len()).prop_map(Op::IsOver),
        4 => (1..90i64).prop_map(Op::Pass),
        4 => Just(Op::Start),
        2 => Just(Op::End),
        2 => Just(Op::Crash),
    ];
    vec(op, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn r38_each_condition_that_lasts_has_one_run_over_crashes(
        per in select(vec![Per::Asset, Per::Watch]),
        concurrency in select(vec![Forbid, Allow, Replace]),
        at_most in 1..4usize,
        ops in ops(),
    ) {
        let limits = Limits { per, concurrency, at_most };
        let mut world = World {
            watch: StatusWatch::new(limits, HELD_FOR),
            limits,
            now: noon(),
            record: Progress::default(),
            rows: BTreeMap::new(),
            conditions: BTreeMap::new(),
            live: BTreeMap::new(),
        };
        ops.into_iter().for_each(|op| world.step(op));
        world.rest();
    }
}
