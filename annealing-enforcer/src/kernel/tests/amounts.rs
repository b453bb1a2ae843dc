//! R9, R16: consumers of one provider take its capacity as counted claims.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::{
    Change, Diff, Effects, Key, Mono, Now, Observed, Pushed, Shared, Stamp, Usage, plugin, testing,
};
use prodspec_model::{
    Asset, AssetId, AssetRef,
    addons::{DependsOn, Edge, Need},
};

use super::{modelled, rig::*};
use crate::kernel::{Branch, Event, amounts::Amounts};

/// A consumer of `p`.
pub(super) fn consumer(name: &str, size: u32) -> Asset {
    let edges = vec![Edge {
        provider: AssetRef::to(id("p")),
        need: Need::Capacity { unit: "qps".into() },
    }];
    let asset = thing(name, size).edit().addon(&DependsOn { edges });
    asset.unwrap().build().unwrap()
}

pub(super) fn has(qps: u64) -> Diff {
    Diff::InSync {
        observed: observed(qps),
        look_again_at: None,
    }
}

fn observed(qps: u64) -> Observed {
    Observed {
        capacity: [("qps".to_owned(), qps)].into(),
        version: None,
    }
}

fn resizes(asset: &Asset, from: u64, to: u64) -> Diff {
    let effects = Effects {
        capacity: [("qps".to_owned(), (from, to))].into(),
        ..Effects::default()
    };
    Diff::Differs {
        change: Box::new(Change::new(asset, "resize it", vec![], effects)),
        observed: observed(from),
    }
}

pub(super) fn shared() -> Shared {
    Shared {
        provider: id("p"),
        unit: "qps".into(),
    }
}

pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three consumers that have 10 each of the 100 that `p` has, and are edited.
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

/// What the others use, with whatever is not known of them observed.
fn known_usage(rig: &mut Rig, but: &str, each: u64) -> Usage {
    for unknown in usage(rig, but).unknown {
        // Its own look at itself tells as much as an observation.
        match rig.is_diffing(unknown.as_str()) {
            true => rig.diffed(unknown.as_str(), |_| has(each)),
            false => drop(rig.observe(unknown.as_str(), has(each))),
        }
    }
    usage(rig, but)
}

/// The check of `name` lets it have `units` of 100.
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
fn r16_consumers_grow_side_by_side_without_looking_at_each_other() {
    let mut rig = rig();
    // The first question makes the consumers known; each is looked at once.
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
    // Each fits beside what the others have now: 40 + 10 + 10.
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
    // What was given back still counts until it is looked at, so the waiter finds no room and waits on.
    if rig.is_diffing("c") {
        rig.diffed("c", |asset| resizes(asset, 10, 40));
        takes(&mut rig, "c", 40);
    }
    assert!(rig.push("c").is_none());
    // Capacity is taken from `a` by hand: now there is room.
    rig.diffed("a", |_| has(5));
    assert!(rig.is_diffing("c"), "woken by the level that fell");
    rig.diffed("c", |asset| resizes(asset, 10, 40));
    takes(&mut rig, "c", 40);
    assert!(rig.push("c").is_some(), "5 + 40 + 40");
}

#[test]
fn r10_a_level_of_half_an_age_is_looked_at_again() {
    let mut rig = rig();
    known_usage(&mut rig, "a", 10);
    assert!(usage(&mut rig, "a").unknown.is_empty());
    rig.pass(rig.config.evidence_age / 2 + Duration::from_secs(1));
    assert_eq!(usage(&mut rig, "a").unknown.len(), 2);
}

#[test]
fn r10_what_is_claimed_beside_an_old_level_is_not_admitted() {
    let mut rig = rig();
    rig.diffed("a", |_| has(10));
    known_usage(&mut rig, "a", 10);
    rig.pass(rig.config.evidence_age + Duration::from_secs(1));
    rig.publish(vec![consumer("a", 3)], &[]);
    rig.diffed("a", |asset| resizes(asset, 10, 30));
    takes(&mut rig, "a", 30);
    assert!(
        rig.push("a").is_none(),
        "what b and c use is not known any more"
    );
    assert_eq!(rig.kernel.branches()[&Branch::StaleEvidence], 1);
}

#[test]
fn r16_a_push_without_a_claim_counts_with_what_it_had() {
    let mut rig = rig();
    usage(&mut rig, "b");
    // `a` shrinks from 90: while its push runs it may still have all of it.
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
        "what is pushed cannot be looked at"
    );
}

#[test]
fn r16_an_open_push_of_an_unknown_level_is_waited_for() {
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
fn r16_a_consumer_that_comes_counts_from_its_push_on() {
    let mut rig = Rig::new(vec![consumer("a", 1), thing("b", 1), thing("p", 1)]);
    rig.diffed("a", |_| has(10));
    rig.diffed("b", |_| has(50));
    rig.diffed("p", |_| has(100));
    rig.publish(vec![consumer("b", 2)], &[]);
    assert_eq!(known_usage(&mut rig, "a", 10).used, 0, "b is not there yet");
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
fn what_is_no_longer_asked_about_is_forgotten() {
    let mut rig = rig();
    known_usage(&mut rig, "a", 10);
    assert!(rig.kernel.claims.amounts.len() > 0);
    rig.pass(rig.config.evidence_age * 3);
    assert_eq!(rig.kernel.claims.amounts.len(), 0);
}

/// Amounts of a provider with consumers in slots 1 to 3, none of which was looked at.
fn watched() -> (Amounts, Key) {
    let (mut amounts, shared) = (Amounts::default(), shared());
    assert!(amounts.watch(&shared, Mono(0)));
    amounts.set_consumers(&shared, BTreeSet::from([1, 2, 3]), Vec::new());
    (amounts, Key::capacity(&shared.provider, &shared.unit))
}

/// A diff of a consumer started at `at` and found `level`; a push to come would leave `soon`.
fn found(amounts: &mut Amounts, slot: u32, at: u64, (level, soon): (u64, Option<u64>)) {
    let started = Now {
        mono: Mono(at),
        wall: testing::NOW,
    };
    let capacity = |_: &str| Some((level, soon));
    amounts.observed(slot, capacity, started, soon.is_some(), |_| true);
}

#[test]
fn r9_a_smaller_claim_of_the_same_asset_gives_nothing_back() {
    let (mut amounts, key) = watched();
    amounts.claim(1, &key, 60);
    amounts.claim(1, &key, 20);
    assert!(!amounts.fits(2, &key, 41, 100));
    assert!(amounts.fits(2, &key, 40, 100));
}

#[test]
fn r16_an_older_diff_does_not_replace_what_a_newer_one_found() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 20, (60, None));
    found(&mut amounts, 1, 10, (5, None));
    assert!(!amounts.fits(2, &key, 41, 100));
}

#[test]
fn r16_a_diff_of_other_content_leaves_what_a_push_to_come_would_leave() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 10, (60, Some(30)));
    found(&mut amounts, 1, 20, (60, None));
    let sum = amounts.sum(&key, 2, Mono(0), 9, |_| false);
    assert_eq!(sum.shrinking, [(1, 60)]);
}

#[test]
fn r9_what_a_consumer_claims_counts_when_it_is_a_consumer_no_more() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 10, (80, None));
    amounts.claim(1, &key, 60);
    amounts.set_consumers(&shared(), BTreeSet::from([2, 3]), Vec::new());
    assert!(!amounts.fits(2, &key, 41, 100), "its push is under way");
    assert!(amounts.fits(2, &key, 40, 100), "what it had counts no more");
    amounts.release(1, &key);
    assert!(amounts.fits(2, &key, 100, 100));
}

#[test]
fn r16_what_was_asked_about_within_the_age_is_kept() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 10, (60, None));
    let age = Duration::from_secs(60);
    amounts.forget(Mono(0) + age, age);
    assert!(!amounts.fits(2, &key, 41, 100), "it is as old as the age");
    amounts.forget(Mono(1) + age * 2, age);
    assert!(amounts.fits(2, &key, 100, 100), "older than that");
}

#[test]
fn r16_a_consumer_of_which_it_is_not_known_that_it_came_may_be_one() {
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
fn r16_a_consumer_that_is_being_pushed_counts_as_it_was_seen_if_it_ever_was() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 10, (60, None));
    found(&mut amounts, 3, 90, (1, None));
    let unknown = |in_flight: &[u32], amounts: &Amounts| {
        let sum = amounts.sum(&key, 3, Mono(50), 9, |slot| in_flight.contains(&slot));
        sum.unknown
    };
    assert_eq!(unknown(&[], &amounts), [2, 1], "never seen, and too old");
    assert_eq!(unknown(&[1], &amounts), [2]);
    assert_eq!(unknown(&[1, 2], &amounts), [2], "never seen, pushed or not");
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
    assert_eq!(used, 20, "b may use it still");
}

#[test]
fn r16_only_a_consumer_whose_push_to_come_drops_its_edge_is_named_as_leaving() {
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
fn r16_a_claim_is_not_admitted_beside_a_consumer_that_came_since_and_is_unknown() {
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
    assert!(rig.push("a").is_none(), "what d uses is not known");
}

#[test]
fn r16_a_consumer_that_nothing_enforces_is_never_known() {
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
    assert!(rig.push("a").is_none(), "what `idea` uses is not known");
}

/// Who is unknown when all that can be looked at has been.
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
