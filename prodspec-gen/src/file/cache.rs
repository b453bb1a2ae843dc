//! What a source of files on disk remembers of each file: the state in which it was found, and its digest. An unchanged
//! file is not opened, hashed or parsed again (R43). Where the system tells of changes, it is not looked at either.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use plugin_sdk::{Document, Problem, Problems, Update};
use prodspec_model::{Digest, Revision};

use super::{
    contents::Contents,
    stable::{self, Found, Look},
    told::{Listing, Told},
    walk::Passed,
};
use crate::kept::{Finding, Kept, Parsed, Placed, at_same_place};

/// The files of one source as of the last reading, and what has changed since earlier ones.
#[derive(Debug, Default)]
pub struct Cache {
    files: Kept<State>,
    contents: Contents,
    /// The total length of all files in bytes.
    bytes: u64,
    told: Told,
    /// The number of files that were opened so far.
    pub(super) opened: u64,
    /// The number of listings of all files so far.
    pub(super) listed: u64,
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
    /// Finds all files of the source, sorted by path, and what their list depends on. `None`: it is always the same one.
    fn list(&self) -> Result<(Vec<Found>, Option<Passed>), Problem>;

    /// Returns the name of the file at `path` in its documents.
    fn name<'p>(&'p self, path: &'p Path) -> Cow<'p, str>;

    /// Parses the bytes of the file named `name`.
    fn parse(&self, name: &str, bytes: &[u8]) -> Result<Vec<Document>, Problems>;

    /// Returns the revision of a source with these contents.
    fn revision(&self, contents: &mut Contents) -> Revision;

    /// Returns the problem of a source without any document, although each of its `files` could be read.
    fn nothing(&self, files: usize) -> Problem;
}

/// How a source is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Maximum of the length of all files in bytes.
    pub(super) cap: u64,
    /// The time after which all files are listed, where the system tells of changes. `None`: all files are listed by each
    /// reading.
    pub(super) list_after: Option<Duration>,
    /// The time of the reading.
    pub(super) now: SystemTime,
}

impl Cache {
    /// Reads the files at `place` that have changed since the last reading, and returns what has changed since the revision
    /// `known`.
    pub(super) fn read(
        &mut self,
        shape: &impl Shape,
        place: &Path,
        how: How,
        known: Option<&Revision>,
    ) -> Result<Update, Problems> {
        let mut files = Files {
            shape,
            how,
            cache: self,
        };
        let (listing, read) = stable::read(place, &mut files, how.cap)?;
        self.keep(shape, listing, read, how.now);
        self.answer(shape, known)
    }

    /// Keeps the files that were looked at, and the bytes of those that were read.
    pub(super) fn keep(
        &mut self,
        shape: &impl Shape,
        listing: Listing,
        read: stable::Files,
        now: SystemTime,
    ) {
        self.opened += read.len() as u64;
        let mut read = read.into_iter().peekable();
        let (contents, bytes) = (&mut self.contents, &mut self.bytes);
        let look = |found: Found, before: Option<&State>| {
            let Some((_, content)) = read.next_if(|(path, _)| path == found.place()) else {
                return Finding::Known;
            };
            *bytes = *bytes - before.map_or(0, |before| before.found.len()) + found.len();
            let finding = look(shape, found, &content, now, before);
            if let Finding::New(state, _) = &finding {
                contents.put(state.name, state.digest);
            }
            finding
        };
        let gone = match listing {
            Listing::All(found, _) => self.files.take(found, look),
            Listing::Some(found, gone) => self.files.take_some(found, &gone, look),
        };
        for state in gone {
            self.bytes -= state.found.len();
            self.contents.remove(state.name);
        }
        self.told.kept();
    }

    pub(super) fn answer(
        &mut self,
        shape: &impl Shape,
        known: Option<&Revision>,
    ) -> Result<Update, Problems> {
        let mut problems = self.files.problems();
        if problems.is_empty() && self.files.is_empty() {
            problems.push(shape.nothing(self.files.states().len()));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let revision = shape.revision(&mut self.contents);
        Ok(self.files.answer(revision, known))
    }

    /// The state and the documents of each file as of the last reading.
    pub(super) fn files(&self) -> impl Iterator<Item = (&State, &Parsed)> {
        self.files.files()
    }

    /// The revision of the source, as if the file at `path` had a content with the digest `content`.
    pub(super) fn revision_with(
        &self,
        shape: &impl Shape,
        path: &Path,
        content: Digest,
    ) -> Revision {
        let mut contents = self.contents.clone();
        if let Some(state) = self.files.state(path) {
            contents.put(state.name, content);
        }
        shape.revision(&mut contents)
    }
}

/// The files of a source in one reading.
pub(super) struct Files<'c, S> {
    pub(super) shape: &'c S,
    pub(super) how: How,
    pub(super) cache: &'c mut Cache,
}

impl<S: Shape> Files<'_, S> {
    /// The files about which the system has told. `None`: all files have to be listed.
    fn told(&mut self) -> Option<Listing> {
        let after = self.how.list_after?;
        let listing = self.cache.told.listing(self.how.now, after)?;
        let Listing::Some(found, gone) = &listing else {
            return None;
        };
        let looked_at = found.iter().map(Found::place);
        let looked_at = looked_at.chain(gone.iter().map(PathBuf::as_path));
        let before = looked_at.filter_map(|path| self.cache.files.state(path));
        let others = self.cache.bytes - before.map(|state| state.found.len()).sum::<u64>();
        // A listing of all files tells which one is too much.
        let bytes = found.iter().map(Found::len);
        let bytes = bytes.fold(others, u64::saturating_add);
        (bytes <= self.how.cap).then_some(listing)
    }

    fn all(&mut self) -> Result<Listing, Problem> {
        self.cache.listed += 1;
        let (files, passed) = self.shape.list()?;
        Ok(Listing::All(files, passed))
    }

    fn is_known(found: &Found, kept: Option<&State>) -> bool {
        kept.is_some_and(|kept| kept.settled && kept.found == *found)
    }
}

impl<S: Shape> Look for Files<'_, S> {
    type Listing = Listing;

    fn list(&mut self) -> Result<Listing, Problem> {
        if let Some(told) = self.told() {
            return Ok(told);
        }
        let all = self.all()?;
        if let (Listing::All(_, Some(passed)), Some(after)) = (&all, self.how.list_after) {
            self.cache.told.watch(passed, self.how.now, after);
        }
        Ok(all)
    }

    fn known(&self, listing: &Listing) -> Vec<bool> {
        match listing {
            Listing::All(found, _) => {
                let mut kept = self.cache.files.states().peekable();
                let known = |found| Self::is_known(found, at_same_place(&mut kept, found));
                found.iter().map(known).collect()
            }
            Listing::Some(found, _) => {
                let kept = |found: &Found| self.cache.files.state(found.place());
                let known = |found| Self::is_known(found, kept(found));
                found.iter().map(known).collect()
            }
        }
    }

    fn is_compared(&self) -> bool {
        self.cache.told.is_new()
    }

    fn stayed(&mut self, listing: &Listing) -> bool {
        match listing {
            Listing::All(..) => self.all().is_ok_and(|after| after == *listing),
            Listing::Some(..) => self.cache.told.look().as_ref() == Some(listing),
        }
    }
}

/// Compares a file that was read with its state before. Bytes that equal those before are not parsed again.
fn look(
    shape: &impl Shape,
    found: Found,
    bytes: &[u8],
    now: SystemTime,
    before: Option<&State>,
) -> Finding<State> {
    let (digest, settled) = (Digest::of(bytes), found.is_settled(now));
    if let Some(State { name, .. }) = before.filter(|before| before.digest == digest) {
        return Finding::Same(State {
            found,
            settled,
            name: *name,
            digest,
        });
    }
    let name = shape.name(found.place());
    let documents = shape.parse(&name, bytes);
    let name = Digest::of(name.as_bytes());
    let state = State {
        settled,
        name,
        found,
        digest,
    };
    Finding::New(state, documents)
}
