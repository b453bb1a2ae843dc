//! R17: governed assets keep their incarnation until a pin moves them.

use std::time::Duration;

use plugin_sdk::{Cause, FencingToken, GroupHead, Pin, Pushed, SyncState};
use prodspec_model::{
    Asset, AssetRef, Incarnation,
    addons::{RolloutPolicyRef, Turndown},
};

use super::rig::{Rig, Thing, differs, id, kind, seal, thing};
use crate::{
    config::Config,
    kernel::{AssetStatus, Branch, Event, News, Record, Recovered},
};

pub(super) fn governed(name: &str, size: u32) -> Asset {
    governed_by("policy", name, size)
}

fn governed_by(policy: &str, name: &str, size: u32) -> Asset {
    let policy = AssetRef { id: id(policy) };
    let asset = Asset::builder(id(name)).payload(&Thing { size }).unwrap();
    let asset = asset.addon(&RolloutPolicyRef { policy }).unwrap();
    asset.build().unwrap()
}

pub(super) fn at(incarnation: &Incarnation) -> Pin<Incarnation> {
    Pin::At(incarnation.clone(), Cause::Intent)
}

pub(super) fn pin(rig: &mut Rig, name: &str, pin: Pin<Incarnation>) {
    let asset = id(name);
    rig.step(Event::Pin { asset, pin });
}

fn head(rig: &mut Rig, head: &Incarnation, moves: Vec<(&str, Pin<Incarnation>)>) {
    let moves = moves.into_iter().map(|(name, pin)| (id(name), pin));
    rig.step(Event::Actuate {
        heads: vec![(id("policy"), GroupHead::At(head.clone()))],
        moves: moves.collect(),
    });
}

fn size(rig: &Rig, name: &str) -> Option<u32> {
    let slot = rig.kernel.table.find(name)?;
    let (asset, _) = rig.kernel.table.intent(slot)?;
    Some(asset.payload::<Thing>().unwrap().size)
}

pub(super) fn pinned(rig: &Rig, name: &str) -> (Pin, SyncState) {
    let all = rig.kernel.pinned();
    let (_, found) = all
        .into_iter()
        .find(|(asset, _)| *asset == id(name))
        .unwrap();
    (found.pin, found.state)
}

fn pins(rig: &Rig) -> Vec<(String, Pin)> {
    let pin = |record: &Record| match record {
        Record::Pin(asset, pin) => Some((asset.to_string(), *pin)),
        _ => None,
    };
    rig.records.iter().filter_map(pin).collect()
}

/// A rig with the asset `a` rolled out at size 1, where the head of its group is.
pub(super) fn rolled_out() -> Rig {
    let mut rig = Rig::new(vec![governed("a", 1)]);
    let first = rig.latest.clone();
    pin(&mut rig, "a", at(&first));
    rig.in_sync("a");
    head(&mut rig, &first, vec![("a", Pin::Default)]);
    rig
}

#[test]
pub(super) fn r17_governed_asset_never_follows_the_newest_incarnation() {
    let mut rig = Rig::new(vec![governed("a", 1)]);
    assert_eq!(size(&rig, "a"), None, "not rolled out yet");
    assert!(rig.diff("a").is_none());
    let first = rig.latest.clone();
    pin(&mut rig, "a", at(&first));
    rig.in_sync("a");
    rig.publish(vec![governed("a", 2)], &[]);
    assert_eq!(size(&rig, "a"), Some(1));
    assert!(rig.diff("a").is_none());
    assert!(!rig.kernel.all_settled_at(rig.latest.no()), "behind");
    let second = rig.latest.clone();
    pin(&mut rig, "a", at(&second));
    rig.in_sync("a");
    head(&mut rig, &second, vec![("a", Pin::Default)]);
    assert_eq!(size(&rig, "a"), Some(2));
    assert!(rig.kernel.all_settled_at(second.no()));
    assert!(rig.kernel.referenced().contains(&second.no()));
}

#[test]
fn r17_asset_that_becomes_governed_keeps_its_content() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let first = rig.latest.no();
    rig.in_sync("a");
    rig.publish(vec![governed("a", 2)], &[]);
    assert_eq!(size(&rig, "a"), Some(1));
    let kept = Pin::At(first, Cause::Intent);
    assert_eq!(pins(&rig), [("a".to_owned(), kept)]);
    assert!(matches!(pinned(&rig, "a").1, SyncState::InSync { .. }));
    assert_eq!(rig.kernel.unsettled(), 0, "the asset stays settled");
    let taken = rig.records.last();
    assert!(matches!(taken, Some(Record::Taken(no)) if *no == rig.latest.no()));
    let last = &rig.feed[rig.feed.len() - 2..];
    let in_order = matches!(last, [News::Pinned(_), News::Took(_)]);
    assert!(in_order, "R20: pinned before what pinned it: {last:?}");
}

#[test]
fn r17_incarnation_sealed_without_an_owner_is_taken_in_after_a_restart() {
    let mut recovered = Recovered::nothing(seal(None, vec![thing("a", 1)], &[]));
    let first = recovered.latest.clone();
    recovered.newer = Some(seal(Some(&first), vec![governed("a", 2)], &[]));
    let now = Rig::new(Vec::new()).now;
    let token = FencingToken(2);
    let rig = Rig::recover(Config::default(), vec![kind()], token, recovered, now);
    assert_eq!(size(&rig, "a"), Some(1));
    assert_eq!(pins(&rig).len(), 1);
}

#[test]
fn r17_asset_dropped_by_the_newest_incarnation_is_enforced_at_its_head() {
    let mut rig = rolled_out();
    rig.publish(Vec::new(), &["a"]);
    assert_eq!(size(&rig, "a"), Some(1), "at the group's head");
    assert!(rig.kernel.status(rig.now).orphans.is_empty());
    rig.until_diff("a");
    rig.diffed("a", differs);
    assert!(rig.check("a").is_some(), "drift is repaired");
    let empty = rig.latest.clone();
    pin(&mut rig, "a", at(&empty));
    head(&mut rig, &empty, vec![("a", Pin::Default)]);
    assert_eq!(rig.kernel.status(rig.now).orphans, [id("a")]);
}

#[test]
fn r17_asset_rolled_back_to_no_intent_is_an_orphan_if_production_may_have_it() {
    let mut rig = rolled_out();
    rig.publish(vec![governed("b", 1)], &[]);
    let second = rig.latest.clone();
    pin(&mut rig, "b", at(&second));
    pin(&mut rig, "b", Pin::NotYet);
    assert!(
        rig.kernel.status(rig.now).orphans.is_empty(),
        "never pushed"
    );
    pin(&mut rig, "b", at(&second));
    rig.in_sync("b");
    rig.in_sync("b");
    pin(&mut rig, "b", Pin::NotYet);
    let status = rig.kernel.status(rig.now);
    assert_eq!(status.left_running, [id("b")], "intent still has it");
    rig.publish(Vec::new(), &["b"]);
    let status = rig.kernel.status(rig.now);
    assert_eq!(
        (status.orphans, status.left_running),
        (vec![id("b")], vec![])
    );
    let found = rig.kernel.explain(rig.now, &id("b")).unwrap();
    assert_eq!(found.status, AssetStatus::Orphaned);
    assert!(rig.push("b").is_none());
}

#[test]
fn r17_a_rollout_pins_no_asset_that_has_left_every_group() {
    let mut rig = rolled_out();
    rig.publish(vec![governed("b", 1)], &[]);
    let second = rig.latest.clone();
    // It leaves intent; its rollout does not know that yet, moves it, and then takes it back.
    rig.publish(Vec::new(), &["b"]);
    for to in [at(&second), Pin::NotYet] {
        let moves = vec![(id("b"), to)];
        let heads = Vec::new();
        let told = rig.feed.len();
        rig.step(Event::Actuate { heads, moves });
        let told = &rig.feed[told..];
        let [News::Pinned(told)] = told else {
            panic!("{told:?}")
        };
        assert_eq!((&told[0].0, told[0].1.pin), (&id("b"), Pin::Default));
    }
    // When it comes back without a policy, it is enforced.
    rig.publish(vec![thing("b", 3)], &[]);
    assert_eq!(size(&rig, "b"), Some(3));
    assert!(rig.diff("b").is_some());
    assert!(
        !pins(&rig)
            .iter()
            .any(|(name, pin)| name == "b" && *pin != Pin::Default)
    );
}

#[test]
fn r17_an_asset_turned_down_where_its_group_is_leaves_no_orphan() {
    let mut rig = rolled_out();
    let (reason, approved_by) = ("moved".into(), "me".into());
    let leaving = governed("a", 1).edit().addon(&Turndown {
        reason,
        approved_by,
    });
    rig.publish(vec![leaving.unwrap().build().unwrap()], &[]);
    let second = rig.latest.clone();
    pin(&mut rig, "a", at(&second));
    rig.in_sync("a");
    head(&mut rig, &second, vec![("a", Pin::Default)]);
    rig.publish(Vec::new(), &["a"]);
    let third = rig.latest.clone();
    pin(&mut rig, "a", at(&third));
    assert!(rig.kernel.status(rig.now).orphans.is_empty());
}

#[test]
fn r17_completed_rollout_voids_no_push_and_no_settled_asset() {
    const ASSETS: u32 = 1_000;
    let name = |n: u32| format!("a{n}");
    let mut rig = Rig::new((0..ASSETS).map(|n| governed(&name(n), 1)).collect());
    let first = rig.latest.clone();
    for n in 0..ASSETS {
        pin(&mut rig, &name(n), at(&first));
        rig.in_sync(&name(n));
    }
    let drifts = rig.until_diff("a0");
    assert!(drifts.as_secs() < 600);
    let push = rig.until_push("a0", |verdict| verdict).unwrap();
    let moves = (0..ASSETS).map(|n| (id(&name(n)), Pin::Default)).collect();
    let heads = vec![(id("policy"), GroupHead::At(first))];
    rig.step(Event::Actuate { heads, moves });
    assert_eq!(rig.kernel.unsettled(), 1, "only the asset that drifted");
    assert!(
        rig.calls
            .iter()
            .all(|call| !matches!(call, crate::kernel::Call::Diff(_)))
    );
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::InProgress {
            check_again_in: Duration::from_secs(1),
        }),
    });
    rig.pass(Duration::from_secs(2));
    let followed = rig.push("a0").map(|push| push.continuation);
    assert_eq!(followed, Some(true), "no push is disturbed");
    assert!(rig.kernel.pinned().is_empty());
}

#[test]
fn r17_removing_a_pin_does_not_change_content() {
    let mut rig = rolled_out();
    rig.publish(vec![governed("a", 2)], &[]);
    let second = rig.latest.clone();
    pin(&mut rig, "a", at(&second));
    pin(&mut rig, "a", Pin::Default);
    assert_eq!(size(&rig, "a"), Some(2));
    assert_eq!(pinned(&rig, "a").0, Pin::At(second.no(), Cause::Intent));
}

#[test]
fn r17_moved_head_does_not_change_content_of_assets_left_behind() {
    let mut rig = rolled_out();
    rig.publish(vec![governed("a", 2), governed("b", 1)], &[]);
    let second = rig.latest.clone();
    head(&mut rig, &second, Vec::new());
    assert_eq!((size(&rig, "a"), size(&rig, "b")), (Some(1), None));
    assert_eq!(rig.kernel.branches()[&Branch::KeptInPlace], 2);
}

#[test]
fn r17_pin_is_removed_when_the_asset_leaves_its_group() {
    let mut rig = rolled_out();
    rig.publish(vec![governed("a", 2)], &[]);
    let second = rig.latest.clone();
    pin(&mut rig, "a", at(&second));
    rig.publish(vec![thing("a", 3)], &[]);
    assert_eq!(size(&rig, "a"), Some(2), "the group's head still names it");
    let third = rig.latest.clone();
    head(&mut rig, &third, Vec::new());
    assert_eq!(size(&rig, "a"), Some(3));
    assert!(rig.kernel.pinned().is_empty());
    assert_eq!(pins(&rig).last(), Some(&("a".to_owned(), Pin::Default)));
    assert_eq!(rig.kernel.branches()[&Branch::LeftGroup], 1);
}

#[test]
fn r17_asset_that_left_several_groups_is_governed_by_the_newest_head() {
    let mut rig = rolled_out();
    let policy = AssetRef { id: id("another") };
    let asset = Asset::builder(id("a")).payload(&Thing { size: 2 }).unwrap();
    let asset = asset.addon(&RolloutPolicyRef { policy }).unwrap();
    rig.publish(vec![asset.build().unwrap()], &[]);
    let second = rig.latest.clone();
    rig.step(Event::Actuate {
        heads: vec![(id("another"), GroupHead::At(second.clone()))],
        moves: vec![(id("a"), at(&second)), (id("a"), Pin::Default)],
    });
    rig.publish(vec![thing("a", 3)], &[]);
    assert_eq!(size(&rig, "a"), Some(2));
    assert!(rig.kernel.pinned().is_empty(), "by default, not by a pin");
}

#[test]
fn r17_asset_that_left_several_groups_is_governed_by_the_newest_head_after_a_restart() {
    let of = |policy: &str, size: u32| {
        let policy = AssetRef { id: id(policy) };
        let asset = thing("a", size).edit().addon(&RolloutPolicyRef { policy });
        asset.unwrap().build().unwrap()
    };
    let first = seal(None, vec![of("another", 1)], &[]);
    let second = seal(Some(&first), vec![of("policy", 2)], &[]);
    let mut recovered = Recovered::nothing(seal(Some(&second), vec![thing("a", 3)], &[]));
    recovered.heads = [("another", first), ("policy", second)]
        .map(|(policy, head)| (id(policy), GroupHead::At(head)))
        .into();
    let now = Rig::new(Vec::new()).now;
    let token = FencingToken(2);
    let rig = Rig::recover(Config::default(), vec![kind()], token, recovered, now);
    assert_eq!(size(&rig, "a"), Some(2));
}

#[test]
fn r17_each_of_66000_groups_has_its_own_head() {
    let of = |n: u32| format!("group-{n:05}");
    let alone = |n: u32, size| governed_by(&of(n), &format!("asset-{n:05}"), size);
    let many = 66_000;
    let first = seal(None, (0..many).map(|n| alone(n, 1)).collect(), &[]);
    let second = seal(Some(&first), vec![alone(many - 1, 2)], &[]);
    let mut recovered = Recovered::nothing(second);
    let heads = (0..many).map(|n| (id(&of(n)), GroupHead::At(first.clone())));
    recovered.heads = heads.collect();
    let now = Rig::new(Vec::new()).now;
    let token = FencingToken(1);
    let rig = Rig::recover(Config::default(), vec![kind()], token, recovered, now);
    let last = format!("asset-{:05}", many - 1);
    assert_eq!(
        size(&rig, &last),
        Some(1),
        "not the newest: its group is at 1"
    );
}

/// Sets the head of the group to follow the newest incarnation.
fn follow_latest(rig: &mut Rig) {
    rig.step(Event::Actuate {
        heads: vec![(id("policy"), GroupHead::Latest)],
        moves: Vec::new(),
    });
}

#[test]
fn r17_group_that_follows_the_newest_incarnation_takes_it_at_once() {
    let mut rig = rolled_out();
    follow_latest(&mut rig);
    assert_eq!(size(&rig, "a"), Some(1));
    assert!(rig.diff("a").is_none(), "nothing moves by the word");
    rig.publish(vec![governed("a", 2), governed("b", 1)], &[]);
    assert_eq!((size(&rig, "a"), size(&rig, "b")), (Some(2), Some(1)));
    rig.in_sync("a");
    rig.in_sync("b");
    assert!(rig.kernel.all_settled_at(rig.latest.no()));
    let last = rig.latest.no();
    let only = rig.kernel.referenced();
    assert_eq!(only, [last], "the head keeps no older incarnation");
}

#[test]
fn r17_group_that_follows_no_longer_keeps_every_content() {
    let mut rig = rolled_out();
    follow_latest(&mut rig);
    rig.publish(vec![governed("a", 2)], &[]);
    let second = rig.latest.clone();
    rig.publish(vec![governed("a", 3)], &[]);
    // The strategist has not taken in the third incarnation yet.
    head(&mut rig, &second, Vec::new());
    assert_eq!(size(&rig, "a"), Some(3), "in force before, so it stays");
    rig.publish(vec![governed("a", 4), governed("b", 1)], &[]);
    assert_eq!((size(&rig, "a"), size(&rig, "b")), (Some(3), None));
}

#[test]
fn r17_word_of_a_group_without_a_head_turns_its_assets_up() {
    let mut rig = Rig::new(vec![governed("a", 1)]);
    assert_eq!(size(&rig, "a"), None, "until it is set, nothing moves");
    follow_latest(&mut rig);
    assert_eq!(size(&rig, "a"), Some(1));
    assert!(rig.diff("a").is_some());
}

#[test]
fn r17_asset_that_joins_a_group_that_follows_is_not_kept_in_place() {
    let mut rig = rolled_out();
    follow_latest(&mut rig);
    rig.publish(vec![thing("c", 1)], &[]);
    rig.in_sync("c");
    rig.publish(vec![governed("c", 2)], &[]);
    assert_eq!(size(&rig, "c"), Some(2));
    rig.publish(vec![governed_by("other", "c", 3)], &[]);
    assert_eq!(size(&rig, "c"), Some(2), "the other group has no head");
}
