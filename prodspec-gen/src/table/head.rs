//! The head of a table: its revision, and which documents the last changes were about.

use std::collections::{BTreeSet, VecDeque};

use control_plane_store::Record;
use plugin_sdk::FieldEdit;
use prodspec_model::{Digest, Revision};
use serde::{Deserialize, Serialize};

/// Kind of the records of heads.
pub(super) const KIND: &str = "table";
/// Maximum number of changes that a head remembers.
const CHANGES: usize = 64;
/// Maximum number of document names that a head remembers.
const NAMES: usize = 1000;

/// The head of a table, recorded under the table's name. Each change writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) revision: Revision,
    /// The last changes, the newest last.
    changes: VecDeque<Changed>,
}

/// One change of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Changed {
    /// The revision before the change.
    before: Revision,
    documents: Vec<String>,
}

impl Record for Head {
    const KIND: &'static str = KIND;
}

impl Default for Head {
    fn default() -> Self {
        Self {
            revision: Revision("0".into()),
            changes: VecDeque::new(),
        }
    }
}

impl Head {
    /// The documents that have changed since the revision `known`. `None`: that is not known any more.
    pub(super) fn since(&self, known: &Revision) -> Option<BTreeSet<&str>> {
        if *known == self.revision {
            return Some(BTreeSet::new());
        }
        let first = self
            .changes
            .iter()
            .position(|change| change.before == *known)?;
        let names = self.changes.iter().skip(first).flat_map(|it| &it.documents);
        Some(names.map(String::as_str).collect())
    }

    /// The head after a change of `documents`.
    pub(super) fn after<'d>(
        mut self,
        revision: Revision,
        documents: impl Iterator<Item = &'d str>,
    ) -> Self {
        self.changes.push_back(Changed {
            before: std::mem::replace(&mut self.revision, revision),
            documents: documents.map(str::to_owned).collect(),
        });
        let names = |changes: &VecDeque<Changed>| {
            changes.iter().map(|it| it.documents.len()).sum::<usize>()
        };
        while self.changes.len() > CHANGES || names(&self.changes) > NAMES {
            self.changes.pop_front();
        }
        self
    }
}

/// The revision after `edits` of the revision `before`: a digest of both, so that the same change of the same content gives
/// the same revision.
pub(super) fn revision_after(before: &Revision, edits: &[FieldEdit]) -> Revision {
    let mut text = before.0.to_string();
    for edit in edits {
        // Edits have no values that JSON cannot hold.
        text.push_str(&serde_json::to_string(edit).unwrap_or_default());
    }
    Revision(Digest::of(text.as_bytes()).to_string().into())
}
