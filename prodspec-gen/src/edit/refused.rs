//! Why an edit is refused, with the advice for its caller.

use plugin_sdk::{Problem, document::FieldPath};

/// An edit that was not made. The text stays as it is.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The file cannot be parsed, before or after the edit.
    #[error(
        "the file cannot be edited because it does not parse; correct it first: line {}, column {}: {}",
        .0.line, .0.column, .0.message
    )]
    Unparsed(Problem),
    /// The file, before or after the edit, is longer than the limit.
    #[error("the file would have {bytes} bytes, {limit} are allowed; split it or raise the limit")]
    TooLarge {
        /// The length of the file in bytes.
        bytes: u64,
        /// The maximum length in bytes.
        limit: u64,
    },
    /// The file has no document with this index.
    #[error("there is no document {document}: the file has {count}; correct the index")]
    NoDocument {
        /// The index that was asked for, from 0.
        document: u32,
        /// The number of documents in the file.
        count: usize,
    },
    /// The field, or the value in which it would be added, is not there.
    #[error(
        "there is no field `{path}`: {found} at `{deepest}`, line {line}, has no such entry; correct the path, or add the value that contains it first"
    )]
    NoField {
        /// The field that was asked for.
        path: FieldPath,
        /// The deepest value on the path that exists.
        deepest: FieldPath,
        /// The kind of that value, such as `a map`.
        found: &'static str,
        /// The line of that value, from 1.
        line: usize,
    },
    /// Several items of a list have the name that the path gives.
    #[error(
        "`{path}` may be several fields: two items of the list `{list}`, line {line}, have that name; give each item a name of its own"
    )]
    Several {
        /// The path of the edit.
        path: FieldPath,
        /// The list with these items.
        list: FieldPath,
        /// The line of the list, from 1.
        line: usize,
    },
    /// The path would not find its item any more.
    #[error(
        "`{path}` would not name the item any more after this edit; keep the field that names it, or name the item by another field or by its index"
    )]
    Renames {
        /// The path of the edit.
        path: FieldPath,
    },
    /// The field does not have the expected value.
    #[error(
        "`{path}`, line {line}, is {found}, but {expected} was expected; read the file again and decide anew"
    )]
    Unexpected {
        /// The field that was asked for.
        path: FieldPath,
        /// The line of the value, or of the map or list without it, from 1.
        line: usize,
        /// The expected value as JSON, or `absent`.
        expected: String,
        /// The value in the file as JSON, or `absent`.
        found: String,
    },
    /// Two edits change the same field, or a field and a field within it.
    #[error("`{first}` and `{second}` are edited together, but overlap; keep one of the edits")]
    Overlap {
        /// The outer field of the two.
        first: FieldPath,
        /// The inner field of the two.
        second: FieldPath,
    },
    /// The edit would change, or leave out, what other fields share.
    #[error("`{path}` cannot be changed alone: line {line} has {what}; {advice}")]
    Shared {
        /// The field that was asked for.
        path: FieldPath,
        /// The line of the shared value, from 1.
        line: usize,
        /// What is shared, such as `the anchor &x, which an alias repeats`.
        what: String,
        /// How the file can be made ready for the edit.
        advice: &'static str,
    },
    /// The edit would remove or replace the whole document.
    #[error("the document as a whole cannot be removed or replaced; name a field within it")]
    WholeDocument,
    /// No way to make the edit could be proven to change only that field.
    #[error(
        "cannot prove that the edit of `{path}`, line {line}, changes only that field: {reason}; edit the file by hand"
    )]
    NotProven {
        /// The field that was asked for.
        path: FieldPath,
        /// The line near which the edit would be made, from 1.
        line: usize,
        /// The part of the proof that failed.
        reason: String,
    },
}

impl Refused {
    /// The refusal as a problem of the file `file` of a source.
    pub(crate) fn problem(&self, file: &str) -> Problem {
        let (path, line) = match self {
            Self::Unparsed(problem) => {
                return Problem::new(self).at(file, problem.line, problem.column);
            }
            Self::NoField { path, line, .. }
            | Self::Several { path, line, .. }
            | Self::Unexpected { path, line, .. }
            | Self::Shared { path, line, .. }
            | Self::NotProven { path, line, .. } => (path.to_string(), *line),
            Self::Overlap { second, .. } => (second.to_string(), 0),
            Self::Renames { path } => (path.to_string(), 0),
            Self::TooLarge { .. } | Self::NoDocument { .. } | Self::WholeDocument => {
                (String::new(), 0)
            }
        };
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        Problem::new(self).field(path).at(file, line, line.min(1))
    }
}
