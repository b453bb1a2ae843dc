//! Tests of the shell with a toy enforcer and a real store, in tokio's paused time.

#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use annealing_strategist::{
    AskError, Attached, By, Command, Config, Handle, Rollout, State, Strategist, StrategistBuilder,
    View,
};
use async_trait::async_trait;
use control_plane_runtime::{Runtime, TokioRuntime};
use control_plane_store::{
    Batch, MemoryStore, Store, Write,
    incarnations::{Head, Incarnations},
    record,
    records::GroupHead,
};
use futures::{StreamExt, channel::mpsc, stream::BoxStream};
use jiff::Timestamp;
use plugin_sdk::{
    Actuation, Actuator, BoxError, Cause, Health, HealthRequest, HealthValidator, Judgement, Pin,
    PinEvent, PinStatus, SelectRequest, SyncState, service::HealthLayer, testing,
};
use prodspec_model::{
    Asset, AssetId, AssetRef, Digest, Incarnation, IncarnationNo, PartitionId, Snapshot,
    addons::RolloutPolicyRef,
    incarnation::Header,
    rollout::{Canary, FirstTurnup, RolloutPolicy},
};

use tower::ServiceBuilder;

const P: &str = "policy/p";
const Q: &str = "policy/q";
const HOUR: Duration = Duration::from_secs(3600);

/// Lets virtual time pass.
async fn passes(time: Duration) {
    TokioRuntime::current().sleep(time).await;
}

fn id(text: &str) -> AssetId {
    AssetId::new(text).unwrap()
}

fn thing(policy: Option<&str>, name: &str, content: &str) -> Asset {
    let content = content.to_owned();
    let asset = testing::asset(name).edit();
    let asset = asset.payload(&testing::Thing { content }).unwrap();
    let asset = match policy {
        Some(policy) => asset.addon(&RolloutPolicyRef {
            policy: AssetRef::to(id(policy)),
        }),
        None => Ok(asset),
    };
    asset.unwrap().build().unwrap()
}

fn policy(name: &str, policy: &RolloutPolicy) -> Asset {
    let asset = Asset::builder(id(name)).payload(policy).unwrap();
    asset.build().unwrap()
}

fn canary() -> RolloutPolicy {
    let canary = Canary {
        count: 1,
        bake_secs: 600,
    };
    RolloutPolicy {
        canary: Some(canary),
        ..RolloutPolicy::default()
    }
}

fn policy_of(asset: &Asset) -> Option<AssetId> {
    let addon = asset.addon::<RolloutPolicyRef>().unwrap();
    addon.map(|addon| addon.policy.id)
}

/// A toy enforcer whose pushes take no time.
struct Toy {
    partition: PartitionId,
    store: Arc<dyn Store>,
    incarnations: Arc<Incarnations<dyn Store>>,
    state: Mutex<Pins>,
}

#[derive(Default)]
struct Pins {
    all: BTreeMap<IncarnationNo, Incarnation>,
    sealed: Option<Head>,
    heads: BTreeMap<AssetId, Incarnation>,
    pins: BTreeMap<AssetId, Pin>,
    followers: Vec<mpsc::UnboundedSender<PinEvent>>,
    /// The number of moves of each asset's pin to each incarnation.
    moved: BTreeMap<(AssetId, IncarnationNo), u32>,
}

impl Pins {
    fn latest(&self) -> &Incarnation {
        self.all.values().next_back().unwrap()
    }

    fn governs(&self, id: &AssetId) -> Option<AssetId> {
        let newest = self.latest().asset(id).as_ref().and_then(policy_of);
        newest.or_else(|| {
            let at_head = |(policy, head): (&AssetId, &Incarnation)| {
                let named = policy_of(&head.asset(id)?);
                (named.as_ref() == Some(policy)).then(|| policy.clone())
            };
            self.heads.iter().find_map(at_head)
        })
    }

    fn at(&self, id: &AssetId) -> Option<Incarnation> {
        match self.pins.get(id) {
            Some(Pin::At(no, _)) => self.all.get(no).cloned(),
            Some(Pin::NotYet) => None,
            _ => match self.governs(id) {
                Some(policy) => self.heads.get(&policy).cloned(),
                None => Some(self.latest().clone()),
            },
        }
    }

    fn content(&self, id: &AssetId) -> Option<Digest> {
        self.at(id)?.asset(id).map(|asset| asset.digest())
    }

    fn pin_status(&self, id: &AssetId) -> PinStatus {
        let pin = self.pins.get(id).copied();
        PinStatus {
            pin: pin.unwrap_or(Pin::Default),
            content: self.content(id),
            state: SyncState::InSync {
                since: Timestamp::UNIX_EPOCH,
            },
        }
    }

    fn tell(&mut self, feed: &PinEvent) {
        self.followers
            .retain(|follower| follower.unbounded_send(feed.clone()).is_ok());
    }

    fn tell_standing(&mut self, id: &AssetId) {
        let pin_status = self.pin_status(id);
        self.tell(&PinEvent::Statuses(vec![(id.clone(), pin_status)]));
    }

    /// R17: governed assets keep their content during `change`.
    fn keeping(&mut self, change: impl FnOnce(&mut Self)) {
        let all = self.all.values().flat_map(|of| of.snapshot().iter());
        let ids: BTreeSet<AssetId> = all.map(|asset| asset.id()).collect();
        let was: Vec<_> = ids
            .iter()
            .map(|id| (self.at(id), self.content(id)))
            .collect();
        change(self);
        for (id, (at, content)) in ids.iter().zip(was) {
            let kept = self.governs(id).is_some() && !self.pins.contains_key(id);
            if kept && self.content(id) != content {
                let pin = at.map_or(Pin::NotYet, |at| Pin::At(at.no(), Cause::Intent));
                self.pins.insert(id.clone(), pin);
                self.tell_standing(id);
            }
        }
    }

    fn publish(&mut self, newer: Incarnation) {
        let took = newer.clone();
        self.keeping(|pins| drop(pins.all.insert(newer.no(), newer)));
        self.tell(&PinEvent::Took(took));
    }

    fn move_pin(&mut self, id: &AssetId, to: Pin<Incarnation>) {
        match to {
            Pin::At(at, cause) => {
                *self.moved.entry((id.clone(), at.no())).or_default() += 1;
                self.pins.insert(id.clone(), Pin::At(at.no(), cause));
            }
            Pin::NotYet => drop(self.pins.insert(id.clone(), Pin::NotYet)),
            Pin::Default => {
                let content = self.content(id);
                let pin = self.pins.remove(id);
                let other = self.content(id) != content && self.governs(id).is_some();
                if let Some(pin) = pin.filter(|_| other) {
                    self.pins.insert(id.clone(), pin);
                }
            }
        }
        self.tell_standing(id);
    }
}

#[async_trait]
impl Actuator for Toy {
    type Write = Write;

    async fn actuate(&self, step: Actuation<Write>) -> Result<(), BoxError> {
        let mut batch = Batch::new();
        batch.writes = step.writes;
        for (policy, head) in &step.heads {
            let incarnation = head.no();
            let head = GroupHead { incarnation };
            batch = batch.write(record::put(&self.partition, policy.as_str(), &head)?);
        }
        self.store.commit(batch).await?;
        let mut state = self.state.lock().unwrap();
        for (policy, head) in step.heads {
            state.keeping(|pins| drop(pins.heads.insert(policy, head)));
        }
        for (id, to) in step.moves {
            state.move_pin(&id, to);
        }
        Ok(())
    }

    fn pin_events(&self) -> BoxStream<'static, PinEvent> {
        let mut state = self.state.lock().unwrap();
        let (sender, feed) = mpsc::unbounded();
        let pins: Vec<AssetId> = state.pins.keys().cloned().collect();
        let pins = pins.iter().map(|id| (id.clone(), state.pin_status(id)));
        let first = [
            PinEvent::Took(state.latest().clone()),
            PinEvent::Statuses(pins.collect()),
        ];
        for item in first {
            sender.unbounded_send(item).unwrap();
        }
        state.followers.push(sender);
        feed.boxed()
    }
}

struct World {
    toy: Arc<Toy>,
    strategist: Arc<Strategist<TokioRuntime>>,
    handle: Handle<TokioRuntime>,
    running: tokio::task::JoinHandle<()>,
}

impl World {
    async fn new(assets: Vec<Asset>) -> Self {
        Self::with(assets, |builder| builder).await
    }

    async fn with(
        assets: Vec<Asset>,
        built: impl FnOnce(StrategistBuilder<TokioRuntime>) -> StrategistBuilder<TokioRuntime>,
    ) -> Self {
        let world = Self::start(assets, built).await;
        passes(HOUR).await;
        world
    }

    async fn start(
        assets: Vec<Asset>,
        built: impl FnOnce(StrategistBuilder<TokioRuntime>) -> StrategistBuilder<TokioRuntime>,
    ) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let partition: PartitionId = "test".parse().unwrap();
        let incarnations = Arc::new(Incarnations::new(store.clone(), partition.clone()));
        let toy = Arc::new(Toy {
            partition: partition.clone(),
            store: store.clone(),
            incarnations: incarnations.clone(),
            state: Mutex::default(),
        });
        seal(&toy, assets, &[]).await;
        let runtime = TokioRuntime::current();
        let builder = Strategist::builder(runtime, partition, store, incarnations);
        let strategist = built(builder).build();
        let (attached, handle) = strategist.attach(toy.clone());
        let running = tokio::spawn(Attached::run(attached));
        Self {
            toy,
            strategist,
            handle,
            running,
        }
    }

    async fn put(&self, assets: Vec<Asset>) {
        self.edit(assets, &[]).await;
    }

    async fn edit(&self, assets: Vec<Asset>, gone: &[&str]) {
        seal(&self.toy, assets, gone).await;
        passes(Duration::from_secs(1)).await;
    }

    /// Ends the ownership and begins the next one.
    async fn take_over(&mut self) {
        self.running.abort();
        let _ = (&mut self.running).await;
        let (attached, handle) = self.strategist.attach(self.toy.clone());
        self.handle = handle;
        self.running = tokio::spawn(attached.run());
        passes(Duration::from_secs(1)).await;
    }

    async fn view(&self, policy: &str) -> View {
        let views = self.handle.views().await.unwrap();
        let ours = views.into_iter().find(|view| view.policy == id(policy));
        ours.unwrap()
    }

    async fn state(&self, policy: &str) -> State {
        self.view(policy).await.rollout.unwrap().state
    }

    /// Waits until user code has been called, and then until the view of the group contains `text`.
    async fn shows(&self, called: &mut mpsc::UnboundedReceiver<()>, text: &str) {
        called.next().await.unwrap();
        while !format!("{:?}", self.view(P).await).contains(text) {
            tokio::task::yield_now().await;
        }
    }

    fn pin(&self, name: &str) -> Option<Pin> {
        self.toy.state.lock().unwrap().pins.get(&id(name)).copied()
    }

    fn content(&self, name: &str) -> Option<Digest> {
        self.toy.state.lock().unwrap().content(&id(name))
    }
}

async fn seal(toy: &Toy, assets: Vec<Asset>, gone: &[&str]) {
    let (before, after) = {
        let state = toy.state.lock().unwrap();
        (state.all.values().next_back().cloned(), state.sealed)
    };
    let no = before
        .as_ref()
        .map_or(IncarnationNo(1), |before| before.no().next());
    let old = before
        .as_ref()
        .map_or_else(Snapshot::empty, |before| before.snapshot().clone());
    let gone: Vec<AssetId> = gone.iter().map(|name| id(name)).collect();
    let snapshot = old.edit(no, assets, &gone);
    let header = Header {
        id: prodspec_model::IncarnationId::new(toy.partition.clone(), no),
        digest: snapshot.digest(),
        parent: before.map(|before| before.no()),
        sealed_at: Timestamp::UNIX_EPOCH,
        sources: BTreeMap::new(),
        assets: snapshot.len() as u64,
    };
    let newer = Incarnation::new(header, snapshot);
    let sealed = toy
        .incarnations
        .seal(&newer, after.as_ref(), Batch::new())
        .await
        .unwrap();
    let mut state = toy.state.lock().unwrap();
    state.sealed = Some(sealed);
    state.publish(newer);
}

fn at(no: u32) -> Option<Pin> {
    Some(Pin::At(IncarnationNo(no), Cause::Intent))
}

fn by() -> By {
    By {
        who: "me".into(),
        why: "seen".into(),
    }
}

fn two_groups(content: &str) -> Vec<Asset> {
    vec![
        thing(Some(P), "a", content),
        thing(Some(P), "b", content),
        thing(Some(Q), "x", content),
        thing(Some(Q), "y", content),
        policy(P, &canary()),
        policy(Q, &RolloutPolicy::default()),
    ]
}

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

/// A validator that panics while its flag is set.
struct Panics(Arc<AtomicBool>);

#[async_trait]
impl HealthValidator for Panics {
    fn name(&self) -> Arc<str> {
        "panics".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        assert!(!self.0.load(Ordering::SeqCst), "on purpose");
        Ok(Health::healthy(request.now))
    }
}

#[tokio::test(start_paused = true)]
async fn r21_a_validator_that_panics_makes_health_unknown_and_is_asked_again() {
    let panics = Arc::new(AtomicBool::new(true));
    let validator = Panics(panics.clone());
    let with = |builder: StrategistBuilder<TokioRuntime>| {
        builder.health(|base| {
            tower::ServiceBuilder::new()
                .layer(HealthLayer::new(validator))
                .service(base)
        })
    };
    let world = World::with(two_groups("1"), with).await;
    world.put(two_groups("2")).await;
    passes(HOUR).await;
    let rollout = world.view(P).await.rollout.unwrap();
    let health = rollout.health.unwrap();
    assert_eq!(health.judgement, Judgement::Unknown);
    assert!(
        health.findings[0].summary.contains("panicked"),
        "{health:?}"
    );
    panics.store(false, Ordering::SeqCst);
    passes(HOUR).await;
    assert_eq!(world.state(P).await, State::Completed);
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

/// Real time after which a test that blocks a thread has failed.
const HANGS: Duration = Duration::from_secs(10);

/// The text that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Starts to log what this thread does. Drop the guard to end it.
    fn start(&self) -> tracing::subscriber::DefaultGuard {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// Returns the lines that were logged since the last call.
    fn lines(&self) -> Vec<String> {
        let text = std::mem::take(&mut *self.0.lock().unwrap());
        let text = String::from_utf8(text).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn r63_pause_stop_and_rollback_are_logged_once_each() {
    // With a single subscriber, a log line that another test's thread reaches first would be off for all threads.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let log = Log::default();
    let _logging = log.start();
    let world = World::new(two_groups("1")).await;
    world.put(two_groups("2")).await;
    log.lines();
    for (command, level, text) in [
        (Command::Pause, "INFO", "changed its state"),
        (Command::Abort, "WARN", "the rollout stopped; retry it"),
        (Command::RollBack, "WARN", "the rollout is rolling back"),
    ] {
        let told = world.handle.tell(&id(P), command, by()).await;
        told.unwrap();
        let lines = log.lines();
        let says = |line: &&String| line.contains(level) && line.contains(text);
        assert_eq!(
            lines.iter().filter(says).count(),
            1,
            "{command:?}: {lines:?}"
        );
        let about = lines
            .iter()
            .all(|line| line.contains(P) && line.contains("rollout=2"));
        assert!(about, "{lines:?}");
        if command != Command::RollBack {
            assert_eq!(lines.len(), 1, "{lines:?}");
            passes(3 * HOUR).await;
            assert_eq!(log.lines(), [""; 0], "{command:?} is logged again");
        }
    }
    passes(3 * HOUR).await;
    assert_eq!(world.state(P).await.word(), "rolled back");
}

/// Blocks the thread that calls it until it is released.
#[derive(Clone)]
struct Blocking {
    entered: mpsc::UnboundedSender<()>,
    free: Arc<(Mutex<bool>, std::sync::Condvar)>,
}

impl Blocking {
    fn block(&self) {
        // The test may be over.
        let _ = self.entered.unbounded_send(());
        let free = self.free.0.lock().unwrap();
        drop(self.free.1.wait_while(free, |free| !*free).unwrap());
    }

    fn let_go(&self) {
        *self.free.0.lock().unwrap() = true;
        self.free.1.notify_all();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s9_selection_that_blocks_its_thread_fails_at_its_deadline() {
    let (entered, mut told) = mpsc::unbounded();
    let blocking = Blocking {
        entered,
        free: Arc::default(),
    };
    let blocks = blocking.clone();
    let world = World::start(
        vec![policy(P, &canary()), thing(Some(P), "a", "1")],
        move |builder| {
            let config = Config {
                select_deadline: Duration::from_millis(50),
                ..Config::default()
            };
            let blocked = move |base| {
                let block = move |request: SelectRequest| {
                    blocks.block();
                    request
                };
                ServiceBuilder::new().map_request(block).service(base)
            };
            builder.config(config).rollouts(blocked)
        },
    );
    let world = world.await;
    let answers = world.shows(&mut told, "no answer in time");
    let in_time = tokio::time::timeout(HANGS, answers).await;
    blocking.let_go();
    assert!(in_time.is_ok(), "a blocking selection stops the rollouts");
    world.running.abort();
}

#[async_trait]
impl HealthValidator for Blocking {
    fn name(&self) -> Arc<str> {
        "blocks".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        self.block();
        Ok(Health::healthy(request.now))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s9_health_check_that_blocks_its_thread_counts_as_unknown_at_its_deadline() {
    let (entered, mut told) = mpsc::unbounded();
    let blocking = Blocking {
        entered,
        free: Arc::default(),
    };
    let blocks = blocking.clone();
    let gradual = RolloutPolicy {
        first_turnup: FirstTurnup::Gradual,
        ..canary()
    };
    let assets = ["a", "b"].map(|name| thing(Some(P), name, "1"));
    let assets = [&assets[..], &[policy(P, &gradual)]].concat();
    let world = World::start(assets, move |builder| {
        let config = Config {
            validate_every: Duration::from_millis(10),
            validate_deadline: Duration::from_millis(50),
            ..Config::default()
        };
        let layer = HealthLayer::new(blocks);
        let blocked = |base| ServiceBuilder::new().layer(layer).service(base);
        builder.config(config).health(blocked)
    });
    let world = world.await;
    let answers = world.shows(&mut told, "no answer in time");
    let in_time = tokio::time::timeout(HANGS, answers).await;
    let health = world
        .view(P)
        .await
        .rollout
        .and_then(|rollout| rollout.health);
    blocking.let_go();
    assert!(
        in_time.is_ok(),
        "a blocking health check stops the rollouts"
    );
    let judgement = health.map(|health| health.judgement);
    assert_eq!(judgement, Some(Judgement::Unknown));
    world.running.abort();
}
