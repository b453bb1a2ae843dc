//! Policies that are checks: a verdict from before an edit of one admits nothing, and assets that wait for one look again at once.

use std::time::Duration;

use control_plane_store::records::Approval;
use plugin_sdk::{AWAITS_APPROVAL, By, Delay, Recheck, Verdict};
use prodspec_model::{Asset, Digest, Message, policy::FreezePolicy};
use serde_json::json;

use super::rig::{Rig, delay, destroys, differs, id, thing};
use crate::kernel::Command;

/// A freeze of nothing; the rig's check does not read it.
fn freeze(why: &str) -> Asset {
    let written =
        json!({"of": {"ids": ["none"]}, "from": "2026-01-01", "until": "2026-02-01", "why": why});
    let policy: FreezePolicy = serde_json::from_value(written).unwrap();
    assert_eq!(FreezePolicy::TYPE, "prodspec.v1.FreezePolicy");
    let asset = Asset::builder(id("freeze/peak")).payload(&policy).unwrap();
    asset.build().unwrap()
}

/// A verdict that waits for a policy for an hour.
fn waits_for(check: &str, mut verdict: Verdict) -> Verdict {
    let wait = Recheck::After(Duration::from_secs(3600));
    verdict.delays = vec![Delay::new("not now", wait).check(check)];
    verdict
}

/// A verdict that waits for one more approval.
fn needs_approval(mut verdict: Verdict) -> Verdict {
    let wait = delay(Recheck::After(Duration::from_secs(3600)));
    verdict.delays = vec![wait.because(json!({AWAITS_APPROVAL: 1}))];
    verdict
}

fn approve(rig: &mut Rig, change: Digest, who: &str) -> Result<(), String> {
    rig.try_say(Command::Approve {
        asset: id("a"),
        change,
        until: None,
        by: By::new(who, "looked at it"),
    })
}

/// The names of the people whose approvals were handed to a check.
fn people(rig: &mut Rig) -> (Digest, Vec<String>) {
    let call = rig.check("a").expect("a check is called");
    let by = call.approvals.iter().map(|it| it.by.to_string());
    let found = (call.change.digest, by.collect());
    rig.calls.push(crate::kernel::Call::Check(call));
    found
}

/// The approvals in force, by the records.
fn in_force(rig: &Rig) -> Vec<Approval> {
    let all = rig.words().approvals.into_iter();
    all.filter(|it| it.replaced.is_none()).collect()
}

#[test]
fn verdict_from_before_a_freeze_admits_nothing() {
    for edit in [
        (vec![freeze("peak")], &[][..]),
        (vec![], &["freeze/peak"][..]),
    ] {
        let mut rig = Rig::new(vec![thing("a", 1)]);
        if edit.0.is_empty() {
            rig.publish(vec![freeze("old")], &[]);
        }
        rig.diffed("a", differs);
        rig.publish(edit.0, edit.1);
        rig.checked("a", |verdict| verdict);
        rig.durable();
        assert!(rig.push("a").is_none(), "the check had read older policies");
        rig.until_diff("a");
        assert!(rig.until_push("a", |verdict| verdict).is_some());
    }
}

#[test]
fn other_edits_and_later_checks_are_not_held_up() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.publish(vec![freeze("peak")], &[]);
    rig.diffed("a", differs);
    rig.publish(vec![thing("b", 2)], &[]);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_some(), "no policy was edited");
}

#[test]
fn edit_of_a_policy_wakes_only_the_assets_that_wait_for_it() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.publish(vec![freeze("peak")], &[]);
    for (name, check) in [
        ("a", "policies/freeze/peak"),
        ("b", "policies/freeze/other"),
    ] {
        rig.diffed(name, differs);
        rig.checked(name, |verdict| waits_for(check, verdict));
    }
    rig.publish(vec![freeze("longer")], &[]);
    rig.pass(Duration::from_millis(1));
    assert!(rig.is_diffing("a"), "its policy was edited");
    assert!(!rig.is_diffing("b"), "it waits for another");
}

#[test]
fn r110_every_person_is_handed_to_the_check_once() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let (change, none) = people(&mut rig);
    assert!(none.is_empty());
    rig.checked("a", needs_approval);
    for who in ["ada", "bo", "ada"] {
        approve(&mut rig, change, who).unwrap();
    }
    rig.until_diff("a");
    rig.diffed("a", differs);
    assert_eq!(people(&mut rig).1, ["ada", "bo"]);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_some());
}

#[test]
fn r110_approvals_end_when_the_asset_settles() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let (change, _) = people(&mut rig);
    rig.checked("a", needs_approval);
    approve(&mut rig, change, "ada").unwrap();
    assert_eq!(in_force(&rig).len(), 1);
    rig.until_diff("a");
    rig.in_sync("a");
    assert_eq!(in_force(&rig).len(), 0);
    let ended = &rig.words().approvals[0];
    assert!(ended.replaced.as_ref().unwrap().by.why.contains("settled"));
    rig.look_now("a");
    rig.diffed("a", differs);
    assert!(
        people(&mut rig).1.is_empty(),
        "the same change needs them again"
    );
}

#[test]
fn r110_without_a_policy_that_waits_an_approval_is_refused() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    let (change, _) = people(&mut rig);
    rig.checked("a", |verdict| waits_for("calendar", verdict));
    let why = approve(&mut rig, change, "ada").unwrap_err();
    assert!(why.contains("needs no approval"), "{why}");
}

#[test]
fn r12_a_destructive_push_spends_the_approvals_of_all_people() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", destroys);
    let (change, _) = people(&mut rig);
    rig.checked("a", |verdict| verdict);
    approve(&mut rig, change, "ada").unwrap();
    approve(&mut rig, change, "bo").unwrap();
    rig.until_diff("a");
    rig.diffed("a", destroys);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    assert!(rig.push("a").is_some());
    let left = rig.words().approvals.into_iter();
    let left: Vec<_> = left.filter(|it| it.holds(rig.now.wall)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Makes assets wait for approvals of their changes.
fn wait_for_approvals(rig: &mut Rig, names: &[&str]) {
    for name in names {
        rig.diffed(name, differs);
        rig.checked(name, needs_approval);
    }
}

fn approve_set(rig: &mut Rig, (set, size): (Digest, usize)) -> Result<(), String> {
    rig.try_say(Command::ApproveSet {
        set,
        size,
        until: None,
        by: By::new("ada", "looked at all of them"),
    })
}

#[test]
fn r110_set_of_equal_changes_is_approved_by_one_command() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1), thing("c", 1)]);
    wait_for_approvals(&mut rig, &["a", "b"]);
    rig.diffed("c", destroys);
    rig.checked("c", needs_approval);
    let sets = rig.kernel.awaiting_approval(rig.now);
    let sizes: Vec<usize> = sets.iter().map(|it| it.members.len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 3);
    let two = sets.iter().find(|it| it.members.len() == 2).unwrap();
    approve_set(&mut rig, (two.digest, 2)).unwrap();
    let approved = in_force(&rig);
    let given: Vec<_> = approved
        .iter()
        .map(|it| (it.asset.as_str(), &*it.by.who))
        .collect();
    assert_eq!(given, [("a", "ada"), ("b", "ada")]);
    assert!(rig.is_diffing("a") && rig.is_diffing("b"));
}

#[test]
fn r110_set_that_has_changed_since_it_was_shown_is_refused() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    wait_for_approvals(&mut rig, &["a"]);
    let shown = rig.kernel.awaiting_approval(rig.now)[0].digest;
    assert!(
        approve_set(&mut rig, (shown, 2)).is_err(),
        "the size differs"
    );
    wait_for_approvals(&mut rig, &["b"]);
    let why = approve_set(&mut rig, (shown, 1)).unwrap_err();
    assert!(why.contains("(2 of test)"), "{why}");
    assert!(in_force(&rig).is_empty());
}

#[test]
fn r110_approval_before_the_rollout_moves_lets_its_next_selection_ask_again() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    let (at, cause) = (rig.latest.clone(), plugin_sdk::Cause::Intent);
    let asset = at.asset(&id("a")).unwrap();
    let change = plugin_sdk::Change::new(&asset, "make it so", vec![], Default::default());
    let ask = |rig: &mut Rig| {
        let now = rig.now.mono;
        rig.kernel.ask_ahead(now, (&at, cause), vec![id("a")])
    };
    assert_eq!(ask(&mut rig), [id("a")]);
    let found = std::sync::Arc::new(change.clone());
    let verdict = needs_approval(Verdict::proceed(rig.now.wall));
    let now = rig.now;
    rig.kernel
        .checked_ahead(now, &asset, cause, (found, verdict), at.no());
    assert_eq!(ask(&mut rig), []);
    assert_eq!(rig.kernel.awaiting_approval(rig.now).len(), 1);
    approve(&mut rig, change.digest, "ada").unwrap();
    assert_eq!(ask(&mut rig), [id("a")]);
    // The check runs; a second person is as quick.
    approve(&mut rig, change.digest, "bo").unwrap();
    assert_eq!(in_force(&rig).len(), 2);
}

#[test]
fn delay_of_a_policy_that_is_gone_meanwhile_is_not_waited_for() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.publish(vec![freeze("peak")], &[]);
    rig.diffed("a", differs);
    let far = rig.now.wall + Duration::from_secs(1_000_000);
    rig.publish(vec![], &["freeze/peak"]);
    rig.checked("a", |mut verdict| {
        let delay = Delay::new("frozen", Recheck::At(far));
        verdict.delays = vec![delay.check("policies/freeze/peak")];
        verdict
    });
    rig.until_diff("a");
    rig.diffed("a", differs);
    assert!(rig.check_is_asked("a"), "the policies are read again");
}

#[test]
fn asset_that_is_looked_at_while_it_sleeps_is_woken_by_an_edit_too() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.publish(vec![freeze("peak")], &[]);
    rig.diffed("a", differs);
    let far = rig.now.wall + Duration::from_secs(1_000_000);
    rig.checked("a", |mut verdict| {
        let delay = Delay::new("frozen", Recheck::At(far));
        verdict.delays = vec![delay.check("policies/freeze/peak")];
        verdict
    });
    rig.until_diff("a");
    rig.publish(vec![], &["freeze/peak"]);
    rig.diffed("a", differs);
    rig.until_diff("a");
    rig.diffed("a", differs);
    assert!(rig.check_is_asked("a"));
}

#[test]
fn verdict_on_a_push_ahead_from_before_an_edit_is_not_used_again() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    let (at, cause) = (rig.latest.clone(), plugin_sdk::Cause::Intent);
    let asset = at.asset(&id("a")).unwrap();
    let change = plugin_sdk::Change::new(&asset, "make it so", vec![], Default::default());
    let now = rig.now;
    rig.publish(vec![freeze("peak")], &[]);
    let verdict = waits_for("policies/other", Verdict::proceed(now.wall));
    let found = (std::sync::Arc::new(change), verdict);
    rig.kernel.checked_ahead(now, &asset, cause, found, at.no());
    let asked = rig.kernel.ask_ahead(now.mono, (&at, cause), vec![id("a")]);
    assert_eq!(asked, [id("a")]);
}

#[test]
fn edit_of_a_rate_wakes_the_assets_that_sleep_for_their_turn() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.publish(vec![freeze("peak")], &[]);
    let rate = |every| {
        let quota = plugin_sdk::Quota::new(1, Duration::from_secs(every));
        plugin_sdk::Claim::Rate("policies/freeze/peak/all".into(), quota)
    };
    for name in ["a", "b"] {
        rig.diffed(name, differs);
        rig.checked(name, |verdict| verdict.claim(rate(100_000)));
        rig.durable();
    }
    assert!(rig.push("a").is_some() && rig.push("b").is_none());
    rig.publish(vec![freeze("faster")], &[]);
    let mut waited = Duration::ZERO;
    while rig.push("b").is_none() {
        waited += rig.until_diff("b");
        assert!(waited < Duration::from_secs(5), "the old turn is over");
        rig.diffed("b", differs);
        rig.checked("b", |verdict| verdict.claim(rate(1)));
        rig.durable();
    }
}
