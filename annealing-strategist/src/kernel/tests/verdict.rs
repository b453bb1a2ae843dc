//! R21: the stored verdicts of a rollout are complete enough to look up, and small enough to store.

use std::time::Duration;

use control_plane_store::limit;
use jiff::Timestamp;
use plugin_sdk::{Finding, Health, Judgement};
use prodspec_model::rollout::RolloutPolicy;

use super::{
    pins::canary,
    rig::{Rig, thing},
};
use crate::record::{By, Entry, Rollout, State};

const DEADLINE: Duration = Duration::from_secs(600);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns a verdict with as many findings as a large rollout has, each with its evidence.
fn verdict(judgement: Judgement, of: usize) -> Health {
    let finding = |n: usize| {
        let judgement = if n == of / 2 {
            judgement
        } else {
            Judgement::Healthy
        };
        let summary = format!("asset/{n}: {}", "0.5 instead of at most 0.1 ".repeat(40));
        Finding::new(judgement, summary)
            .validator("errors")
            .because(serde_json::json!({ "samples": vec![n; [100, 1000][n % 2]] }))
    };
    let mut health = Health::healthy(at(1));
    health.judgement = judgement;
    health.findings = (0..of).map(finding).collect();
    health
}

fn rollout() -> Rollout {
    let rig = Rig::begun(RolloutPolicy::default(), &["a"]);
    rig.plane.newest().unwrap().clone()
}

#[test]
fn r21_rollout_record_stays_small_with_any_verdicts() {
    let mut rollout = rollout();
    let long = "\u{1}".repeat(5000);
    for second in 0..300 {
        let judgement = [Judgement::Unhealthy, Judgement::Unknown][second % 2];
        let mut health = verdict(judgement, 2000);
        health.findings[1000].summary = long.clone();
        rollout.watched = Duration::from_secs(second as u64);
        rollout.hear(at(second as i64), health, DEADLINE);
        let by = By::new(long.clone(), long.clone());
        rollout.note(at(second as i64), long.clone(), Some(by));
    }
    let written = serde_json::to_vec(&rollout).unwrap().len();
    assert!(written < limit::VALUE, "{written}");
}

#[test]
fn r21_the_worst_findings_are_kept_with_their_evidence() {
    let mut rollout = rollout();
    let mut bad = verdict(Judgement::Unhealthy, 2000);
    let worst = bad.findings[1000].clone();
    bad.findings[1000].summary = "it fails".to_owned();
    rollout.hear(at(1), verdict(Judgement::Healthy, 2000), DEADLINE);
    rollout.hear(at(2), bad, DEADLINE);
    let kept = &rollout.health.as_ref().unwrap().findings[0];
    assert_eq!(
        (kept.summary.as_str(), &kept.evidence),
        ("it fails", &worst.evidence)
    );
    let judgements = rollout.verdicts.iter().map(|health| health.judgement);
    assert_eq!(
        judgements.collect::<Vec<_>>(),
        [Judgement::Healthy, Judgement::Unhealthy]
    );
}

#[test]
fn r21_reason_names_five_findings_and_counts_the_rest() {
    let mut rig = Rig::settled(canary(), vec![thing("a", 1)]);
    let mut all = verdict(Judgement::Unhealthy, 1000);
    for finding in &mut all.findings {
        finding.judgement = Judgement::Unhealthy;
        finding.summary = "bad".to_owned();
    }
    let said = super::super::state::verdict::reasons(&all);
    assert!(said.ends_with("errors: bad; and 995 more"), "{said}");
    rig.put(vec![thing("a", 2)]);
    rig.health = Ok(Judgement::Unhealthy);
    rig.pass(Duration::from_secs(3600));
    let State::RolledBack { why } = rig.state() else {
        panic!("{:?}", rig.state())
    };
    assert!(why.len() <= 1000);
}

#[test]
fn r21_unknown_health_is_flagged_once_each_time_it_lasts() {
    let mut rollout = rollout();
    let flags = |rollout: &Rollout| {
        let flag = |what: &str| what.starts_with("health has been unknown");
        rollout
            .history
            .iter()
            .filter(|entry| flag(&entry.what))
            .count()
    };
    for (second, judgement) in [
        (0, Judgement::Unknown),
        (700, Judgement::Unknown),
        (800, Judgement::Unknown),
        (900, Judgement::Healthy),
        (1000, Judgement::Unknown),
        (1500, Judgement::Unknown),
    ] {
        rollout.watched = Duration::from_secs(second as u64);
        rollout.hear(at(second), verdict(judgement, 1), DEADLINE);
    }
    assert_eq!(flags(&rollout), 1);
    rollout.watched = Duration::from_secs(1700);
    rollout.hear(at(1700), verdict(Judgement::Unknown, 1), DEADLINE);
    assert_eq!(flags(&rollout), 2);
}

#[test]
fn r21_worst_finding_keeps_large_evidence() {
    let mut rollout = rollout();
    let mut bad = verdict(Judgement::Unhealthy, 50);
    bad.findings[25].evidence = serde_json::json!({ "samples": vec![1.5; 3000] });
    let worst = bad.findings[25].evidence.clone();
    rollout.hear(at(1), bad, DEADLINE);
    assert_eq!(rollout.verdicts[0].findings[0].evidence, worst);
}

#[test]
fn r21_entries_of_operators_are_kept_longest() {
    let mut rollout = rollout();
    rollout.note(at(1), "promoted", Some(By::new("me", "seen")));
    for second in 2..500 {
        rollout.note(at(second), "healthy", None);
    }
    assert_eq!(rollout.history[0].what, "promoted");
    for second in 500..1000 {
        let by = By::new("me", second.to_string());
        rollout.note(at(second), "paused", Some(by));
    }
    rollout.note(at(1000), "completed", None);
    assert_eq!(rollout.history.len(), 100);
    let said = |entry: &Entry| entry.what == "promoted";
    assert!(!rollout.history.iter().any(said));
    assert_eq!(rollout.history[99].what, "completed");
}
