//! R13 over takeovers: waits for open pushes go on, and are resolved by the plugin that was called. L2: the drift scan
//! goes on over takeovers too.

use std::{collections::BTreeSet, time::Duration};

use control_plane_store::records::AssetRecord;
use plugin_sdk::{Cause, Diff, FencingToken, Guard, Pin, Recheck, Stamp, SyncState, Verdict};
use prodspec_model::{Asset, Message, TypeName};
use serde::{Deserialize, Serialize};

use super::rig::*;
use crate::{
    config::{Config, TypeConfig},
    kernel::{Call, Event, Recovered, Waiting},
};

#[derive(Serialize, Deserialize)]
pub(super) struct Other {
    size: u32,
}

impl Message for Other {
    const TYPE: &'static str = "test.v1.Other";
}

pub(super) fn other(name: &str) -> Asset {
    let builder = Asset::builder(id(name)).payload(&Other { size: 1 });
    builder.unwrap().build().unwrap()
}

/// `Thing` is advisory, with a push deadline of ten minutes; `Other` is guarded.
fn kinds() -> Vec<TypeConfig> {
    let thing = TypeConfig::new(TypeName::new(Thing::TYPE).unwrap());
    let other = TypeConfig::new(TypeName::new(Other::TYPE).unwrap()).guard(Guard::Guarded);
    vec![thing, other]
}

fn rig(assets: Vec<Asset>) -> Rig {
    let now = Rig::new(Vec::new()).now;
    let recovered = Recovered::nothing(seal(None, assets, &[]));
    Rig::recover(Config::default(), kinds(), FencingToken(1), recovered, now)
}

/// A rig whose owner dies while a push of `a` is under way.
fn cut_off() -> Rig {
    let mut rig = rig(vec![thing("a", 1)]);
    rig.until_push("a", |verdict| verdict).unwrap();
    rig
}

#[test]
fn r13_takeovers_do_not_restart_the_wait_for_an_open_push() {
    let mut rig = cut_off();
    let mut waited = Duration::ZERO;
    let lifetime = Duration::from_secs(20);
    while rig.diff("a").is_none() {
        assert!(waited < Duration::from_secs(900), "the wait never ends");
        rig = rig.taken_over();
        rig.pass(lifetime);
        waited += lifetime;
    }
    assert!(
        waited >= Duration::from_secs(600),
        "the wait ends only at the deadline"
    );
}

#[test]
fn r13_recorded_part_of_the_wait_is_at_most_the_time_passed() {
    let mut rig = cut_off().taken_over();
    rig.pass(Duration::from_secs(599));
    assert!(rig.diff("a").is_none());
    let mut next = rig.taken_over();
    assert!(next.diff("a").is_none(), "at least a second is left");
    next.pass(Duration::from_secs(7));
    assert!(next.diff("a").is_some());
}

#[test]
fn r13_an_open_push_is_resolved_by_the_plugin_that_was_called() {
    let mut rig = cut_off();
    rig.publish(vec![other("a")], &[]);
    for mut next in [rig.taken_over(), rig] {
        next.pass(Duration::from_secs(2));
        assert!(next.diff("a").is_none(), "the advisory push may be running");
        next.pass(Duration::from_secs(600));
        let looked = next.diff("a").expect("its deadline is over");
        assert_eq!(
            looked.plugin.index(),
            0,
            "diffed by the plugin that was called"
        );
        let (run, answer) = (looked.run, Ok(Diff::in_sync()));
        next.step(Event::DiffDone { run, answer });
        assert_eq!(next.diff("a").expect("the new intent").plugin.index(), 1);
        assert_eq!(next.remembered("a").unwrap().open, None);
    }
}

#[test]
fn r13_guard_registered_later_does_not_resolve_an_earlier_push() {
    let mut rig = cut_off();
    rig.kinds[0].guard = Guard::Guarded;
    let mut next = rig.taken_over();
    assert!(
        next.diff("a").is_none(),
        "the push was begun without a guard"
    );
    let explained = next.kernel.explain(next.now, &id("a")).unwrap();
    assert_eq!(explained.waiting, Some(Waiting::UnknownOutcome));
    next.pass(Duration::from_secs(601));
    assert!(next.diff("a").is_some());
}

/// A push relies on six thousand consumers with ids of 253 bytes.
#[test]
fn r13_push_may_rely_on_thousands_of_assets_with_long_ids() {
    let name = |n: usize| format!("{n:0>253}");
    let mut assets: Vec<_> = (0..6_000).map(|n| thing(&name(n), 1)).collect();
    assets.push(thing("provider", 1));
    let mut rig = Rig::new(assets);
    while !rig.is_diffing("provider") {
        let run = rig.calls.iter().find_map(|call| match call {
            Call::Diff(target) => Some(target.run),
            _ => None,
        });
        let run = run.unwrap();
        rig.calls.remove(0);
        let answer = Ok(Diff::in_sync());
        rig.step(Event::DiffDone { run, answer });
    }
    let consumers: Vec<_> = (0..6_000)
        .map(|n| rig.kernel.table.find(&name(n)).unwrap())
        .collect();
    let stamps = consumers.iter().map(|slot| Stamp {
        slot: slot.bare(),
        seq: 0,
    });
    rig.until_push("provider", |mut verdict| {
        verdict.relies_on = stamps.collect();
        verdict
    })
    .expect("it is pushed");
    let record: AssetRecord = rig.remembered("provider").unwrap();
    let bytes = serde_json::to_vec(&record).unwrap().len();
    assert!(bytes < control_plane_store::limit::VALUE, "{bytes}");
    let next = rig.taken_over();
    assert_eq!(
        next.kernel.holds.pushes().len(),
        6_000,
        "each is held again"
    );
}

#[test]
fn l2_every_asset_is_diffed_by_a_series_of_short_owners() {
    let assets = (0..200).map(|n| thing(&format!("a{n:03}"), 1)).collect();
    let mut rig = rig(assets);
    let in_sync = |rig: &mut Rig, seen: &mut BTreeSet<String>| {
        while !rig.calls.is_empty() {
            if let Call::Diff(target) = rig.calls.remove(0) {
                seen.insert(target.asset.id_str().to_owned());
                let (run, answer) = (target.run, Ok(Diff::in_sync()));
                rig.step(Event::DiffDone { run, answer });
            }
        }
    };
    in_sync(&mut rig, &mut BTreeSet::new());
    let mut seen = BTreeSet::new();
    // Two drift periods of 300 s.
    for _ in 0..15 {
        rig = rig.taken_over();
        for _ in 0..40 {
            rig.pass(Duration::from_secs(1));
            in_sync(&mut rig, &mut seen);
        }
    }
    assert_eq!(seen.len(), 200);
}

/// Drift that waits for its repair when its owner dies.
#[test]
fn r20_drift_is_known_to_the_next_owner() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("a");
    rig.in_sync("b");
    rig.look_now("a");
    rig.diffed("a", differs);
    rig.checked("a", |verdict| {
        Verdict::delay(
            verdict.as_of,
            delay(Recheck::After(Duration::from_secs(60))),
        )
    });
    let mut next = rig.taken_over();
    assert_eq!(next.kernel.unsettled(), 1, "the drift is known");
    let looked = next.diff("a").expect("unsettled assets are diffed first");
    assert!(!next.is_diffing("b"));
    let (run, answer) = (looked.run, Ok(differs(&looked.asset)));
    next.step(Event::DiffDone { run, answer });
    let check = next.check("a").unwrap();
    assert_eq!(check.cause, Cause::Drift, "it is drift and no edit");
    let after = next.taken_over();
    assert_eq!(after.kernel.unsettled(), 1, "and known to the owner after");
}

#[test]
fn r20_repaired_drift_is_forgotten() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.look_now("a");
    rig.until_push("a", |verdict| verdict).unwrap();
    let mut crashed = rig.taken_over();
    crashed.in_sync("a");
    assert_eq!(crashed.taken_over().kernel.unsettled(), 0);
}

#[test]
fn r20_drift_at_a_pin_is_known_to_the_next_owner() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    let first = rig.latest.clone();
    rig.publish(vec![thing("a", 2)], &[]);
    rig.step(Event::Pin {
        asset: id("a"),
        pin: Pin::At(first.clone(), Cause::Intent),
    });
    while rig.is_diffing("a") {
        rig.in_sync("a");
    }
    rig.look_now("a");
    rig.diffed("a", differs);
    let next = rig.taken_over();
    let statuses = next.kernel.pinned();
    let [(_, status)] = statuses.as_slice() else {
        panic!("{statuses:?}");
    };
    let drifted = matches!(status.state, SyncState::OutOfSync { .. });
    assert!(drifted, "{:?}", status.state);
    let kept = next.taken_over().remembered("a").unwrap();
    let settled = kept.settled.expect("it was in sync at its pin");
    assert_eq!(settled.incarnation, first.no());
}

#[test]
fn r20_asset_not_diffed_at_its_new_pin_is_diffed_first_by_the_next_owner() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.publish(vec![thing("b", 1)], &[]);
    rig.in_sync("b");
    let (asset, pin) = (id("a"), Pin::At(rig.latest.clone(), Cause::Intent));
    rig.step(Event::Pin { asset, pin });
    let mut next = rig.taken_over();
    let statuses = next.kernel.pinned();
    let state = &statuses[0].1.state;
    assert!(matches!(state, SyncState::OutOfSync { .. }), "{state:?}");
    assert!(next.diff("a").is_some());
    assert!(!next.is_diffing("b"));
}
