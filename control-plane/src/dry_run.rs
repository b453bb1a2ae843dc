//! Checks of edited sources: the incarnation that they would make, without changing anything.

use std::collections::BTreeMap;

use async_trait::async_trait;
use control_plane_runtime::{Runtime, blocking};
use futures::future::join_all;
use plugin_sdk::{Candidate, Problem, Problems, Reading, SourceOfTruth};
use prodspec_model::{
    AssetId, Digest, Incarnation, IncarnationId, IncarnationNo, Revision, SourceName,
    incarnation::Header, snapshot::Change,
};
use serde::{Deserialize, Serialize};

use crate::handle::{Error, Handle};

/// The incarnation that sources would make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRun {
    /// Id that the incarnation would get; the one in force if nothing changes.
    pub incarnation: IncarnationId,
    /// Digest of all its assets.
    pub digest: Digest,
    /// Incarnation in force; `None` if there is none yet.
    pub parent: Option<IncarnationNo>,
    /// All assets, ordered by id.
    pub assets: Vec<DryRunAsset>,
    /// Differences from the incarnation in force, ordered by id.
    pub changes: Vec<DryRunChange>,
}

/// One asset of a checked incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRunAsset {
    /// Id of the checked asset.
    pub id: AssetId,
    /// Name of the asset's type.
    pub type_name: String,
    /// Assets to which it refers.
    pub references: Vec<AssetId>,
    /// Digest of the asset's content.
    pub digest: Digest,
}

/// One difference from the incarnation in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRunChange {
    /// Id of the asset that differs.
    pub id: AssetId,
    /// How the asset would differ.
    pub outcome: Outcome,
}

/// How an asset differs from the incarnation in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The asset is not in force yet.
    Added,
    /// The asset has other content.
    Changed,
    /// The asset would leave intent.
    Removed,
}

impl DryRunChange {
    pub(crate) fn of(change: &Change) -> Self {
        Self {
            id: change.id(),
            outcome: match (&change.before, &change.after) {
                (None, _) => Outcome::Added,
                (Some(_), None) => Outcome::Removed,
                (Some(_), Some(_)) => Outcome::Changed,
            },
        }
    }
}

impl DryRun {
    fn of(candidate: &Candidate, incarnation: IncarnationId) -> Self {
        let asset = |asset: prodspec_model::Asset| DryRunAsset {
            id: asset.id(),
            type_name: asset.type_str().to_owned(),
            references: asset.references(),
            digest: asset.digest(),
        };
        Self {
            incarnation,
            digest: candidate.digest,
            parent: candidate.parent.as_ref().map(Incarnation::no),
            assets: candidate.snapshot.iter().map(asset).collect(),
            changes: candidate.changes.iter().map(DryRunChange::of).collect(),
        }
    }
}

/// A source with fixed content. Used to check an edited text as if it were in the file.
///
/// ```
/// use control_plane::prelude::*;
/// let manifest = YamlFile::new("manifest.yaml");
/// let edited = Given::new("manifest.yaml", manifest.parse(b"clusters: [eu, us]")?);
/// # Ok::<(), Problems>(())
/// ```
#[derive(Debug, Clone)]
pub struct Given {
    name: SourceName,
    reading: Reading,
}

impl Given {
    /// Creates a source that replaces the source named `name` and returns `reading`.
    pub fn new(name: &str, reading: Reading) -> Self {
        Self {
            name: SourceName(name.into()),
            reading,
        }
    }
}

#[async_trait]
impl SourceOfTruth for Given {
    fn name(&self) -> SourceName {
        self.name.clone()
    }

    async fn read(&self) -> Result<Reading, Problems> {
        Ok(self.reading.clone())
    }
}

impl<R: Runtime> Handle<R> {
    /// Returns the incarnation that the sources would make now. Each source in `instead` replaces the one of the same
    /// name. Changes nothing, and needs no ownership. External validators are not called.
    ///
    /// # Errors
    /// [`Error::Refused`] with every problem found, [`Error::UnknownSource`] if `instead` names no existing source, or
    /// a store error if the store cannot be read.
    pub async fn dry_run(&self, instead: &[&dyn SourceOfTruth]) -> Result<DryRun, Error> {
        let (candidate, incarnation) = self.candidate(instead).await?;
        Ok(DryRun::of(&candidate, incarnation.id().clone()))
    }

    /// Returns the candidate that the sources would make, and the incarnation that it would become.
    pub(crate) async fn candidate(
        &self,
        instead: &[&dyn SourceOfTruth],
    ) -> Result<(Candidate, Incarnation), Error> {
        let readings = self.read(instead).await?;
        let sources = readings
            .iter()
            .map(|(name, reading)| (name.clone(), reading.revision.clone()))
            .collect();
        let parent = self.shared.incarnations.latest().await?;
        let named = readings
            .into_iter()
            .map(|(name, reading)| (name.0, reading));
        let pipeline = self.shared.pipeline.clone();
        let checked = blocking(&self.shared.runtime, move || {
            pipeline.dry_run(named, parent.as_ref())
        });
        let panicked = || Err(Problem::new("the check panicked").into());
        let candidate = checked.await.unwrap_or_else(panicked);
        let candidate = candidate.map_err(Error::Refused)?;
        let incarnation = self.hypothetical(&candidate, sources);
        Ok((candidate, incarnation))
    }

    async fn read(
        &self,
        instead: &[&dyn SourceOfTruth],
    ) -> Result<BTreeMap<SourceName, Reading>, Error> {
        let mut standing_in: BTreeMap<SourceName, &dyn SourceOfTruth> = instead
            .iter()
            .map(|source| (source.name(), *source))
            .collect();
        let (pipeline, runtime) = (&self.shared.pipeline, &self.shared.runtime);
        let reads = pipeline.sources().iter().map(|source| {
            let name = source.name();
            let replacement = standing_in.remove(&name);
            async move {
                let reading = match replacement {
                    Some(given) => pipeline.read_replacement(runtime, given).await,
                    None => pipeline.read(runtime, source).await,
                };
                (name, reading)
            }
        });
        let reads: Vec<_> = reads.collect();
        if let Some(name) = standing_in.into_keys().next() {
            return Err(Error::UnknownSource(name.0.to_string()));
        }
        let mut readings = BTreeMap::new();
        let mut problems = Problems::none();
        for (name, reading) in join_all(reads).await {
            match reading {
                Ok(reading) => drop(readings.insert(name, reading)),
                Err(unread) => problems.extend(unread),
            }
        }
        if problems.is_empty() {
            Ok(readings)
        } else {
            Err(Error::Refused(problems))
        }
    }

    /// The incarnation that a candidate would become.
    pub(crate) fn hypothetical(
        &self,
        candidate: &Candidate,
        sources: BTreeMap<SourceName, Revision>,
    ) -> Incarnation {
        if let Some(parent) = &candidate.parent
            && candidate.changes.is_empty()
        {
            return parent.clone();
        }
        let parent = candidate.parent.as_ref().map(Incarnation::no);
        let no = parent.unwrap_or_default().next();
        let id = IncarnationId::new(self.shared.partition.clone(), no);
        let now = self.shared.runtime.now().wall;
        let mut header = Header::new(id, parent, &candidate.snapshot, now);
        header.sources = sources;
        Incarnation::new(header, candidate.snapshot.clone())
    }
}
