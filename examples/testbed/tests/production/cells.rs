//! Cells: one process each, its fence, its journal, its death and its turndown.

use std::{fs, process::Command};

use testbed::production::{
    JOB,
    api::{By, Caller, Change, JobSpec, Progress},
    client::{Cell, Error},
    load::Attempt,
};

use crate::town::*;

#[tokio::test]
async fn cell_turns_up_three_tasks_and_serves() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let view = settled(&cell).await;
    assert_eq!(view.tasks.len(), 3);
    assert_eq!(view.capacity_in_force, 24);
    assert!(view.tasks.iter().all(|task| running(task.pid)));
    assert_eq!(
        cell.put_job(JOB, &job(3, "1"), &by_hand()).await.unwrap(),
        Progress::Done
    );

    let mut load = hammer(balanced(&cell).await);
    passed(&mut load, 300).await;
    let log = load.stop().await;
    assert_eq!(failures(&log), Vec::<&Attempt>::new());
    for task in view.tasks {
        let name = Some(format!("eu/frontend/{}", task.id));
        assert!(
            log.iter().any(|attempt| attempt.frontend == name),
            "{name:?}"
        );
    }
}

#[tokio::test]
async fn cell_has_one_process_which_is_found_again_and_a_second_one_exits() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    let second = Command::new(PROGRAM)
        .args(["cell", "--name", "eu", "--dir"])
        .arg(town.cell_dir("eu"))
        .output()
        .unwrap();
    assert!(!second.status.success());
    let again = town.cell("eu").await;
    assert_eq!(again.instance(), cell.instance());
    assert_eq!(again.pid(), cell.pid());
    // A process group of its own: Ctrl-C in the terminal of its parent does not reach it.
    let stat = fs::read_to_string(format!("/proc/{}/stat", cell.pid())).unwrap();
    let group = stat.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap();
    assert_eq!(group, cell.pid().to_string());
    assert!(matches!(
        Cell::connect(&town.cell_dir("eu"), "us").await,
        Err(Error::Unreachable { .. })
    ));
}

#[tokio::test]
async fn calls_of_an_older_owner_are_refused_even_after_a_restart_of_the_cell() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    cell.put_job(JOB, &job(1, "1"), &owner(7, 3)).await.unwrap();
    let refused =
        |answer: Result<Progress, Error>| matches!(answer, Err(Error::Fenced { seen: 7 | 8, .. }));
    assert!(refused(cell.put_job(JOB, &job(2, "1"), &owner(6, 9)).await));
    assert!(refused(cell.put_job(JOB, &job(2, "1"), &owner(7, 2)).await));
    assert!(refused(cell.delete_job(JOB, &owner(7, 2)).await));
    // A read of a new owner is enough to fence the old one.
    cell.job(JOB, &owner(8, 0)).await.unwrap().unwrap();
    assert!(refused(cell.put_job(JOB, &job(2, "1"), &owner(7, 4)).await));
    assert!(matches!(
        cell.job(JOB, &owner(7, 4)).await,
        Err(Error::Fenced { seen: 8, .. })
    ));
    // Each resource has a fence of its own.
    cell.put_balancer(&in_front(8), &owner(1, 1)).await.unwrap();

    kill(cell.pid());
    until("the cell is gone", async || {
        (!running(cell.pid())).then_some(())
    })
    .await;
    let cell = town.cell("eu").await;
    assert!(refused(cell.put_job(JOB, &job(2, "1"), &owner(7, 5)).await));
    cell.put_job(JOB, &job(1, "1"), &owner(8, 1)).await.unwrap();
}

#[tokio::test]
async fn killed_cell_loses_its_processes_and_restarts_empty_while_others_serve() {
    let town = Town::new();
    let (eu, us) = tokio::join!(town.cluster("eu"), town.cluster("us"));
    let (_global, address) = town.global(&["eu", "us"]).await;
    let mut load = hammer(address);
    passed(&mut load, 50).await;
    let mut family: Vec<u32> = settled(&eu)
        .await
        .tasks
        .iter()
        .map(|task| task.pid)
        .collect();
    family.extend(eu.balancer(&by_hand()).await.unwrap().unwrap().pid);
    assert_eq!(family.len(), 4);

    kill(eu.pid());
    until("its processes are gone", async || {
        (!family.iter().any(|pid| running(*pid))).then_some(())
    })
    .await;
    passed(&mut load, 50).await;
    let again = town.cell("eu").await;
    assert_ne!(again.instance(), eu.instance());
    assert_eq!(again.job(JOB, &by_hand()).await.unwrap(), None);
    assert_eq!(again.balancer(&by_hand()).await.unwrap(), None);

    let journal = town.journal("eu");
    assert_eq!(journal[0].instance, eu.instance());
    assert_eq!(journal.last().unwrap().instance, again.instance());

    // After a new turnup the cell serves again: the global balancer finds it without a call.
    let again = town.cluster("eu").await;
    let tasks = settled(&again).await.tasks;
    until("the cell that came back answers", async || {
        let log = load.so_far();
        let late = log.iter().rev().take(200);
        let name = format!("eu/frontend/{}", tasks[0].id);
        let back = town.journal("eu").last().unwrap().at_micros;
        late.into_iter()
            .any(|attempt| attempt.start_micros > back && attempt.frontend.as_ref() == Some(&name))
            .then_some(())
    })
    .await;
    assert!(running(us.pid()));
    // No exception for requests in flight there: the global balancer repeats a GET on another endpoint.
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
}

#[tokio::test]
async fn changes_by_hand_are_journalled_and_calls_without_effect_are_not() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    cell.put_job(JOB, &job(2, "1"), &owner(1, 1)).await.unwrap();
    settled(&cell).await;
    cell.put_job(JOB, &job(2, "1"), &owner(1, 2)).await.unwrap();
    cell.put_job(JOB, &job(1, "1"), &by_hand()).await.unwrap();
    settled(&cell).await;
    let asked: Vec<(Option<u64>, By)> = town
        .journal("eu")
        .into_iter()
        .filter(|line| line.change == Change::Spec)
        .map(|line| (line.to["replicas"].as_u64(), line.by))
        .collect();
    let owned = By::Owner {
        token: 1,
        n: 1,
        incarnation: Some("incarnation 1".into()),
    };
    assert_eq!(asked, [(Some(2), owned), (Some(1), By::Hand)]);
}

#[tokio::test]
async fn turndown_under_load_fails_no_request_and_leaves_no_process() {
    let town = Town::new();
    let (eu, us) = tokio::join!(town.cluster("eu"), town.cluster("us"));
    let (_global, address) = town.global(&["eu", "us"]).await;
    let mut load = hammer(address);
    passed(&mut load, 50).await;
    let tasks = settled(&eu).await.tasks;
    let pid = eu.pid();
    eu.turn_down(&by_hand()).await.unwrap();
    until("the cell is gone", async || (!running(pid)).then_some(())).await;
    assert!(!tasks.iter().any(|task| running(task.pid)));
    assert!(!town.cell_dir("eu").join("address").exists());
    passed(&mut load, 50).await;
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
    assert_eq!(settled(&us).await.tasks.len(), 3);
}

#[tokio::test]
async fn invalid_calls_are_refused() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    let invalid = |answer: Result<Progress, Error>| matches!(answer, Err(Error::Invalid(_)));
    let nothing = JobSpec {
        capacity_per_task: 0,
        ..job(1, "1")
    };
    assert!(invalid(cell.put_job(JOB, &nothing, &by_hand()).await));
    assert!(invalid(
        cell.put_job(JOB, &job(1000, "1"), &by_hand()).await
    ));
    assert!(invalid(
        cell.put_job("Not-A-Name", &job(1, "1"), &by_hand()).await
    ));
    let n_only = Caller {
        n: Some(3),
        ..by_hand()
    };
    assert!(invalid(cell.put_job(JOB, &job(1, "1"), &n_only).await));
    assert_eq!(
        cell.delete_job(JOB, &by_hand()).await.unwrap(),
        Progress::Done
    );
}
