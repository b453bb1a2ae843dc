//! What a source of many files remembers from one reading to the next: a state and the documents of each file. An
//! unchanged file is not parsed again (R43), and a caller that has the documents of an earlier revision gets those that
//! have changed since. Files on disk and files of trees share this; what tells that a file is unchanged is their own.

use std::{collections::BTreeMap, iter::Peekable, path::Path};

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
/// a file is known.
#[derive(Debug)]
pub(crate) struct Kept<S> {
    history: History,
    /// Sorted by path.
    files: Vec<File<S>>,
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
            files: Vec::new(),
            named: Names::default(),
        }
    }
}

impl<S: Placed> Placed for File<S> {
    fn place(&self) -> &Path {
        self.state.place()
    }
}

impl<S: Placed> Kept<S> {
    /// The states of all files, sorted by path.
    pub(crate) fn states(&self) -> impl ExactSizeIterator<Item = &S> {
        self.files.iter().map(|file| &file.state)
    }

    /// The state and the documents of each file, sorted by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&S, &Parsed)> {
        self.files.iter().map(|file| (&file.state, &file.documents))
    }

    /// Takes in the files of a reading, sorted by path. `look` finds out about each of them, and gets the state that is
    /// kept of it.
    pub(crate) fn take<F: Placed>(
        &mut self,
        found: Vec<F>,
        mut look: impl FnMut(F, Option<&S>) -> Finding<S>,
    ) {
        self.history.begin();
        let mut before = std::mem::take(&mut self.files).into_iter().peekable();
        for found in found {
            while let Some(file) = before.next_if(|file| file.is_before(&found)) {
                self.missing(file.documents);
            }
            let file = before.next_if(|file| file.is_same_place(&found));
            let finding = look(found, file.as_ref().map(|file| &file.state));
            let file = self.file(finding, file);
            self.files.extend(file);
        }
        before.for_each(|file| self.missing(file.documents));
    }

    /// The file after a finding about it. `None`: there is nothing to keep.
    fn file(&mut self, finding: Finding<S>, before: Option<File<S>>) -> Option<File<S>> {
        let (state, documents) = match (finding, before) {
            (Finding::Known, before) => return before,
            (Finding::Same(state), before) => return before.map(|before| File { state, ..before }),
            (Finding::New(state, documents), before) => {
                let before = before.map_or(Ok(Vec::new()), |before| before.documents);
                self.missing(before);
                (state, documents)
            }
        };
        for document in documents.iter().flatten() {
            self.history.there(document.key());
            self.named.add(document.key());
        }
        let changed = self.history.reading();
        Some(File {
            state,
            documents,
            changed,
        })
    }

    /// Notes that documents are gone, unless another file has a document with the same name.
    fn missing(&mut self, documents: Parsed) {
        for document in documents.into_iter().flatten() {
            if self.named.remove(document.key()) {
                self.history.missing(document.key());
            }
        }
    }

    /// The problems of all files, and of documents with the same name.
    pub(crate) fn problems(&self) -> Problems {
        let files = self.files.iter();
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

    /// Whether the files have no document.
    pub(crate) fn is_empty(&self) -> bool {
        let empty = |file: &File<S>| file.documents.as_ref().is_ok_and(Vec::is_empty);
        self.files.iter().all(empty)
    }

    /// Returns what has changed from the revision `known` to the present `revision`, which is remembered.
    pub(crate) fn answer(&mut self, revision: Revision, known: Option<&Revision>) -> Update {
        let files = &self.files;
        self.history.update(revision, known, |since| {
            let is_new = |file: &&File<S>| since.is_none_or(|since| file.changed > since);
            let changed = files.iter().filter(is_new);
            let documents = changed.flat_map(|file| file.documents.iter().flatten());
            documents.cloned().collect()
        })
    }
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
