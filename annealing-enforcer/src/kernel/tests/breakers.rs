//! S9: failures that open a circuit breaker, failures that do not, and the effect on healthy assets.

use std::{collections::BTreeMap, time::Duration};

use plugin_sdk::{Diff, Mono, Pushed, plugin};

use super::rig::*;
use crate::kernel::{Branch, Call, Event};

fn name(n: usize) -> String {
    format!("a{n:04}")
}

fn rig(assets: usize) -> Rig {
    Rig::new((0..assets).map(|n| thing(&name(n), 1)).collect())
}

/// Lets time pass, second by second; assets for which `well` holds answer in sync at once, others never answer. Says
/// for each asset the longest time between two answers.
fn play(rig: &mut Rig, time: Duration, well: impl Fn(&str) -> bool) -> BTreeMap<String, Duration> {
    let start = rig.now.mono;
    let mut last: BTreeMap<String, Mono> = BTreeMap::new();
    let mut gaps: BTreeMap<String, Duration> = BTreeMap::new();
    while rig.now.mono.since(start) < time {
        for call in std::mem::take(&mut rig.calls) {
            let Call::Diff(target) = call else { continue };
            let name = target.asset.id_str().to_owned();
            if well(&name) {
                let before = last.insert(name.clone(), rig.now.mono).unwrap_or(start);
                let gap = gaps.entry(name).or_default();
                *gap = (*gap).max(rig.now.mono.since(before));
                let (run, answer) = (target.run, Ok(Diff::in_sync()));
                rig.step(Event::DiffDone { run, answer });
            }
        }
        rig.pass(Duration::from_secs(1));
    }
    gaps
}

#[test]
fn s9_fifty_unreachable_assets_of_a_thousand_delay_no_other_asset() {
    let mut rig = rig(1_050);
    let unreachable = |name: &str| name[1..].parse::<usize>().unwrap() < 50;
    let gaps = play(&mut rig, Duration::from_secs(3_600), |name| {
        !unreachable(name)
    });
    assert_eq!(gaps.len(), 1_000);
    let longest = gaps.values().max().unwrap();
    assert!(*longest <= Duration::from_secs(600), "{longest:?}");
    assert_eq!(rig.kernel.branches().get(&Branch::BreakerOpened), None);
}

#[test]
fn s9_plugin_that_fails_for_all_is_probed_with_the_asset_that_worked_last() {
    let mut rig = rig(100);
    for n in 0..100 {
        rig.in_sync(&name(n));
    }
    let down = || Err(plugin::Error::transient("down"));
    // The drift scan finds the failures, asset by asset.
    while !rig.kernel.branches().contains_key(&Branch::BreakerOpened) {
        rig.pass(Duration::from_secs(1));
        for call in std::mem::take(&mut rig.calls) {
            if let Call::Diff(target) = call {
                assert_ne!(
                    target.asset.id_str(),
                    name(99),
                    "the last asset of the scan is not diffed yet"
                );
                let (run, answer) = (target.run, down());
                rig.step(Event::DiffDone { run, answer });
            }
        }
    }
    rig.pass(Duration::from_secs(6));
    let probes: Vec<_> = rig.calls.iter().collect();
    let [Call::Diff(probe)] = probes.as_slice() else {
        panic!("one probe, not {probes:?}");
    };
    assert_eq!(probe.asset.id_str(), name(99), "it worked last");
    rig.in_sync(&name(99));
    assert!(rig.kernel.status(rig.now).open_breakers.is_empty());
}

#[test]
fn s9_suspended_owner_opens_no_breaker() {
    let mut rig = rig(100);
    assert_eq!(rig.calls.len(), 100);
    // The machine sleeps for an hour while all diffs are under way.
    rig.now.mono = rig.now.mono + Duration::from_secs(3_600);
    rig.now.wall += Duration::from_secs(3_600);
    rig.step(Event::Tick);
    assert_eq!(rig.kernel.branches().get(&Branch::DiffDeadline), None);
    for n in 0..50 {
        rig.in_sync(&name(n));
    }
    assert_eq!(rig.kernel.unsettled(), 50, "answers still count");
    rig.pass(Duration::from_secs(31));
    assert_eq!(
        rig.kernel.branches()[&Branch::DiffDeadline],
        50,
        "the deadlines of the others are extended by the lost time, and no more"
    );
}

/// The machine sleeps a second time while the extended deadlines run.
#[test]
fn s9_owner_suspended_twice_opens_no_breaker() {
    let mut rig = rig(100);
    for _ in 0..2 {
        rig.now.mono = rig.now.mono + Duration::from_secs(3_600);
        rig.now.wall += Duration::from_secs(3_600);
        rig.step(Event::Tick);
    }
    assert_eq!(rig.kernel.branches()[&Branch::DiffDeadline], 100);
    assert_eq!(rig.kernel.branches().get(&Branch::BreakerOpened), None);
}

#[test]
fn s9_suspended_owner_opens_no_breaker_for_pushes() {
    let mut rig = rig(20);
    for n in 0..20 {
        rig.until_push(&name(n), |verdict| verdict).unwrap();
    }
    rig.now.mono = rig.now.mono + Duration::from_secs(3_600);
    rig.now.wall += Duration::from_secs(3_600);
    rig.step(Event::Tick);
    assert_eq!(rig.kernel.branches()[&Branch::PushDeadline], 20);
    assert_eq!(rig.kernel.branches().get(&Branch::BreakerOpened), None);
}

#[test]
fn s9_an_asset_known_to_fail_does_not_probe_for_pushes() {
    let mut rig = rig(12);
    let down = || Err(plugin::Error::transient("read-only"));
    for n in 0..10 {
        rig.until_push(&name(n), |verdict| verdict).unwrap();
    }
    let calls = std::mem::take(&mut rig.calls);
    // Ten pushes were taken out of the calls by `until_push`: their runs are found in the kernel.
    let runs: Vec<_> = (0..10)
        .map(|n| {
            let slot = rig.kernel.table.find(&name(n)).unwrap();
            plugin_sdk::Run {
                slot: slot.bare(),
                n: rig.kernel.table.slot(slot).n,
                incarnation: rig.latest.no(),
            }
        })
        .collect();
    for run in runs {
        let answer = down();
        rig.step(Event::PushDone { run, answer });
    }
    assert_eq!(rig.kernel.branches()[&Branch::BreakerOpened], 1);
    rig.calls.extend(calls);
    // The assets that failed come back first, and wait; then an asset that never failed.
    rig.pass(Duration::from_secs(2));
    for n in 0..10 {
        if rig.is_diffing(&name(n)) {
            rig.diffed(&name(n), differs);
        }
    }
    rig.diffed(&name(11), differs);
    rig.pass(Duration::from_secs(5));
    let asked = |rig: &Rig, n| rig.check_is_asked(&name(n));
    assert!(asked(&rig, 11), "it is the probe");
    assert!(!(0..10).any(|n| asked(&rig, n)));
    rig.checked(&name(11), |verdict| verdict);
    rig.durable();
    rig.pushed(&name(11), Ok(Pushed::Done));
    assert!(rig.kernel.status(rig.now).open_breakers.is_empty());
}
