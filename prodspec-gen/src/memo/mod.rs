//! The memo: the inputs and results of the last good run, so that the cost of the next run depends on the changes only.
//!
//! A run writes to an overlay and never to the memo itself. Only a run that was sealed, or that changed nothing, is
//! [accepted](Memo::accept) into the memo. An incremental run has the same result as a full run, whatever edits and
//! failures came before.

mod look_ups;
mod places;
mod run;
mod unit;
mod units;
mod validate;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use plugin_sdk::{Candidate, Document, Problem, Problems, Update, document::DocumentKey};
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationNo, Provenance, Revision, Snapshot, SourceName,
    snapshot::Change,
};

use self::run::Run;
use crate::pipeline::Pipeline;

/// What each source says, as of the revision that the memo has of it; or its problems.
pub(crate) type Readings = BTreeMap<SourceName, Result<Update, Problems>>;

/// The unit for which a generator is called: everything, one document, one entry of a document or one asset.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnitKey {
    Whole,
    Document(DocumentKey),
    /// The entry at this field path of a document.
    Entry(DocumentKey, Box<str>),
    Asset(AssetId),
}

/// One version of an asset: the result of one call of one generator.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) stage: usize,
    pub(crate) unit: UnitKey,
    pub(crate) asset: Asset,
}

impl Made {
    /// Whether this version amends the asset for which the generator was called.
    fn amends(&self) -> bool {
        matches!(&self.unit, UnitKey::Asset(id) if id.as_str() == self.asset.id_str())
    }
}

/// The result of one call of one generator.
#[derive(Debug, Clone, Default)]
struct Call {
    /// The assets, in the order in which the generator made them.
    made: Vec<Asset>,
    /// The warnings of the call. Every run that does not repeat the call reports them again.
    warnings: Problems,
    /// The assets that the call looked up, also those that it did not find.
    looked_up: BTreeSet<AssetId>,
}

impl Call {
    fn is_empty(&self) -> bool {
        self.made.is_empty() && self.warnings.is_empty() && self.looked_up.is_empty()
    }
}

/// The inputs and results of the last good run.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    /// Whether there was a good run.
    warm: bool,
    /// The digest of all assets after that run.
    digest: Option<Digest>,
    /// The revision of each source whose documents are here.
    revisions: BTreeMap<SourceName, Revision>,
    documents: BTreeMap<DocumentKey, Document>,
    /// The result of each call, by stage and unit.
    units: BTreeMap<(usize, UnitKey), Call>,
    /// The units whose calls have warnings.
    warned: BTreeSet<(usize, UnitKey)>,
    /// The units whose calls looked an asset up, by stage and asset.
    look_ups: BTreeMap<(usize, AssetId), BTreeSet<UnitKey>>,
    /// All versions of each asset, in the order of the stages. The last version is the asset's content.
    versions: BTreeMap<AssetId, Vec<Made>>,
    /// The warnings of validators about each asset. Every run that does not validate the asset again reports them
    /// again.
    remarks: BTreeMap<AssetId, Problems>,
}

/// The result of a run without errors, ready to be sealed.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) candidate: Candidate,
    pub(crate) put: Vec<Asset>,
    pub(crate) removed: Vec<AssetId>,
    pub(crate) sources: BTreeMap<SourceName, Revision>,
    pub(crate) warnings: Problems,
    pub(crate) overlay: Overlay,
}

/// The result of a run with errors.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) problems: Problems,
    /// The incarnation that would have been sealed, so that guards and external validators can report their problems
    /// too. `None`: it is incomplete, because a source could not be read or a generator failed.
    pub(crate) candidate: Option<Candidate>,
    pub(crate) overlay: Box<Overlay>,
}

/// The changes that a run makes to the memo.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    documents: BTreeMap<DocumentKey, Option<Document>>,
    /// Documents with the same content at other places or positions. No call is repeated because of them.
    moved: BTreeMap<DocumentKey, Document>,
    units: BTreeMap<(usize, UnitKey), Call>,
    versions: BTreeMap<AssetId, Vec<Made>>,
    /// The warnings about the assets that this run validated.
    remarks: BTreeMap<AssetId, Problems>,
}

impl Memo {
    /// An empty memo: the next run is a full one.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// The revision of each source that the next run needs no document of, unless it has changed.
    pub(crate) fn revisions(&self) -> &BTreeMap<SourceName, Revision> {
        &self.revisions
    }

    /// Runs the generators and validators that `readings` make necessary, on top of `parent`.
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
                Ok(update) => {
                    let taken = self.take(&name, update, &mut overlay, &mut problems);
                    sources.insert(name, taken);
                }
                Err(unread) => problems.extend(unread),
            }
        }
        if !self.warm && !problems.is_empty() {
            // There are no documents of the unread source, so problems of the other documents could be wrong.
            return Err(Refused {
                problems,
                candidate: None,
                overlay: overlay.into(),
            });
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
        self.locate(Some(&overlay), &mut problems);
        problems.sort();
        let (candidate, put, removed) = candidate;
        if problems.any_error() {
            return Err(Refused {
                problems,
                candidate: Some(candidate).filter(|_| complete),
                overlay: overlay.into(),
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

    /// Whether `parent` has the content of the memo. Then only assets that the run changes can differ from `parent`.
    pub(crate) fn is_base_of(&self, parent: Option<&Incarnation>) -> bool {
        self.warm && self.digest == parent.map(|parent| parent.header().digest)
    }

    /// Adds the new, changed and removed documents of a source to the overlay. Returns the revision that was read.
    fn take(
        &self,
        source: &SourceName,
        update: Update,
        overlay: &mut Overlay,
        problems: &mut Problems,
    ) -> Revision {
        let (revision, put, gone) = match update {
            Update::Whole(reading) => (reading.revision, reading.documents, None),
            Update::Delta(delta) => (delta.revision, delta.put, Some(delta.gone)),
            _ => {
                let known = self.revisions.get(source);
                return known.cloned().unwrap_or_else(|| Revision("".into()));
            }
        };
        let there = by_key(source, put, problems);
        let gone = gone.unwrap_or_else(|| {
            let known = self.documents_of(source).map(|(key, _)| key);
            known.cloned().collect()
        });
        for key in gone {
            let ours = key.source == *source && self.documents.contains_key(&key);
            if ours && !there.contains_key(&key) {
                overlay.documents.insert(key, None);
            }
        }
        for (key, document) in there {
            if self.documents.get(&key) == Some(&document) {
                overlay.moved.insert(key, document);
            } else {
                overlay.documents.insert(key, Some(document));
            }
        }
        revision
    }

    fn documents_of(&self, source: &SourceName) -> impl Iterator<Item = (&DocumentKey, &Document)> {
        let first = DocumentKey::at(&source.0, "", 0);
        let source = source.clone();
        self.documents
            .range(first..)
            .take_while(move |(key, _)| key.source == source)
    }

    /// The candidate that the run makes from `parent`, the assets to put, and the ids of the assets to remove.
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

    /// Accepts the results of a run that was sealed or changed nothing.
    pub(crate) fn accept(&mut self, draft: Draft) {
        let Overlay {
            documents,
            moved,
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
        self.documents.extend(moved);
        for (key, call) in units {
            self.accept_call(key, call);
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
        self.revisions.extend(draft.sources);
        self.warm = true;
        self.digest = Some(draft.candidate.digest);
    }

    fn accept_call(&mut self, key: (usize, UnitKey), call: Call) {
        let (stage, unit) = &key;
        let old = self.units.get(&key).map(|old| &old.looked_up);
        for id in old.into_iter().flatten() {
            if let Some(units) = self.look_ups.get_mut(&(*stage, id.clone())) {
                units.remove(unit);
                if units.is_empty() {
                    self.look_ups.remove(&(*stage, id.clone()));
                }
            }
        }
        for id in &call.looked_up {
            let units = self.look_ups.entry((*stage, id.clone()));
            units.or_default().insert(unit.clone());
        }
        match call.warnings.is_empty() {
            true => self.warned.remove(&key),
            false => self.warned.insert(key.clone()),
        };
        if call.is_empty() {
            self.units.remove(&key);
        } else {
            self.units.insert(key, call);
        }
    }
}

/// The documents of a source by their keys. A document of another source, and a second one with the same key, are
/// problems.
fn by_key(
    source: &SourceName,
    documents: Vec<Document>,
    problems: &mut Problems,
) -> BTreeMap<DocumentKey, Document> {
    let mut there = BTreeMap::new();
    for document in documents {
        if document.key().source != *source {
            problems.push(misnamed(source, &document));
            continue;
        }
        if let Some(twin) = there.insert(document.key().clone(), document) {
            let message = format!(
                "two documents of the source {} have this name; rename one",
                source.0
            );
            problems.push(twin.problem(message));
        }
    }
    there
}

/// The problem for a document that one source returned with the name of another source.
fn misnamed(source: &SourceName, document: &Document) -> Problem {
    let other = &document.key().source.0;
    let message = format!(
        "a document of the source {} has the name of the source {other}; give it the name of the source that returns it",
        source.0
    );
    document.problem(message).by(format!("source {}", source.0))
}

/// Edits a snapshot. This is the only place that does.
fn edit(before: &Snapshot, no: IncarnationNo, put: Vec<Asset>, removed: &[AssetId]) -> Snapshot {
    before.edit(no, put, removed)
}

/// The last of an asset's versions that comes from a stage before `stage`.
fn before(versions: &[Made], stage: usize) -> Option<&Asset> {
    let made = versions.iter().rev().find(|made| made.stage < stage);
    made.map(|made| &made.asset)
}

/// The problem for an asset that was made more than once. `makers` are pairs of a generator's name and its version.
fn twins(id: &AssetId, makers: &[(String, Asset)]) -> Problem {
    let names: Vec<String> = makers
        .iter()
        .map(|(generator, asset)| {
            let Provenance { document, path, .. } = asset.provenance();
            match &*path {
                "" => format!("`{generator}` from {document}"),
                path => format!("`{generator}` from `{path}` in {document}"),
            }
        })
        .collect();
    let message = format!(
        "made more than once, by {}; remove all but one",
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
