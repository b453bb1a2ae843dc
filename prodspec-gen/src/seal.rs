//! Sealing: the interface between generation and the storage of incarnations.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use async_trait::async_trait;
use jiff::Timestamp;
use plugin_sdk::{BoxError, Problems};
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationId, IncarnationNo, PartitionId, Revision,
    Snapshot, SourceName, incarnation::Header,
};

use crate::{
    memo::Draft,
    overrides::{InForce, SealOverride, UsedBySeal},
    remarks::Remarks,
};

/// An incarnation that is to be sealed, with its changes against its parent.
#[derive(Debug, Clone)]
pub struct Seal {
    /// The header of the incarnation.
    pub header: Header,
    /// All assets of the incarnation.
    pub snapshot: Snapshot,
    /// The assets that are new, or differ from the parent's.
    pub put: Vec<Asset>,
    /// The ids of the parent's assets that are not in the incarnation.
    pub removed: Vec<AssetId>,
    /// The overrides that the guards used. The commit of the seal must mark them as used.
    pub spent: Vec<SealOverride>,
    /// The warnings of external validators about the incarnation. They are kept with it.
    pub warnings: Problems,
}

impl Seal {
    pub(crate) fn of(
        partition: &PartitionId,
        draft: &Draft,
        spent: Vec<SealOverride>,
        sealed_at: jiff::Timestamp,
    ) -> Self {
        let candidate = &draft.candidate;
        let parent = candidate.parent.as_ref().map(Incarnation::no);
        let id = IncarnationId::new(partition.clone(), parent.unwrap_or_default().next());
        let mut header = Header::new(id, parent, &candidate.snapshot, sealed_at);
        header.sources = draft.sources.clone();
        Self {
            header,
            snapshot: candidate.snapshot.clone(),
            put: draft.put.clone(),
            removed: draft.removed.clone(),
            spent,
            warnings: Problems::none(),
        }
    }

    /// What is kept of the warnings of external validators.
    pub(crate) fn remarks(&self) -> Remarks {
        let remarks = Remarks {
            content: self.header.digest,
            warnings: self.warnings.clone(),
        };
        remarks.bounded()
    }

    /// The mark of the overrides that this seal uses up.
    pub(crate) fn mark(&self) -> UsedBySeal {
        UsedBySeal {
            at: self.header.sealed_at,
            incarnation: self.header.id.no,
        }
    }
}

/// Storage for the incarnations and the overrides of one partition.
#[async_trait]
pub trait Sealer: Send + Sync + 'static {
    /// The incarnation in force, which is the newest. `None`: nothing is sealed yet.
    async fn latest(&self) -> Result<Option<Incarnation>, BoxError>;

    /// What external validators said about the content that was sealed last. `None`: nothing is sealed yet.
    async fn remarks(&self) -> Result<Option<Remarks>, BoxError>;

    /// The overrides that are in force at `now`. A record that cannot be read is set aside, and the others count.
    async fn overrides(&self, now: Timestamp) -> Result<InForce, BoxError>;

    /// Records an override, which applies from the next run on. It replaces one in force for the same guard and digest:
    /// together they let one seal pass. Fails if an incarnation other than `parent` is in force: see [`Superseded`].
    async fn allow(
        &self,
        word: SealOverride,
        parent: Option<IncarnationNo>,
    ) -> Result<(), BoxError>;

    /// Those of `wanted` external contents that are not kept. By default all of them.
    async fn missing(&self, wanted: &BTreeSet<Digest>) -> Result<BTreeSet<Digest>, BoxError> {
        Ok(wanted.clone())
    }

    /// Keeps an external content, to which the next incarnation refers. By default nothing is kept, and plugins cannot
    /// read the content.
    async fn keep(&self, content: &[u8]) -> Result<(), BoxError> {
        let _ = content;
        Ok(())
    }

    /// Makes an incarnation durable and puts it in force, and marks the overrides that it used, in one commit. Fails
    /// if its parent is no longer in force: see [`Superseded`]. [`StoreSealer`](crate::StoreSealer) also fails if one of
    /// the overrides is not in force any more.
    async fn seal(&self, seal: Seal) -> Result<Incarnation, BoxError>;

    /// Records the source revisions of a run that changed nothing.
    async fn seen(&self, sources: &BTreeMap<SourceName, Revision>) -> Result<(), BoxError>;
}

/// Storage in memory, for tests and for services that generate everything again when they start.
#[derive(Debug, Default)]
pub struct InMemory(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sealed: Vec<Incarnation>,
    overrides: Vec<SealOverride>,
    remarks: Option<Remarks>,
    seen: BTreeMap<SourceName, Revision>,
}

/// The error for a seal whose parent is no longer in force, because another process or task sealed an incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another incarnation was sealed meanwhile; the next run builds on it")]
pub struct Superseded;

impl InMemory {
    /// Creates storage without any incarnation.
    pub fn new() -> Self {
        Self::default()
    }

    /// All overrides that were ever recorded, in the order in which they were given.
    pub fn all_overrides(&self) -> Vec<SealOverride> {
        self.kept().overrides.clone()
    }

    /// All sealed incarnations, oldest first.
    pub fn sealed(&self) -> Vec<Incarnation> {
        self.kept().sealed.clone()
    }

    /// The source revisions of the last run that changed nothing.
    pub fn last_seen(&self) -> BTreeMap<SourceName, Revision> {
        self.kept().seen.clone()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[async_trait]
impl Sealer for InMemory {
    async fn latest(&self) -> Result<Option<Incarnation>, BoxError> {
        Ok(self.kept().sealed.last().cloned())
    }

    async fn remarks(&self) -> Result<Option<Remarks>, BoxError> {
        Ok(self.kept().remarks.clone())
    }

    async fn overrides(&self, now: Timestamp) -> Result<InForce, BoxError> {
        let mut overrides = self.all_overrides();
        overrides.retain(|word| word.holds(now));
        let set_aside = Problems::none();
        Ok(InForce {
            overrides,
            set_aside,
        })
    }

    async fn allow(
        &self,
        word: SealOverride,
        parent: Option<IncarnationNo>,
    ) -> Result<(), BoxError> {
        let mut kept = self.kept();
        if kept.sealed.last().map(Incarnation::no) != parent {
            return Err(Superseded.into());
        }
        let earlier = kept.overrides.iter_mut();
        for earlier in earlier.filter(|it| it.holds(word.at) && it.repeats(&word)) {
            earlier.until = word.at;
        }
        kept.overrides.push(word);
        Ok(())
    }

    async fn seal(&self, seal: Seal) -> Result<Incarnation, BoxError> {
        let mut kept = self.kept();
        if kept.sealed.last().map(Incarnation::no) != seal.header.parent {
            return Err(Superseded.into());
        }
        let used = seal.mark();
        kept.remarks = Some(seal.remarks());
        let incarnation = Incarnation::new(seal.header, seal.snapshot);
        kept.sealed.push(incarnation.clone());
        let spent = kept.overrides.iter_mut();
        for word in spent.filter(|word| seal.spent.contains(word)) {
            word.used = Some(used);
        }
        Ok(incarnation)
    }

    async fn seen(&self, sources: &BTreeMap<SourceName, Revision>) -> Result<(), BoxError> {
        self.kept().seen = sources.clone();
        Ok(())
    }
}
