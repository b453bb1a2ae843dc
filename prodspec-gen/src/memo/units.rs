//! Selects the calls that a run repeats: the units of a stage whose inputs have changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use plugin_sdk::{
    Document, Problem, Problems,
    document::{DocumentKey, FieldPath, Node, Value},
    generate::Unit,
};
use prodspec_model::{Asset, AssetId, SourceName};

use super::{
    UnitKey,
    run::{Run, same},
};

impl Run<'_> {
    /// The units for which the stage must be called, including removed ones. With `all`, every unit of the stage.
    ///
    /// # Errors
    /// The documents whose entries cannot be told apart.
    pub(super) fn units(&self, stage: usize, all: bool) -> Result<BTreeSet<UnitKey>, Problems> {
        let mut units = match &self.pipeline.0.generators[stage].info.unit {
            Unit::Whole => all.then_some(UnitKey::Whole).into_iter().collect(),
            Unit::Document(source) => {
                let documents = self.documents_to_call(source, all);
                documents.cloned().map(UnitKey::Document).collect()
            }
            Unit::Entry(source, path) => self.entries(stage, source, path, all)?,
            Unit::Asset(_) | Unit::AnyAsset => self.assets(stage, all),
            _ => BTreeSet::new(),
        };
        units.extend(self.repeated_look_ups(stage));
        Ok(units)
    }

    /// The keys of the changed documents of a source, or of all of them.
    fn documents_to_call(
        &self,
        source: &SourceName,
        all: bool,
    ) -> impl Iterator<Item = &DocumentKey> {
        let changed = self.overlay.documents.keys();
        let changed = changed.filter(move |key| key.source == *source);
        let rest = all.then(|| self.memo.documents_of(source).map(|(key, _)| key));
        changed.chain(rest.into_iter().flatten())
    }

    fn assets(&self, stage: usize, all: bool) -> BTreeSet<UnitKey> {
        let info = &self.pipeline.0.generators[stage].info;
        let changed = self.overlay.versions.keys();
        let rest = all.then(|| self.memo.versions.keys());
        let rest = rest.into_iter().flatten();
        let concerned = |id: &&AssetId| {
            let is = |asset: &Asset| info.is_called_for(asset);
            self.remembered(id, stage).is_some_and(is) || self.before(id, stage).is_some_and(is)
        };
        let ids = changed.chain(rest).filter(concerned).cloned();
        ids.map(UnitKey::Asset).collect()
    }

    fn entries(
        &self,
        stage: usize,
        source: &SourceName,
        path: &str,
        all: bool,
    ) -> Result<BTreeSet<UnitKey>, Problems> {
        let info = &self.pipeline.0.generators[stage].info;
        let path: FieldPath = path.parse().unwrap_or_default();
        let (mut units, mut problems) = (BTreeSet::new(), Problems::none());
        for key in self.documents_to_call(source, all) {
            let (was, is) = (self.memo.documents.get(key), self.document(key));
            let all = all || shared(was, &info.shares) != shared(is, &info.shares);
            match changed_entries(was, is, &path, all) {
                Ok(paths) => {
                    let unit = |path| UnitKey::Entry(key.clone(), path);
                    units.extend(paths.into_iter().map(unit));
                }
                Err(problem) => problems.push(problem.by(&*info.name)),
            }
        }
        match problems.is_empty() {
            true => Ok(units),
            false => Err(problems),
        }
    }

    /// The units whose calls looked up an asset that has changed.
    fn repeated_look_ups(&self, stage: usize) -> impl Iterator<Item = UnitKey> {
        let finds = &self.pipeline.0.generators[stage].info.finds;
        let changed = self.overlay.versions.keys().filter(|_| !finds.is_empty());
        let units = changed.filter_map(move |id| {
            let units = self.memo.look_ups.get(&(stage, id.clone()))?;
            let (was, is) = (self.remembered(id, stage), self.before(id, stage));
            (!same(was.as_slice(), is.as_slice())).then_some(units)
        });
        units.flatten().cloned()
    }
}

/// The fields of a document that the calls for its entries share.
fn shared<'d>(document: Option<&'d Document>, shares: &[Arc<str>]) -> Vec<Option<&'d Node>> {
    let at = |path: &Arc<str>| document?.root().at(&path.parse().ok()?);
    shares.iter().map(at).collect()
}

/// Where an entry is in its map or list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place<'d> {
    Key(&'d str),
    Index(usize),
}

impl Place<'_> {
    fn within(self, path: &FieldPath) -> Box<str> {
        let path = path.clone();
        let path = match self {
            Self::Key(key) => path.key(key),
            Self::Index(nth) => path.index(nth),
        };
        path.to_string().into()
    }
}

/// The entries of the map or list at `path`, with their values. None if there is no such field, or if it is null.
fn entries<'d>(
    document: Option<&'d Document>,
    path: &FieldPath,
) -> Result<BTreeMap<Place<'d>, &'d Node>, Problem> {
    let Some((document, node)) = document.and_then(|it| Some((it, it.root().at(path)?))) else {
        return Ok(BTreeMap::new());
    };
    match &node.value {
        Value::Map(entries) => {
            let entries = entries.iter();
            Ok(entries
                .map(|(name, node)| (Place::Key(&name.text), node))
                .collect())
        }
        Value::Sequence(items) => Ok((0..).map(Place::Index).zip(items).collect()),
        Value::Null => Ok(BTreeMap::new()),
        _ => {
            let message = "has entries, so it must be a map or a list";
            Err(document.problem_at(&path.to_string(), message))
        }
    }
}

/// The paths of the entries that differ, or of all entries that were or are there.
fn changed_entries(
    was: Option<&Document>,
    is: Option<&Document>,
    path: &FieldPath,
    all: bool,
) -> Result<BTreeSet<Box<str>>, Problem> {
    let is = entries(is, path)?;
    let was = entries(was, path).unwrap_or_default();
    let changed = is
        .iter()
        .filter(|(at, node)| all || was.get(at) != Some(node));
    let gone = was.keys().filter(|at| !is.contains_key(at));
    let places = changed.map(|(at, _)| at).chain(gone);
    Ok(places.map(|at| at.within(path)).collect())
}
