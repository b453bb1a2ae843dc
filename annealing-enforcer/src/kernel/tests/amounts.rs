//! R9, R16: consumers of one provider take its capacity as counted claims.

use std::time::Duration;

use plugin_sdk::{Change, Diff, Effects, Observed, Pushed, Shared, Stamp, Usage, plugin};
use prodspec_model::{
    Asset, AssetId, AssetRef,
    addons::{DependsOn, Edge, Need},
};

use super::{modelled, rig::*};
use crate::kernel::{Branch, Event};

/// An asset that consumes capacity of `p`.
pub(super) fn consumer(name: &str, size: u32) -> Asset {
    let edges = vec![Edge {
        provider: AssetRef::to(id("p")),
        need: Need::Capacity { unit: "qps".into() },
    }];
    let asset = thing(name, size).edit().addon(&DependsOn { edges });
    asset.unwrap().build().unwrap()
}

pub(super) fn has(qps: u64) -> Diff {
    Diff::in_sync().observed(observed(qps))
}

fn observed(qps: u64) -> Observed {
    Observed::default().capacity("qps", qps)
}

fn resizes(asset: &Asset, from: u64, to: u64) -> Diff {
    let effects = Effects::default().capacity("qps", from, to);
    Diff::differs(Change::new(asset, "resize it", vec![], effects)).observed(observed(from))
}

pub(super) fn shared() -> Shared {
    Shared {
        provider: id("p"),
        unit: "qps".into(),
    }
}

pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// A rig with three consumers that use 10 each of the 100 of `p`, and that are edited.
fn rig() -> Rig {
    let mut assets: Vec<_> = NAMES.iter().map(|name| consumer(name, 1)).collect();
    assets.push(thing("p", 1));
    let mut rig = Rig::new(assets);
    for name in NAMES {
        rig.diffed(name, |_| has(10));
    }
    rig.diffed("p", |_| has(100));
    rig.publish(NAMES.iter().map(|name| consumer(name, 2)).collect(), &[]);
    rig
}

fn usage(rig: &mut Rig, but: &str) -> Usage {
    let now = rig.now;
    rig.kernel.usage(now, &shared(), &id(but))
}

/// The usage without the consumer `but`, after observing the consumers that are unknown.
fn known_usage(rig: &mut Rig, but: &str, each: u64) -> Usage {
    for unknown in usage(rig, but).unknown {
        // The asset's own diff tells as much as an observation.
        match rig.is_diffing(unknown.as_str()) {
            true => rig.diffed(unknown.as_str(), |_| has(each)),
            false => drop(rig.observe(unknown.as_str(), has(each))),
        }
    }
    usage(rig, but)
}

/// Answers the check of `name` with a claim of `units` of 100.
fn takes(rig: &mut Rig, name: &str, units: u64) {
    let stamp = rig.observe("p", has(100)).stamp;
    let as_of = usage(rig, name).as_of;
    rig.checked(name, |mut verdict| {
        verdict.relies_on = vec![stamp];
        verdict.as_of = verdict.as_of.min(as_of);
        verdict.claim(shared().claim(units, 100))
    });
    rig.durable();
}

#[test]
fn r16_consumers_grow_side_by_side_without_diffing_each_other() {
    let mut rig = rig();
    // The first question makes the consumers known; each is diffed once.
    assert_eq!(usage(&mut rig, "a").unknown.len(), 2);
    for name in NAMES {
        rig.diffed(name, |asset| resizes(asset, 10, 30));
    }
    for name in NAMES {
        let seen = usage(&mut rig, name);
        assert!(seen.unknown.is_empty(), "{name}: {seen:?}");
        takes(&mut rig, name, 30);
    }
    for name in NAMES {
        assert!(rig.push(name).is_some(), "{name}: 90 fit into 100");
    }
}

#[test]
fn r9_amounts_that_do_not_fit_together_are_not_admitted_together() {
    let mut rig = rig();
    usage(&mut rig, "a");
    for name in NAMES {
        rig.diffed(name, |asset| resizes(asset, 10, 40));
    }
    // Each claim fits beside the present usage of the others: 40 + 10 + 10.
    for name in NAMES {
        takes(&mut rig, name, 40);
    }
    assert!(
        rig.push("a").is_some() && rig.push("b").is_some(),
        "40 + 40 + 10"
    );
    assert!(rig.push("c").is_none(), "40 + 40 + 40 are more than 100");
    assert_eq!(rig.kernel.branches()[&Branch::ClaimTaken], 1);
}

#[test]
fn r9_a_waiter_keeps_its_place_and_is_woken_when_a_level_falls() {
    let mut rig = rig();
    usage(&mut rig, "a");
    for name in NAMES {
        rig.diffed(name, |asset| resizes(asset, 10, 40));
    }
    for name in NAMES {
        takes(&mut rig, name, 40);
    }
    rig.pushed("a", Ok(Pushed::Done));
    // The released claim still counts until `a` is diffed, so the waiter finds no room and waits on.
    if rig.is_diffing("c") {
        rig.diffed("c", |asset| resizes(asset, 10, 40));
        takes(&mut rig, "c", 40);
    }
    assert!(rig.push("c").is_none());
    // A diff finds that `a` uses less: now there is room.
    rig.diffed("a", |_| has(5));
    assert!(rig.is_diffing("c"), "woken by the lower usage of a");
    rig.diffed("c", |asset| resizes(asset, 10, 40));
    takes(&mut rig, "c", 40);
    assert!(rig.push("c").is_some(), "5 + 40 + 40");
}

/// `b` and `c` wait for room. `b` is woken first, finds none yet, and stays before `c`.
#[test]
fn r9_a_waiter_that_was_woken_too_early_stays_first() {
    let mut rig = rig();
    usage(&mut rig, "a");
    for name in NAMES {
        rig.diffed(name, |asset| resizes(asset, 10, 70));
    }
    for name in NAMES {
        takes(&mut rig, name, 70);
    }
    rig.pushed("a", Ok(Pushed::Done));
    // The released claim still counts until `a` is diffed.
    assert!(rig.is_diffing("b") && !rig.is_diffing("c"));
    rig.diffed("b", |asset| resizes(asset, 10, 70));
    takes(&mut rig, "b", 70);
    assert!(rig.push("b").is_none());
    // `c` is woken when `b` parks again, finds no room either, and is behind `b`.
    if rig.is_diffing("c") {
        rig.diffed("c", |asset| resizes(asset, 10, 70));
        takes(&mut rig, "c", 70);
    }
    rig.diffed("a", |_| has(5));
    assert!(rig.is_diffing("b"), "the first waiter is woken first");
    assert!(!rig.is_diffing("c"));
}

#[test]
fn r10_usage_older_than_half_the_evidence_age_is_observed_again() {
    let mut rig = rig();
    known_usage(&mut rig, "a", 10);
    assert!(usage(&mut rig, "a").unknown.is_empty());
    rig.pass(rig.config.evidence_age / 2 + Duration::from_secs(1));
    assert_eq!(usage(&mut rig, "a").unknown.len(), 2);
}

#[test]
fn r10_claim_beside_outdated_usage_is_not_admitted() {
    let mut rig = rig();
    rig.diffed("a", |_| has(10));
    known_usage(&mut rig, "a", 10);
    rig.pass(rig.config.evidence_age + Duration::from_secs(1));
    rig.publish(vec![consumer("a", 3)], &[]);
    rig.diffed("a", |asset| resizes(asset, 10, 30));
    takes(&mut rig, "a", 30);
    assert!(rig.push("a").is_none(), "the usage of b and c is outdated");
    assert_eq!(rig.kernel.branches()[&Branch::StaleEvidence], 1);
}

#[test]
fn r16_push_without_a_claim_counts_with_its_usage_before() {
    let mut rig = rig();
    usage(&mut rig, "b");
    // `a` shrinks from 90: while its push runs, it may still use all 90.
    rig.diffed("a", |asset| resizes(asset, 90, 10));
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_some());
    rig.diffed("c", |_| has(0));
    let seen = usage(&mut rig, "b");
    assert_eq!(seen.used, 90);
    assert_eq!(seen.shrinking, [(id("a"), 90)]);
    assert!(
        seen.unknown.is_empty(),
        "an asset that is being pushed cannot be observed"
    );
}

#[test]
fn r16_claim_of_an_unknown_push_still_counts() {
    let mut rig = rig();
    usage(&mut rig, "a");
    for name in NAMES {
        rig.diffed(name, |asset| resizes(asset, 10, 30));
    }
    for name in ["a", "b"] {
        takes(&mut rig, name, 30);
    }
    let lost = Err(plugin::Error::unknown("the connection was lost"));
    rig.pushed("a", lost);
    let seen = usage(&mut rig, "c");
    assert_eq!(seen.used, 60, "it may have taken effect");
}

#[test]
fn r16_new_consumer_counts_from_its_push_on() {
    let mut rig = Rig::new(vec![consumer("a", 1), thing("b", 1), thing("p", 1)]);
    rig.diffed("a", |_| has(10));
    rig.diffed("b", |_| has(50));
    rig.diffed("p", |_| has(100));
    rig.publish(vec![consumer("b", 2)], &[]);
    assert_eq!(
        known_usage(&mut rig, "a", 10).used,
        0,
        "b is no consumer yet"
    );
    rig.diffed("b", |asset| resizes(asset, 50, 60));
    known_usage(&mut rig, "b", 10);
    takes(&mut rig, "b", 60);
    assert!(rig.push("b").is_some());
    assert_eq!(usage(&mut rig, "a").used, 60);
}

#[test]
fn r8_a_new_consumer_does_not_void_a_counted_claim_and_voids_a_shrinking_provider() {
    let mut rig = Rig::new(vec![consumer("a", 1), thing("b", 1), thing("p", 1)]);
    rig.diffed("a", |_| has(10));
    rig.diffed("b", |_| has(10));
    rig.diffed("p", |_| has(100));
    let edited = vec![consumer("a", 2), consumer("b", 2), thing("p", 2)];
    rig.publish(edited, &[]);
    usage(&mut rig, "a");
    rig.diffed("a", |asset| resizes(asset, 10, 20));
    rig.diffed("b", |asset| resizes(asset, 10, 20));
    rig.diffed("p", |asset| resizes(asset, 100, 50));
    let a = rig.check("a").unwrap();
    let p = rig.check("p").unwrap();
    known_usage(&mut rig, "b", 10);
    takes(&mut rig, "b", 20);
    assert!(rig.push("b").is_some(), "p has a new consumer");
    let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall);
    let stamp: Stamp = rig.observe("p", has(100)).stamp;
    verdict.relies_on = vec![stamp];
    let answer = Ok(verdict.claim(shared().claim(20, 100)));
    let run = a.target.run;
    rig.step(Event::CheckDone { run, answer });
    rig.durable();
    assert!(rig.push("a").is_some(), "its claim was counted beside b's");
    let answer = Ok(plugin_sdk::Verdict::proceed(rig.now.wall));
    let run = p.target.run;
    rig.step(Event::CheckDone { run, answer });
    rig.durable();
    assert!(
        rig.push("p").is_none(),
        "its evidence is from before b came"
    );
}

#[test]
fn amounts_without_questions_are_forgotten() {
    let mut rig = rig();
    known_usage(&mut rig, "a", 10);
    assert!(rig.kernel.claims.amounts.size() > 0);
    rig.pass(rig.config.evidence_age * 3);
    assert_eq!(rig.kernel.claims.amounts.size(), 0);
}

#[test]
fn r16_consumer_of_an_unknown_push_counts_as_unknown() {
    let mut rig = Rig::new(vec![consumer("a", 1), thing("b", 1), thing("p", 1)]);
    rig.diffed("a", |_| has(10));
    rig.diffed("b", |_| has(0));
    rig.diffed("p", |_| has(100));
    rig.publish(vec![consumer("b", 2)], &[]);
    rig.diffed("b", |asset| resizes(asset, 0, 60));
    rig.checked("b", |verdict| verdict);
    rig.durable();
    let lost = Err(plugin::Error::unknown("the connection was lost"));
    rig.pushed("b", lost);
    rig.publish(vec![thing("b", 3)], &[]);
    assert_eq!(usage(&mut rig, "a").unknown, [id("b")]);
}

#[test]
fn r16_a_consumer_whose_edge_left_intent_still_counts() {
    let mut rig = rig();
    for name in NAMES {
        rig.diffed(name, |_| has(10));
    }
    rig.publish(vec![thing("b", 3)], &[]);
    usage(&mut rig, "a");
    rig.diffed("b", |asset| resizes(asset, 10, 0));
    let used = known_usage(&mut rig, "a", 10).used;
    assert_eq!(used, 20, "b may still use it");
}

#[test]
fn r16_only_a_consumer_whose_next_push_drops_its_edge_is_named_as_leaving() {
    let mut rig = rig();
    usage(&mut rig, "c");
    for name in NAMES {
        rig.diffed(name, |_| has(10));
    }
    rig.publish(vec![consumer("a", 3), thing("b", 3)], &[]);
    for name in ["a", "b"] {
        rig.diffed(name, |asset| resizes(asset, 10, 30));
    }
    let seen = usage(&mut rig, "c");
    assert_eq!(seen.shrinking, []);
    assert_eq!(seen.leaving, [(id("b"), 10)], "`a` stays, and grows");
}

#[test]
fn r16_claim_is_not_admitted_beside_a_new_unknown_consumer() {
    let mut rig = rig();
    known_usage(&mut rig, "a", 10);
    rig.diffed("a", |asset| resizes(asset, 10, 30));
    let stamp = rig.observe("p", has(100)).stamp;
    let check = rig.check("a").unwrap();
    rig.publish(vec![consumer("d", 1)], &[]);
    let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall);
    verdict.relies_on = vec![stamp];
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Ok(verdict.claim(shared().claim(30, 100))),
    });
    rig.durable();
    assert!(rig.push("a").is_none(), "the usage of d is unknown");
}

#[test]
fn r16_modelled_only_consumer_stays_unknown() {
    let mut rig = rig();
    let edges = vec![Edge {
        provider: AssetRef::to(id("p")),
        need: Need::Capacity { unit: "qps".into() },
    }];
    let idea = modelled::idea("idea", 1).edit().addon(&DependsOn { edges });
    rig.publish(vec![idea.unwrap().build().unwrap()], &[]);
    assert_eq!(known_but(&mut rig, "a"), [id("idea")]);
    rig.diffed("a", |asset| resizes(asset, 10, 30));
    takes(&mut rig, "a", 30);
    assert!(rig.push("a").is_none(), "the usage of `idea` is unknown");
}

/// The consumers that are still unknown after all enforced ones were observed.
fn known_but(rig: &mut Rig, but: &str) -> Vec<AssetId> {
    usage(rig, but);
    for name in NAMES.into_iter().filter(|name| *name != but) {
        match rig.is_diffing(name) {
            true => rig.diffed(name, |_| has(10)),
            false => drop(rig.observe(name, has(10))),
        }
    }
    usage(rig, but).unknown
}

#[test]
fn r16_ended_push_that_shrinks_counts_with_its_usage_before_until_it_is_diffed() {
    let mut rig = rig();
    usage(&mut rig, "b");
    for other in ["b", "c"] {
        rig.diffed(other, |_| has(0));
    }
    rig.diffed("a", |asset| resizes(asset, 90, 10));
    takes(&mut rig, "a", 10);
    rig.pushed("a", Ok(Pushed::Done));
    assert_eq!(usage(&mut rig, "b").used, 90);
    rig.diffed("a", |_| has(10));
    assert_eq!(usage(&mut rig, "b").used, 10);
}
