//! R9: claims are taken together, held until the asset settles, and given to those that wait.

use std::time::Duration;

use control_plane_store::records::Scope;
use plugin_sdk::{Claim, Pushed};

use super::rig::{Rig, differs, exclusive, id, thing};
use crate::kernel::{Branch, Event};

#[test]
pub(super) fn r9_claims_are_taken_all_or_nothing() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let push = rig
        .until_push("a", |verdict| verdict.claim(exclusive("one")))
        .unwrap();
    rig.diffed("b", differs);
    rig.checked("b", |verdict| {
        verdict.claim(exclusive("other")).claim(exclusive("one"))
    });
    rig.durable();
    assert!(rig.push("b").is_none());
    assert_eq!(rig.kernel.branches()[&Branch::ClaimTaken], 1);
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    let woken = rig.until_push("b", |verdict| {
        verdict.claim(exclusive("other")).claim(exclusive("one"))
    });
    assert!(woken.is_some(), "woken when the claim is free");
}

#[test]
fn r9_blast_radius_is_held_until_the_asset_settles() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let one = || Claim::AtMost("domain".into(), 1);
    let push = rig.until_push("a", |verdict| verdict.claim(one())).unwrap();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    rig.diffed("b", differs);
    rig.checked("b", |verdict| verdict.claim(one()));
    rig.durable();
    assert!(rig.push("b").is_none(), "a is pushed, but not yet settled");
    rig.in_sync("a");
    assert!(
        rig.until_push("b", |verdict| verdict.claim(one()))
            .is_some()
    );
}

#[test]
fn r9_used_up_rate_wakes_only_as_many_as_it_admits() {
    let names: Vec<_> = (0..10).map(|n| format!("a{n}")).collect();
    let mut rig = Rig::new(names.iter().map(|name| thing(name, 1)).collect());
    let rate = || {
        let every = Duration::from_secs(60);
        Claim::Rate("all".into(), plugin_sdk::Quota { burst: 2, every })
    };
    let mut waiting = names.clone();
    let look = |rig: &mut Rig, waiting: &mut Vec<String>| {
        let (mut checks, mut pushes) = (0, 0);
        for name in &names {
            if rig.is_diffing(name) && !waiting.contains(name) {
                rig.in_sync(name);
            } else if rig.is_diffing(name) {
                rig.diffed(name, differs);
            }
            if rig.check_is_asked(name) {
                checks += 1;
                rig.checked(name, |verdict| verdict.claim(rate()));
                rig.durable();
            }
            if let Some(push) = rig.push(name) {
                pushes += 1;
                let run = push.target.run;
                rig.step(Event::PushDone {
                    run,
                    answer: Ok(Pushed::Done),
                });
                rig.in_sync(name);
                waiting.retain(|other| other != name);
            }
        }
        (checks, pushes)
    };
    assert_eq!(look(&mut rig, &mut waiting), (10, 2));
    let (mut checks, mut pushes) = (0, 0);
    for _ in 0..480 {
        rig.pass(Duration::from_secs(1));
        let (more_checks, more_pushes) = look(&mut rig, &mut waiting);
        checks += more_checks;
        pushes += more_pushes;
    }
    assert_eq!((checks, pushes), (8, 8), "one a minute, and no other woke");
}

#[test]
fn r9_waiter_for_a_rate_moves_up_when_others_leave() {
    let names: Vec<_> = (0..10).map(|n| format!("a{n}")).collect();
    let mut rig = Rig::new(names.iter().map(|name| thing(name, 1)).collect());
    let rate = || {
        let every = Duration::from_secs(3_600);
        Claim::Rate("all".into(), plugin_sdk::Quota { burst: 1, every })
    };
    for name in &names {
        rig.until_push(name, |verdict| verdict.claim(rate()));
    }
    let gone: Vec<_> = names[1..9].iter().map(String::as_str).collect();
    rig.publish(Vec::new(), &gone);
    let (mut waited, mut pushed) = (Duration::ZERO, false);
    while !pushed && waited < Duration::from_secs(9_000) {
        waited += rig.until_diff("a9");
        rig.diffed("a9", differs);
        if rig.check_is_asked("a9") {
            rig.checked("a9", |verdict| verdict.claim(rate()));
            rig.durable();
            pushed = rig.push("a9").is_some();
        }
    }
    assert!(waited <= Duration::from_secs(3_600), "{waited:?}");
}

#[test]
fn r9_withdrawn_push_holds_no_claim() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let one = || Claim::AtMost("domain".into(), 1);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict.claim(one()));
    rig.pause(Scope::Asset(id("a")), None);
    rig.durable();
    assert!(rig.push("a").is_none(), "paused before it started");
    let push = rig.until_push("b", |verdict| verdict.claim(one()));
    assert!(push.is_some(), "no push of a is unsettled");
}

#[test]
fn r9_withdrawn_push_keeps_the_claims_of_an_earlier_push() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let one = || Claim::AtMost("domain".into(), 1);
    rig.in_sync("b");
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict.claim(one()));
    rig.durable();
    rig.pushed("a", Ok(Pushed::Done));
    rig.differs_again("a");
    rig.checked("a", |verdict| verdict.claim(one()));
    rig.pass(Duration::from_secs(61));
    rig.durable();
    assert!(rig.push("a").is_none(), "too late");
    assert_eq!(rig.remembered("a").unwrap().claims, [one()]);
    rig.look_now("b");
    let push = rig.until_push("b", |verdict| verdict.claim(one()));
    assert!(push.is_none(), "a is pushed and not yet settled");
}
