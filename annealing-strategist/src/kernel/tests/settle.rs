//! R20: which targets count as updated, and what a drift does to a rollout (R18).

use std::time::Duration;

use plugin_sdk::{Cause, Pin, Standing, SyncState};
use prodspec_model::{
    Asset, AssetRef, IncarnationNo, addons::RolloutPolicyRef, rollout::RolloutPolicy,
};

use super::{
    pins::canary,
    rig::{Idea, P, Rig, id, thing},
};
use crate::{
    kernel::{Call, Command, Event},
    record::State,
};

pub(super) const MINUTE: Duration = Duration::from_secs(60);

#[test]
pub(super) fn r20_only_a_target_in_sync_at_the_rollouts_pin_is_updated() {
    let mut rig = Rig::settled(RolloutPolicy::default(), vec![thing("a", 1)]);
    rig.lag = None;
    rig.put(vec![thing("a", 2)]);
    while rig.deliver() {}
    rig.answer();
    // The kernel has moved the pin; these reports are about the pin before.
    let since = rig.now.wall;
    for pin in [
        Pin::At(IncarnationNo(1), Cause::Intent),
        Pin::NotYet,
        Pin::Default,
    ] {
        let standing = Standing::at(pin, None, SyncState::InSync { since });
        rig.step(Event::Standings(vec![(id("a"), standing)]));
        assert_eq!((rig.counts().in_flight, rig.counts().updated), (1, 0));
    }
    rig.run();
    assert_eq!(rig.counts().in_flight, 1);
    rig.plane.settle(&id("a"));
    rig.deliver();
    assert_eq!(rig.counts().updated, 1);
}

#[test]
pub(super) fn r20_late_report_from_an_earlier_pin_does_not_count() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    // In sync at the new incarnation, but not reported yet; then a drift and a rollback.
    rig.plane.settle(&id("a"));
    let old = rig.plane.feed.pop_front().unwrap();
    rig.plane.drift(&id("a"));
    rig.plane.feed.clear();
    rig.step(Event::Command {
        command: Command::RollBack,
        by: super::rig::by(),
        reply: 1,
    });
    rig.answer();
    rig.answer();
    assert!(rig.counts().in_flight == 1 && rig.kernel.view(rig.now).counts.updated == 0);
    rig.plane.feed.push_back(old);
    rig.deliver();
    assert_eq!((rig.counts().in_flight, rig.counts().updated), (1, 0));
}

#[test]
pub(super) fn r20_drift_restarts_the_bake_and_not_the_update() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(9 * MINUTE);
    let moves = rig.plane.moves.len();
    rig.plane.drift(&id("a"));
    rig.pass(9 * MINUTE);
    assert_eq!(rig.at(2), ["a"]);
    assert_eq!(rig.plane.moves.len(), moves);
    rig.pass(2 * MINUTE);
    assert_eq!(rig.head(), Some(2));
}

#[test]
pub(super) fn r20_update_is_stored_with_its_time() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.pass(MINUTE);
    rig.settle("a");
    assert_eq!(rig.plane.rows[&id("a")].updated_at, Some(MINUTE));
    rig.pass(5 * MINUTE);
    rig.crash();
    rig.run();
    rig.pass(6 * MINUTE);
    assert_eq!(rig.at(2), ["a", "b"]);
}

fn idea(name: &str, size: u64) -> Asset {
    let policy = AssetRef::to(id(P));
    let asset = Asset::builder(id(name)).payload(&Idea { size }).unwrap();
    asset
        .addon(&RolloutPolicyRef { policy })
        .unwrap()
        .build()
        .unwrap()
}

#[test]
pub(super) fn r20_modelled_only_asset_counts_as_updated_once_pinned() {
    let mut rig = Rig::settled(canary(), vec![idea("a", 1), idea("b", 1)]);
    rig.put(vec![idea("a", 2), idea("b", 2)]);
    rig.run();
    assert_eq!((rig.counts().updated, rig.counts().waiting), (1, 1));
    rig.pass(20 * MINUTE);
    assert_eq!((rig.state(), rig.head()), (&State::Completed, Some(2)));
}

#[test]
fn r20_target_moved_by_another_actor_is_no_longer_updated() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.settle("a");
    let since = rig.now.wall;
    let pin = Pin::At(IncarnationNo(1), Cause::Intent);
    let standing = Standing::at(pin, None, SyncState::InSync { since });
    rig.step(Event::Standings(vec![(id("a"), standing)]));
    assert_eq!((rig.counts().updated, rig.counts().drifted), (0, 1));
    rig.pass(60 * MINUTE);
    assert_eq!(rig.at(2), ["a"], "`b` waits for the canary");
}

#[test]
fn r20_target_unpinned_by_another_actor_is_moved_again() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.settle("a");
    rig.plane.unpin(&id("a"));
    rig.run();
    assert_eq!((rig.counts().updated, rig.counts().in_flight), (0, 1));
    rig.settle("a");
    assert_eq!((rig.counts().updated, rig.counts().waiting), (1, 1));
}

#[test]
fn r18_a_selection_from_before_a_drift_moves_nothing() {
    let one = RolloutPolicy {
        max_unavailable: Some(1),
        ..RolloutPolicy::default()
    };
    let mut rig = Rig::begun(one, &["a", "b"]);
    rig.pass(MINUTE);
    rig.plane.settle(&id("a"));
    while rig.deliver() {}
    let asked = |call: &Call| matches!(call, Call::Select(..));
    assert!(rig.calls.iter().any(asked), "`a` makes room");
    rig.plane.drift(&id("a"));
    while rig.deliver() {}
    rig.run();
    assert_eq!((rig.at(2), rig.counts().drifted), (vec!["a"], 1));
}

#[test]
fn r20_a_drift_survives_a_restart() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.settle("a");
    rig.pass(9 * MINUTE);
    rig.plane.drift(&id("a"));
    rig.run();
    rig.crash();
    rig.run();
    assert_eq!((rig.counts().drifted, rig.counts().updated), (1, 0));
    rig.pass(60 * MINUTE);
    assert_eq!(rig.at(2), ["a"], "not settled");
    rig.settle("a");
    rig.pass(9 * MINUTE);
    assert_eq!(rig.at(2), ["a"], "bakes again");
}
