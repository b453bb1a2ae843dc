//! R8, R9, R16: an asset that waits for another one is diffed at the moment when the wait is over. No time passes in
//! these tests unless they say so, so that neither a timer nor the drift scan can cause the diff.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::{Claim, Diff, Pushed, Recheck, Verdict};

use super::rig::*;
use crate::{
    config::Config,
    kernel::{Event, PushCall},
};

fn done(rig: &mut Rig, push: &PushCall) {
    let (run, answer) = (push.target.run, Ok(Pushed::Done));
    rig.step(Event::PushDone { run, answer });
}

#[test]
fn r8_asset_that_relies_on_a_push_is_diffed_when_the_push_ends() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    rig.diffed("b", differs);
    let seen = rig.observe("b", Diff::in_sync());
    rig.checked("b", |verdict| verdict);
    rig.durable();
    let push = rig.push("b").unwrap();
    let mut verdict = Verdict::proceed(rig.now.wall);
    verdict.relies_on = vec![seen.stamp];
    let (run, answer) = (check.target.run, Ok(verdict));
    rig.step(Event::CheckDone { run, answer });
    assert!(!rig.is_diffing("a"), "it waits for the push of b");
    done(&mut rig, &push);
    assert!(rig.is_diffing("a"), "at once");
}

/// A rig where `a` is pushed and holds the claim that `b` and `c` wait for, in this order.
fn two_wait() -> (Rig, PushCall) {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1), thing("c", 1)]);
    let mut ask = |name| rig.until_push(name, |verdict| verdict.claim(exclusive("one")));
    let push = ask("a").unwrap();
    assert!(ask("b").is_none() && ask("c").is_none());
    (rig, push)
}

#[test]
fn r9_waiter_admitted_without_the_claim_wakes_the_next() {
    let (mut rig, push) = two_wait();
    done(&mut rig, &push);
    assert!(!rig.is_diffing("c"), "it is the turn of b");
    assert!(rig.until_push("b", |verdict| verdict).is_some());
    assert!(rig.is_diffing("c"), "at once");
}

#[test]
fn r9_waiter_delayed_when_its_claim_is_free_wakes_the_next() {
    let (mut rig, push) = two_wait();
    done(&mut rig, &push);
    rig.diffed("b", differs);
    rig.checked("b", |verdict| {
        let wait = Recheck::After(Duration::from_secs(60));
        Verdict::delay(verdict.as_of, delay(wait))
    });
    assert!(rig.is_diffing("c"), "at once");
}

#[test]
fn r9_asset_that_stopped_waiting_for_a_claim_does_not_block_the_next() {
    let (mut rig, push) = two_wait();
    rig.publish(vec![thing("b", 2)], &[]);
    assert!(rig.is_diffing("b"), "changed intent cut its wait short");
    done(&mut rig, &push);
    assert!(rig.is_diffing("c"), "at once");
}

#[test]
fn r16_asset_that_waits_for_a_forgotten_asset_is_diffed() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| {
        Verdict::delay(verdict.as_of, delay(Recheck::WhenSettled(id("b"))))
    });
    rig.diff("b").unwrap();
    rig.publish(Vec::new(), &["b"]);
    let slot = rig.kernel.table.find("b").unwrap();
    let run = plugin_sdk::Run {
        slot: slot.bare(),
        n: rig.kernel.table.slot(slot).n,
        incarnation: rig.latest.no(),
    };
    let answer = Ok(Diff::in_sync());
    rig.step(Event::DiffDone { run, answer });
    assert!(!rig.is_diffing("a"));
    rig.acknowledge("b");
    assert!(rig.is_diffing("a"), "at once: b will never settle");
}

/// Answers diffs and checks at once and ends pushes a second after they began. Returns the time until all assets are
/// pushed and in sync.
fn play(rig: &mut Rig, verdict: impl Fn(&Rig, usize, Verdict) -> Verdict) -> Duration {
    let start = rig.now.mono;
    let mut pushed = BTreeSet::new();
    while rig.kernel.unsettled() > 0 && rig.now.mono.since(start) < HOUR {
        let mut goes_on = true;
        while std::mem::take(&mut goes_on) {
            for at in 0..MANY {
                if rig.is_diffing(&name(at)) {
                    goes_on = true;
                    match pushed.contains(&at) {
                        true => rig.in_sync(&name(at)),
                        false => rig.diffed(&name(at), differs),
                    }
                }
                if let Some(check) = rig.check(&name(at)) {
                    goes_on = true;
                    let answer = Ok(verdict(rig, at, Verdict::proceed(rig.now.wall)));
                    let run = check.target.run;
                    rig.step(Event::CheckDone { run, answer });
                }
            }
        }
        rig.durable();
        rig.pass(Duration::from_secs(1));
        for at in 0..MANY {
            if let Some(push) = rig.push(&name(at)) {
                pushed.insert(at);
                done(rig, &push);
            }
        }
    }
    rig.now.mono.since(start)
}

const MANY: usize = 20;
const HOUR: Duration = Duration::from_secs(3_600);

fn name(at: usize) -> String {
    format!("a{at:02}")
}

/// A rig with many assets and a drift period longer than the test.
fn many() -> Rig {
    let config = Config::default().drift_period(HOUR);
    let things = (0..MANY).map(|at| thing(&name(at), 1));
    Rig::with(config, kind(), things.collect())
}

#[test]
fn r9_waiters_for_one_claim_lose_no_time_between_pushes() {
    let took = play(&mut many(), |_, _, verdict| verdict.claim(exclusive("one")));
    assert!(took <= Duration::from_secs(MANY as u64 + 1), "{took:?}");
}

#[test]
fn r16_chain_of_waiting_assets_loses_no_time_between_pushes() {
    let took = play(&mut many(), |rig, at, verdict| {
        let Some(before) = at.checked_sub(1).map(name) else {
            return verdict;
        };
        let slot = rig.kernel.table.find(&before).unwrap();
        match rig.kernel.table.is_settled(slot) {
            true => verdict,
            false => {
                let settles = Recheck::WhenSettled(id(&before));
                Verdict::delay(verdict.as_of, delay(settles))
            }
        }
    });
    assert!(took <= Duration::from_secs(MANY as u64 + 1), "{took:?}");
}

/// Assets that claim the same key wait for it in line. Each one that settles wakes the next, and only that one.
fn wake_one_by_one(claim: &Claim) {
    const ALL: [&str; 4] = ["a", "b", "c", "d"];
    let mut rig = Rig::new(ALL.map(|name| thing(name, 1)).into());
    let ask =
        |rig: &mut Rig, name: &str| rig.until_push(name, |verdict| verdict.claim(claim.clone()));
    let mut push = ask(&mut rig, "a").unwrap();
    for name in &ALL[1..] {
        assert!(ask(&mut rig, name).is_none(), "{name}");
    }
    for at in 1..ALL.len() {
        done(&mut rig, &push);
        rig.in_sync(ALL[at - 1]);
        let woken: Vec<_> = ALL
            .into_iter()
            .filter(|name| rig.is_diffing(name))
            .collect();
        assert_eq!(woken, [ALL[at]], "{claim:?}: the first in line");
        push = ask(&mut rig, ALL[at]).expect("the claim is free");
        let woken: Vec<_> = ALL
            .into_iter()
            .filter(|name| rig.is_diffing(name))
            .collect();
        assert_eq!(woken, [""; 0], "{claim:?}: taken again");
    }
}

#[test]
fn r9_waiters_for_an_at_most_claim_wake_one_by_one() {
    wake_one_by_one(&Claim::AtMost("one".into(), 1));
}

#[test]
fn r9_waiters_for_an_exclusive_claim_wake_one_by_one() {
    wake_one_by_one(&exclusive("one"));
}
