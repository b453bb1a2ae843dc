//! [`Seals`] in a store: incarnation, spent overrides and fence in one commit. Apart from `seal`, so that pipelines
//! without a store never see one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use plane_store::{
    Batch, Record, Store, Version,
    incarnations::{Head, Incarnations},
    owner, record,
};
use plugin_sdk::{BoxError, FencingToken};
use prodspec_model::{Incarnation, PartitionId, Revision, SourceName};
use serde::{Deserialize, Serialize};

use crate::{
    guard::SealOverride,
    seal::{Seal, Seals, Superseded},
};

/// Keeps the incarnations of one partition in a store.
///
/// ```
/// use std::sync::Arc;
/// use plane_store::MemoryStore;
/// use prodspec_gen::{Durable, Seals};
/// # futures::executor::block_on(async {
/// let (store, partition) = (Arc::new(MemoryStore::new()), "shakespeare".parse()?);
/// let seals = Durable::new(store, partition);
/// assert!(seals.latest().await?.is_none());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// # }).unwrap();
/// ```
pub struct Durable {
    store: Arc<dyn Store>,
    partition: PartitionId,
    incarnations: Arc<Incarnations<dyn Store>>,
    owner: Option<FencingToken>,
    at_hand: Mutex<AtHand>,
}

/// What is known of the store, to save reading it again.
#[derive(Default)]
struct AtHand {
    latest: Option<(Head, Incarnation)>,
    seen: BTreeMap<SourceName, Revision>,
}

/// The revisions of sources that led to nothing new.
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
    /// One word per guard and digest.
    fn name(&self) -> String {
        format!("{}/{}", self.guard, self.digest)
    }
}

/// An override was taken back, or spent, between the verdict and the seal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the override of {0} is gone; give it again if it is still meant")]
pub struct Withdrawn(String);

impl Durable {
    /// Keeps the incarnations of `partition` in `store`. Anybody may seal: see [`Durable::owned`].
    pub fn new(store: Arc<dyn Store>, partition: PartitionId) -> Self {
        let incarnations = Incarnations::new(Arc::clone(&store), partition.clone());
        Self::sharing(store, partition, Arc::new(incarnations))
    }

    /// The same, where others in this process read `incarnations` too and share what is loaded.
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

    /// Seals only while the partition is owned under `token`: of two processes that generate, one is refused.
    #[must_use]
    pub fn owned(mut self, token: FencingToken) -> Self {
        self.owner = Some(token);
        self
    }

    /// Records a person's word; the next run heeds it, and the seal that takes it spends it.
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

    /// A batch that only the owner can commit.
    fn batch(&self) -> Batch {
        match self.owner {
            Some(token) => Batch::new().expect_at(owner::key(&self.partition), Version(token.0)),
            None => Batch::new(),
        }
    }

    /// Spends `words`, if each of them still stands.
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
impl Seals for Durable {
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

impl std::fmt::Debug for Durable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Durable")
            .field("partition", &self.partition)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
