//! A directory of files as one source of truth: all files of one format in it and its subdirectories, sorted by path.

use std::{borrow::Cow, fs, marker::PhantomData, path::Path};

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

impl<F> From<Settings> for Folder<F> {
    fn from(settings: Settings) -> Self {
        Self(settings, PhantomData)
    }
}

impl<F: Format> Shape for Folder<F> {
    fn list(&self) -> Result<Vec<Found>, Problem> {
        list::<F>(&self.0.path)
    }

    fn name<'p>(&'p self, path: &'p Path) -> Cow<'p, str> {
        let below = path.strip_prefix(&self.0.path);
        below.unwrap_or(path).to_string_lossy()
    }

    fn parse(&self, name: &str, bytes: &[u8]) -> Result<Vec<Document>, Problems> {
        self.0.documents::<F>(name, bytes)
    }

    fn revision(&self, files: &mut dyn Iterator<Item = (Digest, Digest)>) -> Revision {
        let mut digests = Vec::new();
        for (name, content) in files {
            digests.extend_from_slice(&name.0);
            digests.extend_from_slice(&content.0);
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
    let mut walk = Walk {
        links,
        files: Vec::new(),
    };
    walk.folder::<F>(root, &reached, 0)?;
    Ok(walk.files)
}

/// The files found so far, and the links followed.
struct Walk {
    links: Links,
    files: Vec<Found>,
}

impl Walk {
    /// Adds the files of the format in the folder that is reported as `path` and reached as `target`, and below it. The
    /// order of the names, folder by folder, is the order of the paths.
    fn folder<F: Format>(
        &mut self,
        path: &Path,
        target: &Path,
        level: usize,
    ) -> Result<(), Problem> {
        let cannot = |error| cannot_read(path, &error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(target).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            if !is_hidden(&entry) {
                entries.push((entry.file_name(), entry.file_type().map_err(cannot)?));
            }
        }
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, kind) in entries {
            if kind.is_dir() && level < MAX_LEVELS {
                self.folder::<F>(&path.join(&name), &target.join(&name), level + 1)?;
            } else if kind.is_dir() {
                let message = "more than 16 levels of directories; flatten them";
                return Err(at(&path.join(&name), message));
            } else if is_of::<F>(Path::new(&name)) {
                let (path, target) = (path.join(&name), target.join(&name));
                self.files.push(match kind.is_symlink() {
                    true => Found::linked(path, &target, &mut self.links),
                    false => Found::direct(path, target),
                });
            }
        }
        Ok(())
    }
}

fn is_of<F: Format>(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| F::EXTENSIONS.iter().any(|known| extension == *known))
}
