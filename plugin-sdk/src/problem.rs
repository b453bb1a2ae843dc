//! Problems that prevent a seal, or are worth a warning. Each names its finder and its place.
//!
//! Problems are collected instead of stopping at the first, so that an operator can fix all of them at once.

use std::fmt;

use prodspec_model::{Asset, AssetId, Provenance, tolerant};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::with_causes;

/// The severity of a problem: whether it prevents a seal.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Severity {
    /// A warning: shown, but does not prevent a seal.
    Warning,
    /// An error: no incarnation is sealed while it exists.
    #[default]
    Error,
}

/// One problem of a source, of a generator's input, or of the intent made from it.
///
/// ```
/// use plugin_sdk::Problem;
/// let problem = Problem::new("must be at least 1").field("replicas").at("manifest.yaml#0", 12, 5).by("manifest");
/// assert_eq!(problem.to_string(), "manifest.yaml#0:12:5: replicas: must be at least 1 (says manifest)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Problem {
    /// The place of the problem's document, such as `manifest.yaml#0`. Empty when unknown.
    pub document: String,
    /// Line in the document, from 1; 0 when unknown.
    pub line: u32,
    /// Column in the document, from 1; 0 when unknown.
    pub column: u32,
    /// The asset that has the problem. `None`: no single asset has it.
    pub asset: Option<AssetId>,
    /// The field that has the problem, such as `clusters[1].replicas`. Empty when unknown.
    pub field: Box<str>,
    /// Description of the problem, and of what to do about it.
    pub message: String,
    /// Name of the source, generator or validator that found it. Empty when unknown.
    pub by: Box<str>,
    /// Whether the problem prevents a seal. A severity that this program version does not know is an error.
    #[serde(deserialize_with = "severity")]
    pub severity: Severity,
    /// The field of a document that the problem comes from. Line and column are found by its path, each time anew.
    /// `None`: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Box<Provenance>>,
}

fn severity<'de, D: Deserializer<'de>>(from: D) -> Result<Severity, D::Error> {
    tolerant::known_or(from, |_| Severity::Error)
}

impl Problem {
    /// Makes an error with `message`, without asset and place.
    pub fn new(message: impl fmt::Display) -> Self {
        Self {
            message: message.to_string(),
            ..Self::default()
        }
    }

    /// Makes an error of `asset`, with the place that the asset came from.
    pub fn with(asset: &Asset, message: impl fmt::Display) -> Self {
        Self::new(message)
            .asset(asset.id())
            .origin(&asset.provenance())
    }

    /// Sets the asset that has the problem.
    #[must_use]
    pub fn asset(mut self, asset: AssetId) -> Self {
        self.asset = Some(asset);
        self
    }

    /// Sets the field that has the problem.
    #[must_use]
    pub fn field(mut self, field: impl Into<Box<str>>) -> Self {
        self.field = field.into();
        self
    }

    /// Sets the place: document, line and column.
    #[must_use]
    pub fn at(mut self, document: impl Into<String>, line: u32, column: u32) -> Self {
        (self.document, self.line, self.column) = (document.into(), line, column);
        self
    }

    /// Sets the place to the field of a document that an asset came from. The line and the column of the field are filled
    /// in before the problem is shown.
    #[must_use]
    pub fn origin(mut self, origin: &Provenance) -> Self {
        self.origin = Some(Box::new(origin.clone()));
        self.at(&origin.document, 0, 0)
    }

    /// Sets the name of the source, generator or validator that found the problem.
    #[must_use]
    pub fn by(mut self, name: impl Into<Box<str>>) -> Self {
        self.by = name.into();
        self
    }

    /// Turns the problem into a warning.
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

/// A list of problems. Displayed with one problem per line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Makes an empty list of problems.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds one problem to the list.
    pub fn push(&mut self, problem: impl Into<Problem>) {
        self.0.push(problem.into());
    }

    /// Adds all problems of `others` to the list.
    pub fn extend(&mut self, others: impl IntoIterator<Item = Problem>) {
        self.0.extend(others);
    }

    /// The problems in the order in which they were added.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// Number of problems, including warnings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the list contains no problem.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the list contains an error, which prevents a seal.
    pub fn any_error(&self) -> bool {
        self.0
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    /// Sorts the problems by place and removes duplicates.
    pub fn sort(&mut self) {
        self.0.sort();
        self.0.dedup();
    }

    /// Changes each problem in place, for example to add where it comes from.
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
