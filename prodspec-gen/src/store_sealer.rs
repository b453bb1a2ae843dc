//! The implementation of [`Sealer`] on a store. One commit writes the incarnation, marks the used overrides and checks
//! the fencing token. It is separate from `seal`, so that pipelines without a store do not depend on one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use control_plane_store::{
    Batch, Error, Record, Store, Version,
    contents::Contents,
    incarnations::{Head, Incarnations},
    owner,
    record::{self, Stored},
};
use jiff::Timestamp;
use plugin_sdk::{BoxError, FencingToken, Problem, with_causes};
use prodspec_model::{Digest, Incarnation, IncarnationNo, PartitionId, Revision, SourceName};
use serde::{Deserialize, Serialize};

use crate::{
    externals,
    overrides::{InForce, SealOverride},
    remarks::Remarks,
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
    contents: Contents<dyn Store>,
    owner: Option<FencingToken>,
    at_hand: Mutex<AtHand>,
}

/// A cache of the newest state that was read from or written to the store.
#[derive(Default)]
struct AtHand {
    latest: Option<(Head, Incarnation)>,
    /// The source revisions that the store has as those of the last run. Empty: this is not known.
    seen: BTreeMap<SourceName, Revision>,
}

/// The record of the source revisions of the last run, if it changed nothing. Without it, they are those of the newest
/// incarnation.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Seen(BTreeMap<SourceName, Revision>);

impl Record for Seen {
    const KIND: &'static str = "seen";
}

impl Record for SealOverride {
    const KIND: &'static str = "seal-override";
}

/// The error for an override that was replaced, was used or has expired between the verdict of the guard and the seal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the override of `{0}` was replaced, was used or has expired before the seal; the next run asks the guard again"
)]
pub struct NotInForce(String);

/// The error for an external content that was removed between its check and the seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an external content was removed before the seal; the next run reads it again")]
struct ContentGone;

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
            contents: Contents::new(Arc::clone(&store), partition.clone()),
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

    /// A batch that fails unless the owner's fencing token is still current. Without a token it has no such condition.
    fn batch(&self) -> Batch {
        match self.owner {
            Some(token) => Batch::new().expect_at(owner::key(&self.partition), Version(token.0)),
            None => Batch::new(),
        }
    }

    /// A batch that marks the overrides that `seal` uses, and that fails if one of them changes before the commit.
    ///
    /// # Errors
    /// [`NotInForce`] when an override cannot be used any more.
    async fn spending(&self, seal: &Seal) -> Result<Batch, BoxError> {
        let mut batch = self.batch();
        for word in &seal.spent {
            let name = word.name();
            let stands = record::load::<SealOverride>(&*self.store, &self.partition, &name).await?;
            let usable = word.holds(seal.header.sealed_at);
            let mut stands = stands
                .filter(|stands| usable && stands.value == *word)
                .ok_or_else(|| NotInForce(word.guard.clone()))?;
            stands.value.used = Some(seal.mark());
            batch = self.rewrite(batch, &stands)?;
        }
        Ok(batch)
    }

    /// Adds the changed override to `batch`, which fails if the record changes before the commit.
    fn rewrite(&self, batch: Batch, word: &Stored<SealOverride>) -> Result<Batch, BoxError> {
        let name = word.value.name();
        let key = record::key(&self.partition, SealOverride::KIND, &name);
        let write = word.rewrite(&self.partition, &name)?;
        Ok(batch.expect_at(key, word.version).write(write))
    }

    /// Reads all overrides that were ever given. A record that cannot be read is an error of its own.
    async fn words(&self) -> Result<Vec<Result<Stored<SealOverride>, Error>>, BoxError> {
        let all = record::load_each(&*self.store, &self.partition).await?;
        Ok(all.into_iter().map(|(_, word)| word).collect())
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
        // Another process has sealed it, and may have recorded other revisions since.
        *self.at_hand() = AtHand {
            latest: Some((head, latest.clone())),
            seen: BTreeMap::new(),
        };
        Ok(Some(latest))
    }

    async fn remarks(&self) -> Result<Option<Remarks>, BoxError> {
        let load = record::load::<Remarks>(&*self.store, &self.partition, "").await;
        match load {
            Ok(stored) => Ok(stored.map(|stored| stored.value.only_warnings())),
            // They decide nothing: generation goes on without them.
            Err(error @ Error::Damaged { .. }) => {
                let head = self.incarnations.head().await?;
                Ok(head.map(|head| unreadable(&head, &error)))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn overrides(&self, now: Timestamp) -> Result<InForce, BoxError> {
        let mut in_force = InForce::default();
        for word in self.words().await? {
            match word {
                Ok(word) if word.value.holds(now) => in_force.overrides.push(word.value),
                Ok(_) => {}
                Err(error) => in_force.set_aside.push(set_aside(&error)),
            }
        }
        Ok(in_force)
    }

    async fn allow(
        &self,
        word: SealOverride,
        parent: Option<IncarnationNo>,
    ) -> Result<(), BoxError> {
        let head = self.incarnations.head().await?;
        if head.map(|head| head.no) != parent {
            return Err(Superseded.into());
        }
        // Without the expectation of the head, a seal that uses the earlier override would leave this one in force.
        let mut batch = self.incarnations.expecting(self.batch(), head.as_ref());
        for mut earlier in self.words().await?.into_iter().flatten() {
            if earlier.value.holds(word.at) && earlier.value.repeats(&word) {
                earlier.value.until = word.at;
                batch = self.rewrite(batch, &earlier)?;
            }
        }
        let write = record::put(&self.partition, &word.name(), &word)?;
        self.store.commit(batch.write(write)).await?;
        Ok(())
    }

    async fn missing(&self, wanted: &BTreeSet<Digest>) -> Result<BTreeSet<Digest>, BoxError> {
        Ok(self.contents.missing(wanted).await?)
    }

    async fn keep(&self, content: &[u8]) -> Result<(), BoxError> {
        self.contents.put(content, &self.batch()).await?;
        Ok(())
    }

    async fn seal(&self, seal: Seal) -> Result<Incarnation, BoxError> {
        let after = self.at_hand().latest.as_ref().map(|known| known.0);
        if after.map(|head| head.no) != seal.header.parent {
            return Err(Superseded.into());
        }
        let parent = self.at_hand().latest.as_ref().map(|known| known.1.clone());
        let counts = externals::counts(&seal, parent.as_ref());
        let remarks = seal.remarks();
        let remarks = record::replace(&*self.store, &self.partition, "", remarks).await?;
        let unseen = record::delete::<Seen>(&self.partition, "");
        let with = self.spending(&seal).await?.write(remarks).write(unseen);
        let counted = self
            .contents
            .count(with, seal.header.id.no, &counts)
            .await?;
        let with = counted.ok_or(ContentGone)?;
        let incarnation = Incarnation::new(seal.header, seal.snapshot);
        let sealed = self.incarnations.seal(&incarnation, after.as_ref(), with);
        let head = sealed.await?;
        *self.at_hand() = AtHand {
            latest: Some((head, incarnation.clone())),
            seen: incarnation.header().sources.clone(),
        };
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

/// The remarks about the content in force when theirs cannot be read.
fn unreadable(head: &Head, error: &Error) -> Remarks {
    let why = with_causes(error);
    let message =
        format!("what external validators warned of is not known until the next seal: {why}");
    Remarks {
        content: head.digest,
        warnings: Problem::new(message).by("store").warning().into(),
    }
}

/// The warning about an override record that cannot be read.
fn set_aside(error: &Error) -> Problem {
    let why = with_causes(error);
    let message = format!("an override does not count; give it again if it is needed: {why}");
    Problem::new(message).by("store").warning()
}

impl std::fmt::Debug for StoreSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreSealer")
            .field("partition", &self.partition)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
