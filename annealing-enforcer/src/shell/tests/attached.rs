//! Feeds of attached engines: the lease with each renewal and its end, and the standings of followed assets.

use control_plane_store::owner;
use futures::{FutureExt, StreamExt};
use plugin_sdk::{Enforcement, Feed, FeedItem, Follow, Mono, Relation, Standing};

use super::*;
use crate::shell::TERM;

/// Takes the items that a feed has now.
fn items(feed: &mut Feed) -> Vec<FeedItem> {
    let next = || feed.next().now_or_never().flatten();
    std::iter::from_fn(next).collect()
}

fn leases(items: &[FeedItem]) -> Vec<Mono> {
    let lease = |item: &FeedItem| match item {
        FeedItem::Lease(until) => Some(*until),
        _ => None,
    };
    items.iter().filter_map(lease).collect()
}

/// The last standing of `asset` among `items`.
fn standing(items: &[FeedItem], asset: &AssetId) -> Option<Standing> {
    let all = items.iter().filter_map(|item| match item {
        FeedItem::Standings(all) => Some(all),
        _ => None,
    });
    let mut of = all.flatten().filter(|(id, _)| id == asset);
    of.next_back().map(|(_, standing)| standing.clone())
}

/// Waits for the next standing of `asset`.
async fn next_of(feed: &mut Feed, asset: &AssetId) -> Standing {
    let next = async {
        loop {
            let item = feed.next().await.expect("the ownership goes on");
            if let Some(told) = standing(&[item], asset) {
                return told;
            }
        }
    };
    let in_time = tokio::time::timeout(TERM * 10, next).await;
    in_time.expect("nothing is told of it")
}

#[tokio::test(start_paused = true)]
async fn s5_attached_engine_learns_the_lease_first_and_then_each_renewal() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    sealed(&store).await;
    let runtime = TokioRuntime::current();
    enforced(&store, 1, async |handle| {
        let mut feed = handle.feed();
        handle.status().await.unwrap();
        let first = items(&mut feed);
        let is_first = matches!(first[..], [FeedItem::Lease(until), FeedItem::Took(_)] if until > runtime.now().mono);
        assert!(is_first, "{first:?}");
        let started = runtime.now().mono;
        runtime.sleep(TERM * 10).await;
        let told = leases(&items(&mut feed));
        assert!(told.len() >= 20, "a heartbeat each third of a term: {told:?}");
        assert!(told.is_sorted_by(|one, two| one < two), "{told:?}");
        let last = *told.last().unwrap();
        let now = runtime.now().mono;
        assert!(last > now && last <= now + TERM * 2 / 3, "{last:?} {now:?} {started:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn s5_lease_that_is_not_renewed_ends_for_an_attached_engine_before_another_process_may_own() {
    let store = MemoryStore::new();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    sealed(&shared).await;
    let runtime = TokioRuntime::current();
    let enforcer = Enforcer::builder(runtime.clone(), "test".parse().unwrap(), shared)
        .asset_plugin::<testing::Thing>(InMemoryProduction::new())
        .process_id("one".into())
        .build()
        .unwrap();
    let handle = enforcer.handle();
    let running = tokio::spawn(enforcer.run(std::future::pending()));
    let all = Settle::All(IncarnationNo(1));
    handle.wait_settled(all, SOON).await.unwrap();
    let mut feed = handle.feed();
    runtime.sleep(TERM).await;
    store.set_pause(|_| Box::pin(std::future::pending()));
    let stopped = runtime.now().mono;
    runtime.sleep(TERM * 4).await;
    let last = *leases(&items(&mut feed)).last().unwrap();
    assert!(
        last <= stopped + TERM * 2 / 3,
        "no renewal is told without a heartbeat"
    );
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn s5_feed_ends_when_the_partition_is_lost() {
    let store = MemoryStore::new();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    sealed(&shared).await;
    let partition: PartitionId = "test".parse().unwrap();
    let enforcer = Enforcer::builder(TokioRuntime::current(), partition.clone(), shared)
        .asset_plugin::<testing::Thing>(InMemoryProduction::new())
        .process_id("one".into())
        .build()
        .unwrap();
    let handle = enforcer.handle();
    let running = tokio::spawn(enforcer.run(std::future::pending()));
    let all = Settle::All(IncarnationNo(1));
    handle.wait_settled(all, SOON).await.unwrap();
    let feed = handle.feed();
    let takeover = Batch::new()
        .put("process/another", "{}")
        .put(owner::key(&partition), r#"{"process":"another"}"#)
        .delete("process/one");
    store.commit(takeover).await.unwrap();
    let told: Vec<FeedItem> = feed.collect().await;
    assert!(matches!(told[0], FeedItem::Lease(_)), "{told:?}");
    let mut late = handle.feed();
    assert!(late.next().await.is_none(), "this process owns nothing");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn r36_feeds_tell_the_standings_that_each_follows() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let [a, b] = ["a", "b"].map(testing::asset);
    let first = testing::incarnation(1, [a.clone()]);
    let incarnations = Incarnations::new(store.clone(), first.id().partition.clone());
    incarnations.seal(&first, None, Batch::new()).await.unwrap();
    enforced(&store, 1, async |handle| {
        let (mut one, mut two) = (handle.feed(), handle.feed());
        one.follow(Follow::Assets(vec![a.id(), b.id()]));
        two.follow(Follow::Assets(vec![b.id()]));
        handle.status().await.unwrap();
        let told = items(&mut one);
        let at_once = standing(&told, &a.id()).unwrap();
        assert!(at_once.is_in_sync());
        assert_eq!(at_once.in_sync_at, Some(IncarnationNo(1)));
        for told in [told, items(&mut two)] {
            let absent = standing(&told, &b.id()).unwrap();
            assert_eq!(absent.relation, Relation::Absent);
        }

        handle.publish(edited(&first, vec![b.clone()], &[]));
        while !next_of(&mut two, &b.id()).await.is_in_sync() {}
        let told = items(&mut one);
        let took =
            |item: &FeedItem| matches!(item, FeedItem::Took(it) if it.no() == IncarnationNo(2));
        assert!(told.iter().any(took));
        let settled = standing(&told, &b.id()).unwrap();
        assert_eq!(settled.in_sync_at, Some(IncarnationNo(2)));
        assert_eq!(standing(&told, &a.id()), None, "nothing of it changed");

        // Followed twice: it is told again, and unfollowed once.
        one.follow(Follow::Assets(vec![b.id()]));
        one.follow(Follow::Not(vec![b.id()]));
        drop(two);
        let second = edited(&first, vec![b.clone()], &[]);
        handle.publish(edited(&second, Vec::new(), &[b.id()]));
        TokioRuntime::current().sleep(TERM).await;
        let told = items(&mut one);
        assert_eq!(
            standing(&told, &b.id()),
            Some(settled),
            "the last before it is unfollowed"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r20_reader_of_pins_gets_all_of_them_first_and_then_each_move_with_what_was_found() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let [a, b] = ["a", "b"].map(testing::asset);
    let first = testing::incarnation(1, [a.clone(), b.clone()]);
    let incarnations = Incarnations::new(store.clone(), first.id().partition.clone());
    incarnations.seal(&first, None, Batch::new()).await.unwrap();
    enforced(&store, 1, async |handle| {
        let pin = Pin::At(first.clone(), Cause::Intent);
        handle.pin(&a.id(), pin.clone()).await.unwrap();
        let (mut pins, mut ids) = (handle.feed(), handle.feed());
        pins.follow(Follow::Pinned);
        ids.follow(Follow::Assets(vec![b.id()]));
        handle.status().await.unwrap();
        let told = items(&mut pins);
        let at_once = standing(&told, &a.id()).unwrap();
        assert_eq!(at_once.pin, pin.by_number());
        assert_eq!(standing(&told, &b.id()), None, "it has no pin of its own");

        handle.pin(&b.id(), pin.clone()).await.unwrap();
        let moved = next_of(&mut pins, &b.id()).await;
        assert!(moved.pin == pin.by_number() && !moved.state.is_in_sync());
        while !next_of(&mut pins, &b.id()).await.state.is_in_sync() {}
        handle.pin(&b.id(), Pin::Default).await.unwrap();
        let lost = next_of(&mut pins, &b.id()).await;
        assert_eq!(lost.pin, Pin::Default);
        let told = items(&mut ids);
        assert_eq!(standing(&told, &b.id()).unwrap().pin, Pin::Default);
        assert_eq!(standing(&told, &a.id()), None, "it is not followed");
    })
    .await;
}
