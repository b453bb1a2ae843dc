//! What a source of files on disk remembers of each file: the state in which it was found, and its digest. An unchanged
//! file is not opened, hashed or parsed again (R43).

use std::{borrow::Cow, path::Path, time::SystemTime};

use plugin_sdk::{Document, Problem, Problems, Update};
use prodspec_model::{Digest, Revision};

use super::stable::{self, Found};
use crate::kept::{Finding, Kept, Parsed, Placed, at_same_place};

/// The files of one source as of the last reading, and what has changed since earlier ones.
#[derive(Debug, Default)]
pub struct Cache {
    files: Kept<State>,
    /// The number of files that were opened so far.
    pub(super) opened: u64,
}

/// The state of one file as it was read last.
#[derive(Debug)]
pub(super) struct State {
    pub(super) found: Found,
    /// Whether the state `found` tells the content: it is not read again.
    settled: bool,
    /// Digest of the file's name in its documents.
    name: Digest,
    /// Digest of the file's content.
    pub(super) digest: Digest,
}

impl Placed for State {
    fn place(&self) -> &Path {
        self.found.place()
    }
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
        self.opened += read.len() as u64;
        let mut read = read.into_iter().peekable();
        self.files.take(found, |found, before| {
            let bytes = read.next_if(|(path, _)| path == found.place());
            look(shape, found, bytes.map(|(_, bytes)| bytes), now, before)
        });
        self.answer(shape, known)
    }

    /// Whether each of the files found is known, which means that it is not read again.
    fn known(&self, found: &[Found]) -> Vec<bool> {
        let mut files = self.files.states().peekable();
        let known = |found: &Found| {
            let state = at_same_place(&mut files, found);
            state.is_some_and(|state| state.settled && state.found == *found)
        };
        found.iter().map(known).collect()
    }

    fn answer(&mut self, shape: &impl Shape, known: Option<&Revision>) -> Result<Update, Problems> {
        let mut problems = self.files.problems();
        if problems.is_empty() && self.files.is_empty() {
            problems.push(shape.nothing(self.files.states().len()));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let revision = self.revision(shape, None);
        Ok(self.files.answer(revision, known))
    }

    /// The state and the documents of each file as of the last reading.
    pub(super) fn files(&self) -> impl Iterator<Item = (&State, &Parsed)> {
        self.files.files()
    }

    /// The revision of the source, as if the file at a path had a content with another digest.
    pub(super) fn revision(&self, shape: &impl Shape, other: Option<(&Path, Digest)>) -> Revision {
        let digests = self.files.states().map(|state| match other {
            Some((path, digest)) if path == state.place() => (state.name, digest),
            _ => (state.name, state.digest),
        });
        shape.revision(&mut { digests })
    }
}

/// Compares a file with its state before. Bytes that equal those before are not parsed again. No bytes: the file was
/// known and is unchanged.
fn look(
    shape: &impl Shape,
    found: Found,
    bytes: Option<Vec<u8>>,
    now: SystemTime,
    before: Option<&State>,
) -> Finding<State> {
    let Some(bytes) = bytes else {
        return Finding::Known;
    };
    let (digest, settled) = (Digest::of(&bytes), found.is_settled(now));
    if let Some(State { name, .. }) = before.filter(|before| before.digest == digest) {
        return Finding::Same(State {
            found,
            settled,
            name: *name,
            digest,
        });
    }
    let name = shape.name(found.place());
    let documents = shape.parse(&name, &bytes);
    let name = Digest::of(name.as_bytes());
    let state = State {
        settled,
        name,
        found,
        digest,
    };
    Finding::New(state, documents)
}
