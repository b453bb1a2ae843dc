//! What a source of files remembers from one reading to the next: the state, digest and documents of each file. An
//! unchanged file is not opened, hashed or parsed again (R43), and a caller that has the documents of an earlier revision
//! gets those that have changed since.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
    time::SystemTime,
};

use plugin_sdk::{Delta, Document, Problem, Problems, Reading, Update, document::DocumentKey};
use prodspec_model::{Digest, Revision};

use super::stable::{self, Found};

/// Maximum number of revisions from which changes are known.
const REVISIONS: usize = 8;

/// The files of one source as of the last reading, and what has changed since earlier ones.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// The number of readings so far.
    reading: u64,
    files: BTreeMap<PathBuf, Kept>,
    /// Documents that are gone, each with the reading that missed it first.
    gone: BTreeMap<DocumentKey, u64>,
    /// The last revisions, each with the reading that gave it.
    given: VecDeque<(Revision, u64)>,
    /// The number of files that were opened so far.
    pub(super) opened: u64,
}

/// One file as it was read last.
#[derive(Debug)]
struct Kept {
    found: Found,
    /// Whether the state `found` tells the content: it is not read again.
    settled: bool,
    digest: Digest,
    documents: Result<Vec<Document>, Problems>,
    /// The reading that found the present documents first.
    changed: u64,
}

/// The parts that file and directory sources do differently.
pub trait Shape: Send + Sync + 'static {
    /// Finds all files of the source, sorted by path.
    fn list(&self) -> Result<Vec<Found>, Problem>;

    /// Parses the bytes of one file.
    fn parse(&self, path: &Path, bytes: &[u8]) -> Result<Vec<Document>, Problems>;

    /// Returns the revision of a source with these files, each with its digest.
    fn revision(&self, files: &mut dyn Iterator<Item = (&Path, Digest)>) -> Revision;

    /// Returns the problem of a source without any document, although each of its `files` could be read.
    fn nothing(&self, files: usize) -> Problem;
}

impl Cache {
    /// Reads the files at `place` that have changed since the last reading, as of the time `now`, and returns what has
    /// changed since the revision `known`. `cap` is the maximum of the length of all files in bytes.
    pub(super) fn read(
        &mut self,
        shape: &impl Shape,
        place: &Path,
        cap: u64,
        now: SystemTime,
        known: Option<&Revision>,
    ) -> Result<Update, Problems> {
        let unchanged = |found: &Found| {
            let kept = self.files.get(found.path());
            kept.is_some_and(|kept| kept.settled && kept.found == *found)
        };
        let (found, read) = stable::read_all(place, || shape.list(), unchanged, cap)?;
        self.reading += 1;
        self.opened += read.len() as u64;
        let mut read: BTreeMap<PathBuf, Vec<u8>> = read.into_iter().collect();
        self.forget_missing(&found);
        for found in found {
            if let Some(bytes) = read.remove(found.path()) {
                self.take(shape, found, &bytes, now);
            }
        }
        self.answer(shape, known)
    }

    fn forget_missing(&mut self, found: &[Found]) {
        let there: BTreeSet<&Path> = found.iter().map(Found::path).collect();
        let missing = self
            .files
            .extract_if(.., |path, _| !there.contains(&**path));
        for (_, kept) in missing {
            let documents = kept.documents.into_iter().flatten();
            let gone = documents.map(|document| (document.key().clone(), self.reading));
            self.gone.extend(gone);
        }
    }

    /// Takes in the bytes of a file. Equal bytes are not parsed again.
    fn take(&mut self, shape: &impl Shape, found: Found, bytes: &[u8], now: SystemTime) {
        let (digest, settled) = (Digest::of(bytes), found.is_settled(now));
        let path = found.path().to_owned();
        if let Some(kept) = self.files.get_mut(&path)
            && kept.digest == digest
        {
            (kept.found, kept.settled) = (found, settled);
            return;
        }
        let documents = shape.parse(&path, bytes);
        let kept = Kept {
            found,
            settled,
            digest,
            documents,
            changed: self.reading,
        };
        let there = kept.documents.iter().flatten();
        for key in there.map(Document::key) {
            self.gone.remove(key);
        }
        let there: BTreeSet<DocumentKey> = kept
            .documents
            .iter()
            .flatten()
            .map(|it| it.key().clone())
            .collect();
        let before = self.files.insert(path, kept);
        let before = before.into_iter().flat_map(|kept| kept.documents).flatten();
        let gone = before.filter(|document| !there.contains(document.key()));
        let gone = gone.map(|document| (document.key().clone(), self.reading));
        self.gone.extend(gone);
    }

    fn answer(&mut self, shape: &impl Shape, known: Option<&Revision>) -> Result<Update, Problems> {
        let problems = self
            .files
            .values()
            .filter_map(|kept| kept.documents.as_ref().err());
        let mut problems: Problems = problems
            .flat_map(|of_file| of_file.iter().cloned())
            .collect();
        let empty = |kept: &Kept| kept.documents.as_ref().is_ok_and(Vec::is_empty);
        if problems.is_empty() && self.files.values().all(empty) {
            problems.push(shape.nothing(self.files.len()));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut files = self.files.iter().map(|(path, kept)| (&**path, kept.digest));
        let revision = shape.revision(&mut files);
        let update = self.since(&revision, known);
        self.give(revision);
        Ok(update)
    }

    /// Returns what has changed since the revision `known`, up to the present `revision`.
    fn since(&self, revision: &Revision, known: Option<&Revision>) -> Update {
        if known == Some(revision) {
            return Update::Same;
        }
        let since = known.and_then(|known| self.reading_of(known));
        let all = self.files.values();
        let changed = all.filter(|kept| since.is_none_or(|since| kept.changed > since));
        let documents = changed.flat_map(|kept| kept.documents.iter().flatten());
        let documents = documents.cloned().collect();
        let Some(since) = since else {
            return Update::Whole(Reading::new(revision.0.clone(), documents));
        };
        let gone = self.gone.iter().filter(|(_, reading)| **reading > since);
        let gone = gone.map(|(key, _)| key.clone()).collect();
        Update::Delta(Delta::new(revision.0.clone(), documents, gone))
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
        let oldest = self.given.front().map_or(0, |(_, reading)| *reading);
        self.gone.retain(|_, reading| *reading > oldest);
    }
}
