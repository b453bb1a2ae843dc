//! Loops: drift, backoff, breakers, convergence, leases, memory.

use std::time::Duration;

use control_plane_store::records::Trigger;
use plugin_sdk::{
    Cause, Diff, FencingToken, Mono, Pushed, Recheck, Verdict, plugin, standing::Reason,
};

use super::rig::{Rig, delay, differs, id, kind, seal, thing};
use super::takeover::at_floor;
use crate::{
    config::Config,
    kernel::{Branch, Event, Notice, Record, Recovered, Waiting, state::slot::Slot},
};

#[test]
fn a_slot_is_small() {
    assert!(size_of::<Slot>() <= 40, "{}", size_of::<Slot>());
}

#[test]
fn s9_pushes_that_only_fail_are_held_back_though_diffs_work() {
    let config = Config::default().breaker_failures(3);
    let names: Vec<_> = (0..8).map(|n| format!("a{n}")).collect();
    let things = names.iter().map(|name| thing(name, 1)).collect();
    let mut rig = Rig::with(config, kind().pushes(1), things);
    for name in &names {
        rig.diffed(name, differs);
    }
    let checked = |rig: &Rig| names.iter().filter(|name| rig.check_is_asked(name)).count();
    let failed = || Err(plugin::Error::transient("read-only"));
    for name in &names[..3] {
        assert_eq!(checked(&rig), 1);
        rig.checked(name, |verdict| verdict);
        rig.durable();
        rig.pushed(name, failed());
    }
    assert_eq!(checked(&rig), 0, "the breaker is open");
    assert_eq!(rig.kernel.status(rig.now).open_breakers.len(), 1);
    let waits = rig.kernel.explain(rig.now, &id("a3")).unwrap().waiting;
    assert!(matches!(waits, Some(Waiting::Failure(_))), "{waits:?}");
    // A probe that its checks delay lets another asset go first.
    rig.pass(Duration::from_secs(5));
    rig.checked("a3", |verdict| {
        Verdict::delay(
            verdict.as_of,
            delay(Recheck::After(Duration::from_secs(60))),
        )
    });
    rig.checked("a4", |verdict| verdict);
    rig.durable();
    rig.pushed("a4", failed());
    rig.pass(Duration::from_secs(9));
    assert_eq!(checked(&rig), 0, "the wait doubles");
    rig.pass(Duration::from_secs(1));
    rig.checked("a5", |verdict| verdict);
    rig.durable();
    rig.pushed("a5", Ok(Pushed::Done));
    assert_eq!(checked(&rig), 1, "closed");
    assert!(rig.kernel.status(rig.now).open_breakers.is_empty());
}

#[test]
fn l2_every_asset_is_diffed_within_two_drift_periods() {
    let mut rig = Rig::new((0..50).map(|n| thing(&format!("a{n}"), 1)).collect());
    for n in 0..50 {
        rig.in_sync(&format!("a{n}"));
    }
    assert!(rig.calls.is_empty());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..600 {
        rig.pass(Duration::from_secs(1));
        let due: Vec<String> = rig
            .calls
            .iter()
            .filter_map(|call| match call {
                crate::kernel::Call::Diff(target) => Some(target.asset.id_str().to_owned()),
                _ => None,
            })
            .collect();
        for name in due {
            rig.in_sync(&name);
            seen.insert(name);
        }
    }
    assert_eq!(seen.len(), 50);
}

/// A rig where `a` waits until `b` settles; a check has observed that `b` drifted.
fn waits_for_a_drifted_asset() -> Rig {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("b");
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    rig.observe("b", differs(&thing("b", 1)));
    let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall);
    verdict.delays = vec![delay(Recheck::WhenSettled(id("b")))];
    rig.step(Event::CheckDone {
        run: check.target.run,
        answer: Ok(verdict),
    });
    rig
}

#[test]
fn r16_asset_that_waits_for_a_drifted_one_is_diffed_when_that_is_repaired() {
    let mut rig = waits_for_a_drifted_asset();
    rig.pass(Duration::from_secs(60));
    assert!(!rig.is_diffing("a"), "no hot loop");
    rig.look_now("b");
    let push = rig.until_push("b", |verdict| verdict).unwrap();
    assert!(!rig.is_diffing("a"));
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    rig.in_sync("b");
    assert!(rig.is_diffing("a"));
}

#[test]
fn r16_asset_that_waits_for_a_drifted_one_is_diffed_when_that_is_in_sync_by_itself() {
    let mut rig = waits_for_a_drifted_asset();
    rig.look_now("b");
    rig.in_sync("b");
    assert!(
        rig.is_diffing("a"),
        "diffed though b never counted as unsettled"
    );
}

#[test]
fn r16_asset_found_in_sync_during_a_check_wakes_the_waiter_once() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1), thing("c", 1)]);
    rig.in_sync("b");
    rig.diffed("c", differs);
    rig.diffed("a", differs);
    rig.look_now("b");
    rig.in_sync("b");
    for again in [true, false] {
        rig.checked("a", |mut verdict| {
            verdict.delays = vec![delay(Recheck::WhenSettled(id("b")))];
            verdict
        });
        assert_eq!(rig.is_diffing("a"), again, "it was in sync meanwhile");
        if again {
            rig.diffed("a", differs);
        }
    }
}

#[test]
fn drift_is_a_cause_of_its_own() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    assert_eq!(rig.check("a").unwrap().cause, Cause::Intent);
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    assert!(rig.until_diff("a") <= Duration::from_secs(600));
    rig.diffed("a", differs);
    assert_eq!(rig.check("a").unwrap().cause, Cause::Drift, "R6: the cure");
    assert_eq!(
        rig.kernel.explain(rig.now, &id("a")).unwrap().trigger,
        Trigger::DriftScan
    );
}

#[test]
fn failures_back_off_and_only_changed_intent_cuts_that_short() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    for attempt in 0..8 {
        let target = rig.diff("a").unwrap();
        rig.step(Event::DiffDone {
            run: target.run,
            answer: Err(plugin::Error::transient("down")),
        });
        let waited = rig.until_diff("a");
        assert!(
            waited <= Duration::from_secs(1 << attempt) && waited >= Duration::from_millis(100),
            "{waited:?}"
        );
    }
    let target = rig.diff("a").unwrap();
    rig.step(Event::DiffDone {
        run: target.run,
        answer: Err(plugin::Error::permanent("no")),
    });
    rig.pass(Duration::from_secs(290));
    assert!(rig.diff("a").is_none(), "permanent: at the drift period");
    rig.publish(vec![thing("a", 2)], &[]);
    assert!(
        rig.diff("a").is_some(),
        "changed intent cuts the wait short"
    );
}

/// Pushes `a` three times without effect. A wait comes between two pushes.
fn pushed_without_effect() -> Rig {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    for nth in 1..=3 {
        let push = rig.until_push("a", |verdict| verdict).unwrap();
        rig.step(Event::PushDone {
            run: push.target.run,
            answer: Ok(Pushed::Done),
        });
        rig.diffed("a", differs);
        assert!(!rig.check_is_asked("a"), "production may show it late");
        if nth < 3 {
            let waited = rig.until_diff("a");
            let (least, most) = (Duration::from_secs(1), Duration::from_secs(4));
            assert!((least..=most).contains(&waited), "{waited:?}");
        }
    }
    rig
}

#[test]
fn r63_asset_that_does_not_converge_is_reported_once_and_not_called_failed() {
    let mut rig = pushed_without_effect();
    let status = rig.kernel.status(rig.now);
    assert_eq!(status.reasons, [(Reason::NotConverging, 1)].into());
    let explained = rig.kernel.explain(rig.now, &id("a")).unwrap();
    let Some(Waiting::NotConverging(why)) = explained.waiting else {
        panic!("{explained:?}");
    };
    assert!(why.contains("after 3 successful pushes"), "{why}");
    for _ in 0..3 {
        rig.until_diff("a");
        let push = rig.until_push("a", |verdict| verdict).unwrap();
        rig.step(Event::PushDone {
            run: push.target.run,
            answer: Ok(Pushed::Done),
        });
        rig.diffed("a", differs);
    }
    let told = |rig: &Rig| {
        let told = |it: &&Notice| matches!(it, Notice::NotConverging { .. });
        rig.notices.iter().filter(told).count()
    };
    assert_eq!(told(&rig), 1);
    rig.until_diff("a");
    rig.in_sync("a");
    assert!(rig.kernel.status(rig.now).is_as_intended());
}

#[test]
fn r63_push_whose_effect_shows_late_is_not_repeated() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    rig.diffed("a", differs);
    rig.until_diff("a");
    rig.in_sync("a");
    let told = |it: &Notice| matches!(it, Notice::NotConverging { .. });
    assert!(!rig.notices.iter().any(told));
}

#[test]
fn asset_with_the_same_change_after_three_pushes_is_slowed_down() {
    let mut rig = pushed_without_effect();
    assert_eq!(rig.kernel.branches()[&Branch::NotConverging], 1);
    let (mut pushes, start) = (0, rig.now.mono);
    while rig.now.mono.since(start) < Duration::from_secs(3600) {
        rig.until_diff("a");
        rig.diffed("a", differs);
        if rig
            .calls
            .iter()
            .any(|call| matches!(call, crate::kernel::Call::Check(_)))
        {
            rig.checked("a", |verdict| verdict);
            rig.durable();
            rig.pushed("a", Ok(Pushed::Done));
            pushes += 1;
        }
    }
    assert!((1..=13).contains(&pushes), "an hour of it: {pushes} pushes");
}

#[test]
pub(super) fn s5_without_a_lease_nothing_starts() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    rig.step(Event::Renewed(rig.now.mono));
    rig.checked("a", |verdict| verdict);
    rig.durable();
    rig.pass(Duration::from_secs(600));
    assert!(rig.push("a").is_none() && rig.diff("a").is_none());
    rig.step(Event::Renewed(Mono(u64::MAX)));
    assert!(rig.until_push("a", |verdict| verdict).is_some());
}

#[test]
fn s9_asset_that_waits_for_push_capacity_is_not_checked() {
    let mut rig = Rig::with(
        Config::default(),
        kind().pushes(1),
        vec![thing("a", 1), thing("b", 1)],
    );
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    rig.diffed("b", differs);
    assert!(rig.check("b").is_none(), "capacity comes before the checks");
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    assert!(rig.check("b").is_some());
}

#[test]
fn assets_settled_without_a_push_are_recorded_in_one_record() {
    let mut rig = Rig::new((0..20).map(|n| thing(&format!("a{n}"), 1)).collect());
    for n in 0..20 {
        rig.in_sync(&format!("a{n}"));
    }
    assert!(
        matches!(rig.records[..], [Record::Taken(_), Record::Floor(ref floor)] if floor.incarnation == rig.latest.no()),
        "{:?}",
        rig.records
    );
    let mut recovered = Recovered::nothing(seal(Some(&rig.latest), vec![thing("a3", 2)], &[]));
    recovered.floor = Some(at_floor(&rig.latest, &rig.kinds));
    let now = rig.now;
    let mut next = Rig::recover(
        Config::default(),
        vec![kind()],
        FencingToken(2),
        recovered,
        now,
    );
    assert!(next.diff("a3").is_some(), "unsettled first");
    assert!(next.calls.is_empty(), "the others over the drift period");
    next.until_diff("a1");
    next.diffed("a1", differs);
    assert_eq!(
        next.check("a1").unwrap().cause,
        Cause::Drift,
        "known to have been in sync before"
    );
}

#[test]
fn r14_late_answer_changes_nothing() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let slow = rig.diff("a").unwrap();
    rig.pass(Duration::from_secs(31));
    assert_eq!(rig.kernel.branches()[&Branch::DiffDeadline], 1);
    rig.step(Event::DiffDone {
        run: slow.run,
        answer: Ok(Diff::in_sync()),
    });
    assert_eq!(rig.kernel.branches()[&Branch::Late], 1);
    assert!(!rig.kernel.all_settled_at(rig.latest.no()));
}
