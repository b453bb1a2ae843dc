//! Standings of followed assets: what is told at once, what is told later, and what a change of other assets costs.

use plugin_sdk::{Cause, Pin, Pushed, Relation, Standing, SyncState, plugin, standing::Reason};
use prodspec_model::{Asset, AssetId, IncarnationNo, addons::Moved};

use super::rig::*;
use crate::{
    config::Config,
    kernel::{Call, Effects, Event, STANDINGS},
};

/// The last standing told of an asset since the last question. Panics if none was told.
fn told(rig: &mut Rig, name: &str) -> Standing {
    let of = std::mem::take(&mut rig.standings).into_iter();
    let told = of.filter(|(asset, _)| *asset == id(name)).last();
    told.unwrap_or_else(|| panic!("nothing is told of {name}"))
        .1
}

fn nothing_told(rig: &mut Rig) {
    assert_eq!(std::mem::take(&mut rig.standings), []);
}

fn reason(rig: &mut Rig, name: &str) -> Option<Reason> {
    told(rig, name).reason
}

#[test]
fn r36_asset_in_sync_already_is_told_at_once_with_its_incarnation() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("a");
    let a = rig.kernel.follow(&id("a"));
    assert!(a.is_in_sync());
    assert_eq!(a.in_sync_at, Some(rig.latest.no()));
    let b = rig.kernel.follow(&id("b"));
    assert!(!b.is_in_sync());
    assert_eq!((b.in_sync_at, b.reason), (None, Some(Reason::Looking)));
    nothing_told(&mut rig);
}

#[test]
fn r36_change_is_told_until_the_new_content_is_in_sync_at_its_incarnation() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    for name in ["a", "b"] {
        rig.in_sync(name);
        rig.kernel.follow(&id(name));
    }
    rig.publish(vec![thing("a", 2)], &[]);
    let changed = told(&mut rig, "a");
    assert_eq!(changed.content, Some(thing("a", 2).digest()));
    assert_eq!(changed.in_sync_at, None, "no diff has seen the new content");
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    assert_eq!(reason(&mut rig, "a"), Some(Reason::UnderWay));
    let (run, answer) = (push.target.run, Ok(Pushed::Done));
    rig.step(Event::PushDone { run, answer });
    assert_eq!(reason(&mut rig, "a"), Some(Reason::Looking));
    rig.in_sync("a");
    let settled = told(&mut rig, "a");
    assert!(settled.is_in_sync());
    assert_eq!(settled.in_sync_at, Some(IncarnationNo(2)));
    assert_eq!(settled.reason, None);
}

#[test]
fn r36_later_drift_leaves_the_incarnation_found_in_sync() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.kernel.follow(&id("a"));
    let found = rig.latest.no();
    rig.publish(vec![thing("b", 1)], &[]);
    nothing_told(&mut rig);
    rig.look_now("a");
    rig.diffed("a", differs);
    let drifted = told(&mut rig, "a");
    assert!(!drifted.is_in_sync());
    assert!(drifted.in_sync_at.is_some_and(|at| at >= found));
}

#[test]
fn r63_waiting_assets_are_told_with_the_reason() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.kernel.follow(&id("a"));
    rig.diffed("a", differs);
    rig.checked("a", |verdict| {
        let settles = plugin_sdk::Recheck::WhenSettled(id("b"));
        plugin_sdk::Verdict::delay(verdict.as_of, delay(settles))
    });
    let waits = told(&mut rig, "a");
    assert_eq!(waits.reason, Some(Reason::Delayed));
    let SyncState::OutOfSync { waits_for, .. } = &waits.state else {
        panic!("{waits:?}");
    };
    assert_eq!(*waits_for, [id("b")]);
    rig.in_sync("b");
    rig.diffed("a", destroys);
    rig.checked("a", |verdict| verdict);
    let held = told(&mut rig, "a");
    assert_eq!(held.reason, Some(Reason::Held));
    let SyncState::OutOfSync { why, .. } = &held.state else {
        panic!("{held:?}");
    };
    assert!(
        why.as_ref().is_some_and(|why| why.contains("approve")),
        "{why:?}"
    );
}

#[test]
fn r36_asset_that_its_health_check_refuses_is_unhealthy_until_it_is_in_sync() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.kernel.follow(&id("a"));
    let run = rig.until_push("a", |verdict| verdict).unwrap().target.run;
    let error = plugin::Error::unhealthy("no answer");
    rig.step(Event::PushDone {
        run,
        answer: Err(error),
    });
    let ill = told(&mut rig, "a");
    let is_unhealthy =
        matches!(&ill.state, SyncState::Unhealthy { why } if why.contains("no answer"));
    assert!(is_unhealthy, "{ill:?}");
    rig.look_now("a");
    rig.in_sync("a");
    assert!(told(&mut rig, "a").is_in_sync());
}

#[test]
fn r17_governed_asset_at_an_older_pin_is_told_as_behind() {
    use prodspec_model::{AssetRef, addons::RolloutPolicyRef};
    let governed = |size| {
        let policy = RolloutPolicyRef {
            policy: AssetRef::to(id("p")),
        };
        let asset = thing("a", size).edit().addon(&policy);
        asset.unwrap().build().unwrap()
    };
    let mut rig = Rig::new(vec![governed(1)]);
    let at = |rig: &Rig| Pin::At(rig.latest.clone(), Cause::Intent);
    let pin = |rig: &mut Rig| {
        let moves = vec![(id("a"), at(rig))];
        let heads = Vec::new();
        rig.step(Event::Actuate { heads, moves });
    };
    pin(&mut rig);
    rig.in_sync("a");
    assert!(rig.kernel.follow(&id("a")).is_in_sync());
    rig.publish(vec![governed(2)], &[]);
    let behind = told(&mut rig, "a");
    assert!(behind.is_behind && behind.is_in_sync());
    assert_eq!(behind.in_sync_at, Some(IncarnationNo(1)));
    pin(&mut rig);
    let moved = told(&mut rig, "a");
    assert!(!moved.is_behind && !moved.is_in_sync());
    rig.in_sync("a");
    let settled = told(&mut rig, "a");
    assert!(settled.is_in_sync());
    assert_eq!(settled.in_sync_at, Some(IncarnationNo(2)));
}

#[test]
fn asset_that_is_not_there_is_told_when_it_comes_and_when_it_leaves() {
    let mut rig = Rig::new(vec![thing("b", 1)]);
    assert_eq!(rig.kernel.follow(&id("a")).relation, Relation::Absent);
    rig.publish(vec![thing("b", 2)], &[]);
    nothing_told(&mut rig);
    rig.publish(vec![thing("a", 1)], &[]);
    assert_eq!(reason(&mut rig, "a"), Some(Reason::Looking));
    rig.in_sync("a");
    assert!(told(&mut rig, "a").is_in_sync());
    rig.publish(Vec::new(), &["a"]);
    assert_eq!(told(&mut rig, "a").relation, Relation::LeftAlone);
    rig.acknowledge("a");
    let absent = told(&mut rig, "a");
    assert_eq!((absent.relation, absent.moved_to), (Relation::Absent, None));
    rig.publish(vec![thing("a", 1)], &[]);
    assert_eq!(reason(&mut rig, "a"), Some(Reason::Looking));
}

#[test]
fn modelled_only_asset_is_told_with_the_content_taken_in() {
    let modelled = |size| super::modelled::idea("m", size);
    let mut rig = Rig::new(vec![modelled(1)]);
    let is_at = |standing: Standing, size| {
        assert_eq!(standing.relation, Relation::ModelledOnly);
        assert_eq!(standing.content, Some(modelled(size).digest()));
    };
    is_at(rig.kernel.follow(&id("m")), 1);
    rig.publish(vec![modelled(2)], &[]);
    is_at(told(&mut rig, "m"), 2);
    rig.publish(Vec::new(), &["m"]);
    assert_eq!(told(&mut rig, "m").relation, Relation::Absent);
}

#[test]
fn r49_follower_of_a_renamed_asset_is_told_its_new_id() {
    let mut rig = Rig::with(Config::default(), kind().renames(true), vec![thing("a", 1)]);
    rig.in_sync("a");
    for name in ["a", "b"] {
        rig.kernel.follow(&id(name));
    }
    let moved = |size| {
        let asset = thing("b", size).edit().addon(&Moved::from(id("a")));
        asset.unwrap().build().unwrap()
    };
    rig.publish(vec![moved(1)], &["a"]);
    let all = std::mem::take(&mut rig.standings);
    let last = |of: &str| all.iter().rev().find(|(asset, _)| *asset == id(of));
    let gone = &last("a").unwrap().1;
    let taken_over = (Relation::Absent, Some(id("b")));
    assert_eq!((gone.relation, gone.moved_to.clone()), taken_over);
    assert_eq!(last("b").unwrap().1.relation, Relation::Enforced);
    rig.publish(vec![thing("b", 2)], &[]);
    let again = rig.kernel.follow(&id("a"));
    assert_eq!(again, *gone, "the new id stays known without the addon");
}

#[test]
fn asset_followed_twice_is_told_once_per_change_and_until_both_leave() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let first = rig.kernel.follow(&id("a"));
    assert_eq!(rig.kernel.follow(&id("a")), first);
    rig.in_sync("a");
    assert_eq!(std::mem::take(&mut rig.standings).len(), 1);
    rig.kernel.unfollow(&id("a"));
    rig.publish(vec![thing("a", 2)], &[]);
    told(&mut rig, "a");
    rig.kernel.unfollow(&id("a"));
    rig.publish(vec![thing("a", 3)], &[]);
    nothing_told(&mut rig);
}

#[test]
fn change_costs_the_standings_of_the_changed_assets_only() {
    let name = |at: usize| format!("a{at:04}");
    let things: Vec<Asset> = (0..1_000).map(|at| thing(&name(at), 1)).collect();
    let ids: Vec<AssetId> = things.iter().map(Asset::id).collect();
    let config = Config::default().drift_period(std::time::Duration::from_secs(86_400));
    let mut rig = Rig::with(config, kind(), things);
    for asset in &ids {
        rig.kernel.follow(asset);
    }
    while let Some(Call::Diff(target)) = rig.calls.pop() {
        let (run, answer) = (target.run, Ok(plugin_sdk::Diff::in_sync()));
        rig.step(Event::DiffDone { run, answer });
    }
    rig.standings.clear();
    STANDINGS.set(0);
    rig.publish(vec![thing(&name(7), 2), thing("other", 1)], &[]);
    assert_eq!(rig.standings.len(), 1);
    rig.in_sync(&name(7));
    rig.in_sync("other");
    assert_eq!(rig.standings.len(), 2);
    assert!(
        STANDINGS.get() < 10,
        "{} standings computed",
        STANDINGS.get()
    );
    let mut out = Effects::default();
    rig.kernel.tell_followed(rig.now, &mut out);
    assert!(out.feed.is_empty());
}
