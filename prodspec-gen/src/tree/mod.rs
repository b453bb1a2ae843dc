//! Trees of files outside of the file system as sources of truth: repositories and archives. Their files are known by an
//! id of their content, so that an unchanged file is neither read nor parsed again. Needs the feature `files`.

mod editing;
mod selection;
mod source;
mod stop;

use std::{path::Path, sync::Arc};

use plugin_sdk::{Problem, Problems};
use prodspec_model::Revision;

pub use editing::{EditableTree, NewText};
pub use selection::Selection;
pub use source::{Hook, TreeSource};
pub use stop::Stop;

use crate::kept::Placed;

/// A tree of files that has revisions, such as a branch of a repository. [`TreeSource`] makes a source of truth of it.
///
/// Its calls may block. They run on a thread for blocking work, one at a time.
///
/// ```
/// use plugin_sdk::{Problem, Problems, SourceOfTruth};
/// use prodspec_gen::{format::Yaml, tree::{Content, ContentId, Entry, Selection, Snapshot, Stop, Tree, TreeSource}};
/// use prodspec_model::{Digest, Revision};
///
/// /// Files that are compiled into the program.
/// struct BuiltIn(&'static [(&'static str, &'static str)]);
///
/// impl Tree for BuiltIn {
///     fn look(&mut self, last: Option<&Revision>, _: &Stop) -> Result<Option<Box<dyn Snapshot + '_>>, Problems> {
///         Ok(if last.is_some() { None } else { Some(Box::new(Files(self.0))) })
///     }
/// }
///
/// struct Files(&'static [(&'static str, &'static str)]);
///
/// impl Snapshot for Files {
///     fn revision(&self) -> Revision {
///         Revision(env!("CARGO_PKG_VERSION").into())
///     }
///     fn list(&mut self, _: &Selection) -> Result<Vec<Entry>, Problems> {
///         let entry = |(path, text): &(&str, &str)| Entry::file(*path, ContentId::from(&Digest::of(text.as_bytes()).0[..]));
///         Ok(self.0.iter().map(entry).collect())
///     }
///     fn read(&mut self, entry: &Entry, _: u64) -> Result<Content, Problem> {
///         let file = self.0.iter().find(|(path, _)| *path == entry.path());
///         let (_, text) = file.ok_or_else(|| Problem::new("is not there"))?;
///         Ok(Content::Bytes(text.as_bytes().to_vec()))
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let tree = BuiltIn(&[("README.md", "Our clusters."), ("configs/eu.yaml", "replicas: 2")]);
/// let source = TreeSource::<_, Yaml>::new("clusters", tree).path("configs");
/// let reading = source.read().await?;
/// assert_eq!(reading.documents[0].name(), "configs/eu.yaml#0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Tree: Send + 'static {
    /// Finds the present revision of the tree. Returns `None` if it is still `last`, the revision whose files the caller
    /// has. When `stop` says so, the caller has given up, and the call should return soon with any problem.
    ///
    /// # Errors
    /// Why the present revision cannot be found, and what to do about it.
    fn look(
        &mut self,
        last: Option<&Revision>,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Snapshot + '_>>, Problems>;
}

/// A [`Tree`] at one revision: whatever happens to the tree meanwhile, its files are those of this revision.
pub trait Snapshot {
    /// The revision, such as the id of a commit. Problems name the first seven characters of it, after a prefix that ends
    /// with a colon.
    fn revision(&self) -> Revision;

    /// Lists the files of the tree in any order, at least those that `selection` takes.
    ///
    /// # Errors
    /// Why they cannot be listed. What is wrong with a single file is told by [`Entry::refused`].
    fn list(&mut self, selection: &Selection) -> Result<Vec<Entry>, Problems>;

    /// Reads a file, which may have at most `cap` bytes.
    ///
    /// # Errors
    /// Why it cannot be read. It is read again the next time, even if the revision is the same then.
    fn read(&mut self, entry: &Entry, cap: u64) -> Result<Content, Problem>;
}

/// What reading a file gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The bytes of the whole file.
    Bytes(Vec<u8>),
    /// The length of a file that is longer than allowed, in bytes. It was not read.
    TooLong(u64),
}

/// An id of the content of a file: files with equal ids have equal content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentId(Arc<[u8]>);

impl From<&[u8]> for ContentId {
    fn from(id: &[u8]) -> Self {
        Self(id.into())
    }
}

impl ContentId {
    /// The bytes that the id was made from.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// One entry in the list of a tree: a file, or something else that is no file.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    path: String,
    there: Result<ContentId, Problem>,
}

impl Entry {
    /// A regular file. The path is relative to the root of the tree, with slashes.
    pub fn file(path: impl Into<String>, id: ContentId) -> Self {
        Self {
            path: path.into(),
            there: Ok(id),
        }
    }

    /// An entry that is refused, such as a link. The message says what it is, and what to do about it.
    pub fn refused(path: impl Into<String>, message: impl std::fmt::Display) -> Self {
        let path = path.into();
        let problem = Problem::new(message).at(&path, 0, 0);
        Self {
            there: Err(problem),
            path,
        }
    }

    /// The path from the root of the tree.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The id of the content. `None`: the entry is refused.
    pub fn id(&self) -> Option<&ContentId> {
        self.there.as_ref().ok()
    }
}

impl Placed for Entry {
    fn place(&self) -> &Path {
        Path::new(&self.path)
    }
}

#[cfg(test)]
mod tests;
