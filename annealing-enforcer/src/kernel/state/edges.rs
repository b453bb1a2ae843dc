//! The edges that production may have in addition to those of the newest intent: edges of contents last found in sync,
//! and of all contents pushed since. An edit often drops an edge and shrinks its provider at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use prodspec_model::{
    Asset, AssetId,
    addons::{DependsOn, Edge},
};

/// Number of shards that hold the edges.
const SHARDS: usize = 64;

/// The edges that production may have, by consumer and by provider. Checks under way share them; a change copies only
/// the shard of the consumer that changes.
#[derive(Debug, Clone)]
pub struct InProduction {
    shards: [Arc<Shard>; SHARDS],
    /// Number of consumers with edges.
    consumers: usize,
}

impl Default for InProduction {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Arc::default()),
            consumers: 0,
        }
    }
}

impl InProduction {
    /// Returns the edges of `consumer` that production may have.
    pub fn of(&self, consumer: &AssetId) -> impl Iterator<Item = &Edge> {
        let shard = &self.shards[shard_of(consumer)];
        shard.by_consumer.get(consumer).into_iter().flatten()
    }

    /// Returns the consumers that `provider` may have in production, in no specified order.
    pub fn consumers(&self, provider: &AssetId) -> impl Iterator<Item = &AssetId> {
        let shards = self.shards.iter();
        shards.flat_map(|shard| shard.by_provider.get(provider).into_iter().flatten())
    }

    /// Replaces all edges of `consumer`. Empty: it has none.
    pub(crate) fn set(&mut self, consumer: &AssetId, edges: BTreeSet<Edge>) {
        let had = self.of(consumer).next().is_some();
        self.consumers = self.consumers - usize::from(had) + usize::from(!edges.is_empty());
        Arc::make_mut(&mut self.shards[shard_of(consumer)]).set(consumer, edges);
    }

    fn is_empty(&self) -> bool {
        self.consumers == 0
    }
}

/// Returns the index of the shard that holds the edges of `consumer`.
fn shard_of(consumer: &AssetId) -> usize {
    let mut hasher = DefaultHasher::new();
    consumer.as_str().hash(&mut hasher);
    hasher.finish() as usize % SHARDS
}

/// The edges of a part of all consumers.
#[derive(Debug, Clone, Default)]
struct Shard {
    by_consumer: BTreeMap<AssetId, BTreeSet<Edge>>,
    by_provider: BTreeMap<AssetId, BTreeSet<AssetId>>,
}

impl Shard {
    fn set(&mut self, consumer: &AssetId, edges: BTreeSet<Edge>) {
        for edge in self.by_consumer.remove(consumer).into_iter().flatten() {
            if let Some(consumers) = self.by_provider.get_mut(&edge.provider.id) {
                consumers.remove(consumer);
                if consumers.is_empty() {
                    self.by_provider.remove(&edge.provider.id);
                }
            }
        }
        for edge in &edges {
            self.by_provider
                .entry(edge.provider.id.clone())
                .or_default()
                .insert(consumer.clone());
        }
        if !edges.is_empty() {
            self.by_consumer.insert(consumer.clone(), edges);
        }
    }
}

/// The edges that the kernel keeps.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Edges {
    shared: Arc<InProduction>,
    /// For assets whose intent changed: the edges that the asset had while it was in sync, or was pushed with since.
    /// Its other edges in `shared` come from intents that were never pushed.
    had: BTreeMap<AssetId, BTreeSet<Edge>>,
    /// The value of `count` when a provider last got a new consumer. Older evidence about that provider is void.
    touched: BTreeMap<AssetId, u64>,
    /// The value of `count` when an asset's pin last moved. Older evidence about that asset is void.
    pinned: BTreeMap<AssetId, u64>,
    count: u64,
}

impl Edges {
    pub(in crate::kernel) fn shared(&self) -> Arc<InProduction> {
        self.shared.clone()
    }

    /// Whether production has exactly the edges of the newest intent.
    pub(in crate::kernel) fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.had.is_empty()
    }

    #[cfg(test)]
    pub(in crate::kernel) fn len(&self) -> usize {
        let kept = |shard: &Arc<Shard>| shard.by_consumer.len() + shard.by_provider.len();
        self.shared.shards.iter().map(kept).sum::<usize>() + self.had.len()
    }

    pub(in crate::kernel) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the event after `seen` that voids evidence about `asset`, if any.
    pub(in crate::kernel) fn touched_since(&self, asset: &AssetId, seen: u64) -> Option<Touch> {
        let since = |log: &BTreeMap<AssetId, u64>| log.get(asset).is_some_and(|&at| at > seen);
        let pinned = since(&self.pinned).then_some(Touch::Pinned);
        pinned.or_else(|| since(&self.touched).then_some(Touch::Consumer))
    }

    /// Notes that the pin of `asset` moved: all evidence about it so far is void.
    pub(in crate::kernel) fn pinned(&mut self, asset: AssetId) {
        self.count += 1;
        self.pinned.insert(asset, self.count);
    }

    /// Returns the edges that `consumer` had while it was in sync, or was pushed with since, if its intent changed
    /// after that.
    pub(in crate::kernel) fn had_by(&self, consumer: &AssetId) -> Option<&BTreeSet<Edge>> {
        self.had.get(consumer)
    }

    /// Returns all edges kept for `consumer`.
    pub(in crate::kernel) fn of(&self, consumer: &AssetId) -> Vec<Edge> {
        self.shared.of(consumer).cloned().collect()
    }

    /// Adds edges that production may have. A push that brings one voids the evidence about its provider.
    pub(in crate::kernel) fn keep(&mut self, consumer: &AssetId, edges: &[Edge]) {
        let all: BTreeSet<Edge> = self.shared.of(consumer).chain(edges).cloned().collect();
        if all.len() > self.shared.of(consumer).count() {
            Arc::make_mut(&mut self.shared).set(consumer, all);
        }
    }

    /// Notes the edges that production had while the asset was in sync.
    pub(in crate::kernel) fn had(&mut self, consumer: &AssetId, edges: &[Edge]) {
        let edges: BTreeSet<Edge> = edges.iter().cloned().collect();
        match edges.is_empty() {
            true => self.had.remove(consumer),
            false => self.had.insert(consumer.clone(), edges),
        };
    }

    /// Returns the edges of an asset that it may not have in production yet.
    pub(in crate::kernel) fn brought(&self, asset: &Asset) -> Vec<Edge> {
        let mut edges = DependsOn::edges_of(asset);
        if let Some(had) = self.had.get(&asset.id()).filter(|_| !edges.is_empty()) {
            edges.retain(|edge| !had.contains(edge));
        }
        edges
    }

    /// Adds the edges of a push that starts: older evidence about their providers is void. An edge may be known from an
    /// intent that was never pushed, and that came after a check under way had started: it is new, too.
    pub(in crate::kernel) fn bring(&mut self, consumer: &AssetId, edges: &[Edge]) {
        self.count += 1;
        let had = self.had.get(consumer);
        for edge in edges {
            if !had.is_some_and(|had| had.contains(edge)) {
                self.touched.insert(edge.provider.id.clone(), self.count);
            }
        }
        if !edges.is_empty() {
            let had = self.had.entry(consumer.clone()).or_default();
            had.extend(edges.iter().cloned());
        }
        self.keep(consumer, edges);
    }

    /// Notes that production has exactly these edges of `consumer`. Empty: exactly those of the newest intent.
    pub(in crate::kernel) fn settle(&mut self, consumer: &AssetId, edges: Vec<Edge>) {
        self.had.remove(consumer);
        if self.shared.of(consumer).next().is_some() || !edges.is_empty() {
            Arc::make_mut(&mut self.shared).set(consumer, edges.into_iter().collect());
        }
    }

    /// Moves all edges of `from` to `to`, the same asset under a new id, with `more` that production may have, and names
    /// `to` as the provider where `from` was. Evidence about `to`, and about the providers of these edges, is void. Returns
    /// the consumers whose edges name another provider now.
    pub(in crate::kernel) fn rename(
        &mut self,
        from: &AssetId,
        to: &AssetId,
        more: &[Edge],
    ) -> Vec<AssetId> {
        let kept = self.of(from);
        let edges: Vec<Edge> = kept.into_iter().chain(more.iter().cloned()).collect();
        self.settle(from, Vec::new());
        self.pinned(to.clone());
        for edge in &edges {
            self.touched.insert(edge.provider.id.clone(), self.count);
        }
        if !edges.is_empty() {
            let had = self.had.entry(to.clone()).or_default();
            had.extend(edges.iter().cloned());
        }
        self.keep(to, &edges);
        let consumers: BTreeSet<AssetId> = self.shared.consumers(from).cloned().collect();
        let present = |mut edge: Edge| {
            if edge.provider.id == *from {
                edge.provider.id = to.clone();
            }
            edge
        };
        for consumer in &consumers {
            let edges = self.of(consumer).into_iter().map(present).collect();
            Arc::make_mut(&mut self.shared).set(consumer, edges);
            if let Some(had) = self.had.get_mut(consumer) {
                *had = std::mem::take(had).into_iter().map(present).collect();
            }
        }
        consumers.into_iter().collect()
    }

    /// Drops what is only needed for evidence from before the count was `seen`: no check under way is that old.
    pub(in crate::kernel) fn forget_touched(&mut self, seen: u64) {
        self.touched.retain(|_, at| *at > seen);
        self.pinned.retain(|_, at| *at > seen);
    }

    /// Number of assets that got a new consumer or another pin while checks were under way.
    pub(in crate::kernel) fn touched(&self) -> usize {
        self.touched.len() + self.pinned.len()
    }
}

/// The reason why evidence about an asset is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kernel) enum Touch {
    /// The asset got a new consumer.
    Consumer,
    /// The asset's pin moved.
    Pinned,
}
