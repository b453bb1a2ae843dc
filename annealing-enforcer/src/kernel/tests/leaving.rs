//! S9, R13, R16, R17: rollbacks come first; assets that left intent still have their edges and their pushes under way,
//! and keep their pins until they are back.

use std::time::Duration;

use plugin_sdk::{
    Cause, Diff, FencingToken, GroupHead, Guard, Pin, Pushed, Recheck, Verdict, plugin,
};
use prodspec_model::{
    Asset, AssetId, AssetRef, Incarnation,
    addons::{DependsOn, Edge, Need, RolloutPolicyRef},
};

use super::rig::*;
use crate::{
    config::{Config, TypeConfig},
    kernel::{Call, Event, PushCall, Record, Recovered},
};

/// The assets whose diffs are called, with room for one at a time.
fn asked(rig: &Rig) -> Vec<String> {
    let diff = |call: &Call| match call {
        Call::Diff(target) => Some(target.asset.id_str().to_owned()),
        _ => None,
    };
    rig.calls.iter().filter_map(diff).collect()
}

fn things(names: &[&str], size: u32) -> Vec<Asset> {
    names.iter().map(|name| thing(name, size)).collect()
}

/// A rig with `a`, `b`, `c` and `z`, after an edit of `names`, and the incarnation to roll `z` back to.
fn edited(kind: TypeConfig, names: &[&str]) -> (Rig, Incarnation) {
    let all = ["a", "b", "c", "z"];
    let mut rig = Rig::with(Config::default(), kind, things(&all, 1));
    let first = rig.latest.clone();
    for name in all {
        rig.in_sync(name);
    }
    rig.publish(things(&["z"], 2), &[]);
    rig.in_sync("z");
    rig.publish(things(names, 3), &[]);
    (rig, first)
}

/// As `edited`, with room for one diff: the first of `names` is being diffed.
fn busy(names: &[&str]) -> (Rig, Incarnation) {
    let (rig, first) = edited(kind().diffs(1), names);
    assert_eq!(asked(&rig), ["a"]);
    (rig, first)
}

fn roll_back(rig: &mut Rig, name: &str, to: &Incarnation) {
    let (asset, pin) = (id(name), Pin::At(to.clone(), Cause::Rollback));
    rig.step(Event::Pin { asset, pin });
}

#[test]
fn s9_rollback_is_diffed_before_assets_queued_earlier() {
    let (mut rig, first) = busy(&["a", "b", "c"]);
    roll_back(&mut rig, "z", &first);
    rig.in_sync("a");
    assert_eq!(asked(&rig), ["z"]);
}

#[test]
fn s9_rollback_of_a_queued_asset_moves_it_to_the_front() {
    let (mut rig, first) = busy(&["a", "b", "c", "z"]);
    roll_back(&mut rig, "z", &first);
    rig.in_sync("a");
    assert_eq!(asked(&rig), ["z"]);
    rig.in_sync("z");
    rig.in_sync("b");
    rig.in_sync("c");
    assert_eq!(asked(&rig), [""; 0], "it is diffed only once");
}

#[test]
fn s9_rollback_goes_before_assets_that_wait_for_push_capacity() {
    let one_push = kind().pushes(1);
    let (mut rig, first) = edited(one_push, &["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        rig.diffed(name, differs);
    }
    roll_back(&mut rig, "z", &first);
    rig.diffed("z", differs);
    assert!(rig.check_is_asked("a"), "the first has the only permit");
    rig.checked("a", |mut verdict| {
        verdict
            .delays
            .push(delay(Recheck::After(Duration::from_secs(3600))));
        verdict
    });
    assert!(rig.check_is_asked("z"), "and the rollback has it next");
    assert!(!rig.check_is_asked("b"));
}

/// The asset `a` as a consumer of `p`.
pub(super) fn consumer() -> Asset {
    let edges = vec![Edge {
        provider: AssetRef::to(id("p")),
        need: Need::Order,
    }];
    let asset = thing("a", 1).edit().addon(&DependsOn { edges });
    asset.unwrap().build().unwrap()
}

/// The consumers that a check of `p` gets besides those of the newest intent.
pub(super) fn consumers_of_p(rig: &mut Rig) -> Vec<AssetId> {
    rig.publish(vec![thing("p", 7)], &[]);
    while !rig.check_is_asked("p") {
        rig.diffed("p", differs);
    }
    let check = rig.check("p").unwrap();
    check.edges.consumers(&id("p")).cloned().collect()
}

/// A rig where `a` has left intent without a turndown.
fn left() -> Rig {
    let mut rig = Rig::new(vec![consumer(), thing("p", 1)]);
    rig.in_sync("a");
    rig.in_sync("p");
    rig.publish(Vec::new(), &["a"]);
    rig
}

fn recovered(rig: &Rig, recovered: Recovered) -> Rig {
    let (config, kinds) = (rig.config.clone(), rig.kinds.clone());
    Rig::recover(config, kinds, FencingToken(2), recovered, rig.now)
}

#[test]
fn r16_the_edges_of_an_orphan_still_count() {
    let mut rig = left();
    assert_eq!(rig.kernel.status(rig.now).orphans, [id("a")]);
    assert_eq!(consumers_of_p(&mut rig), [id("a")]);
}

/// What the next owner recovers, with the orphans of `rig`, if intent is `latest`.
fn with_orphans(rig: &Rig, latest: Incarnation) -> Recovered {
    let orphan = |record: &Record| match record {
        Record::Orphan(_, orphaned) => Some((orphaned.clone()?, None)),
        _ => None,
    };
    let mut there = Recovered::nothing(latest);
    there.orphans = rig.records.iter().filter_map(orphan).collect();
    there
}

#[test]
fn r16_the_edges_of_an_orphan_still_count_under_the_next_owner() {
    let rig = left();
    let there = with_orphans(&rig, rig.latest.clone());
    assert_eq!(consumers_of_p(&mut recovered(&rig, there)), [id("a")]);
}

/// Intent has the asset again, without the edge.
#[test]
fn r16_the_edges_of_an_orphan_still_count_when_it_came_back_while_no_owner_ran() {
    let rig = left();
    let back = seal(Some(&rig.latest), vec![thing("a", 1)], &[]);
    let there = with_orphans(&rig, back);
    let mut next = recovered(&rig, there);
    assert_eq!(next.kernel.status(next.now).orphans, []);
    assert_eq!(consumers_of_p(&mut next), [id("a")]);
}

#[test]
fn r16_the_edges_of_an_asset_that_left_while_no_owner_ran_still_count() {
    let rig = left();
    let had = rig.sealed.first_key_value().unwrap().1.clone();
    let mut there = Recovered::nothing(rig.latest.clone());
    there.gone = vec![(consumer(), had)];
    let mut next = recovered(&rig, there);
    assert_eq!(next.kernel.status(next.now).orphans, [id("a")]);
    assert_eq!(consumers_of_p(&mut next), [id("a")]);
}

/// The asset was pushed with an edge that its last intent did not have any more.
#[test]
fn r16_the_recorded_edges_of_an_asset_that_left_while_no_owner_ran_still_count() {
    let mut rig = Rig::new(vec![consumer(), thing("p", 1)]);
    rig.in_sync("p");
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    ended(&mut rig, &push, Ok(Pushed::Done));
    rig.in_sync("a");
    let record = rig.remembered("a").unwrap();
    rig.publish(vec![thing("a", 1)], &[]);
    let had = rig.latest.clone();
    rig.publish(Vec::new(), &["a"]);
    let mut there = Recovered::nothing(rig.latest.clone());
    there.gone = vec![(thing("a", 1), had)];
    there.assets = vec![(id("a"), record)];
    let mut next = recovered(&rig, there);
    let edges = next.records.iter().find_map(|record| match record {
        Record::Orphan(_, orphaned) => Some(orphaned.clone()?.edges),
        _ => None,
    });
    assert_eq!(edges.unwrap(), DependsOn::edges_of(&consumer()));
    assert_eq!(consumers_of_p(&mut next), [id("a")]);
}

fn ended(rig: &mut Rig, push: &PushCall, answer: Result<Pushed, plugin::Error>) {
    let run = push.target.run;
    rig.step(Event::PushDone { run, answer });
}

/// A rig where `a` left intent while its push was under way.
fn left_in_push(guard: Guard) -> (Rig, PushCall) {
    let mut rig = Rig::with(
        Config::default(),
        kind().guard(guard),
        things(&["a", "b"], 1),
    );
    rig.in_sync("b");
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    rig.publish(Vec::new(), &["a"]);
    assert!(is_open(&rig), "the push goes on");
    (rig, push)
}

/// Whether the last record of the orphan `a` has an open push.
fn is_open(rig: &Rig) -> bool {
    assert_eq!(rig.kernel.status(rig.now).orphans, [id("a")]);
    rig.remembered("a").unwrap().open.is_some()
}

#[test]
fn r13_outcome_of_a_push_is_recorded_after_its_asset_left_intent() {
    let failed = || plugin::Error::permanent("no");
    for answer in [Ok(Pushed::Done), Err(failed())] {
        let (mut rig, push) = left_in_push(Guard::Guarded);
        ended(&mut rig, &push, answer.clone());
        assert!(!is_open(&rig), "{answer:?}");
        rig.pass(Config::default().drift_period * 2);
        assert!(!rig.is_diffing("a"), "left alone");
    }
}

/// Waits for a diff of `a`, which shows the outcome of its push. Returns the time that passed.
fn resolved(rig: &mut Rig) -> Duration {
    let most = rig.kinds[0].push_deadline * 2;
    let (step, mut passed) = (Duration::from_secs(1), Duration::ZERO);
    while !rig.is_diffing("a") && passed < most {
        rig.pass(step);
        passed += step;
    }
    rig.diffed("a", differs);
    assert!(!is_open(rig), "the diff has shown the outcome");
    assert!(!rig.check_is_asked("a"), "it has no intent");
    passed
}

fn lost() -> plugin::Error {
    plugin::Error::unknown("the connection was lost")
}

#[test]
fn r13_unknown_outcome_of_a_push_is_looked_for_after_its_asset_left_intent() {
    for guard in [Guard::Guarded, Guard::Advisory] {
        let (mut rig, push) = left_in_push(guard);
        ended(&mut rig, &push, Err(lost()));
        assert!(is_open(&rig), "{guard:?}");
        resolved(&mut rig);
    }
}

/// The provider may still work on the push: it keeps its claim, and is not diffed before its deadline.
#[test]
fn r13_asset_that_leaves_intent_keeps_waiting_for_the_outcome_of_its_push() {
    let advisory = kind().guard(Guard::Advisory);
    let mut rig = Rig::with(Config::default(), advisory, things(&["a", "b"], 1));
    let claims = |verdict: Verdict| verdict.claim(exclusive("one"));
    let push = rig.until_push("a", claims).unwrap();
    ended(&mut rig, &push, Err(lost()));
    rig.publish(Vec::new(), &["a"]);
    assert!(is_open(&rig));
    assert!(rig.until_push("b", claims).is_none(), "the claim is taken");
    assert_eq!(resolved(&mut rig), rig.kinds[0].push_deadline);
}

#[test]
fn r13_open_push_of_an_orphan_is_resolved_by_an_owner_without_its_incarnation() {
    let (mut rig, _) = left_in_push(Guard::Guarded);
    let newest = rig.latest.no();
    rig.sealed.retain(|no, _| *no == newest);
    let mut next = rig.taken_over();
    assert!(is_open(&next));
    resolved(&mut next);
}

#[test]
fn r16_orphan_is_observed_with_its_last_content() {
    let mut rig = left();
    rig.step(Event::Observe {
        ticket: 7,
        asset: id("a"),
    });
    let target = rig.diff("a").unwrap();
    assert_eq!(target.asset.digest(), consumer().digest());
    let (run, answer) = (target.run, Ok(Diff::in_sync()));
    rig.step(Event::DiffDone { run, answer });
    let found = rig.replies[&7].as_ref().unwrap();
    assert_eq!(found.cause, None, "no push of it would start");
}

fn governed(size: u32) -> Asset {
    let policy = AssetRef { id: id("policy") };
    let asset = thing("a", size).edit().addon(&RolloutPolicyRef { policy });
    asset.unwrap().build().unwrap()
}

fn not_yet(rig: &mut Rig) {
    let (asset, pin) = (id("a"), Pin::NotYet);
    rig.step(Event::Pin { asset, pin });
}

/// Whether `a` is known, and its pin is [`Pin::NotYet`].
fn is_not_yet(rig: &Rig) -> bool {
    let slot = rig.kernel.table.find("a");
    let pin = slot.map(|slot| rig.kernel.table.pin_of(slot));
    let all = rig.kernel.pinned();
    let told = all.iter().any(|(asset, _)| *asset == id("a"));
    assert_eq!(pin.is_some() && !matches!(pin, Some(Pin::Default)), told);
    matches!(pin, Some(Pin::NotYet))
}

#[test]
fn r17_pin_of_an_unknown_asset_holds_when_the_asset_comes() {
    let mut rig = Rig::new(vec![thing("b", 1)]);
    not_yet(&mut rig);
    rig.publish(vec![governed(1)], &[]);
    assert!(is_not_yet(&rig));
    let mut there = Recovered::nothing(rig.sealed.first_key_value().unwrap().1.clone());
    there.pins = vec![(id("a"), Pin::NotYet)];
    there.newer = Some(rig.latest.clone());
    assert!(is_not_yet(&recovered(&rig, there)), "after a takeover too");
}

#[test]
fn r17_pin_without_a_group_is_kept_while_the_asset_is_out_of_intent() {
    let mut rig = Rig::new(things(&["a", "b"], 1));
    not_yet(&mut rig);
    rig.diff("a").unwrap();
    rig.pass(rig.kinds[0].diff_deadline * 2);
    rig.publish(Vec::new(), &["a"]);
    rig.pass(rig.config.drift_period * 2);
    assert!(is_not_yet(&rig), "it may come back");
    rig.publish(things(&["a"], 2), &[]);
    assert!(is_not_yet(&rig));
    assert!(!rig.is_diffing("a"), "it is not to be pushed yet");
}

#[test]
fn r17_pin_not_yet_is_kept_when_the_asset_leaves_intent_and_comes_back() {
    let mut rig = Rig::new(things(&["a", "b"], 1));
    let (asset, pin) = (id("b"), Pin::NotYet);
    rig.step(Event::Pin { asset, pin });
    rig.in_sync("a");
    rig.in_sync("b");
    rig.publish(Vec::new(), &["b"]);
    rig.pass(Config::default().drift_period * 2);
    rig.publish(things(&["b"], 1), &[]);
    assert!(rig.diff("b").is_none(), "its pin is still `NotYet`");
}

fn default(rig: &mut Rig) {
    let (asset, pin) = (id("a"), Pin::Default);
    rig.step(Event::Pin { asset, pin });
}

#[test]
fn r17_pin_dropped_before_its_asset_comes_does_not_hold() {
    let mut rig = Rig::new(vec![thing("b", 1)]);
    not_yet(&mut rig);
    let mut next = rig.taken_over();
    next.publish(things(&["a"], 1), &[]);
    assert!(is_not_yet(&next), "the pin is recorded");
    default(&mut rig);
    let mut next = rig.taken_over();
    for owner in [&mut rig, &mut next] {
        owner.publish(things(&["a"], 1), &[]);
        assert!(!is_not_yet(owner));
        assert!(owner.is_diffing("a"));
    }
}

#[test]
fn r17_pin_dropped_while_its_asset_is_out_of_intent_does_not_hold_when_it_is_back() {
    let mut rig = Rig::new(things(&["a", "b"], 1));
    not_yet(&mut rig);
    rig.diff("a").unwrap();
    rig.pass(rig.kinds[0].diff_deadline * 2);
    rig.publish(Vec::new(), &["a"]);
    rig.pass(rig.config.drift_period * 2);
    default(&mut rig);
    let mut next = rig.taken_over();
    for owner in [&mut rig, &mut next] {
        owner.publish(things(&["a"], 2), &[]);
        assert!(!is_not_yet(owner));
        let diff = owner.diff("a").expect("it follows the newest incarnation");
        assert_eq!(diff.incarnation.no(), owner.latest.no());
    }
}

#[test]
fn r17_later_pin_of_an_unknown_asset_replaces_the_earlier_one() {
    let mut rig = Rig::new(things(&["b"], 1));
    not_yet(&mut rig);
    let elsewhere = seal(Some(&rig.latest), vec![governed(1)], &[]);
    let (asset, pin) = (id("a"), Pin::At(elsewhere, Cause::Intent));
    rig.step(Event::Pin { asset, pin });
    assert!(rig.is_diffing("a"));
    assert!(rig.kernel.pins.has_no_early());
}

/// A rollout that still knows the asset moves it, although the asset is in no group.
#[test]
fn r17_pin_refused_before_its_asset_is_back_does_not_hold() {
    for to in [Pin::NotYet, Pin::Default] {
        let mut rig = Rig::new(things(&["b"], 1));
        not_yet(&mut rig);
        let (heads, moves) = (Vec::new(), vec![(id("a"), to.clone())]);
        rig.step(Event::Actuate { heads, moves });
        rig.publish(things(&["a"], 1), &[]);
        assert!(!is_not_yet(&rig) && rig.is_diffing("a"), "{to:?}");
    }
}

#[test]
fn r17_pin_of_an_unknown_asset_is_taken_when_only_a_head_has_the_asset() {
    let mut rig = Rig::new(things(&["b"], 1));
    not_yet(&mut rig);
    let head = seal(Some(&rig.latest), vec![governed(1)], &[]);
    let (heads, moves) = (vec![(id("policy"), GroupHead::At(head))], Vec::new());
    rig.step(Event::Actuate { heads, moves });
    assert!(is_not_yet(&rig));
    assert!(rig.kernel.pins.has_no_early(), "taken once");
}
