//! What a source of files remembers from one reading to the next: the state, digest and documents of each file. An
//! unchanged file is not opened, hashed or parsed again (R43), and a caller that has the documents of an earlier revision
//! gets those that have changed since.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    path::Path,
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
    /// Sorted by path.
    files: Vec<Kept>,
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
    /// Digest of the file's name in its documents.
    name: Digest,
    digest: Digest,
    documents: Result<Vec<Document>, Problems>,
    /// The reading that found the present documents first.
    changed: u64,
}

/// The parts that file and directory sources do differently.
pub trait Shape: Send + Sync + 'static {
    /// Finds all files of the source, sorted by path.
    fn list(&self) -> Result<Vec<Found>, Problem>;

    /// Returns the name of the file at `path` in its documents.
    fn name<'p>(&'p self, path: &'p Path) -> Cow<'p, str>;

    /// Parses the bytes of the file named `name`.
    fn parse(&self, name: &str, bytes: &[u8]) -> Result<Vec<Document>, Problems>;

    /// Returns the revision of a source with these files, each with the digests of its name and of its content.
    fn revision(&self, files: &mut dyn Iterator<Item = (Digest, Digest)>) -> Revision;

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
        let known_files = |found: &[Found]| self.known(found);
        let (found, read) = stable::read_all(place, || shape.list(), known_files, cap)?;
        self.reading += 1;
        self.opened += read.len() as u64;
        let mut read = read.into_iter().peekable();
        let mut before = std::mem::take(&mut self.files).into_iter().peekable();
        for found in found {
            while let Some(kept) = before.next_if(|kept| kept.found.is_before(&found)) {
                self.missing(kept.documents);
            }
            let kept = before.next_if(|kept| kept.found.is_same_path(&found));
            let kept = match read.next_if(|(path, _)| path == found.path()) {
                Some((_, bytes)) => Some(self.take(shape, found, &bytes, now, kept)),
                None => kept,
            };
            self.files.extend(kept);
        }
        before.for_each(|kept| self.missing(kept.documents));
        self.answer(shape, known)
    }

    /// Whether each of the files found is known, which means that it is not read again.
    fn known(&self, found: &[Found]) -> Vec<bool> {
        let mut files = self.files.iter().peekable();
        let known = |found: &Found| {
            while files.next_if(|kept| kept.found.is_before(found)).is_some() {}
            files
                .next_if(|kept| kept.settled && kept.found == *found)
                .is_some()
        };
        found.iter().map(known).collect()
    }

    /// Notes that documents are gone.
    fn missing(&mut self, documents: Result<Vec<Document>, Problems>) {
        let gone = documents.into_iter().flatten();
        let gone = gone.map(|document| (document.key().clone(), self.reading));
        self.gone.extend(gone);
    }

    /// Takes in the bytes of a file. Bytes that equal those `before` are not parsed again.
    fn take(
        &mut self,
        shape: &impl Shape,
        found: Found,
        bytes: &[u8],
        now: SystemTime,
        before: Option<Kept>,
    ) -> Kept {
        let (digest, settled) = (Digest::of(bytes), found.is_settled(now));
        let before = match before {
            Some(kept) if kept.digest == digest => {
                return Kept {
                    found,
                    settled,
                    ..kept
                };
            }
            Some(kept) => kept.documents,
            None => Ok(Vec::new()),
        };
        self.missing(before);
        let name = shape.name(found.path());
        let documents = shape.parse(&name, bytes);
        for document in documents.iter().flatten() {
            self.gone.remove(document.key());
        }
        Kept {
            settled,
            name: Digest::of(name.as_bytes()),
            found,
            digest,
            documents,
            changed: self.reading,
        }
    }

    fn answer(&mut self, shape: &impl Shape, known: Option<&Revision>) -> Result<Update, Problems> {
        let files = self.files.iter();
        let problems = files.filter_map(|kept| kept.documents.as_ref().err());
        let mut problems: Problems = problems
            .flat_map(|of_file| of_file.iter().cloned())
            .collect();
        let empty = |kept: &Kept| kept.documents.as_ref().is_ok_and(Vec::is_empty);
        if problems.is_empty() && self.files.iter().all(empty) {
            problems.push(shape.nothing(self.files.len()));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut files = self.files.iter().map(|kept| (kept.name, kept.digest));
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
        let all = self.files.iter();
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
