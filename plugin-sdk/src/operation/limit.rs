//! Limits of requests, answers and definitions.

use std::{collections::BTreeMap, io};

use serde::Serialize;

use crate::workflow::{MAX_DEFINITION, MAX_INPUT, MAX_MACHINES};

/// A maximum size or number. What is over it is refused before it is taken in, and nothing of it is kept.
///
/// ```
/// use plugin_sdk::operation::Limit;
///
/// Limit::INPUT.check_json(&serde_json::json!({ "works": ["hamlet"] }))?;
/// let refused = Limit::EDITS.check(1_001).unwrap_err();
/// assert_eq!(refused.to_string(), "1001 edits are more than the limit of 1000 for the edits of an answer");
/// # Ok::<(), plugin_sdk::operation::OverLimit>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    what: &'static str,
    unit: &'static str,
    max: usize,
}

/// A size or a number that is over its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{found} {} are more than the limit of {} for {}", limit.unit, limit.max, limit.what)]
pub struct OverLimit {
    /// The limit that is exceeded.
    pub limit: Limit,
    /// The size or number that was found.
    pub found: usize,
}

/// Bytes of a KiB, the unit in which sizes are limited.
const KIB: usize = 1024;

impl Limit {
    /// Bytes of the input of a workflow or of a step, as JSON.
    pub const INPUT: Self = Self::new("an input", "bytes", MAX_INPUT);
    /// Bytes of the output of a step, as JSON.
    pub const OUTPUT: Self = Self::new("the output of a step", "bytes", 64 * KIB);
    /// Bytes of the context that the steps of an execution share, as JSON.
    pub const CONTEXT: Self = Self::new("the context of an execution", "bytes", 256 * KIB);
    /// Bytes of the definition of a workflow, as JSON.
    pub const DEFINITION: Self = Self::new("the definition of a workflow", "bytes", MAX_DEFINITION);
    /// Bytes of an answer with all its parts, as JSON.
    pub const ANSWER: Self = Self::new("an answer", "bytes", 1024 * KIB);
    /// Number of machines of an execution.
    pub const MACHINES: Self = Self::new("an execution", "machines", MAX_MACHINES);
    /// Number of edits in an answer, and of an execution.
    pub const EDITS: Self = Self::new("the edits of an answer", "edits", 1_000);
    /// Bytes of all edits of an execution, as JSON: one edit of a source can undo them.
    pub const EDITED: Self = Self::new("the edits of an execution", "bytes", 256 * KIB);
    /// Bytes of all edits of an execution, the pauses that it has gathered, and the workflows that an answer starts, as JSON.
    pub const CHANGES: Self = Self::new("the changes of an execution", "bytes", 768 * KIB);
    /// Number of pauses in an answer.
    pub const PAUSES: Self = Self::new("an answer", "pauses", 1_000);
    /// Number of workflows that an answer starts.
    pub const STARTS: Self = Self::new("an answer", "starts", 100);
    /// Number of notes in an answer.
    pub const NOTES: Self = Self::new("an answer", "notes", 100);
    /// Bytes of the text of a note.
    pub const NOTE: Self = Self::new("a note", "bytes", 1_000);
    /// Bytes of the key of a start.
    pub const KEY: Self = Self::new("the key of a start", "bytes", 512);
    /// Number of labels of an execution.
    pub const LABELS: Self = Self::new("an execution", "labels", 32);
    /// Bytes of the name of a label, and of its value.
    pub const LABEL: Self = Self::new("a label", "bytes", 253);
    /// Number of assets that a requirement may match.
    pub const REQUIRED: Self = Self::new("a requirement", "assets", 1_000);
    /// Bytes of the assets that a requirement may match.
    pub const REQUIRED_SIZE: Self = Self::new("a requirement", "bytes", 4 * 1024 * KIB);

    const fn new(what: &'static str, unit: &'static str, max: usize) -> Self {
        Self { what, unit, max }
    }

    /// The maximum that is still allowed.
    pub const fn max(self) -> usize {
        self.max
    }

    /// Checks a size or a number.
    ///
    /// # Errors
    /// When it is over the limit.
    pub fn check(self, found: usize) -> Result<(), OverLimit> {
        match found > self.max {
            true => Err(OverLimit { limit: self, found }),
            false => Ok(()),
        }
    }

    /// Checks the number of labels, and the size of the name and the value of each.
    ///
    /// # Errors
    /// When one of them is over its limit.
    pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), OverLimit> {
        Self::LABELS.check(labels.len())?;
        for text in labels.iter().flat_map(|(name, value)| [name, value]) {
            Self::LABEL.check(text.len())?;
        }
        Ok(())
    }

    /// Checks the number of bytes that `value` has as JSON. A value that cannot be written as JSON is within the limit.
    ///
    /// # Errors
    /// When it is over the limit.
    pub fn check_json(self, value: &impl Serialize) -> Result<(), OverLimit> {
        let mut size = Size(0);
        // The counter accepts every byte, so an error says that the value is no JSON, which other code reports.
        let _ = serde_json::to_writer(&mut size, value);
        self.check(size.0)
    }
}

/// Counts the bytes that are written to it.
struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r41_limit_allows_its_maximum_and_names_itself() {
        let text = |bytes: usize| "x".repeat(bytes - 2);
        assert_eq!(Limit::OUTPUT.check_json(&text(65_536)), Ok(()));
        let over = Limit::OUTPUT.check_json(&text(65_537)).unwrap_err();
        assert_eq!(
            over.to_string(),
            "65537 bytes are more than the limit of 65536 for the output of a step"
        );
    }
}
