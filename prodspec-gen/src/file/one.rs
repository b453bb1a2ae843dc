//! One file as a source of truth.

use std::{borrow::Cow, marker::PhantomData, path::Path};

use plugin_sdk::{Document, Problem, Problems, Reading};
use prodspec_model::{Digest, Revision};

use super::{
    Files,
    cache::Shape,
    contents::Contents,
    links::Links,
    settings::Settings,
    stable::{self, Found},
    walk::Passed,
};
use crate::format::Format;

/// A source that is one file: its revision is the digest of the file.
#[derive(Debug, Clone)]
pub struct OneFile<F>(Settings, PhantomData<F>);

impl<F> From<Settings> for OneFile<F> {
    fn from(settings: Settings) -> Self {
        Self(settings, PhantomData)
    }
}

impl<F: Format> Shape for OneFile<F> {
    fn list(&self) -> Result<(Vec<Found>, Option<Passed>), Problem> {
        let path = &self.0.path;
        let found = Found::linked(path.clone(), path, &mut Links::default());
        Ok((vec![found], None))
    }

    fn name<'p>(&'p self, _: &'p Path) -> Cow<'p, str> {
        Cow::Borrowed(&self.0.parsing.source)
    }

    fn parse(&self, name: &str, bytes: &[u8]) -> Result<Vec<Document>, Problems> {
        self.0.parsing.documents::<F>(name, bytes)
    }

    fn revision(&self, contents: &mut Contents) -> Revision {
        let digests = contents.each().map(Digest::to_string);
        Revision(digests.collect::<String>().into())
    }

    fn nothing(&self, _: usize) -> Problem {
        self.0.parsing.empty(&self.0.parsing.source)
    }
}

impl<F: Format> Files<OneFile<F>> {
    /// Parses `bytes` as if they were the content of the file.
    ///
    /// # Errors
    /// The same problems as for a file with this content.
    pub fn parse(&self, bytes: &[u8]) -> Result<Reading, Problems> {
        let parsing = &self.settings.parsing;
        let (len, cap) = (bytes.len() as u64, parsing.limits.bytes);
        if len > cap {
            let problem = stable::too_long(len, cap).at(&*parsing.source, 0, 0);
            return Err(parsing.said(problem).into());
        }
        let documents = parsing.documents::<F>(&parsing.source, bytes)?;
        if documents.is_empty() {
            return Err(parsing.empty(&parsing.source).into());
        }
        Ok(Reading::new(Digest::of(bytes).to_string(), documents))
    }
}
