//! One run: makes the calls that changed inputs require, stage by stage, on an overlay over the memo.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use plugin_sdk::{Document, Entry, Problems, document::DocumentKey, generate::Unit};
use prodspec_model::{Asset, AssetId, SourceName};

use super::{
    Call, Made, Memo, Overlay, UnitKey, before,
    look_ups::{LookUps, is_one_of},
    twins,
    unit::{self, Shared, Subject},
};
use crate::pipeline::Pipeline;

/// The state of a run in progress.
pub(super) struct Run<'p> {
    pub(super) pipeline: &'p Pipeline,
    pub(super) memo: &'p Memo,
    pub(super) overlay: Overlay,
    pub(super) problems: Problems,
    /// Whether a source could not be read. The run uses its documents of the last good run.
    unread: bool,
    /// Stages with a failed call, and stages that were skipped. Their complete results are unknown.
    failed: BTreeSet<usize>,
    /// Stages that were skipped. Their results of the last good run are out of date.
    left_out: BTreeSet<usize>,
    /// Calls that failed. Their results of the last good run are out of date.
    stale: BTreeSet<(usize, UnitKey)>,
}

impl<'p> Run<'p> {
    pub(super) fn new(
        pipeline: &'p Pipeline,
        memo: &'p Memo,
        overlay: Overlay,
        problems: Problems,
    ) -> Self {
        Self {
            pipeline,
            memo,
            overlay,
            unread: !problems.is_empty(),
            problems,
            failed: BTreeSet::new(),
            left_out: BTreeSet::new(),
            stale: BTreeSet::new(),
        }
    }

    /// Runs every stage whose inputs changed. Skips the stages that consume results of a failed stage.
    pub(super) fn stages(&mut self) {
        for stage in 0..self.pipeline.0.generators.len() {
            if self.waits_for_failed(stage) {
                self.failed.insert(stage);
                self.left_out.insert(stage);
                continue;
            }
            self.stage(stage, self.shared_changed(stage));
        }
        self.find_twins();
        self.problems.extend(self.warnings());
    }

    /// The warnings of all calls, including the calls that were not repeated.
    fn warnings(&self) -> Problems {
        let warned = self.memo.warned.iter();
        let kept = warned.filter_map(|key| self.memo.units.get_key_value(key));
        let kept = kept.filter(|(key, _)| !self.overlay.units.contains_key(*key));
        let valid = |(stage, unit): &(usize, UnitKey)| {
            let is_stale = || self.stale.contains(&(*stage, unit.clone()));
            !self.left_out.contains(stage) && (self.stale.is_empty() || !is_stale())
        };
        kept.chain(&self.overlay.units)
            .filter(|(key, _)| valid(key))
            .flat_map(|(_, call)| call.warnings.iter().cloned())
            .collect()
    }

    /// Whether all sources were read and all generators succeeded. Only then is a missing asset a problem of its own.
    pub(super) fn is_complete(&self) -> bool {
        self.failed.is_empty() && !self.unread
    }

    fn waits_for_failed(&self, stage: usize) -> bool {
        let info = &self.pipeline.0.generators[stage].info;
        if info.unit == Unit::AnyAsset {
            return !self.failed.is_empty();
        }
        let wanted: Vec<_> = info.uses().chain(info.amends()).collect();
        self.failed.iter().any(|failed| {
            let given = &self.pipeline.0.generators[*failed].info;
            let mut given = given.makes.iter().chain(given.amends());
            given.any(|given| wanted.contains(&given))
        })
    }

    /// Whether an input changed that all calls of the stage share.
    fn shared_changed(&self, stage: usize) -> bool {
        let info = &self.pipeline.0.generators[stage].info;
        let reads = |key: &DocumentKey| info.reads.contains(&key.source);
        let consumes = |id: &AssetId| self.has_changed(id, stage, &info.consumes);
        !self.memo.warm
            || self.overlay.documents.keys().any(reads)
            || !info.consumes.is_empty() && self.overlay.versions.keys().any(consumes)
    }

    /// Whether the version of an asset that the stage gets has changed, if it is of one of these `types`.
    fn has_changed(&self, id: &AssetId, stage: usize, types: &[Arc<str>]) -> bool {
        let wanted = |asset: &&Asset| is_one_of(asset, types);
        let was = self.remembered(id, stage).filter(wanted);
        let is = self.before(id, stage).filter(wanted);
        !same(was.as_slice(), is.as_slice())
    }

    fn stage(&mut self, stage: usize, shared_changed: bool) {
        let units = match self.units(stage, shared_changed) {
            Ok(units) => units,
            Err(problems) => {
                self.failed.insert(stage);
                self.left_out.insert(stage);
                return self.problems.extend(problems);
            }
        };
        if units.is_empty() {
            return;
        }
        let shared = self.shared(stage);
        for unit in units {
            match self.call(stage, &unit, &shared) {
                Ok(call) => self.put(stage, unit, call),
                Err(problems) => {
                    self.failed.insert(stage);
                    self.stale.insert((stage, unit));
                    self.problems.extend(problems);
                }
            }
        }
    }

    /// Calls the generator of a stage for one unit. The result is empty if the unit was removed.
    fn call(&self, stage: usize, unit: &UnitKey, shared: &Shared) -> Result<Call, Problems> {
        let of = &self.pipeline.0.generators[stage];
        let subject = match unit {
            UnitKey::Whole => Some(Subject::Whole),
            UnitKey::Document(key) => self.document(key).map(Subject::Document),
            UnitKey::Entry(key, path) => {
                let path = path.parse().unwrap_or_default();
                let entry = self.document(key).and_then(|it| Entry::of(it, &path));
                entry.map(|entry| Subject::Entry(entry.sharing(&of.info.shares)))
            }
            UnitKey::Asset(id) => {
                let asset = self.before(id, stage);
                let asset = asset.filter(|asset| of.info.is_called_for(asset));
                asset.map(Subject::Asset)
            }
        };
        let look_ups = LookUps::new(|id| self.before(id, stage), &of.info.finds);
        match subject {
            Some(subject) => unit::call(of, subject, shared, look_ups),
            None => Ok(Call::default()),
        }
    }

    /// The inputs that all calls of the stage share.
    fn shared(&self, stage: usize) -> Shared {
        let info = &self.pipeline.0.generators[stage].info;
        let documents = info
            .reads
            .iter()
            .flat_map(|source| self.documents_of(source));
        Shared {
            documents: documents.cloned().collect(),
            assets: self.consumed(stage, &info.consumes),
        }
    }

    fn consumed(&self, stage: usize, wanted: &[Arc<str>]) -> Vec<Asset> {
        if wanted.is_empty() {
            return Vec::new();
        }
        let ids: BTreeSet<&AssetId> = self
            .memo
            .versions
            .keys()
            .chain(self.overlay.versions.keys())
            .collect();
        ids.into_iter()
            .filter_map(|id| self.before(id, stage))
            .filter(|asset| is_one_of(asset, wanted))
            .cloned()
            .collect()
    }

    /// The documents of a source in this run, sorted by key.
    fn documents_of(&self, source: &SourceName) -> Vec<&Document> {
        let kept = self
            .memo
            .documents_of(source)
            .filter(|(key, _)| !self.overlay.documents.contains_key(*key))
            .map(|(key, document)| self.overlay.moved.get(key).unwrap_or(document));
        let new = self.overlay.documents.values().flatten();
        let mut all: Vec<&Document> = kept
            .chain(new.filter(|document| document.key().source == *source))
            .collect();
        all.sort_by(|a, b| a.key().cmp(b.key()));
        all
    }

    /// The document with this key in this run. `None`: there is none.
    pub(super) fn document(&self, key: &DocumentKey) -> Option<&Document> {
        self.overlay.document(self.memo, key)
    }

    /// All versions of an asset in this run.
    fn versions(&self, id: &AssetId) -> &[Made] {
        let changed = self.overlay.versions.get(id);
        changed
            .or_else(|| self.memo.versions.get(id))
            .map_or(&[], Vec::as_slice)
    }

    /// The version of the asset after the stages before `stage`. `None`: they made none.
    pub(super) fn before(&self, id: &AssetId, stage: usize) -> Option<&Asset> {
        before(self.versions(id), stage)
    }

    /// The version of the asset after the stages before `stage` in the last good run. `None`: they made none.
    pub(super) fn remembered(&self, id: &AssetId, stage: usize) -> Option<&Asset> {
        before(self.memo.versions.get(id)?, stage)
    }

    /// The version of the asset after all stages. `None`: no stage made the asset.
    pub(super) fn last(&self, id: &AssetId) -> Option<&Asset> {
        self.versions(id).last().map(|made| &made.asset)
    }

    /// Replaces the result of one call. An equal result changes nothing.
    fn put(&mut self, stage: usize, unit: UnitKey, call: Call) {
        let key = (stage, unit);
        let changed = self.overlay.units.get(&key);
        let old = changed
            .or_else(|| self.memo.units.get(&key))
            .cloned()
            .unwrap_or_default();
        let reported = old.warnings == call.warnings && old.looked_up == call.looked_up;
        if reported && same(&old.made, &call.made) {
            return;
        }
        let mut by_id: BTreeMap<AssetId, [Vec<Asset>; 2]> = BTreeMap::new();
        for (side, assets) in [old.made, call.made.clone()].into_iter().enumerate() {
            for asset in assets {
                by_id.entry(asset.id()).or_default()[side].push(asset);
            }
        }
        for (id, [before, after]) in by_id {
            if same(&before, &after) {
                continue;
            }
            let mut versions = self.versions(&id).to_vec();
            versions.retain(|made| made.stage != stage || made.unit != key.1);
            versions.extend(after.into_iter().map(|asset| Made {
                stage,
                unit: key.1.clone(),
                asset,
            }));
            versions.sort_by(|a, b| (a.stage, &a.unit).cmp(&(b.stage, &b.unit)));
            self.overlay.versions.insert(id, versions);
        }
        self.overlay.units.insert(key, call);
    }

    /// Reports assets that more than one call made, or that one call amended more than once.
    fn find_twins(&mut self) {
        let generators = &self.pipeline.0.generators;
        for (id, versions) in &self.overlay.versions {
            let named = |made: &Made| {
                (
                    generators[made.stage].info.name.to_string(),
                    made.asset.clone(),
                )
            };
            let fresh = |made: &&Made| {
                !self.left_out.contains(&made.stage)
                    && !self.stale.contains(&(made.stage, made.unit.clone()))
            };
            let makers = versions.iter().filter(|made| !made.amends()).filter(fresh);
            let repeated = versions
                .windows(2)
                .filter(|pair| (pair[0].stage, &pair[0].unit) == (pair[1].stage, &pair[1].unit))
                .flatten()
                .filter(|made| made.amends());
            for makers in [
                makers.map(named).collect::<Vec<_>>(),
                repeated.map(named).collect(),
            ] {
                if makers.len() > 1 {
                    self.problems.push(twins(id, &makers));
                }
            }
        }
    }
}

/// Whether the assets are equal byte for byte. This includes provenance, because generators can read it.
pub(super) fn same<A: Borrow<Asset>>(before: &[A], after: &[A]) -> bool {
    let same = |(before, after): (&A, &A)| {
        before.borrow().block().bytes() == after.borrow().block().bytes()
    };
    before.len() == after.len() && before.iter().zip(after).all(same)
}
