//! A directory of files as one source of truth: all files of one format in it and its subdirectories, sorted by path.

use std::{borrow::Cow, marker::PhantomData, path::Path};

use plugin_sdk::{Document, Problem, Problems};
use prodspec_model::{Digest, Revision};

use super::{
    cache::Shape,
    settings::Settings,
    stable::{Found, at},
    walk::{Walk, Wanted},
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
        let mut walk = Walk::new(Wanted::Extensions(F::EXTENSIONS));
        walk.directory(&self.0.path)?;
        Ok(walk.into_files())
    }

    fn name<'p>(&'p self, path: &'p Path) -> Cow<'p, str> {
        let below = path.strip_prefix(&self.0.path);
        below.unwrap_or(path).to_string_lossy()
    }

    fn parse(&self, name: &str, bytes: &[u8]) -> Result<Vec<Document>, Problems> {
        self.0.parsing.documents::<F>(name, bytes)
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
