//! A directory of files as one source of truth: all files of one format in it and its subdirectories, sorted by path.

use std::{borrow::Cow, marker::PhantomData, path::Path};

use plugin_sdk::{Document, Problem, Problems};
use prodspec_model::Revision;

use super::{
    cache::Shape,
    contents::Contents,
    settings::Settings,
    stable::{Found, at},
    walk::{Passed, Walk, Wanted},
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
    fn list(&self) -> Result<(Vec<Found>, Option<Passed>), Problem> {
        let mut walk = Walk::new(Wanted::Extensions(F::EXTENSIONS));
        walk.directory(&self.0.path)?;
        let (files, passed) = walk.into_parts();
        Ok((files, Some(passed)))
    }

    fn name<'p>(&'p self, path: &'p Path) -> Cow<'p, str> {
        let below = path.strip_prefix(&self.0.path);
        below.unwrap_or(path).to_string_lossy()
    }

    fn parse(&self, name: &str, bytes: &[u8]) -> Result<Vec<Document>, Problems> {
        self.0.parsing.documents::<F>(name, bytes)
    }

    fn revision(&self, contents: &mut Contents) -> Revision {
        Revision(contents.digest().to_string().into())
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
