//! A directory of files as one source of truth: all files of one format in it and its subdirectories, sorted by path.

use std::{
    borrow::Cow,
    fs,
    marker::PhantomData,
    path::{Path, PathBuf},
};

use plugin_sdk::{Document, Problem, Problems};
use prodspec_model::{Digest, Revision};

use super::{
    cache::Shape,
    links::Links,
    scope::{MAX_LEVELS, is_hidden},
    settings::Settings,
    stable::{Found, at, cannot_read},
};
use crate::format::Format;

/// A source that is a directory of files. A file without a document is skipped, but an empty file is an error. At least
/// one document is required.
#[derive(Debug, Clone)]
pub struct Folder<F>(Settings, PhantomData<F>);

impl<F> Folder<F> {
    /// The path of a file below the directory.
    fn below<'p>(&self, path: &'p Path) -> Cow<'p, str> {
        let below = path.strip_prefix(&self.0.path);
        below.unwrap_or(path).to_string_lossy()
    }
}

impl<F> From<Settings> for Folder<F> {
    fn from(settings: Settings) -> Self {
        Self(settings, PhantomData)
    }
}

impl<F: Format> Shape for Folder<F> {
    fn list(&self) -> Result<Vec<Found>, Problem> {
        list::<F>(&self.0.path)
    }

    fn parse(&self, path: &Path, bytes: &[u8]) -> Result<Vec<Document>, Problems> {
        self.0.documents::<F>(&self.below(path), bytes)
    }

    fn revision(&self, files: &mut dyn Iterator<Item = (&Path, Digest)>) -> Revision {
        let mut digests = Vec::new();
        for (path, digest) in files {
            digests.extend_from_slice(&Digest::of(self.below(path).as_bytes()).0);
            digests.extend_from_slice(&digest.0);
        }
        Revision(Digest::of(&digests).to_string().into())
    }

    fn nothing(&self, files: usize) -> Problem {
        let message = match files {
            0 => format!("no {} file in the directory; add one", F::NAME),
            _ => format!(
                "no document in any {} file of the directory; add one",
                F::NAME
            ),
        };
        at(&self.0.path, message)
    }
}

/// All files of the format below `root`, sorted by path. Links in the path of `root` are resolved once, so that all
/// files come from the same directory.
fn list<F: Format>(root: &Path) -> Result<Vec<Found>, Problem> {
    let mut links = Links::default();
    let reached = links
        .resolve(root)
        .map_err(|error| cannot_read(root, &error))?;
    let mut files = Vec::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    while let Some((folder, level)) = folders.pop() {
        let cannot = |error| match level {
            0 => cannot_read(root, &error),
            _ => cannot_read(&root.join(&folder), &error),
        };
        for entry in fs::read_dir(reached.join(&folder)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            if is_hidden(&entry) {
                continue;
            }
            let below = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(cannot)?;
            if kind.is_dir() && level < MAX_LEVELS {
                folders.push((below, level + 1));
            } else if kind.is_dir() {
                return Err(at(
                    &root.join(below),
                    "more than 16 levels of directories; flatten them",
                ));
            } else if is_of::<F>(&below) {
                let (path, target) = (root.join(&below), reached.join(&below));
                files.push(if kind.is_symlink() {
                    Found::linked(path, &target, &mut links)
                } else {
                    Found::direct(path, target)
                });
            }
        }
    }
    files.sort_by(|a, b| a.path().cmp(b.path()));
    Ok(files)
}

fn is_of<F: Format>(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| F::EXTENSIONS.iter().any(|known| extension == *known))
}
