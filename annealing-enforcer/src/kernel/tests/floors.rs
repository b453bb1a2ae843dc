//! R109: pushes never take the capacity of a scope below its floor, whatever their order, their outcomes, or the owner.

use std::{sync::Arc, time::Duration};

use plugin_sdk::{
    Change, Claim, Delay, Diff, Effects, Key, Observed, Pushed, Recheck, Served, Serving, Verdict,
    plugin,
};
use prodspec_model::Asset;

use super::rig::*;
use crate::{config::Config, kernel::Event};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn key() -> Key {
    Key::from("capacity/eu")
}

fn has(qps: u64) -> Diff {
    Diff::in_sync().observed(Observed::default().capacity("qps", qps))
}

fn resizes(asset: &Asset, from: u64, to: u64) -> Diff {
    let effects = Effects::default().capacity("qps", from, to);
    let change = Change::new(asset, "resize it", vec![], effects);
    Diff::differs(change).observed(Observed::default().capacity("qps", from))
}

/// The answer to a check that asks about all three.
fn served(rig: &mut Rig, but: &str) -> Served {
    let assets = NAMES.iter().map(|name| id(name)).collect();
    let serving = Serving {
        key: key(),
        unit: "qps".into(),
        assets: Arc::new(assets),
    };
    rig.step(Event::Served {
        ticket: 7,
        serving,
        but: id(but),
    });
    rig.served.remove(&7).expect("it is answered at once")
}

/// A verdict that waits for more capacity.
fn waits(mut verdict: Verdict) -> Verdict {
    let delay = Delay::new("too little would be left", Recheck::WhenFree(key()));
    verdict.delays = vec![delay.check("test")];
    verdict
}

fn keep(keeps: u64, at_least: u64) -> Claim {
    Claim::Keep {
        key: key(),
        keeps,
        at_least,
    }
}

/// A rig with three assets that have 100 each, are counted, and are edited.
fn rig() -> Rig {
    let things = |size| NAMES.map(|name| thing(name, size)).to_vec();
    let mut rig = Rig::with(Config::default(), kind().turndown(true), things(1));
    served(&mut rig, "none");
    for name in NAMES {
        rig.diffed(name, |_| has(100));
    }
    rig.publish(things(2), &[]);
    rig
}

/// Finds that a push would resize an asset, and checks it with a claim. Whether it is admitted.
fn tries(rig: &mut Rig, name: &str, from: u64, to: u64, at_least: u64) -> bool {
    rig.diffed(name, |asset| resizes(asset, from, to));
    rig.checked(name, |verdict| match to < from {
        true => verdict.claim(keep(to, at_least)),
        false => verdict,
    });
    rig.durable();
    rig.calls.iter().any(|call| matches!(call, crate::kernel::Call::Push(push) if push.target.asset.id_str() == name))
}

#[test]
fn r109_three_of_a_hundred_with_a_floor_of_two_hundred_lose_one() {
    let mut rig = rig();
    let admitted = NAMES.map(|name| tries(&mut rig, name, 100, 0, 200));
    assert_eq!(admitted, [true, false, false]);
    // The outcome is known, and the sum stays where it is.
    rig.pushed("a", Ok(Pushed::Done));
    assert_eq!(served(&mut rig, "none").units, 200);
    rig.until_diff("b");
    assert!(!tries(&mut rig, "b", 100, 0, 200));
}

#[test]
fn r109_push_of_unknown_outcome_counts_with_its_smaller_end() {
    let mut rig = rig();
    assert!(tries(&mut rig, "a", 100, 40, 200));
    rig.pushed("a", Err(plugin::Error::unknown("the connection broke")));
    assert_eq!(served(&mut rig, "none").units, 240);
    assert!(!tries(&mut rig, "b", 100, 50, 200));
    rig.diffed("c", |_| has(100));
    // The resource was not reached: all of it is there.
    rig.until_diff("a");
    rig.diffed("a", |asset| resizes(asset, 100, 40));
    assert_eq!(served(&mut rig, "none").units, 300);
}

#[test]
fn r109_push_without_a_claim_counts_too() {
    let mut rig = rig();
    rig.diffed("a", |asset| resizes(asset, 100, 40));
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_some(), "such as one with an override");
    assert_eq!(served(&mut rig, "none").units, 240);
}

#[test]
fn r109_asset_that_waits_is_checked_when_another_has_shrunk_less_than_it_could() {
    let mut rig = rig();
    rig.diffed("b", |asset| resizes(asset, 100, 0));
    rig.checked("b", waits);
    assert!(tries(&mut rig, "a", 100, 40, 200));
    rig.pushed("a", Ok(Pushed::Done));
    rig.pass(Duration::from_millis(1));
    assert!(rig.is_diffing("b"));
}

#[test]
fn r109_asset_that_grows_counts_with_what_it_had() {
    let mut rig = rig();
    assert!(tries(&mut rig, "a", 100, 200, 0));
    assert!(tries(&mut rig, "b", 100, 0, 200));
    assert!(
        !tries(&mut rig, "c", 100, 50, 200),
        "`a` may not have grown yet"
    );
    rig.pushed("a", Ok(Pushed::Done));
    assert_eq!(served(&mut rig, "none").units, 200, "no diff has seen more");
}

#[test]
fn r109_asset_that_waits_for_capacity_is_checked_when_another_has_grown() {
    let mut rig = rig();
    assert!(tries(&mut rig, "a", 100, 200, 0));
    rig.diffed("b", |asset| resizes(asset, 100, 0));
    rig.checked("b", waits);
    assert_eq!(served(&mut rig, "b").growing, [id("a")]);
    rig.diffed("c", |_| has(100));
    rig.pushed("a", Ok(Pushed::Done));
    rig.until_diff("a");
    assert!(!rig.is_diffing("b"));
    rig.diffed("a", |_| has(200));
    rig.pass(Duration::from_millis(1));
    assert!(rig.is_diffing("b"), "more is there");
    assert!(tries(&mut rig, "b", 100, 0, 300));
}

#[test]
fn r109_new_owner_counts_only_what_it_has_seen() {
    let mut rig = rig();
    assert!(tries(&mut rig, "a", 100, 0, 200));
    let mut next = rig.taken_over();
    let first = served(&mut next, "b");
    assert_eq!((first.units, first.unknown.len()), (0, 2));
    for name in ["b", "c"] {
        next.until_diff(name);
        next.diffed(name, |_| has(100));
    }
    assert_eq!(
        served(&mut next, "none").units,
        200,
        "the push of `a` may be under way"
    );
}

#[test]
fn r109_asset_that_left_the_scope_is_not_counted() {
    let mut rig = rig();
    let serving = Serving {
        key: key(),
        unit: "qps".into(),
        assets: Arc::new([id("b"), id("c"), id("new")].into()),
    };
    let (ticket, but) = (8, id("c"));
    rig.step(Event::Served {
        ticket,
        serving,
        but,
    });
    let seen = &rig.served[&ticket];
    // The new one is not enforced: nothing is known of it, and nothing can be.
    assert_eq!((seen.units, seen.unknown.len()), (100, 0));
}

#[test]
fn r109_turndown_that_names_no_effect_counts_with_nothing() {
    let mut rig = rig();
    let turndown = prodspec_model::addons::Turndown::new("old", "ada");
    let leaving = thing("a", 2).edit().addon(&turndown).unwrap();
    rig.publish(vec![leaving.build().unwrap()], &[]);
    // The diff under way is of the content before.
    rig.diffed("a", |_| has(100));
    rig.diffed("a", |asset| {
        let change = Change::new(asset, "remove it", vec![], Effects::default());
        Diff::differs(change).observed(Observed::default().capacity("qps", 100))
    });
    let change = rig.check("a").unwrap();
    let digest = change.change.digest;
    rig.calls.push(crate::kernel::Call::Check(change));
    rig.approve("a", digest);
    rig.checked("a", |verdict| verdict.claim(keep(0, 200)));
    rig.durable();
    if rig.push("a").is_none() {
        rig.until_diff("a");
    }
    assert_eq!(served(&mut rig, "none").units, 200);
}
