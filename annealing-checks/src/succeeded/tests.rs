use std::time::Duration;

use plugin_sdk::{
    CheckPlugin, CheckRequest, Verdict,
    operation::RunEnd,
    testing::{self, FakeRuns, NOW},
};
use prodspec_model::{Asset, addons::Turndown};

use super::Succeeded;

fn turned_down(id: &str) -> Asset {
    let (reason, approved_by) = ("old".into(), "ann".into());
    let addon = Turndown {
        reason,
        approved_by,
    };
    let asset = testing::asset(id).edit().addon(&addon).unwrap();
    asset.build().unwrap()
}

async fn check(check: &Succeeded, request: &CheckRequest) -> Verdict {
    check.check(request.clone()).await.unwrap()
}

fn why(verdict: &Verdict) -> &str {
    &verdict.delays[0].reason
}

#[tokio::test]
async fn r40_turndown_waits_for_the_run_of_this_very_change() {
    let runs = FakeRuns::new(NOW);
    let backup = Succeeded::new("backup", "backup", runs.clone());
    let request = testing::check_request(&turned_down("db"));
    let verdict = check(&backup, &request).await;
    assert_eq!(why(&verdict), "backup-0000000001 has not ended");
    let joins = runs.joins();
    assert_eq!(joins[0].content, request.change.digest);
    assert_eq!(joins[0].start.input["asset"], "db");
    assert!(!check(&backup, &request).await.delays.is_empty());
    assert_eq!(runs.joins().len(), 1, "it runs once");
    runs.end(RunEnd::Succeeded);
    assert!(check(&backup, &request).await.delays.is_empty());

    // Another change of the same asset, and the same change an hour later, need another run.
    let mut other = request.clone();
    std::sync::Arc::make_mut(&mut other.change).digest = prodspec_model::Digest::of(b"other");
    assert!(!check(&backup, &other).await.delays.is_empty());
    assert_eq!(runs.joins().len(), 2);
    runs.end(RunEnd::Succeeded);
    runs.set_time(NOW + Duration::from_secs(3600));
    assert!(!check(&backup, &request).await.delays.is_empty());
    assert_eq!(runs.joins().len(), 3);
}

#[tokio::test]
async fn r32_runs_have_the_labels_of_the_check() {
    let runs = FakeRuns::new(NOW);
    let backup = Succeeded::new("backup", "backup", runs.clone());
    let backup = backup.label("app", "shop").label("size", "big");
    check(&backup, &testing::check_request(&turned_down("db"))).await;
    let joins = runs.joins();
    let labels = joins[0].start.labels.iter();
    let labels: Vec<_> = labels.map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(labels, [("app", "shop"), ("size", "big")]);
}

/// A run that takes longer than it counts is not followed by another one.
#[tokio::test]
async fn r40_long_run_counts_from_its_end() {
    let runs = FakeRuns::new(NOW);
    let backup = Succeeded::new("backup", "backup", runs.clone());
    let request = testing::check_request(&turned_down("db"));
    let later = |hours| NOW + Duration::from_secs(hours * 3600);
    for (n, end) in [RunEnd::Failed("failed".to_owned()), RunEnd::Succeeded]
        .into_iter()
        .enumerate()
    {
        check(&backup, &request).await;
        assert_eq!(runs.joins().len(), n + 1);
        runs.set_time(later(3 * (n as u64 + 1)));
        runs.end(end);
        let verdict = check(&backup, &request).await;
        assert_eq!(verdict.delays.is_empty(), n == 1, "{verdict:?}");
        assert_eq!(runs.joins().len(), n + 1, "it counts for an hour");
        runs.set_time(later(3 * (n as u64 + 1) + 1));
    }
    assert!(!check(&backup, &request).await.delays.is_empty());
    assert_eq!(runs.joins().len(), 3);
}

#[tokio::test]
async fn r40_failed_run_delays_the_change_until_it_is_restarted_or_old() {
    let runs = FakeRuns::new(NOW);
    let backup = Succeeded::new("backup", "backup", runs.clone());
    let request = testing::check_request(&turned_down("db"));
    check(&backup, &request).await;
    runs.end(RunEnd::Failed("failed".to_owned()));
    let verdict = check(&backup, &request).await;
    assert_eq!(
        why(&verdict),
        "backup-0000000001 failed; mend the cause and restart it"
    );
    assert_eq!(runs.joins().len(), 1);
    runs.set_time(NOW + Duration::from_secs(3600));
    check(&backup, &request).await;
    assert_eq!(runs.joins().len(), 2);
}

#[tokio::test]
async fn changes_that_lose_nothing_do_not_wait_unless_that_is_asked_for() {
    let runs = FakeRuns::new(NOW);
    let backup = Succeeded::new("backup", "backup", runs.clone());
    let request = testing::check_request(&testing::asset("db"));
    assert!(check(&backup, &request).await.delays.is_empty());
    assert!(runs.joins().is_empty());
    let every = backup.every_change();
    assert!(!check(&every, &request).await.delays.is_empty());
    let none = every.only(crate::Types::only(["other.v1.Type"]));
    runs.end(RunEnd::Failed("failed".to_owned()));
    assert!(check(&none, &request).await.delays.is_empty());
}
