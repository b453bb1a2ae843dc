//! Rollouts and commands over the ownerships of a partition, and stored rollouts that cannot be read.

use std::time::Duration;

use annealing_strategist::{AskError, Command, Rollout, State};
use control_plane_store::{Batch, record};

use crate::world::{HOUR, P, Q, World, at, by, canary, id, passes, policy, thing, two_groups};

#[tokio::test(start_paused = true)]
async fn a_rollout_goes_on_under_the_next_ownership() {
    let mut world = World::new(two_groups("1")).await;
    world.put(two_groups("2")).await;
    world.take_over().await;
    assert_eq!(world.state(P).await, State::Running);
    assert_eq!((world.pin("a"), world.pin("b")), (at(2), None));
    passes(3 * HOUR).await;
    assert_eq!(world.state(P).await, State::Completed);
    let moved = world.toy.state.lock().unwrap().moved.clone();
    assert!(moved.values().all(|times| *times == 1), "{moved:?}");
}

#[tokio::test(start_paused = true)]
async fn command_is_answered_once_durable_or_refused_with_a_sentence() {
    let mut world = World::new(two_groups("1")).await;
    let refused = world.handle.tell(&id(P), Command::Pause, by()).await;
    assert!(matches!(refused, Err(AskError::Refused(why)) if why.to_string().contains(P)));
    let unknown = world
        .handle
        .tell(&id("policy/none"), Command::Pause, by())
        .await;
    assert!(matches!(unknown, Err(AskError::Refused(why)) if why.to_string().contains(Q)));
    world.put(two_groups("2")).await;
    world
        .handle
        .tell(&id(P), Command::Pause, by())
        .await
        .unwrap();
    world.take_over().await;
    assert_eq!(world.state(P).await, State::Paused);
    passes(HOUR).await;
    assert_eq!(world.pin("b"), None);
    world.running.abort();
    let _ = (&mut world.running).await;
    let gone = world.handle.tell(&id(P), Command::Resume, by()).await;
    assert!(matches!(gone, Err(AskError::NotRunning(_))));
}

#[tokio::test(start_paused = true)]
async fn callers_are_told_that_stored_rollouts_cannot_be_read() {
    let mut world = World::new(vec![policy(P, &canary()), thing(Some(P), "a", "one")]).await;
    let key = record::key(
        &world.toy.partition,
        <Rollout as record::Record>::KIND,
        "bad",
    );
    let damaged = Batch::new().put(key.clone(), b"{".as_slice());
    world.toy.store.commit(damaged).await.unwrap();
    world.take_over().await;
    for _ in 0..2 {
        let error = world.handle.views().await.unwrap_err();
        let AskError::Unreadable { why, .. } = &error else {
            panic!("{error}")
        };
        assert!(why.contains("rollout/test/bad"), "{why}");
    }
    let mended = Batch::new().delete(key);
    world.toy.store.commit(mended).await.unwrap();
    passes(Duration::from_secs(6)).await;
    assert_eq!(world.state(P).await, State::Completed);
}
