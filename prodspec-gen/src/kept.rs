//! What a source of many files remembers from one reading to the next: a state and the documents of each file. An
//! unchanged file is not parsed again (R43), and a caller that has the documents of an earlier revision gets those that
//! have changed since. Files on disk and files of trees share this; what tells that a file is unchanged is their own.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    iter::Peekable,
    path::{Path, PathBuf},
};

use plugin_sdk::{
    Document, Problem, Problems, Update,
    document::{DocumentKey, DocumentName},
};
use prodspec_model::Revision;

use crate::history::History;

/// What a file parses to: its documents, or why it has none.
pub(crate) type Parsed = Result<Vec<Document>, Problems>;

/// A file that has a path in its source. Lists of files are sorted by it.
pub(crate) trait Placed {
    /// The path of the file, unique in its source.
    fn place(&self) -> &Path;

    /// Whether this file comes before another one in a list. Few files do: the paths are compared as texts first.
    fn is_before(&self, other: &impl Placed) -> bool {
        !self.is_same_place(other) && self.place() < other.place()
    }

    /// Whether this is the same file as another one, in whatever state.
    fn is_same_place(&self, other: &impl Placed) -> bool {
        self.place().as_os_str() == other.place().as_os_str()
    }
}

/// What a reading finds out about a file, compared with the reading before.
pub(crate) enum Finding<S> {
    /// State and content are those that are kept.
    Known,
    /// The content is that which is kept, the state is another one.
    Same(S),
    /// The content is new or has changed.
    New(S, Parsed),
}

/// The files of one source as of the last reading, and what has changed since earlier ones. `S` is the state by which
/// a file is known. A change costs the logarithm of the number of files.
#[derive(Debug)]
pub(crate) struct Kept<S> {
    history: History,
    /// Sorted by path.
    files: BTreeSet<File<S>>,
    /// The number of documents of all files.
    documents: usize,
    /// The files that have problems instead of documents.
    broken: BTreeSet<PathBuf>,
    /// The files that have changed after the oldest revision from which changes are known, each with the reading that
    /// found it changed last.
    changed: BTreeSet<(u64, PathBuf)>,
    /// The number of documents with each name of their own. More than one is a problem.
    named: Names,
}

/// One file as it was read last.
#[derive(Debug)]
struct File<S> {
    state: S,
    documents: Parsed,
    /// The reading that found the present documents first.
    changed: u64,
}

impl<S> Default for Kept<S> {
    fn default() -> Self {
        Self {
            history: History::default(),
            files: BTreeSet::new(),
            documents: 0,
            broken: BTreeSet::new(),
            changed: BTreeSet::new(),
            named: Names::default(),
        }
    }
}

impl<S: Placed> Placed for File<S> {
    fn place(&self) -> &Path {
        self.state.place()
    }
}

impl<S: Placed> Borrow<Path> for File<S> {
    fn borrow(&self) -> &Path {
        self.place()
    }
}

impl<S: Placed> Ord for File<S> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(other.place())
    }
}

impl<S: Placed> PartialOrd for File<S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<S: Placed> PartialEq for File<S> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<S: Placed> Eq for File<S> {}

impl<S: Placed> Kept<S> {
    /// The states of all files, sorted by path.
    pub(crate) fn states(&self) -> impl ExactSizeIterator<Item = &S> {
        self.files.iter().map(|file| &file.state)
    }

    /// The state and the documents of each file, sorted by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&S, &Parsed)> {
        self.files.iter().map(|file| (&file.state, &file.documents))
    }

    /// The state of the file at a path.
    pub(crate) fn state(&self, path: &Path) -> Option<&S> {
        self.files.get(path).map(|file| &file.state)
    }

    /// Takes in a reading of all files, sorted by path. `look` finds out about each of them, and gets the state that is
    /// kept of it. Returns the states of the files that are gone.
    pub(crate) fn take<F: Placed>(
        &mut self,
        found: Vec<F>,
        mut look: impl FnMut(F, Option<&S>) -> Finding<S>,
    ) -> Vec<S> {
        let (mut gone, mut findings) = (Vec::new(), Vec::new());
        let mut before = self.files.iter().peekable();
        for found in found {
            while let Some(file) = before.next_if(|file| file.is_before(&found)) {
                gone.push(file.place().to_owned());
            }
            let file = before.next_if(|file| file.is_same_place(&found));
            findings.push(look(found, file.map(|file| &file.state)));
        }
        gone.extend(before.map(|file| file.place().to_owned()));
        self.apply(&gone, findings)
    }

    /// Takes in a reading of some files. All others are as they were, except that those at the paths `gone` are gone.
    /// Otherwise as [`take`](Self::take).
    pub(crate) fn take_some<F: Placed>(
        &mut self,
        found: Vec<F>,
        gone: &[PathBuf],
        mut look: impl FnMut(F, Option<&S>) -> Finding<S>,
    ) -> Vec<S> {
        let findings = found.into_iter().map(|found| {
            let before = self.state(found.place());
            look(found, before)
        });
        let findings = findings.collect();
        self.apply(gone, findings)
    }

    fn apply(&mut self, gone: &[PathBuf], findings: Vec<Finding<S>>) -> Vec<S> {
        self.history.begin();
        let gone = gone.iter().filter_map(|path| self.files.take(&**path));
        let gone: Vec<File<S>> = gone.collect();
        gone.iter().for_each(|file| self.missing(file));
        findings.into_iter().for_each(|finding| self.put(finding));
        gone.into_iter().map(|file| file.state).collect()
    }

    /// Keeps what a reading found out about a file.
    fn put(&mut self, finding: Finding<S>) {
        let file = match finding {
            Finding::Known => return,
            Finding::Same(state) => {
                let before = self.files.take(state.place());
                self.files
                    .extend(before.map(|before| File { state, ..before }));
                return;
            }
            Finding::New(state, documents) => File {
                state,
                documents,
                changed: self.history.reading(),
            },
        };
        if let Some(before) = self.files.take(file.place()) {
            self.missing(&before);
        }
        for document in file.documents.iter().flatten() {
            self.history.there(document.key());
            self.named.add(document.key());
            self.documents += 1;
        }
        if file.documents.is_err() {
            self.broken.insert(file.place().into());
        }
        if self.history.has_revisions() {
            self.changed.insert((file.changed, file.place().into()));
        }
        self.files.insert(file);
    }

    /// Notes that a file has other documents now, or none. Each of its documents is gone, unless another file has one with
    /// the same name.
    fn missing(&mut self, file: &File<S>) {
        for document in file.documents.iter().flatten() {
            self.documents -= 1;
            if self.named.remove(document.key()) {
                self.history.missing(document.key());
            }
        }
        self.broken.remove(file.place());
        if !self.changed.is_empty() {
            self.changed.remove(&(file.changed, file.place().into()));
        }
    }

    /// The problems of all files, and of documents with the same name.
    pub(crate) fn problems(&self) -> Problems {
        let broken = self.broken.iter();
        let files = broken.filter_map(|path| self.files.get(&**path));
        let problems = files.filter_map(|file| file.documents.as_ref().err());
        let mut problems: Problems = problems.flatten().cloned().collect();
        problems.extend(self.twins());
        problems
    }

    /// The problems of documents that have the same name.
    fn twins(&self) -> impl Iterator<Item = Problem> {
        let mut places: BTreeMap<&DocumentKey, Vec<&Document>> = BTreeMap::new();
        if self.named.has_twins() {
            for document in self.files.iter().flat_map(|file| &file.documents).flatten() {
                if self.named.count(document.key()) > 1 {
                    places.entry(document.key()).or_default().push(document);
                }
            }
        }
        places.into_values().filter_map(|twins| {
            let (last, others) = twins.split_last()?;
            let others: Vec<String> = others.iter().map(|other| other.place()).collect();
            let message = format!("has the same name as {}; rename one", others.join(" and "));
            Some(last.problem(message))
        })
    }

    /// Whether all files could be read, and none of them has a document.
    pub(crate) fn is_empty(&self) -> bool {
        self.documents == 0 && self.broken.is_empty()
    }

    /// Returns what has changed from the revision `known` to the present `revision`, which is remembered.
    pub(crate) fn answer(&mut self, revision: Revision, known: Option<&Revision>) -> Update {
        let (files, changed) = (&self.files, &self.changed);
        let update = self.history.update(revision, known, |since| match since {
            None => documents(files.iter()),
            Some(since) => {
                let since = (since + 1, PathBuf::new());
                let changed = changed.range(since..).map(|(_, path)| &**path);
                let changed: BTreeSet<&Path> = changed.collect();
                documents(changed.into_iter().filter_map(|path| files.get(path)))
            }
        });
        let oldest = (self.history.oldest() + 1, PathBuf::new());
        self.changed = self.changed.split_off(&oldest);
        update
    }
}

/// The documents of files.
fn documents<'f, S: 'f>(files: impl Iterator<Item = &'f File<S>>) -> Vec<Document> {
    let documents = files.flat_map(|file| file.documents.iter().flatten());
    documents.cloned().collect()
}

/// The documents of a source that have names of their own. Names by place are unique.
#[derive(Debug, Default)]
struct Names {
    counts: BTreeMap<DocumentKey, u32>,
    /// The number of names that more than one document has.
    twins: usize,
}

impl Names {
    fn add(&mut self, key: &DocumentKey) {
        if let DocumentName::Own(_) = key.name {
            let count = self.counts.entry(key.clone()).or_default();
            *count += 1;
            self.twins += usize::from(*count == 2);
        }
    }

    /// Removes one document. Returns whether no document has its name any more.
    fn remove(&mut self, key: &DocumentKey) -> bool {
        let Some(count) = self.counts.get_mut(key) else {
            return true;
        };
        *count -= 1;
        self.twins -= usize::from(*count == 1);
        if *count == 0 {
            self.counts.remove(key);
            return true;
        }
        false
    }

    fn count(&self, key: &DocumentKey) -> u32 {
        self.counts.get(key).copied().unwrap_or_default()
    }

    fn has_twins(&self) -> bool {
        self.twins > 0
    }
}

/// Skips to the file of a sorted list that has the same place as `other`, and returns it.
pub(crate) fn at_same_place<'f, F: Placed + 'f>(
    files: &mut Peekable<impl Iterator<Item = &'f F>>,
    other: &impl Placed,
) -> Option<&'f F> {
    while files.next_if(|file| file.is_before(other)).is_some() {}
    files.next_if(|file| file.is_same_place(other))
}
