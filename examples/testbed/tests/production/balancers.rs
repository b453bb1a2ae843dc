//! Balancers: their deaths, their limits and what they pass on.

use std::time::Duration;

use hyper::Method;
use testbed::production::{
    JOB,
    api::{JobSpec, Phase, Progress, State},
    clock::now_micros,
    load::{Attempt, Load},
};

use crate::town::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_balancer_is_replaced_at_the_same_address() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let address = balanced(&cell).await;
    let mut load = hammer(address);
    passed(&mut load, 50).await;
    let victim = cell
        .balancer(&by_hand())
        .await
        .unwrap()
        .unwrap()
        .pid
        .unwrap();
    let before = now_micros();
    kill(victim);
    until("the balancer is gone", async || {
        (!running(victim)).then_some(())
    })
    .await;
    // A client needs a moment to notice that a connection it holds has died.
    let after = now_micros() + 50_000;
    until("the balancer is replaced", async || {
        let view = cell.balancer(&by_hand()).await.unwrap().unwrap();
        (view.pid.is_some_and(|pid| pid != victim) && view.state == State::Stable).then_some(())
    })
    .await;
    assert_eq!(balanced(&cell).await, address);
    passed(&mut load, 200).await;
    let log = load.stop().await;
    // Only requests in flight on the balancer when it was killed may fail.
    for attempt in failures(&log) {
        assert!(attempt.in_flight_during(before, after), "{attempt:?}");
    }
}

#[tokio::test]
async fn no_request_fails_behind_the_global_balancer_when_a_clusters_balancer_is_killed() {
    let town = Town::new();
    let (eu, _us) = tokio::join!(town.cluster("eu"), town.cluster("us"));
    let (_global, address) = town.global(&["eu", "us"]).await;
    let mut load = hammer(address);
    passed(&mut load, 50).await;
    kill(eu.balancer(&by_hand()).await.unwrap().unwrap().pid.unwrap());
    passed(&mut load, 300).await;
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
}

#[tokio::test]
async fn delisted_task_stays_until_it_has_no_request_in_flight() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    let slow = |version| JobSpec {
        flags: vec!["--work-ms=2000".into()],
        ..job(1, version)
    };
    cell.put_job(JOB, &slow("1"), &by_hand()).await.unwrap();
    settled(&cell).await;
    cell.put_balancer(&in_front(8), &by_hand()).await.unwrap();
    let load = hammer_once_each(balanced(&cell).await);
    cell.put_job(JOB, &slow("2"), &by_hand()).await.unwrap();
    until("the old task drains", async || {
        let view = cell.job(JOB, &by_hand()).await.unwrap().unwrap();
        let draining = view
            .tasks
            .iter()
            .find(|task| task.phase == Phase::Draining)?;
        assert_eq!(draining.version, "1");
        running(draining.pid).then_some(())
    })
    .await;
    settled(&cell).await;
    assert_eq!(failures(&load.stop().await), Vec::<&Attempt>::new());
}

#[tokio::test]
async fn lower_balancer_maximum_is_in_force_only_when_the_requests_in_flight_fit() {
    let town = Town::new();
    let cell = town.cell("eu").await;
    let slow = JobSpec {
        flags: vec!["--work-ms=400".into()],
        ..job(2, "1")
    };
    cell.put_job(JOB, &slow, &by_hand()).await.unwrap();
    settled(&cell).await;
    cell.put_balancer(&in_front(16), &by_hand()).await.unwrap();
    let mut load = Load::start(balanced(&cell).await, &Method::GET, 16, Duration::ZERO);
    passed(&mut load, 16).await;
    let asked = now_micros();
    let answer = cell.put_balancer(&in_front(4), &by_hand()).await.unwrap();
    assert_eq!(answer, Progress::InProgress);
    let shrunk = until("the maximum has shrunk", async || {
        let view = cell.balancer(&by_hand()).await.unwrap().unwrap();
        (view.max_capacity_in_force == 4).then(now_micros)
    })
    .await;
    let log = load.stop().await;
    assert_eq!(failures(&log), Vec::<&Attempt>::new());
    // A request that was admitted before the change takes 400 ms; one that had to wait takes longer.
    let let_through = |attempt: &&Attempt| {
        attempt.in_flight_during(asked, asked)
            && attempt.end_micros - attempt.start_micros < 700_000
    };
    let left = log
        .iter()
        .filter(let_through)
        .filter(|attempt| attempt.end_micros > shrunk);
    assert!(left.count() <= 4);
}

#[tokio::test]
async fn bodies_up_to_64_kib_pass_the_balancer_and_larger_ones_are_refused() {
    use http_body_util::Full;
    use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let address = balanced(&cell).await;
    for (size, expected) in [
        (65_536, StatusCode::OK),
        (65_537, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let body = Full::new(Bytes::from(vec![b'x'; size]));
        let request = Request::post("/")
            .header("host", "shakespeare")
            .body(body)
            .unwrap();
        assert_eq!(
            sender.send_request(request).await.unwrap().status(),
            expected
        );
    }
}

#[tokio::test]
async fn drained_tasks_exit_after_a_balancer_is_removed_and_created_again() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let address = balanced(&cell).await;
    cell.delete_balancer(&by_hand()).await.unwrap();
    cell.put_job(JOB, &job(1, "1"), &by_hand()).await.unwrap();
    until("the balancer is gone", async || {
        let view = cell.balancer(&by_hand()).await.unwrap();
        view.is_none().then_some(())
    })
    .await;
    cell.put_balancer(&in_front(8), &by_hand()).await.unwrap();
    assert_eq!(balanced(&cell).await, address, "the address stays the same");
    assert_eq!(settled(&cell).await.tasks.len(), 1);
}
