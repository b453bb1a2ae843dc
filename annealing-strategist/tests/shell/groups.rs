//! R17: groups go by their own policies, and assets change their group before, during and after their moves.

use std::time::Duration;

use annealing_strategist::{Command, State};
use prodspec_model::IncarnationNo;

use crate::world::{HOUR, P, Q, World, at, by, canary, id, passes, policy, thing, two_groups};

#[tokio::test(start_paused = true)]
async fn r17_two_groups_go_by_their_own_policies() {
    let world = World::new(two_groups("1")).await;
    assert_eq!(world.view(P).await.head, Some(IncarnationNo(1)));
    world.put(two_groups("2")).await;
    assert_eq!((world.pin("a"), world.pin("b")), (at(2), None));
    passes(Duration::from_secs(120)).await;
    assert_eq!(world.state(Q).await, State::Completed);
    assert_eq!(world.state(P).await, State::Running);
    passes(HOUR).await;
    assert_eq!(world.state(P).await, State::Completed);
    assert!(world.toy.state.lock().unwrap().pins.is_empty());
    assert_eq!(world.handle.history(&id(P)).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_asset_that_changes_group_is_rolled_out_by_the_other() {
    let world = World::new(two_groups("1")).await;
    world.put(vec![thing(Some(Q), "a", "2")]).await;
    passes(HOUR).await;
    let newest = thing(Some(Q), "a", "2").digest();
    assert_eq!((world.content("a"), world.pin("a")), (Some(newest), None));
}

#[tokio::test(start_paused = true)]
async fn an_asset_that_changes_group_while_it_moves_is_passed_on() {
    let world = World::new(two_groups("1")).await;
    world
        .put(vec![thing(Some(P), "a", "2"), thing(Some(P), "b", "2")])
        .await;
    world.put(vec![thing(Some(Q), "a", "3")]).await;
    assert_eq!(world.pin("a"), at(2));
    let (group, newest) = (id(Q), IncarnationNo(3));
    let early = world.handle.rests(&group, newest);
    let early = tokio::time::timeout(Duration::from_secs(60), early).await;
    assert!(early.is_err(), "nothing of `Q` moves, and `P` holds `a`");
    passes(3 * HOUR).await;
    assert!(world.handle.rests(&group, newest).await.unwrap().released);
    let newest = thing(Some(Q), "a", "3").digest();
    assert_eq!((world.content("a"), world.pin("a")), (Some(newest), None));
    assert_eq!(world.state(P).await, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_asset_that_changes_group_before_its_turn_is_passed_on_at_once() {
    let world = World::new(two_groups("1")).await;
    world.put(two_groups("2")).await;
    assert_eq!((world.pin("a"), world.pin("b")), (at(2), None));
    world.put(vec![thing(Some(Q), "b", "3")]).await;
    passes(Duration::from_secs(120)).await;
    assert_eq!(world.state(P).await, State::Running);
    assert_eq!(world.state(Q).await, State::Completed);
    let newest = thing(Some(Q), "b", "3").digest();
    assert_eq!((world.content("b"), world.pin("b")), (Some(newest), None));
    passes(3 * HOUR).await;
    assert_eq!(world.state(P).await, State::Completed);
    assert_eq!(world.content("b"), Some(newest));
}

#[tokio::test(start_paused = true)]
async fn asset_that_returns_while_another_group_moves_it_is_held_by_one_rollout() {
    let world = World::new(two_groups("1")).await;
    world.put(two_groups("2")).await;
    passes(Duration::from_secs(120)).await;
    world
        .put(vec![thing(Some(Q), "b", "3"), policy(Q, &canary())])
        .await;
    assert_eq!(world.pin("b"), at(3));
    world.put(vec![thing(Some(P), "b", "4")]).await;
    passes(5 * HOUR).await;
    let states = (world.state(P).await, world.state(Q).await);
    assert_eq!(states, (State::Completed, State::Completed));
    let newest = thing(Some(P), "b", "4").digest();
    assert_eq!((world.content("b"), world.pin("b")), (Some(newest), None));
    let moved = world.toy.state.lock().unwrap().moved.clone();
    assert!(
        !moved.contains_key(&(id("b"), IncarnationNo(2))),
        "{moved:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn asset_under_way_can_join_a_new_group() {
    let world = World::new(two_groups("1")).await;
    world.put(two_groups("2")).await;
    assert_eq!(world.pin("a"), at(2));
    let joins = thing(Some("policy/r"), "a", "3");
    world
        .put(vec![policy("policy/r", &canary()), joins.clone()])
        .await;
    passes(5 * HOUR).await;
    assert_eq!(world.content("a"), Some(joins.digest()));
    assert_eq!(world.pin("a"), None);
}

#[tokio::test(start_paused = true)]
async fn stopped_rollout_ends_when_all_its_moved_assets_have_left() {
    let world = World::new(two_groups("1")).await;
    world.put(vec![thing(Some(P), "a", "2")]).await;
    assert_eq!(world.pin("a"), at(2));
    let abort = world.handle.tell(&id(P), Command::Abort, by()).await;
    abort.unwrap();
    let joins = thing(Some(Q), "a", "3");
    world.put(vec![joins.clone()]).await;
    passes(3 * HOUR).await;
    assert_eq!(world.state(P).await, State::Completed);
    assert_eq!(world.content("a"), Some(joins.digest()));
    assert_eq!(world.pin("a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_policy_may_be_replaced_by_another_during_a_rollout() {
    let world = World::new(two_groups("1")).await;
    world.put(two_groups("2")).await;
    let mut joins = vec![policy("policy/r", &canary())];
    joins.extend(["a", "b"].map(|name| thing(Some("policy/r"), name, "3")));
    world.edit(joins, &[P]).await;
    passes(5 * HOUR).await;
    for name in ["a", "b"] {
        let newest = thing(Some("policy/r"), name, "3").digest();
        let is = (world.content(name), world.pin(name));
        assert_eq!(is, (Some(newest), None), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_group_begins_with_all_its_assets() {
    let world = World::new(two_groups("1")).await;
    world.put(two_groups("2")).await;
    assert_eq!((world.pin("a"), world.pin("b")), (at(2), None));
    let mut joins = vec![policy("policy/r", &canary())];
    joins.extend(["b", "new"].map(|name| thing(Some("policy/r"), name, "3")));
    world.put(joins).await;
    assert_eq!(world.view("policy/r").await.targets.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn asset_that_joins_goes_back_to_the_content_it_had() {
    let mut assets = two_groups("1");
    assets.push(thing(None, "free", "1"));
    let world = World::new(assets).await;
    world.put(vec![thing(None, "free", "2")]).await;
    world.put(vec![thing(Some(P), "free", "3")]).await;
    assert_eq!(world.pin("free"), at(3));
    world
        .handle
        .tell(&id(P), Command::RollBack, by())
        .await
        .unwrap();
    passes(HOUR).await;
    let before = thing(None, "free", "2").digest();
    assert_eq!(world.content("free"), Some(before));
}
