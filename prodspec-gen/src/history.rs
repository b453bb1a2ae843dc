//! The last revisions of a source, so that a caller that has the documents of one of them gets only those that have
//! changed since (R43).

use std::collections::{BTreeMap, VecDeque};

use plugin_sdk::{Delta, Document, Reading, Update, document::DocumentKey};
use prodspec_model::Revision;

/// Maximum number of revisions from which changes are known.
const REVISIONS: usize = 8;

/// The last revisions of one source, and the documents that are gone since.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The number of readings so far.
    reading: u64,
    /// Documents that are gone, each with the reading that missed it first.
    gone: BTreeMap<DocumentKey, u64>,
    /// The last revisions, each with the reading that gave it.
    given: VecDeque<(Revision, u64)>,
}

impl History {
    /// Begins the next reading.
    pub(crate) fn begin(&mut self) {
        self.reading += 1;
    }

    /// The number of the present reading, from 1.
    pub(crate) fn reading(&self) -> u64 {
        self.reading
    }

    /// Notes that the document of this key is gone in the present reading.
    pub(crate) fn missing(&mut self, key: &DocumentKey) {
        self.gone.insert(key.clone(), self.reading);
    }

    /// Notes that the document of this key is there in the present reading.
    pub(crate) fn there(&mut self, key: &DocumentKey) {
        self.gone.remove(key);
    }

    /// Remembers that the present reading has the revision `now`, and returns what has changed since `known`.
    ///
    /// `changed` returns the documents that have changed after the reading of that number. `None`: all documents.
    pub(crate) fn update(
        &mut self,
        now: Revision,
        known: Option<&Revision>,
        changed: impl FnOnce(Option<u64>) -> Vec<Document>,
    ) -> Update {
        let update = self.since(&now, known, changed);
        self.give(now);
        update
    }

    fn since(
        &self,
        now: &Revision,
        known: Option<&Revision>,
        changed: impl FnOnce(Option<u64>) -> Vec<Document>,
    ) -> Update {
        if known == Some(now) {
            return Update::Same;
        }
        let since = known.and_then(|known| self.reading_of(known));
        let documents = changed(since);
        let Some(since) = since else {
            return Update::Whole(Reading::new(now.0.clone(), documents));
        };
        let gone = self.gone.iter().filter(|(_, reading)| **reading > since);
        let gone = gone.map(|(key, _)| key.clone()).collect();
        Update::Delta(Delta::new(now.0.clone(), documents, gone))
    }

    /// Returns the last reading that gave a revision. `None`: it is too old, or of another process.
    fn reading_of(&self, revision: &Revision) -> Option<u64> {
        let mut given = self.given.iter().rev();
        let found = given.find(|(given, _)| given == revision);
        found.map(|(_, reading)| *reading)
    }

    /// Remembers that the present reading has this revision, and forgets what only older revisions need.
    fn give(&mut self, revision: Revision) {
        self.given.retain(|(given, _)| *given != revision);
        self.given.push_back((revision, self.reading));
        if self.given.len() > REVISIONS {
            self.given.pop_front();
        }
        let oldest = self.oldest();
        self.gone.retain(|_, reading| *reading > oldest);
    }

    /// The reading that gave the oldest revision from which changes are known. Zero: there is none.
    pub(crate) fn oldest(&self) -> u64 {
        self.given.front().map_or(0, |(_, reading)| *reading)
    }

    /// Whether any revision was given so far.
    pub(crate) fn has_revisions(&self) -> bool {
        !self.given.is_empty()
    }
}
