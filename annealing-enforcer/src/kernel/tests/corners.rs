//! Corner cases: one test for each defect by which the kernel once lost, leaked or overlooked something.

use std::time::Duration;

use control_plane_runtime::Kernel as _;
use plugin_sdk::{Cause, Claim, Diff, Pin, Pushed, plugin};
use prodspec_model::{
    Asset, AssetRef, Incarnation,
    addons::{DependsOn, Edge, Need, Turndown},
};

use super::rig::{Rig, differs, exclusive, id, kind, seal, thing};
use crate::{
    config::Config,
    kernel::{Branch, Effects, Event},
};

fn turned(asset: &Asset) -> Asset {
    let addon = Turndown {
        reason: "moved".into(),
        approved_by: "me".into(),
    };
    asset.edit().addon(&addon).unwrap().build().unwrap()
}

fn pin(rig: &mut Rig, name: &str, pin: Pin<Incarnation>) {
    let asset = id(name);
    rig.step(Event::Pin { asset, pin });
}

fn unknown() -> Result<Pushed, plugin::Error> {
    Err(plugin::Error::unknown("connection lost"))
}

#[test]
fn unsettled_asset_that_leaves_intent_is_no_longer_counted() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("b");
    rig.publish(Vec::new(), &["a"]);
    assert!(rig.kernel.all_settled_at(rig.latest.no()));
}

#[test]
fn asset_back_after_its_turndown_is_counted_again() {
    let mut rig = Rig::new(vec![turned(&thing("a", 1)), thing("b", 1)]);
    rig.in_sync("a");
    rig.in_sync("b");
    rig.publish(Vec::new(), &["a"]);
    rig.publish(vec![thing("a", 2)], &[]);
    assert!(!rig.kernel.all_settled_at(rig.latest.no()));
    rig.in_sync("a");
    assert!(rig.kernel.all_settled_at(rig.latest.no()));
}

#[test]
fn unchanged_incarnation_wakes_the_callers_that_wait_for_it() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    let mut out = Effects::default();
    let newer = seal(Some(&rig.latest), Vec::new(), &[]);
    rig.kernel.step(rig.now, Event::Publish(newer), &mut out);
    assert!(out.settled_changed);
}

#[test]
fn r8_pin_that_reuses_a_place_voids_the_diff() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let first = rig.latest.clone();
    rig.publish(vec![thing("a", 2)], &[]);
    let second = rig.latest.clone();
    rig.diff("a").unwrap();
    pin(&mut rig, "a", Pin::At(second, Cause::Intent));
    rig.pass(Duration::from_secs(31));
    rig.until_diff("a");
    rig.diffed("a", differs);
    pin(&mut rig, "a", Pin::At(first, Cause::Rollback));
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(
        rig.push("a").is_none(),
        "the check was for its former content"
    );
    assert_eq!(rig.diff("a").unwrap().incarnation.no().0, 1);
}

#[test]
fn r17_asset_pinned_to_an_older_incarnation_settles_there() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let first = rig.latest.clone();
    rig.in_sync("a");
    rig.publish(vec![thing("a", 2)], &[]);
    rig.in_sync("a");
    pin(&mut rig, "a", Pin::At(first, Cause::Intent));
    rig.in_sync("a");
    assert!(rig.calls.is_empty(), "diffed only once");
    assert!(rig.kernel.all_settled_at(rig.latest.no()));
    rig.until_diff("a");
    rig.diffed("a", differs);
    let cause = rig.check("a").unwrap().cause;
    assert_eq!(cause, Cause::Drift, "R6: drift there is drift");
}

#[test]
fn r9_moved_pin_does_not_free_claims_of_a_push_in_flight() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let one = || exclusive("one");
    rig.until_push("a", |verdict| verdict.claim(one())).unwrap();
    let first = rig.latest.clone();
    pin(&mut rig, "a", Pin::At(first, Cause::Rollback));
    assert!(
        rig.until_push("b", |verdict| verdict.claim(one()))
            .is_none()
    );
}

#[test]
fn r9_asset_that_leaves_intent_frees_its_claims() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let one = || Claim::AtMost("domain".into(), 1);
    let push = rig.until_push("a", |verdict| verdict.claim(one())).unwrap();
    rig.publish(Vec::new(), &["a"]);
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    assert!(
        rig.until_push("b", |verdict| verdict.claim(one()))
            .is_some()
    );
}

#[test]
fn r9_woken_waiter_that_no_longer_needs_the_claim_wakes_the_next() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1), thing("c", 1)]);
    let one = || exclusive("one");
    let push = rig.until_push("a", |verdict| verdict.claim(one())).unwrap();
    for name in ["b", "c"] {
        assert!(
            rig.until_push(name, |verdict| verdict.claim(one()))
                .is_none()
        );
    }
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    rig.in_sync("a");
    rig.in_sync("b");
    assert!(
        rig.until_push("c", |verdict| verdict.claim(one()))
            .is_some()
    );
}

#[test]
fn r9_repeated_pushes_record_one_claim() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    for nth in 0..3 {
        let one = Claim::AtMost("domain".into(), 1);
        match nth {
            0 => rig.diffed("a", differs),
            _ => rig.differs_again("a"),
        }
        rig.checked("a", |verdict| verdict.claim(one));
        rig.durable();
        rig.pushed("a", Ok(Pushed::Done));
    }
    assert_eq!(rig.remembered("a").unwrap().claims.len(), 1);
}

#[test]
fn r13_unknown_push_is_resolved_after_its_pin_was_removed() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    pin(&mut rig, "a", Pin::NotYet);
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: unknown(),
    });
    rig.in_sync("a");
    assert_eq!(rig.kernel.branches()[&Branch::Resolved], 1);
    assert_eq!(rig.remembered("a").unwrap().open, None);
}

#[test]
fn r11_intent_that_moves_before_the_push_is_durable_counts_as_a_void() {
    let mut rig = Rig::new(vec![thing("a", 0)]);
    for size in 1..=3 {
        rig.diffed("a", differs);
        rig.checked("a", |verdict| verdict);
        rig.publish(vec![thing("a", size)], &[]);
        rig.durable();
        assert!(rig.push("a").is_none(), "withdrawn {size}");
    }
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.publish(vec![thing("a", 4)], &[]);
    rig.durable();
    assert!(rig.push("a").is_some(), "finishes at its own incarnation");
}

#[test]
fn s9_calls_under_way_that_fail_do_not_prolong_an_open_breaker() {
    let names: Vec<_> = (0..100).map(|n| format!("a{n}")).collect();
    let mut rig = Rig::new(names.iter().map(|name| thing(name, 1)).collect());
    for name in &names {
        let run = rig.diff(name).unwrap().run;
        let answer = Err(plugin::Error::transient("down"));
        rig.step(Event::DiffDone { run, answer });
    }
    rig.pass(Duration::from_secs(6));
    assert_eq!(rig.calls.len(), 1, "a probe after the first wait");
}

#[test]
fn l2_asset_that_waits_for_push_capacity_is_still_diffed() {
    let narrow = kind().pushes(1);
    let mut rig = Rig::with(
        Config::default(),
        narrow,
        vec![thing("a", 1), thing("b", 1)],
    );
    rig.until_push("a", |verdict| verdict).unwrap();
    rig.diffed("b", differs);
    rig.pass(Duration::from_secs(301));
    assert!(rig.diff("b").is_some());
}

#[test]
fn l2_check_again_in_zero_does_not_cause_a_hot_loop() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let start = rig.now.mono;
    for _ in 0..20 {
        rig.diffed("a", |_| Diff::InProgress {
            check_again_in: Duration::ZERO,
        });
        rig.until_diff("a");
    }
    assert!(rig.now.mono.since(start) >= Duration::from_secs(2));
}

#[test]
fn r7_wall_clock_set_back_does_not_prolong_a_wait() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let soon = rig.now.wall + Duration::from_secs(60);
    rig.checked("a", |mut verdict| {
        let recheck = plugin_sdk::Recheck::At(soon);
        verdict.delays = vec![super::rig::delay(recheck)];
        verdict
    });
    rig.now.wall -= Duration::from_secs(30 * 86_400);
    rig.pass(Duration::from_secs(61));
    rig.diffed("a", differs);
    assert!(
        rig.check("a").is_some(),
        "it waited as long as the check asked"
    );
}

#[test]
fn r9_permanent_failure_frees_the_claims() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let one = || Claim::AtMost("domain".into(), 1);
    let push = rig.until_push("a", |verdict| verdict.claim(one())).unwrap();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Err(plugin::Error::permanent("no such region")),
    });
    let push = rig.until_push("b", |verdict| verdict.claim(one()));
    assert!(push.is_some());
}

#[test]
fn l2_flapping_change_does_not_cause_a_hot_loop_of_pushes() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let (start, mut pushes) = (rig.now.mono, 0);
    for size in 0..60 {
        rig.until_diff("a");
        rig.diffed("a", |_| differs(&thing("a", size)));
        if let Some(check) = rig.check("a") {
            let answer = Ok(plugin_sdk::Verdict::proceed(rig.now.wall));
            let run = check.target.run;
            rig.step(Event::CheckDone { run, answer });
            rig.durable();
            rig.pushed("a", Ok(Pushed::Done));
            pushes += 1;
        }
    }
    assert!(pushes >= 30, "the asset is still pushed: {pushes}");
    assert!(rig.now.mono.since(start) >= Duration::from_secs(120));
}

fn needs(providers: &[&str], size: u32) -> Asset {
    let edge = |provider: &&str| Edge {
        provider: AssetRef::to(id(provider)),
        need: Need::Order,
    };
    let edges = providers.iter().map(edge).collect();
    let asset = thing("a", size).edit().addon(&DependsOn { edges });
    asset.unwrap().build().unwrap()
}

fn brought(rig: &mut Rig) -> Vec<String> {
    while !rig.check_is_asked("a") {
        rig.until_diff("a");
        rig.diffed("a", differs);
    }
    let check = rig.check("a").unwrap();
    let name = |edge: &Edge| edge.provider.id.to_string();
    let brought = check.brought.iter().map(name).collect();
    let answer = Ok(plugin_sdk::Verdict::proceed(rig.now.wall));
    let run = check.target.run;
    rig.step(Event::CheckDone { run, answer });
    brought
}

#[test]
fn r16_check_gets_the_edges_that_the_push_adds() {
    let mut rig = Rig::new(vec![needs(&["b"], 1)]);
    assert_eq!(brought(&mut rig), ["b"], "no earlier edges are known");
    rig.durable();
    rig.pushed("a", Ok(Pushed::Done));
    rig.in_sync("a");
    rig.publish(vec![needs(&["b"], 2)], &[]);
    assert_eq!(brought(&mut rig), [""; 0]);
    rig.publish(vec![needs(&["b", "c"], 3)], &[]);
    rig.durable();
    rig.publish(vec![needs(&["d"], 4)], &[]);
    assert_eq!(brought(&mut rig), ["d"]);
    rig.durable();
    rig.pushed("a", Err(plugin::Error::transient("no")));
    rig.publish(vec![needs(&["b", "c", "d"], 5)], &[]);
    assert_eq!(brought(&mut rig), ["c"], "it was never pushed with c");
    rig.durable();
    rig.pushed("a", Ok(Pushed::Done));
    rig.in_sync("a");
    rig.until_diff("a");
    assert_eq!(brought(&mut rig), [""; 0], "repairing drift adds no edge");
}
