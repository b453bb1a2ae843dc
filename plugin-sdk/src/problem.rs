//! Problems: everything that keeps intent from being sealed, each with who says so and where it comes from.
//!
//! Problems are collected, not returned at the first: a person mends them all in one go.

use std::fmt;

use prodspec_model::{Asset, AssetId, Provenance};
use serde::{Deserialize, Serialize};

use crate::error::with_causes;

/// How bad a problem is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing; does not keep an incarnation from being sealed.
    Warning,
    /// No incarnation while this stands.
    #[default]
    Error,
}

/// One thing that is wrong with a source, a generator's input or the intent made from it.
///
/// ```
/// use plugin_sdk::Problem;
/// let problem = Problem::new("must be at least 1").field("replicas").at("manifest.yaml#0", 12, 5).by("manifest");
/// assert_eq!(problem.to_string(), "manifest.yaml#0:12:5: replicas: must be at least 1 (says manifest)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The document it comes from, such as `manifest.yaml#0`; empty when unknown.
    pub document: String,
    /// Line in the document, from 1; 0 when unknown.
    pub line: u32,
    /// Column in the document, from 1; 0 when unknown.
    pub column: u32,
    /// The asset it is about.
    pub asset: Option<AssetId>,
    /// The field it is about, such as `clusters[1].replicas`; empty when unknown.
    pub field: String,
    /// What is wrong and what to do about it.
    pub message: String,
    /// The source, generator or validator that found it.
    pub by: Box<str>,
    /// How bad it is.
    pub severity: Severity,
}

impl Problem {
    /// Something is wrong.
    pub fn new(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            ..Self::default()
        }
    }

    /// Something is wrong with `asset`; points to where the asset came from.
    pub fn with(asset: &Asset, message: impl fmt::Display) -> Self {
        Self::new(message)
            .asset(asset.id())
            .origin(&asset.provenance())
    }

    /// Names the asset.
    #[must_use]
    pub fn asset(mut self, asset: AssetId) -> Self {
        self.asset = Some(asset);
        self
    }

    /// Names the field.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = field.into();
        self
    }

    /// Names the place.
    #[must_use]
    pub fn at(mut self, document: impl Into<String>, line: u32, column: u32) -> Self {
        (self.document, self.line, self.column) = (document.into(), line, column);
        self
    }

    /// Names the place by where an asset came from.
    #[must_use]
    pub fn origin(self, origin: &Provenance) -> Self {
        self.at(&origin.document, origin.line, origin.column)
    }

    /// Names who found it.
    #[must_use]
    pub fn by(mut self, name: impl Into<Box<str>>) -> Self {
        self.by = name.into();
        self
    }

    /// Makes it a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.document.is_empty() {
            f.write_str(&self.document)?;
            if self.line > 0 {
                write!(f, ":{}:{}", self.line, self.column)?;
            }
            f.write_str(": ")?;
        }
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        if let Some(asset) = &self.asset {
            write!(f, "{asset}: ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        if !self.by.is_empty() {
            write!(f, " (says {})", self.by)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// Every problem found, one per line when shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// None so far.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, problem: impl Into<Problem>) {
        self.0.push(problem.into());
    }

    /// Adds all of `others`.
    pub fn extend(&mut self, others: impl IntoIterator<Item = Problem>) {
        self.0.extend(others);
    }

    /// All of them, in the order found.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// How many there are, warnings included.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them keeps an incarnation from being sealed.
    pub fn any_error(&self) -> bool {
        self.0
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    /// Puts them in a fixed order, by place, each once.
    pub fn sort(&mut self) {
        self.0.sort();
        self.0.dedup();
    }

    /// Changes each of them, for those who know more about where it comes from.
    pub fn for_each_mut(&mut self, change: impl FnMut(&mut Problem)) {
        self.0.iter_mut().for_each(change);
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self(problems.into_iter().collect())
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

macro_rules! from_error {
    ($($error:ty),*) => { $(
        impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                Self::new(with_causes(&error))
            }
        }
        impl From<$error> for Problems {
            fn from(error: $error) -> Self {
                Problem::from(error).into()
            }
        }
    )* };
}

from_error!(
    prodspec_model::asset::Error,
    prodspec_model::id::InvalidId,
    prodspec_model::message::Error,
    prodspec_model::canonical::Error
);
