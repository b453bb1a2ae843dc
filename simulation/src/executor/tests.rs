use std::sync::{Arc, Mutex};

use control_plane_runtime::Runtime;

use super::*;

type Log = Arc<Mutex<Vec<(u32, u64)>>>;

fn noting(executor: &Executor, log: &Log, who: u32, every: Duration) -> BoxFuture<'static, ()> {
    let (executor, log) = (executor.clone(), log.clone());
    Box::pin(async move {
        loop {
            executor.sleep(every).await;
            log.lock().unwrap().push((who, executor.now().0));
        }
    })
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn equal_seeds_give_equal_orders_and_different_seeds_different_ones() {
    let order = |seed| {
        let (executor, log) = (Executor::new(seed), Log::default());
        for who in 0..10 {
            executor.spawn(NodeId::WORLD, noting(&executor, &log, who, seconds(1)));
        }
        executor.run_until(Instant::default() + seconds(10));
        let order = log.lock().unwrap().clone();
        (order, executor.trace(), executor.steps())
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1).0, order(2).0);
    assert_eq!(order(1).0.len(), 100);
}

#[test]
fn a_killed_node_runs_no_task_and_a_paused_node_runs_them_later() {
    let (executor, log) = (Executor::new(1), Log::default());
    let mut random = Random::new(1);
    let nodes = [0, 1].map(|_| executor.boot(&mut random, 0));
    for (who, node) in nodes.into_iter().enumerate() {
        let task = noting(&executor, &log, who as u32, seconds(1));
        executor.spawn(node, task);
    }
    executor.run_until(Instant::default() + Duration::from_millis(1500));
    executor.kill(nodes[0]);
    executor.pause(nodes[1], true);
    executor.run_until(Instant::default() + Duration::from_millis(5500));
    assert_eq!(
        log.lock().unwrap().len(),
        2,
        "one entry per node before the kill and the pause"
    );
    executor.pause(nodes[1], false);
    executor.run_until(Instant::default() + Duration::from_millis(5600));
    let last = *log.lock().unwrap().last().unwrap();
    assert_eq!(last, (1, 5_500_000_000), "the wait was due at 2 s");
}

#[test]
fn a_jump_of_the_wall_clock_does_not_change_the_monotonic_clock() {
    let executor = Executor::new(1);
    let node = executor.boot(&mut Random::new(1), 0);
    let runtime = NodeRuntime::new(executor.clone(), node);
    let before = runtime.now();
    executor.jump(node, seconds(3600), true);
    let after = runtime.now();
    assert_eq!(before.mono, after.mono);
    assert_eq!(before.wall.duration_since(after.wall).as_secs(), 3600);
}

#[test]
fn a_panic_of_a_task_is_reported() {
    let executor = Executor::new(1);
    executor.spawn(
        NodeId::WORLD,
        Box::pin(async { std::panic::resume_unwind(Box::new("gone".to_owned())) }),
    );
    executor.run_until(Instant::default() + seconds(1));
    assert_eq!(executor.panicked().as_deref(), Some("gone"));
}
