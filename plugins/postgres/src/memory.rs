//! The last states of a source: an unchanged row is not parsed again, and what has changed between two states is known
//! (R43).

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use plugin_sdk::{
    Delta, Document, Reading, Update,
    document::{DocumentKey, DocumentName},
};
use prodspec_model::{Digest, Revision, SourceName};

/// Number of states from which changes are known. A state costs little: its documents are shared with the others.
const STATES: usize = 4;

/// The documents of one state, by name.
pub(crate) type Documents = BTreeMap<Arc<str>, Kept>;

/// A document, and the digest of the rows that it was made of.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) digest: Digest,
    pub(crate) document: Document,
}

/// The last states, newest last.
#[derive(Debug, Default)]
pub(crate) struct Memory(VecDeque<(Revision, Arc<Documents>)>);

impl Memory {
    /// The documents of the newest state.
    pub(crate) fn newest(&self) -> Arc<Documents> {
        self.0
            .back()
            .map(|(_, documents)| documents.clone())
            .unwrap_or_default()
    }

    /// Whether the newest state has this revision.
    pub(crate) fn is_at(&self, revision: &Revision) -> bool {
        self.0.back().is_some_and(|(newest, _)| newest == revision)
    }

    /// Takes in a state, which is the newest one now.
    pub(crate) fn take(&mut self, revision: Revision, documents: Documents) {
        self.0.retain(|(other, _)| *other != revision);
        self.0.push_back((revision, Arc::new(documents)));
        if self.0.len() > STATES {
            self.0.pop_front();
        }
    }

    /// The newest state, for a caller that has the documents of `known`.
    pub(crate) fn update(&self, source: &SourceName, known: Option<&Revision>) -> Update {
        let Some((revision, documents)) = self.0.back() else {
            return Update::Whole(Reading::new("", Vec::new()));
        };
        if known == Some(revision) {
            return Update::Same;
        }
        let before = self.0.iter().find(|(other, _)| Some(other) == known);
        let Some((_, before)) = before else {
            let all = documents.values().map(|kept| kept.document.clone());
            return Update::Whole(Reading::new(revision.0.clone(), all.collect()));
        };
        let changed = documents.iter().filter(|(name, kept)| {
            before
                .get(*name)
                .is_none_or(|before| before.digest != kept.digest)
        });
        let put = changed.map(|(_, kept)| kept.document.clone()).collect();
        let gone = before.keys().filter(|name| !documents.contains_key(*name));
        let key = |name: &Arc<str>| DocumentKey {
            source: source.clone(),
            name: DocumentName::Own(name.clone()),
        };
        Update::Delta(Delta::new(revision.0.clone(), put, gone.map(key).collect()))
    }
}
