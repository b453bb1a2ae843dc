//! R21: which verdicts pass a gate, and what is asked for a verdict.

use std::{collections::BTreeMap, time::Duration};

use plugin_sdk::{
    Cause, GroupHead, HealthRequest, Judgement, Pin, Standing, SyncState, Wait, Watched,
};
use prodspec_model::{
    Asset, AssetRef,
    addons::{DependsOn, Edge, Need, RolloutPolicyRef, Turndown},
    rollout::{Canary, Emergency, OnUnhealthy, RolloutPolicy},
};

use super::{
    pins::canary,
    rig::{Idea, P, Rig, id, of_group, policy_asset, thing},
    settle::MINUTE,
};
use crate::{
    kernel::{Call, Command, Event},
    record::State,
};

/// A canary that has settled and baked, and waits only for a verdict.
fn baked(health: Result<Judgement, String>) -> Rig {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.lag = Some(Duration::from_secs(1));
    rig.health = health;
    rig.pass(15 * MINUTE);
    rig
}

#[test]
pub(super) fn r21_an_old_verdict_passes_no_gate() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.lag = Some(Duration::from_secs(1));
    rig.evidence = 8 * MINUTE;
    rig.pass(15 * MINUTE);
    assert_eq!(rig.at(2), ["a"]);
    rig.pass(4 * MINUTE);
    assert_eq!(rig.at(2), ["a", "b"]);
}

#[test]
pub(super) fn r21_unknown_health_holds_and_is_flagged() {
    let mut rig = baked(Ok(Judgement::Unknown));
    assert_eq!(rig.at(2), ["a"]);
    let flagged = |rig: &Rig| {
        rig.plane
            .newest()
            .unwrap()
            .history
            .iter()
            .filter(|entry| entry.what.contains("unknown for too long"))
            .count()
    };
    assert_eq!(flagged(&rig), 1);
    rig.pass(60 * MINUTE);
    assert_eq!((rig.at(2), flagged(&rig)), (vec!["a"], 1));
    // The checks continue at their interval, not more often.
    assert!(rig.judged < 200, "{}", rig.judged);
    rig.health = Ok(Judgement::Healthy);
    rig.pass(2 * MINUTE);
    assert_eq!(rig.head(), Some(2));
}

#[test]
fn r63_view_says_that_unknown_health_awaits_a_person_and_why() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.lag = Some(Duration::from_secs(1));
    rig.health = Err("0 of at least 20 events".to_owned());
    rig.pass(Duration::from_secs(610));
    let view = rig.kernel.view(rig.now);
    let says = |wait: &Wait| wait.why.contains("0 of at least 20 events");
    assert!(view.waits.iter().any(says), "{:?}", view.waits);
    assert_eq!(view.awaits_person, None, "it is not flagged yet");
    rig.pass(60 * MINUTE);
    let view = rig.kernel.view(rig.now);
    let why = view.awaits_person.clone().unwrap();
    assert!(why.contains("0 of at least 20 events"), "{why}");
    assert!(why.contains("promote it or roll it back"), "{why}");
    assert!(!view.is_on_hold());
    rig.health = Ok(Judgement::Healthy);
    rig.pass(2 * MINUTE);
    assert_eq!(rig.kernel.view(rig.now).awaits_person, None);
}

#[test]
pub(super) fn r21_failed_health_check_counts_as_unknown() {
    let rig = baked(Err("no answer in time".to_owned()));
    assert_eq!(rig.at(2), ["a"]);
    let health = rig.plane.newest().unwrap().health.clone().unwrap();
    assert_eq!(health.judgement, Judgement::Unknown);
    assert!(health.findings[0].summary.contains("no answer in time"));
}

#[test]
pub(super) fn r21_promotion_passes_unknown_health_and_is_audited() {
    let mut rig = baked(Ok(Judgement::Unknown));
    rig.tell(Command::Promote).unwrap();
    assert_eq!(rig.at(2), ["a", "b"]);
    let history = &rig.plane.newest().unwrap().history;
    assert!(
        history
            .iter()
            .any(|entry| entry.what == "promoted" && entry.by == Some(super::rig::by()))
    );
    // The promotion covers only targets that had settled by then.
    rig.pass(20 * MINUTE);
    assert_eq!(rig.state(), &State::Running);
}

/// R21: promotions go by the order of stored settlings, not by the clocks of two owners.
#[test]
fn r21_promotion_does_not_cover_later_settlings_under_a_slow_clock() {
    let two = RolloutPolicy {
        canary: Some(Canary {
            count: 2,
            bake_secs: 600,
        }),
        ..RolloutPolicy::default()
    };
    let mut rig = Rig::begun(two, &["a", "b", "c"]);
    rig.settle("a");
    rig.pass(MINUTE);
    rig.tell(Command::Promote).unwrap();
    rig.now.wall -= 60 * MINUTE;
    rig.plane.now = rig.now.wall;
    rig.crash();
    rig.run();
    rig.settle("b");
    assert_eq!(rig.at(2), ["a", "b"], "`b` has settled after the promotion");
    rig.tell(Command::Promote).unwrap();
    assert_eq!(rig.at(2), ["a", "b", "c"]);
    rig.crash();
    rig.run();
    assert_eq!(rig.plane.newest().unwrap().promoted, Some(2));
}

#[test]
fn r21_health_is_checked_when_the_bake_ends_and_soon_again() {
    let short = RolloutPolicy {
        canary: Some(Canary {
            count: 1,
            bake_secs: 5,
        }),
        ..RolloutPolicy::default()
    };
    let mut rig = Rig::begun(short, &["a", "b"]);
    rig.evidence = Duration::from_secs(2);
    rig.settle("a");
    rig.pass(Duration::from_secs(4));
    assert_eq!(rig.at(2), ["a"]);
    rig.pass(Duration::from_secs(5));
    assert_eq!(rig.at(2), ["a", "b"]);
    assert!(rig.judged < 5, "{}", rig.judged);
}

#[test]
fn r21_no_target_settles_in_the_future_after_a_restart() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.pass(Duration::from_secs(50));
    rig.settle("a");
    rig.crash();
    let view = rig.view();
    assert_eq!(view.targets[0].settled(), Some(view.now));
}

#[test]
pub(super) fn r21_restart_under_a_fast_clock_does_not_shorten_a_bake() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.settle("a");
    for _ in 0..3 {
        rig.pass(3 * MINUTE);
        rig.now.wall += 60 * MINUTE;
        rig.plane.now = rig.now.wall;
        rig.crash();
        rig.run();
    }
    assert_eq!(rig.at(2), ["a"], "nine minutes of ten");
    // Each restart loses at most a minute.
    rig.pass(5 * MINUTE);
    assert_eq!(rig.at(2), ["a", "b"]);
}

#[test]
pub(super) fn r21_unhealthy_verdict_stops_or_rolls_back_as_the_policy_says() {
    let stop = RolloutPolicy {
        on_unhealthy: OnUnhealthy::Stop,
        ..canary()
    };
    for (policy, ends) in [(canary(), "rolled back"), (stop, "stopped")] {
        let mut rig = Rig::begun(policy, &["a", "b"]);
        rig.lag = Some(Duration::from_secs(1));
        rig.health = Ok(Judgement::Unhealthy);
        rig.pass(5 * MINUTE);
        assert_eq!(rig.state().word(), ends);
        assert!(rig.state().why().unwrap().contains("toy: it says so"));
        assert_eq!(rig.plane.quarantine.len(), 2);
    }
}

#[test]
pub(super) fn r21_an_unhealthy_push_fails_the_rollout() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.plane.fail_push(&id("a"));
    rig.run();
    assert_eq!(rig.state().word(), "rolling back");
    assert!(
        rig.state()
            .why()
            .unwrap()
            .contains("`a` is unhealthy: it crashes")
    );
}

#[test]
pub(super) fn r21_unhealthy_push_after_an_abort_changes_nothing() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.tell(Command::Abort).unwrap();
    rig.plane.fail_push(&id("a"));
    rig.run();
    assert_eq!((rig.state().word(), rig.at(2)), ("stopped", vec!["a"]));
}

pub(super) fn names(watched: &[Watched]) -> Vec<&str> {
    watched.iter().map(|it| it.asset.as_str()).collect()
}

/// Returns the next request for a verdict.
pub(super) fn next_question(rig: &mut Rig) -> HealthRequest {
    for _ in 0..100 {
        let due = rig.kernel.next_wake().unwrap();
        rig.to(due);
        rig.step(Event::Tick);
        let asked = rig.calls.iter().find_map(|call| match call {
            Call::Judge(_, request) => Some((**request).clone()),
            Call::Select(..) => None,
        });
        if let Some(asked) = asked {
            return asked;
        }
        rig.run();
    }
    panic!("no verdict is asked for");
}

#[test]
pub(super) fn r21_health_is_checked_for_updated_targets_and_neighbours() {
    let mut rig = Rig::begun(canary(), &["eu/a", "eu/b", "us/c"]);
    rig.settle("eu/a");
    let request = next_question(&mut rig);
    assert_eq!(names(&request.updated), ["eu/a"]);
    assert_eq!(names(&request.neighbours), ["eu/b"]);
    assert!(request.began.is_some_and(|began| began < rig.now.wall));
}

pub(super) fn turned_down(policy: Option<&str>, name: &str, size: u64) -> Asset {
    let asset = of_group(policy, name, size).addon(&Turndown {
        reason: "a test".into(),
        approved_by: "me".into(),
    });
    asset.unwrap().build().unwrap()
}

#[test]
fn r21_assets_without_signals_are_not_checked() {
    let assets = vec![thing("eu/a", 1), thing("eu/b", 1), thing("eu/d", 1)];
    let mut rig = Rig::settled(canary(), assets);
    rig.lag = None;
    // `c` is new: it is not in production yet, so it cannot be affected.
    let assets = vec![thing("eu/a", 2), thing("eu/b", 2), thing("eu/c", 2)];
    rig.put([assets, vec![turned_down(Some(P), "eu/d", 2)]].concat());
    rig.run();
    rig.settle("eu/a");
    let request = next_question(&mut rig);
    assert_eq!(names(&request.neighbours), ["eu/b", "eu/d"]);
    rig.tell(Command::Promote).unwrap();
    rig.run();
    rig.settle("eu/d");
    let request = next_question(&mut rig);
    assert_eq!(names(&request.updated), ["eu/a"]);
    assert_eq!(names(&request.under_way), ["eu/b", "eu/c"]);
}

#[test]
fn r21_neighbours_outside_the_group_are_checked_where_they_are() {
    let needs = |name: &str, size, provider: &str| {
        let need = |to: &str| Edge {
            provider: AssetRef::to(id(to)),
            need: Need::Version,
        };
        let edges = vec![need(provider), need("theirs")];
        let asset = of_group(Some(P), name, size).addon(&DependsOn { edges });
        asset.unwrap().build().unwrap()
    };
    let free = |size| of_group(None, "free", size).build().unwrap();
    let theirs = || of_group(Some("policy/q"), "theirs", 1).build().unwrap();
    let mut rig = Rig::settled(canary(), vec![thing("a", 1)]);
    rig.lag = None;
    // `free` came after the group's head; the group of `theirs` has completed no rollout yet.
    rig.put(vec![free(1), theirs()]);
    rig.run();
    rig.put(vec![needs("a", 2, "free")]);
    rig.run();
    rig.settle("a");
    let asks = |rig: &mut Rig| {
        let request = next_question(rig);
        rig.run();
        let all = request.neighbours.iter();
        all.map(|it| it.asset.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(asks(&mut rig), ["free"]);
    // The next checks take in a newer head and a newer incarnation.
    let head = GroupHead::At(rig.plane.latest.clone());
    let heads = BTreeMap::from([(id("policy/q"), head)]);
    rig.step(Event::Heads(heads.into()));
    assert_eq!(asks(&mut rig), ["free", "theirs"]);
    rig.put(vec![turned_down(None, "free", 2)]);
    rig.run();
    assert_eq!(asks(&mut rig), ["theirs"]);
}

#[test]
fn r21_neighbour_that_is_pinned_meanwhile_is_checked_where_it_is() {
    let mut rig = Rig::begun(canary(), &["eu/a", "eu/b"]);
    rig.settle("eu/a");
    assert_eq!(names(&next_question(&mut rig).neighbours), ["eu/b"]);
    rig.run();
    let since = rig.now.wall;
    let standing = Standing::at(Pin::NotYet, None, SyncState::InSync { since });
    rig.step(Event::Standings(vec![(id("eu/b"), standing)]));
    assert_eq!(next_question(&mut rig).neighbours, []);
}

#[test]
fn r21_neighbour_at_an_incarnation_that_is_not_loaded_any_more_counts_as_the_rollout_says() {
    let first = vec![thing("eu/a", 1), thing("eu/b", 1)];
    let mut rig = Rig::settled(canary(), first);
    rig.lag = None;
    rig.put(vec![thing("eu/a", 2), turned_down(Some(P), "eu/b", 2)]);
    rig.run();
    rig.settle("eu/a");
    let newest = rig.put(vec![thing("eu/b", 3)]);
    rig.run();
    let (pin, since) = (Pin::At(newest, Cause::Intent), rig.now.wall);
    let standing = Standing::at(pin, None, SyncState::InSync { since });
    rig.step(Event::Standings(vec![(id("eu/b"), standing)]));
    assert_eq!(names(&next_question(&mut rig).neighbours), ["eu/b"]);
    rig.run();
    rig.put(vec![thing("eu/a", 3)]);
    rig.run();
    assert_eq!(next_question(&mut rig).neighbours, []);
}

/// What the failed rollout broke is older than the first move of the rollout that fixes it.
#[test]
fn r21_a_fix_and_an_emergency_are_not_condemned_by_an_older_outage() {
    let word = Emergency {
        who: "me".into(),
        why: "it burns".into(),
    };
    for emergency in [None, Some(word)] {
        let mut rig = Rig::begun(canary(), &["a", "b"]);
        let first = rig.now.wall;
        rig.pass(5 * MINUTE);
        rig.tell(Command::Abort).unwrap();
        rig.pass(5 * MINUTE);
        let policy = RolloutPolicy {
            emergency,
            ..canary()
        };
        let fix = vec![thing("a", 3), thing("b", 3), policy_asset(&policy)];
        rig.put(fix);
        rig.run();
        let moved = rig.now.wall;
        assert_eq!((rig.rollouts(), rig.at(3)[0]), (3, "a"));
        rig.pass(MINUTE);
        rig.settle("a");
        let began = next_question(&mut rig).began;
        assert_eq!((began, first < moved), (Some(moved), true));
    }
}

#[test]
fn r21_health_is_checked_during_a_pause() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.settle("a");
    rig.tell(Command::Pause).unwrap();
    rig.health = Ok(Judgement::Unhealthy);
    rig.pass(5 * MINUTE);
    assert_eq!((rig.state().word(), rig.at(1)), ("rolling back", vec!["a"]));
}

#[test]
fn r21_asset_without_signals_is_no_canary() {
    let idea = |size| {
        let asset = Asset::builder(id("a")).payload(&Idea { size }).unwrap();
        let policy = AssetRef::to(id(P));
        let asset = asset.addon(&RolloutPolicyRef { policy }).unwrap();
        asset.build().unwrap()
    };
    let mut rig = Rig::settled(canary(), vec![idea(1), thing("b", 1), thing("c", 1)]);
    rig.lag = None;
    rig.put(vec![idea(2), thing("b", 2), thing("c", 2)]);
    rig.run();
    assert_eq!(rig.at(2), ["b"]);
}

#[test]
fn r21_evidence_of_each_asset_counts_since_its_own_settling() {
    let mut rig = Rig::begun(RolloutPolicy::default(), &["a", "b", "c"]);
    rig.settle("a");
    let since = |request: &HealthRequest| request.updated.iter().map(|it| it.since).collect();
    let before: Vec<_> = since(&next_question(&mut rig));
    rig.answer();
    rig.pass(MINUTE);
    rig.settle("b");
    let after: Vec<_> = since(&next_question(&mut rig));
    assert_eq!((after[0], after.len()), (before[0], 2));
    assert!(after[1] > after[0]);
}

#[test]
pub(super) fn r21_first_turnup_is_judged_only_if_gradual() {
    let mut rig = Rig::new(canary(), vec![thing("a", 1), thing("b", 1)]);
    rig.health = Ok(Judgement::Unhealthy);
    rig.pass(20 * MINUTE);
    assert_eq!((rig.judged, rig.state()), (0, &State::Completed));
    let gradual = RolloutPolicy {
        first_turnup: prodspec_model::rollout::FirstTurnup::Gradual,
        ..canary()
    };
    let mut rig = Rig::new(gradual, vec![thing("a", 1), thing("b", 1)]);
    rig.pass(5 * MINUTE);
    assert_eq!((rig.judged > 0, rig.at(1)), (true, vec!["a"]));
}

#[test]
fn r21_settled_targets_are_separated_from_targets_under_way() {
    let mut rig = Rig::begun(RolloutPolicy::default(), &["a", "b", "c"]);
    rig.settle("a");
    rig.settle("c");
    rig.plane.drift(&id("c"));
    rig.run();
    let request = next_question(&mut rig);
    assert_eq!(names(&request.updated), ["a"]);
    assert_eq!(names(&request.under_way), ["b", "c"]);
}

#[test]
fn r21_an_old_verdict_does_not_survive_a_restart() {
    let mut rig = Rig::begun(canary(), &["a", "b"]);
    rig.settle("a");
    rig.pass(5 * MINUTE);
    let known = |rig: &Rig| rig.plane.newest().unwrap().health.is_some();
    assert!(known(&rig));
    rig.crash();
    let asked = rig.calls.iter().find_map(|call| match call {
        Call::Select(_, request) => Some(request.health.clone()),
        Call::Judge(..) => None,
    });
    assert_eq!(asked, Some(None), "health has to be checked again");
}
