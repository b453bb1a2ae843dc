//! Check and hypothetical plans: what edited sources would make, without touching anything.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::future::join_all;
use plane_runtime::{Runtime, blocking};
use plugin_sdk::{Candidate, Problem, Problems, Reading, SourceOfTruth};
use prodspec_model::{
    AssetId, Digest, Incarnation, IncarnationId, IncarnationNo, Revision, SourceName,
    incarnation::Header, snapshot::Change,
};
use serde::{Deserialize, Serialize};

use crate::handle::{Error, Handle};

/// What an incarnation would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The incarnation it would be; the one in force if nothing changes.
    pub incarnation: IncarnationId,
    /// The digest of all assets.
    pub digest: Digest,
    /// The incarnation in force.
    pub parent: Option<IncarnationNo>,
    /// Every asset, by id.
    pub assets: Vec<CheckedAsset>,
    /// The difference from the incarnation in force, by id.
    pub changes: Vec<CheckedChange>,
}

/// One asset of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedAsset {
    /// Its id.
    pub id: AssetId,
    /// Its type.
    pub type_name: String,
    /// What it refers to.
    pub references: Vec<AssetId>,
    /// The digest of its content.
    pub digest: Digest,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedChange {
    /// Which asset.
    pub id: AssetId,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// What becomes of an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// It is new.
    Added,
    /// Its content differs.
    Changed,
    /// It is gone.
    Removed,
}

impl Checked {
    fn of(candidate: &Candidate, incarnation: IncarnationId) -> Self {
        let asset = |asset: prodspec_model::Asset| CheckedAsset {
            id: asset.id(),
            type_name: asset.type_str().to_owned(),
            references: asset.references(),
            digest: asset.digest(),
        };
        let change = |change: &Change| CheckedChange {
            id: change.id(),
            outcome: match (&change.before, &change.after) {
                (None, _) => Outcome::Added,
                (Some(_), None) => Outcome::Removed,
                (Some(_), Some(_)) => Outcome::Changed,
            },
        };
        Self {
            incarnation,
            digest: candidate.digest,
            parent: candidate.parent.as_ref().map(Incarnation::no),
            assets: candidate.snapshot.iter().map(asset).collect(),
            changes: candidate.changes.iter().map(change).collect(),
        }
    }
}

/// A source that holds what it was given: to check a text as if it stood in the file.
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
    /// Stands in for the source called `name`.
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
    /// What incarnation the sources would make, `instead` standing in for those of the same names. Touches nothing,
    /// and needs no ownership. External validators are not asked.
    ///
    /// # Errors
    /// [`Error::Refused`] with every problem found, or when the store cannot be read.
    pub async fn check(&self, instead: &[&dyn SourceOfTruth]) -> Result<Checked, Error> {
        let (candidate, incarnation) = self.candidate(instead).await?;
        Ok(Checked::of(&candidate, incarnation.id().clone()))
    }

    /// What the sources would make, and the incarnation that would be.
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
            pipeline.check(named, parent.as_ref())
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
            let source = standing_in.remove(&source.name()).unwrap_or(&**source);
            async move { (source.name(), pipeline.read(runtime, source).await) }
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

    fn hypothetical(
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
        let header = Header {
            id: IncarnationId::new(self.shared.partition.clone(), no),
            digest: candidate.digest,
            parent,
            sealed_at: self.shared.runtime.now().wall,
            sources,
            assets: candidate.snapshot.len() as u64,
        };
        Incarnation::new(header, candidate.snapshot.clone())
    }
}
