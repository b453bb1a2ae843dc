//! Sealing: the narrow way from generation to whatever keeps incarnations.

use std::{collections::BTreeMap, sync::Mutex};

use async_trait::async_trait;
use plugin_sdk::BoxError;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationId, PartitionId, Revision, Snapshot, SourceName,
    incarnation::Header,
};

use crate::{guard::SealOverride, memo::Draft};

/// An incarnation about to become durable, with what changed against its parent.
#[derive(Debug, Clone)]
pub struct Seal {
    /// What is known of it beside its assets.
    pub header: Header,
    /// All assets.
    pub snapshot: Snapshot,
    /// The assets that are new or changed.
    pub put: Vec<Asset>,
    /// The assets that are gone.
    pub removed: Vec<AssetId>,
    /// The overrides it took: they must be spent with the same commit.
    pub spent: Vec<SealOverride>,
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
        let no = parent.unwrap_or_default().next();
        Self {
            header: Header {
                id: IncarnationId::new(partition.clone(), no),
                digest: candidate.digest,
                parent,
                sealed_at,
                sources: draft.sources.clone(),
                assets: candidate.snapshot.len() as u64,
            },
            snapshot: candidate.snapshot.clone(),
            put: draft.put.clone(),
            removed: draft.removed.clone(),
            spent,
        }
    }
}

/// Keeps the incarnations of one partition.
#[async_trait]
pub trait Seals: Send + Sync + 'static {
    /// The incarnation in force.
    async fn latest(&self) -> Result<Option<Incarnation>, BoxError>;

    /// What people said that guards shall let pass, and that was not spent yet.
    async fn overrides(&self) -> Result<Vec<SealOverride>, BoxError>;

    /// Makes an incarnation durable and the one in force, if its parent still is; spends its overrides.
    async fn seal(&self, seal: Seal) -> Result<Incarnation, BoxError>;

    /// Notes the revisions of sources that led to nothing new.
    async fn seen(&self, sources: &BTreeMap<SourceName, Revision>) -> Result<(), BoxError>;
}

/// Keeps incarnations in memory: for tests, and for services that regenerate everything when they start.
#[derive(Debug, Default)]
pub struct InMemory(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sealed: Vec<Incarnation>,
    overrides: Vec<SealOverride>,
    seen: BTreeMap<SourceName, Revision>,
}

/// Somebody else sealed meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another incarnation was sealed meanwhile; it is read and the run repeated")]
pub struct Superseded;

impl InMemory {
    /// Nothing sealed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a person's word.
    pub fn allow(&self, word: SealOverride) {
        self.kept().overrides.push(word);
    }

    /// Every incarnation, oldest first.
    pub fn sealed(&self) -> Vec<Incarnation> {
        self.kept().sealed.clone()
    }

    /// The revisions that led to nothing new, last.
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
impl Seals for InMemory {
    async fn latest(&self) -> Result<Option<Incarnation>, BoxError> {
        Ok(self.kept().sealed.last().cloned())
    }

    async fn overrides(&self) -> Result<Vec<SealOverride>, BoxError> {
        Ok(self.kept().overrides.clone())
    }

    async fn seal(&self, seal: Seal) -> Result<Incarnation, BoxError> {
        let mut kept = self.kept();
        if kept.sealed.last().map(Incarnation::no) != seal.header.parent {
            return Err(Superseded.into());
        }
        let incarnation = Incarnation::new(seal.header, seal.snapshot);
        kept.sealed.push(incarnation.clone());
        kept.overrides.retain(|word| !seal.spent.contains(word));
        Ok(incarnation)
    }

    async fn seen(&self, sources: &BTreeMap<SourceName, Revision>) -> Result<(), BoxError> {
        self.kept().seen = sources.clone();
        Ok(())
    }
}
