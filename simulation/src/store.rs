//! The store as one process sees it, with late hints and outages. The judge learns from its acknowledged commits.

use std::{sync::Arc, time::Duration};

use annealing_strategist::{Rollout, record::Quarantined};
use async_trait::async_trait;
use control_plane_store::{
    Batch, CommitError, Error, Key, KeyRange, MemoryStore, Page, Record, Store, Topic, Version,
    Versioned, Write,
    memory::{Point, Rates},
    records::{AssetRecord, OpenPush},
};
use futures::{StreamExt, future::BoxFuture, stream::BoxStream};

use crate::{
    executor::{Instant, NodeId},
    faults::Fault,
    halt::{dies_here, kill, stand_still},
    intent::{number, partition, policy_number},
    world::{State, World},
};
use plugin_sdk::{GroupHead, Pin};

/// A memory store, as used by one process.
pub struct ProcessStore {
    inner: MemoryStore,
    world: World,
}

impl ProcessStore {
    /// Wraps the store as it was opened last. All parts of the process on `node` have one handle to it.
    pub fn open(world: &World, node: NodeId) -> Arc<dyn Store> {
        let inner = {
            let mut state = world.state();
            let store = state.store.clone();
            let handle = state.handles.entry(node);
            handle.or_insert_with(|| store.other()).clone()
        };
        Arc::new(Self {
            inner,
            world: world.clone(),
        })
    }

    /// Whether the process that calls is cut off from the store.
    fn is_cut_off(&self) -> bool {
        let node = self.world.executor.current();
        self.world.state().cut_off.contains(&node)
    }

    fn reach(&self) -> Result<(), Error> {
        if self.is_cut_off() {
            return Err(Error::unavailable("cut off"));
        }
        Ok(())
    }

    async fn submit(&self, batch: Batch) -> Result<Version, CommitError> {
        #[cfg(feature = "planted-bugs")]
        {
            let hasty = {
                let state = self.world.state();
                let seals = state.sealed.node == Some(self.world.executor.current());
                state.scenario.ack_first && seals
            };
            if hasty {
                return self.inner.commit_unsynced(batch).await;
            }
        }
        self.inner.commit(batch).await
    }

    /// Passes an acknowledged commit of `node` to the judge. Acknowledgements may come in another order than the
    /// commits.
    fn remember(&self, node: NodeId, begun: Instant, mut writes: Vec<Write>, version: Version) {
        let mut state = self.world.state();
        state.heard_of(node, begun, &writes);
        writes.retain(|write| match write {
            Write::Put(key, _) | Write::Delete(key) => {
                let newest = state.newest.entry(key.clone()).or_insert(version);
                *newest = version.max(*newest);
                *newest == version
            }
            Write::DeleteRange(_) => true,
        });
        state.remember_open(&writes, begun);
        // A commit that was overtaken may be acknowledged long after it was made: take its begin as its time.
        let overtaken = version < state.version;
        state.version = version.max(state.version);
        let now = state.now;
        state.judge.made_at = if overtaken { begun } else { now };
        state.remember_rollouts(&writes);
        state.remember_executions(&writes);
    }
}

#[async_trait]
impl Store for ProcessStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, Error> {
        self.reach()?;
        let rows = self.inner.get(keys).await;
        self.reach()?;
        rows
    }

    async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, Error> {
        self.reach()?;
        let page = self.inner.scan(range, limit).await;
        self.reach()?;
        page
    }

    async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        if self.is_cut_off() {
            return Err(CommitError::unavailable("cut off"));
        }
        let begun = self.world.executor.now();
        let writes = batch.writes.clone();
        let early = {
            let mut state = self.world.state();
            state.may_be_held(&writes);
            state.submits_runs(&writes);
            state.judge_heads(&writes)
        };
        let mut submitted = self.submit(batch).await;
        let node = self.world.executor.current();
        if submitted.is_ok() && self.is_cut_off() {
            submitted = Err(CommitError::unknown("cut off before the answer"));
        }
        if submitted.is_err() {
            self.world.state().judge.stops.refused(node, begun);
        }
        let version = submitted?;
        if let Some(what) = early {
            self.world.state().violated("R21", what);
        }
        self.remember(node, begun, writes, version);
        if dies_here(&self.world, node) {
            return futures::future::pending().await;
        }
        Ok(version)
    }

    fn watch(&self, topic: Topic) -> BoxStream<'static, ()> {
        let world = self.world.clone();
        let late = move |()| {
            let world = world.clone();
            async move {
                if world.state().cut_off.contains(&world.executor.current()) {
                    return None;
                }
                let late = {
                    let mut state = world.state();
                    let late = state.strikes(Fault::LateHint);
                    late.then(|| {
                        state
                            .random
                            .between(Duration::ZERO, Duration::from_secs(20))
                    })
                };
                if let Some(late) = late {
                    world.sleep(late).await;
                }
                Some(())
            }
        };
        let hints = self.inner.watch(topic).filter_map(late);
        hints.boxed()
    }
}

impl State {
    /// Updates the judge's list of durably open pushes from an acknowledged commit, made after `begun`.
    fn remember_open(&mut self, writes: &[Write], begun: Instant) {
        let prefix = format!("{}/{}/", AssetRecord::KIND, partition());
        for write in writes {
            let (key, record) = match write {
                Write::Put(key, value) => (key, serde_json::from_slice::<AssetRecord>(value).ok()),
                Write::Delete(key) => (key, None),
                Write::DeleteRange(_) => continue,
            };
            let Some(asset) = key.as_str().strip_prefix(&prefix) else {
                continue;
            };
            self.stirs(number(asset));
            match record.and_then(|record| record.open) {
                Some(open) => {
                    let key = |it: &OpenPush| (it.change, it.incarnation, it.token);
                    let new = key(&open);
                    let before = self.judge.open.insert(number(asset), open);
                    if before.as_ref().map(key) != Some(new) {
                        self.judge.opened.insert(number(asset), begun);
                    }
                }
                None => {
                    self.judge.open.remove(&number(asset));
                }
            }
        }
    }

    /// Updates the judge's view of rollouts, heads and pins from an acknowledged commit.
    fn remember_rollouts(&mut self, writes: &[Write]) {
        let writes = || {
            writes.iter().filter_map(|write| match write {
                Write::Put(key, value) => Some((key.as_str(), Some(&**value))),
                Write::Delete(key) => Some((key.as_str(), None)),
                Write::DeleteRange(_) => None,
            })
        };
        // Heads first: a rollout was completed with the assets that were left out until then.
        for (key, value) in writes() {
            self.remember_head(key, value);
        }
        for (key, value) in writes() {
            self.remember_asset(key, value);
        }
        self.judge_moves();
    }

    /// Judges the heads in a commit before it is made, because production may change until the acknowledgement. Returns
    /// the violation, which counts only if the store accepts the commit.
    fn judge_heads(&mut self, writes: &[Write]) -> Option<String> {
        let mut found = None;
        for write in writes {
            let Write::Put(key, value) = write else {
                continue;
            };
            if let Some((group, head)) = head_in(key.as_str(), value) {
                found = found.or(self.judge_whole(group, head));
            }
        }
        found
    }

    /// Records that content may be quarantined, before the commit is made: a process may die before the acknowledgement
    /// although the store has the commit.
    fn may_be_held(&mut self, writes: &[Write]) {
        for write in writes {
            if let Write::Put(key, _) = write
                && key.as_str().split('/').next() == Some(Quarantined::KIND)
                && let Some(eye) = self.judge.eyes.get_mut(number(key.as_str()))
            {
                eye.held.insert(key.as_str().to_owned());
            }
        }
    }

    fn remember_head(&mut self, key: &str, value: Option<&[u8]>) {
        let Some(value) = value else { return };
        match key.split('/').next() {
            Some(GroupHead::KIND) => {
                if let Some((group, head)) = head_in(key, value) {
                    self.completed(group, head);
                }
            }
            Some(Rollout::KIND) => {
                if let Ok(rollout) = serde_json::from_slice::<Rollout>(value) {
                    let word = format!("rollout {}", rollout.state.word());
                    *self.rolled.entry(word).or_default() += 1;
                    self.rollout_is(&rollout);
                }
            }
            _ => {}
        }
    }

    fn remember_asset(&mut self, key: &str, value: Option<&[u8]>) {
        let at = number(key);
        let Some(eye) = self.judge.eyes.get_mut(at) else {
            return;
        };
        match key.split('/').next() {
            Some(Pin::KIND) => {
                let pin = value.and_then(|value| serde_json::from_slice(value).ok());
                self.pin_moved(at, pin.unwrap_or(Pin::Default));
            }
            Some(Quarantined::KIND) if value.is_some() => drop(eye.held.insert(key.to_owned())),
            Some(Quarantined::KIND) => drop(eye.held.remove(key)),
            _ => {}
        }
    }

    /// Draws the latency of the store at one point; zero in half of the cases.
    fn store_latency(&mut self) -> Duration {
        match self.random.below(100) {
            0..=49 => Duration::ZERO,
            50..=97 => self
                .random
                .between(Duration::from_micros(50), Duration::from_millis(3)),
            _ => self
                .random
                .between(Duration::from_millis(10), Duration::from_secs(1)),
        }
    }
}

/// The group and the incarnation of a record of a group's head; `None` for other records.
fn head_in(key: &str, value: &[u8]) -> Option<(usize, u32)> {
    let kind = key.split('/').next();
    let group = policy_number(number(key)).filter(|_| kind == Some(GroupHead::KIND))?;
    let head = serde_json::from_slice::<GroupHead>(value).ok()?;
    Some((group, head.incarnation()?.0))
}

/// Adds latencies, faults and deadly points to the store.
pub fn trouble(world: &World) {
    let (store, rates, seed) = {
        let mut state = world.state();
        let [
            unavailable,
            unknown,
            poison,
            stale,
            drop_hint,
            repeat_hint,
            left_behind,
        ] = state.scenario.store_faults;
        let rates = Rates {
            unavailable,
            unknown,
            poison,
            stale,
            left_behind,
            drop_hint,
            repeat_hint,
        };
        (state.store.clone(), rates, state.random.bits())
    };
    store.set_faults(rates.seeded(seed));
    let world = world.clone();
    store.set_pause(move |point| at_point(&world, point));
}

/// Runs before and after every read, write, sync and acknowledgement: draws latency, death or a pause of the process.
fn at_point(world: &World, point: Point) -> BoxFuture<'static, ()> {
    let node = world.executor.current();
    let deadly = point != Point::BeforeRead;
    let (latency, dies, stands) = {
        let mut state = world.state();
        if point == Point::BeforeSync && state.sealed.node == Some(node) {
            let submitted = state.sealed.submitting;
            let nth = |no: u32| {
                (
                    no,
                    state
                        .sealed
                        .accepted
                        .get(&no)
                        .map_or(0, |all| all.len().saturating_sub(1)),
                )
            };
            let submitted = submitted.map(nth);
            state.sealed.written.extend(submitted);
        }
        (
            state.store_latency(),
            deadly && state.strikes(Fault::CrashAtPersist),
            deadly && state.strikes(Fault::PauseAtPoint),
        )
    };
    let dies = dies && kill(world, node) || deadly && dies_here(world, node);
    if dies {
        return Box::pin(futures::future::pending());
    }
    if stands {
        stand_still(world, node);
    }
    if latency.is_zero() && !stands {
        return Box::pin(futures::future::ready(()));
    }
    Box::pin(world.executor.sleep(latency))
}
