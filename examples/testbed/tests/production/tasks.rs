//! Tasks: their deaths, updates, sizes and defects, under load.

use testbed::production::{
    JOB,
    api::{By, Change, JobSpec, JobView, Line, Phase, Progress, State},
    load::Attempt,
};

use crate::town::*;

#[tokio::test]
async fn killed_frontends_are_replaced_and_no_request_fails() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let mut load = hammer(balanced(&cell).await);
    for _ in 0..3 {
        passed(&mut load, 50).await;
        let before = settled(&cell).await;
        let victim = before.tasks[0].pid;
        kill(victim);
        until("the task is replaced", async || {
            let view = settled(&cell).await;
            view.tasks
                .iter()
                .all(|task| task.pid != victim)
                .then_some(())
        })
        .await;
    }
    passed(&mut load, 50).await;
    // No exception for requests in flight on the killed frontend: the balancer repeats a GET on another endpoint.
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
    let healed = town
        .journal("eu")
        .into_iter()
        .filter(|line| line.by == By::Heal && line.change == Change::Process)
        .count();
    assert_eq!(healed, 3);
}

#[tokio::test]
async fn update_replaces_task_by_task_and_no_request_fails() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let mut load = hammer_once_each(balanced(&cell).await);
    passed(&mut load, 50).await;
    let answer = cell.put_job(JOB, &job(3, "2"), &owner(1, 1)).await.unwrap();
    assert_eq!(answer, Progress::InProgress);
    let view = settled(&cell).await;
    assert!(view.tasks.iter().all(|task| task.version == "2"));
    passed(&mut load, 100).await;
    let log = load.stop().await;
    assert_eq!(failures(&log), Vec::<&Attempt>::new());
    assert_eq!(log[0].version.as_deref(), Some("1"));
    assert_eq!(log.last().unwrap().version.as_deref(), Some("2"));
    least_serving(&town.journal("eu"), 3);
}

/// Expects that once `least` tasks serve, the journal never shows fewer.
fn least_serving(journal: &[Line], least: usize) {
    let mut serving = std::collections::BTreeSet::new();
    let mut there = false;
    for line in journal
        .iter()
        .filter(|line| line.resource.starts_with("jobs/frontend/"))
    {
        if line.to["phase"] == "serving" {
            serving.insert(&line.resource);
        } else {
            serving.remove(&line.resource);
        }
        there |= serving.len() >= least;
        assert!(!there || serving.len() >= least, "{line:?}");
    }
    assert!(there);
}

#[tokio::test]
async fn shrinking_and_growing_under_load_fails_no_request_and_keeps_capacity_above_demand() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let mut load = hammer_once_each(balanced(&cell).await);
    passed(&mut load, 50).await;
    // The safe order: the consumer shrinks first and grows last.
    cell.put_balancer(&in_front(8), &by_hand()).await.unwrap();
    balanced(&cell).await;
    cell.put_job(JOB, &job(1, "1"), &by_hand()).await.unwrap();
    assert_eq!(settled(&cell).await.tasks.len(), 1);
    passed(&mut load, 50).await;
    cell.put_job(JOB, &job(4, "1"), &by_hand()).await.unwrap();
    assert_eq!(settled(&cell).await.tasks.len(), 4);
    cell.put_balancer(&in_front(32), &by_hand()).await.unwrap();
    balanced(&cell).await;
    passed(&mut load, 50).await;
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());

    let (mut capacity, mut demand) = (0, 0);
    let mut seen = vec![];
    for line in town
        .journal("eu")
        .iter()
        .filter(|line| line.change == Change::Capacity)
    {
        let to = line.to.as_u64().unwrap();
        match line.resource.as_str() {
            "balancer" => demand = to,
            _ => capacity = to,
        }
        assert!(demand <= capacity, "{line:?}");
        seen.push((capacity, demand));
    }
    assert_eq!(
        seen,
        [(24, 0), (24, 24), (24, 8), (8, 8), (32, 8), (32, 32)]
    );
}

#[tokio::test]
async fn bad_version_passes_its_errors_to_the_client() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let bad = JobSpec {
        flags: vec!["--fail-percent=50".into()],
        ..job(3, "2")
    };
    cell.put_job(JOB, &bad, &by_hand()).await.unwrap();
    settled(&cell).await;
    let mut load = hammer(balanced(&cell).await);
    passed(&mut load, 200).await;
    let log = load.stop().await;
    let failed = failures(&log);
    assert!(
        failed.iter().all(|attempt| attempt.status == Some(500)),
        "{failed:?}"
    );
    let share = failed.len() as f64 / log.len() as f64;
    assert!((0.3..0.7).contains(&share), "{share}");
}

#[tokio::test]
async fn version_that_does_not_start_leaves_the_old_one_serving_and_reports_why() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let broken = JobSpec {
        flags: vec!["--no-such-flag".into()],
        ..job(3, "2")
    };
    cell.put_job(JOB, &broken, &by_hand()).await.unwrap();
    let view = until("the problem shows", async || {
        let view = cell.job(JOB, &by_hand()).await.unwrap().unwrap();
        view.problem.is_some().then_some(view)
    })
    .await;
    assert_eq!(view.state, State::Changing);
    let serving = |view: &JobView| {
        view.tasks
            .iter()
            .filter(|task| task.phase == Phase::Serving && task.version == "1")
            .count()
    };
    assert_eq!(serving(&view), 3);
    cell.put_job(JOB, &job(3, "1"), &by_hand()).await.unwrap();
    assert_eq!(serving(&settled(&cell).await), 3);
}

#[tokio::test]
async fn defective_version_gets_ready_and_a_third_of_its_answers_are_errors() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let address = balanced(&cell).await;
    cell.put_job(JOB, &job(1, "3"), &by_hand()).await.unwrap();
    let view = settled(&cell).await;
    assert_eq!((view.problem, view.tasks.len()), (None, 1));
    let mut load = hammer(address);
    passed(&mut load, 300).await;
    let log = load.stop().await;
    let failed = failures(&log);
    assert!(failed.iter().all(|attempt| attempt.status == Some(500)));
    assert_eq!(failed.len(), log.len() / 3);
    assert!(log.iter().all(|it| it.version.as_deref() == Some("3")));
}
