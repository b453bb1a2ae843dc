//! Finds today's place of what a problem or an asset names: the document of the present run, and the line of the field.

use plugin_sdk::{
    Document, FieldEdit, FieldPath, Problems,
    document::{DocumentKey, Node},
};
use prodspec_model::{Asset, AssetId, Provenance, SourceName, addons::Moved};

use super::{Memo, Overlay, before};
use crate::trace::{EntryField, Place, Trace};

impl Memo {
    /// Sets the place of each problem that knows its field only. `run` has the changes of the run that found them.
    pub(crate) fn locate(&self, run: Option<&Overlay>, problems: &mut Problems) {
        problems.for_each_mut(|problem| {
            if problem.line == 0
                && let Some(origin) = &problem.origin
                && let Some(document) = self.document_of(run, origin)
            {
                *problem = document.locate(std::mem::take(problem));
            }
        });
    }

    /// Sets the origin of each problem with an asset to where the asset comes from today. An asset in a snapshot has the
    /// origin that it had when its content last changed. A problem of a field within that place keeps its field.
    pub(crate) fn refresh(&self, run: Option<&Overlay>, problems: &mut Problems) {
        problems.for_each_mut(|problem| {
            if let (Some(origin), Some(id)) = (&mut problem.origin, &problem.asset)
                && let Some(today) = self.provenance(run, id)
            {
                let path = match is_within(&origin.path, &today.path) {
                    true => std::mem::take(&mut origin.path),
                    false => today.path.clone(),
                };
                **origin = Provenance { path, ..today };
            }
        });
    }

    /// Returns where an asset comes from today. `None`: no generator makes it.
    pub(crate) fn provenance(&self, run: Option<&Overlay>, id: &AssetId) -> Option<Provenance> {
        self.made(run, id).map(Asset::provenance)
    }

    /// Returns the asset with this id as the generators make it today.
    fn made<'a>(&'a self, run: Option<&'a Overlay>, id: &AssetId) -> Option<&'a Asset> {
        let changed = run.and_then(|run| run.versions.get(id));
        let versions = changed.or_else(|| self.versions.get(id))?;
        before(versions, usize::MAX)
    }

    /// Returns where an asset comes from, with the line of today. `None`: no generator made it in the last good run.
    pub(crate) fn trace(&self, run: Option<&Overlay>, id: &AssetId) -> Option<Trace> {
        let asset = self.made(run, id)?;
        let provenance = asset.provenance();
        let document = self.document_of(run, &provenance);
        let place = document.map(|document| {
            let node = document
                .root()
                .innermost(&provenance.path.parse().unwrap_or_default());
            Place {
                document: document.place(),
                line: node.line,
                column: node.column,
            }
        });
        let source = SourceName(provenance.source.as_str().into());
        Some(Trace {
            asset: id.clone(),
            moved_from: Moved::source_of(asset),
            revision: self.revisions.get(&source).cloned(),
            provenance,
            place,
        })
    }

    /// Returns a field of the entry that an asset was made from in the last good run. `None`: there is no such entry.
    pub(crate) fn field(&self, id: &AssetId, field: &FieldPath) -> Option<EntryField> {
        let from = self.provenance(None, id)?;
        let document = self.document_of(None, &from)?;
        let path = from.path.parse::<FieldPath>().ok()?.join(field);
        let value = document.root().at(&path).map(Node::to_json);
        Some(EntryField {
            source: SourceName(from.source.as_str().into()),
            edit: FieldEdit {
                document: from.document.as_str().into(),
                path,
                was: value.clone(),
                to: value,
            },
        })
    }

    /// Returns the document that a provenance names, as it is today.
    pub(crate) fn document_of<'a>(
        &'a self,
        run: Option<&'a Overlay>,
        provenance: &Provenance,
    ) -> Option<&'a Document> {
        let mut keys = DocumentKey::of_name(&provenance.source, &provenance.document);
        keys.find_map(|key| match run {
            Some(run) => run.document(self, &key),
            None => self.documents.get(&key),
        })
    }
}

/// Whether a field is another one, or a field within it.
fn is_within(path: &str, outer: &str) -> bool {
    match (path.parse::<FieldPath>(), outer.parse::<FieldPath>()) {
        (Ok(path), Ok(outer)) => outer.is_prefix_of(&path),
        _ => false,
    }
}

impl Overlay {
    /// The document with this key in this run. `None`: there is none.
    pub(super) fn document<'a>(
        &'a self,
        memo: &'a Memo,
        key: &DocumentKey,
    ) -> Option<&'a Document> {
        match self.documents.get(key) {
            Some(changed) => changed.as_ref(),
            None => self.moved.get(key).or_else(|| memo.documents.get(key)),
        }
    }
}
