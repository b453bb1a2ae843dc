//! What is remembered from the last good run, so that the next one costs what changed.
//!
//! A run works on an overlay and never on the memo itself: only a sealed run is [accepted](Memo::accept). Whatever
//! edits and failures lie between, an incremental run has the same result as a full one.

mod run;
mod unit;
mod validate;

use std::{collections::BTreeMap, sync::Arc};

use plugin_sdk::{Candidate, Document, Problem, Problems, Reading, document::DocumentKey};
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationNo, Revision, Snapshot, SourceName,
    snapshot::Change,
};

use self::run::Run;
use crate::pipeline::Pipeline;

/// What each source gave.
pub(crate) type Readings = BTreeMap<SourceName, Result<Reading, Problems>>;

/// What one call of a generator was about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnitKey {
    Whole,
    Document(DocumentKey),
    Asset(AssetId),
}

/// An asset as one call of one generator made it.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) stage: usize,
    pub(crate) unit: UnitKey,
    pub(crate) asset: Asset,
}

impl Made {
    /// Whether it replaces the very asset that the call was about.
    fn amends(&self) -> bool {
        matches!(&self.unit, UnitKey::Asset(id) if id.as_str() == self.asset.id_str())
    }
}

/// What one call of one generator gave.
#[derive(Debug, Clone, Default)]
struct Call {
    /// The assets, in the order in which they were made.
    made: Vec<Asset>,
    /// What it warned of: said again by every run that does not repeat the call.
    warnings: Problems,
}

/// The last good run.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// Whether there was one.
    warm: bool,
    /// The content that it led to.
    digest: Option<Digest>,
    documents: BTreeMap<DocumentKey, Document>,
    /// What each call gave.
    units: BTreeMap<(usize, UnitKey), Call>,
    /// Every version of every asset, in the order of the stages; the last one counts.
    versions: BTreeMap<AssetId, Vec<Made>>,
    /// What validators warned of at each asset: said again by every run that does not ask them again.
    remarks: BTreeMap<AssetId, Problems>,
}

/// A run that found no error.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) candidate: Candidate,
    pub(crate) put: Vec<Asset>,
    pub(crate) removed: Vec<AssetId>,
    pub(crate) sources: BTreeMap<SourceName, Revision>,
    pub(crate) warnings: Problems,
    overlay: Overlay,
}

/// A run that found errors.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) problems: Problems,
    /// What it would have led to, if everything that should be there was made: others can say more about it.
    pub(crate) candidate: Option<Candidate>,
}

impl From<Problems> for Refused {
    fn from(problems: Problems) -> Self {
        Self {
            problems,
            candidate: None,
        }
    }
}

/// What a run changes in the memo.
#[derive(Debug, Default)]
struct Overlay {
    documents: BTreeMap<DocumentKey, Option<Document>>,
    units: BTreeMap<(usize, UnitKey), Call>,
    versions: BTreeMap<AssetId, Vec<Made>>,
    /// Of the assets that validators were asked about.
    remarks: BTreeMap<AssetId, Problems>,
}

impl Memo {
    /// Nothing remembered: the next run is a full one.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Runs what has to run for `readings`, on top of `parent`.
    pub(crate) fn draft(
        &self,
        pipeline: &Pipeline,
        readings: Readings,
        parent: Option<&Incarnation>,
    ) -> Result<Draft, Refused> {
        let mut problems = Problems::none();
        let mut sources = BTreeMap::new();
        let mut overlay = Overlay::default();
        for (name, reading) in readings {
            match reading {
                Ok(reading) => {
                    sources.insert(name.clone(), reading.revision);
                    self.compare(&name, reading.documents, &mut overlay, &mut problems);
                }
                Err(unread) => problems.extend(unread),
            }
        }
        if !self.warm && !problems.is_empty() {
            // Without the documents of a source, what is said about the others could be wrong.
            return Err(problems.into());
        }
        let mut run = Run::new(pipeline, self, overlay, problems);
        run.stages();
        let candidate = self.candidate(&run, parent);
        run.validate(&candidate.0, self.is_base_of(parent));
        let complete = run.is_complete();
        let Run {
            overlay,
            mut problems,
            ..
        } = run;
        problems.sort();
        let (candidate, put, removed) = candidate;
        if problems.any_error() {
            return Err(Refused {
                problems,
                candidate: Some(candidate).filter(|_| complete),
            });
        }
        Ok(Draft {
            candidate,
            put,
            removed,
            sources,
            warnings: problems,
            overlay,
        })
    }

    /// Whether the memo led to `parent`, so that only what the run touched can differ from it.
    fn is_base_of(&self, parent: Option<&Incarnation>) -> bool {
        self.warm && self.digest == parent.map(|parent| parent.header().digest)
    }

    /// Notes which documents of a source are new, changed or gone.
    fn compare(
        &self,
        source: &SourceName,
        documents: Vec<Document>,
        overlay: &mut Overlay,
        problems: &mut Problems,
    ) {
        let mut there = BTreeMap::new();
        for document in documents {
            if document.key().source != *source {
                problems.push(misnamed(source, &document));
                continue;
            }
            if let Some(twin) = there.insert(document.key().clone(), document) {
                let message = format!("two documents of the source {} have this name", source.0);
                problems.push(twin.problem(message));
            }
        }
        for (key, _) in self.documents_of(source) {
            if !there.contains_key(key) {
                overlay.documents.insert(key.clone(), None);
            }
        }
        for (key, document) in there {
            if self.documents.get(&key) != Some(&document) {
                overlay.documents.insert(key, Some(document));
            }
        }
    }

    fn documents_of(&self, source: &SourceName) -> impl Iterator<Item = (&DocumentKey, &Document)> {
        let first = DocumentKey {
            source: source.clone(),
            path: "".into(),
            index: 0,
        };
        let source = source.clone();
        self.documents
            .range(first..)
            .take_while(move |(key, _)| key.source == source)
    }

    /// What the run makes of `parent`, and the difference.
    fn candidate(
        &self,
        run: &Run<'_>,
        parent: Option<&Incarnation>,
    ) -> (Candidate, Vec<Asset>, Vec<AssetId>) {
        let before = parent.map_or_else(Snapshot::empty, |parent| parent.snapshot().clone());
        let mut touched: Vec<AssetId> = if self.is_base_of(parent) {
            run.overlay.versions.keys().cloned().collect()
        } else {
            let all = self
                .versions
                .keys()
                .chain(run.overlay.versions.keys())
                .cloned();
            all.chain(before.iter().map(|asset| asset.id())).collect()
        };
        touched.sort();
        touched.dedup();
        let changes: Vec<Change> = touched
            .iter()
            .map(|id| Change {
                before: before.get(id.as_str()),
                after: run.last(id).cloned(),
            })
            .filter(|change| change.before != change.after)
            .collect();
        let put: Vec<Asset> = changes
            .iter()
            .filter_map(|change| change.after.clone())
            .collect();
        let gone = changes.iter().filter(|change| change.after.is_none());
        let removed: Vec<AssetId> = gone.map(Change::id).collect();
        let no = parent.map_or(IncarnationNo(1), |parent| parent.no().next());
        let snapshot = edit(&before, no, put.clone(), &removed);
        let candidate = Candidate {
            parent: parent.cloned(),
            digest: snapshot.digest(),
            snapshot,
            changes: changes.into(),
            types: Arc::clone(run.pipeline.types()),
        };
        (candidate, put, removed)
    }

    /// Takes over what a sealed (or unchanged) run found.
    pub(crate) fn accept(&mut self, draft: Draft) {
        let Overlay {
            documents,
            units,
            versions,
            remarks,
        } = draft.overlay;
        for (key, document) in documents {
            match document {
                Some(document) => self.documents.insert(key, document),
                None => self.documents.remove(&key),
            };
        }
        for (key, call) in units {
            if call.made.is_empty() && call.warnings.is_empty() {
                self.units.remove(&key);
            } else {
                self.units.insert(key, call);
            }
        }
        for (id, remarks) in remarks {
            if remarks.is_empty() {
                self.remarks.remove(&id);
            } else {
                self.remarks.insert(id, remarks);
            }
        }
        for (id, versions) in versions {
            if versions.is_empty() {
                self.versions.remove(&id);
            } else {
                self.versions.insert(id, versions);
            }
        }
        self.warm = true;
        self.digest = Some(draft.candidate.digest);
    }
}

/// A document that one source gave under the name of another.
fn misnamed(source: &SourceName, document: &Document) -> Problem {
    let other = &document.key().source.0;
    let message = format!(
        "a document of the source {} carries the name of the source {other}; key it by the source that gives it",
        source.0
    );
    document.problem(message).by(format!("source {}", source.0))
}

/// The one place that edits snapshots.
fn edit(before: &Snapshot, no: IncarnationNo, put: Vec<Asset>, removed: &[AssetId]) -> Snapshot {
    before.edit(no, put, removed)
}

/// Two generators made one asset.
fn twins(id: &AssetId, makers: &[(String, Asset)]) -> Problem {
    let names: Vec<String> = makers
        .iter()
        .map(|(generator, asset)| {
            let from = asset.provenance();
            format!(
                "`{generator}` from {}:{}:{}",
                from.document, from.line, from.column
            )
        })
        .collect();
    let message = format!(
        "made more than once, by {}; let one of them go",
        names.join(" and by ")
    );
    let problem = Problem::new(message).asset(id.clone());
    match makers.last() {
        Some((generator, asset)) => problem.origin(&asset.provenance()).by(generator.as_str()),
        None => problem,
    }
}

#[cfg(test)]
mod tests;
