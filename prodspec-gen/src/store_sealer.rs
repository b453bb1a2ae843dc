//! The implementation of [`Sealer`] on a store. One commit writes the incarnation, removes the used overrides and checks
//! the fencing token. It is separate from `seal`, so that pipelines without a store do not depend on one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use control_plane_store::{
    Batch, Record, Store, Version,
    incarnations::{Head, Incarnations},
    owner, record,
};
use plugin_sdk::{BoxError, FencingToken};
use prodspec_model::{Incarnation, PartitionId, Revision, SourceName};
use serde::{Deserialize, Serialize};

use crate::{
    guard::SealOverride,
    seal::{Seal, Sealer, Superseded},
};

/// Keeps the incarnations and the overrides of one partition in a store.
///
/// ```
/// use std::sync::Arc;
/// use control_plane_store::MemoryStore;
/// use prodspec_gen::{Sealer, StoreSealer};
/// # futures::executor::block_on(async {
/// let (store, partition) = (Arc::new(MemoryStore::new()), "shakespeare".parse()?);
/// let seals = StoreSealer::new(store, partition);
/// assert!(seals.latest().await?.is_none());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// # }).unwrap();
/// ```
pub struct StoreSealer {
    store: Arc<dyn Store>,
    partition: PartitionId,
    incarnations: Arc<Incarnations<dyn Store>>,
    owner: Option<FencingToken>,
    at_hand: Mutex<AtHand>,
}

/// A cache of the newest state that was read from or written to the store.
#[derive(Default)]
struct AtHand {
    latest: Option<(Head, Incarnation)>,
    seen: BTreeMap<SourceName, Revision>,
}

/// The record of the source revisions of the last run that changed nothing.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Seen(BTreeMap<SourceName, Revision>);

impl Record for Seen {
    const KIND: &'static str = "seen";
}

impl Record for SealOverride {
    const KIND: &'static str = "seal-override";
}

impl SealOverride {
    /// The name of the record: one override for each pair of guard and digest.
    fn name(&self) -> String {
        format!("{}/{}", self.guard, self.digest)
    }
}

/// The error for an override that was withdrawn or used between the verdict of the guard and the seal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the override of `{0}` was withdrawn or used before the seal; give it again if it is still needed"
)]
pub struct Withdrawn(String);

impl StoreSealer {
    /// Keeps the incarnations of `partition` in `store`. Does not check the owner of the partition: see
    /// [`StoreSealer::owned`].
    pub fn new(store: Arc<dyn Store>, partition: PartitionId) -> Self {
        let incarnations = Incarnations::new(Arc::clone(&store), partition.clone());
        Self::sharing(store, partition, Arc::new(incarnations))
    }

    /// As [`StoreSealer::new`], with a reader of incarnations that other code in this process shares, so that each
    /// incarnation is loaded only once.
    pub fn sharing(
        store: Arc<dyn Store>,
        partition: PartitionId,
        incarnations: Arc<Incarnations<dyn Store>>,
    ) -> Self {
        Self {
            store,
            partition,
            incarnations,
            owner: None,
            at_hand: Mutex::default(),
        }
    }

    /// Seals only while the partition is owned under `token`. If two processes generate for the partition, the store
    /// refuses the seals of the one that is not the owner.
    #[must_use]
    pub fn owned(mut self, token: FencingToken) -> Self {
        self.owner = Some(token);
        self
    }

    /// Records an operator's override. It applies from the next run on; the seal that uses it removes it.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn allow(
        store: &dyn Store,
        partition: &PartitionId,
        word: &SealOverride,
    ) -> Result<(), BoxError> {
        let batch = Batch::new().write(record::put(partition, &word.name(), word)?);
        store.commit(batch).await?;
        Ok(())
    }

    /// A batch that fails unless the owner's fencing token is still current. Without a token it has no such condition.
    fn batch(&self) -> Batch {
        match self.owner {
            Some(token) => Batch::new().expect_at(owner::key(&self.partition), Version(token.0)),
            None => Batch::new(),
        }
    }

    /// A batch that removes the used overrides `words`, and that fails if one of them changes before the commit.
    ///
    /// # Errors
    /// [`Withdrawn`] when an override is not in the store any more.
    async fn spending(&self, words: &[SealOverride]) -> Result<Batch, BoxError> {
        let mut batch = self.batch();
        for word in words {
            let name = word.name();
            let stands = record::load::<SealOverride>(&*self.store, &self.partition, &name).await?;
            let stands = stands.ok_or_else(|| Withdrawn(word.guard.clone()))?;
            let key = record::key(&self.partition, SealOverride::KIND, &name);
            batch = batch
                .expect_at(key, stands.version)
                .write(record::delete::<SealOverride>(&self.partition, &name));
        }
        Ok(batch)
    }

    fn at_hand(&self) -> MutexGuard<'_, AtHand> {
        self.at_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sealer for StoreSealer {
    async fn latest(&self) -> Result<Option<Incarnation>, BoxError> {
        let head = self.incarnations.head().await?;
        let known = self.at_hand().latest.clone();
        if known.as_ref().map(|known| known.0) == head {
            return Ok(known.map(|known| known.1));
        }
        let Some(head) = head else { return Ok(None) };
        let latest = self.incarnations.load(head.no).await?;
        self.at_hand().latest = Some((head, latest.clone()));
        Ok(Some(latest))
    }

    async fn overrides(&self) -> Result<Vec<SealOverride>, BoxError> {
        let all = record::load_all::<SealOverride>(&*self.store, &self.partition).await?;
        Ok(all.into_iter().map(|(_, stored)| stored.value).collect())
    }

    async fn seal(&self, seal: Seal) -> Result<Incarnation, BoxError> {
        let after = self.at_hand().latest.as_ref().map(|known| known.0);
        if after.map(|head| head.no) != seal.header.parent {
            return Err(Superseded.into());
        }
        let with = self.spending(&seal.spent).await?;
        let incarnation = Incarnation::new(seal.header, seal.snapshot);
        let sealed = self.incarnations.seal(&incarnation, after.as_ref(), with);
        let head = sealed.await?;
        self.at_hand().latest = Some((head, incarnation.clone()));
        Ok(incarnation)
    }

    async fn seen(&self, sources: &BTreeMap<SourceName, Revision>) -> Result<(), BoxError> {
        if self.at_hand().seen == *sources {
            return Ok(());
        }
        let seen = record::put(&self.partition, "", &Seen(sources.clone()))?;
        self.store.commit(self.batch().write(seen)).await?;
        self.at_hand().seen = sources.clone();
        Ok(())
    }
}

impl std::fmt::Debug for StoreSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Durable")
            .field("partition", &self.partition)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
