//! The calls of the press, and the lines of its journal. Plain data, so that an auditor of the journal needs no other part
//! of this crate.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::production::files::lines;

/// Name of the journal in the directory of the press.
pub(super) const JOURNAL: &str = "journal.jsonl";

/// The position of a call among all calls with one key. The press refuses a call that is below the greatest one seen.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Fence {
    /// Fencing token of the owner that calls.
    pub token: u64,
    /// Number of the owner's attempt.
    pub attempt: u32,
}

/// What a caller asks for, under a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Prints one poster.
    Print {
        /// The words on it.
        text: String,
    },
    /// Destroys the posters that were printed for a step.
    Withdraw {
        /// The beginning of their keys, such as `season-0000000001/posters/`.
        of: String,
    },
}

/// One line of the journal, on disk before it takes effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Time of the line, in microseconds since 1970.
    pub at_micros: u64,
    /// Key of the call, such as `season-0000000001/posters/1-4f1c09d2a7b3e865`.
    pub key: String,
    /// Fence of the call.
    pub fence: Fence,
    /// What happened.
    pub what: What,
}

/// What a line of the journal is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The fence let a call pass.
    Called,
    /// A poster was printed.
    Printed {
        /// The words on it.
        text: String,
    },
    /// Posters were destroyed.
    Withdrawn {
        /// Their keys.
        keys: Vec<String>,
    },
}

/// How badly the press works. By default it works well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Time that each call takes, in milliseconds.
    pub slow_ms: u64,
    /// Number of the next calls that fail, without an effect.
    pub fail: u32,
    /// Number of the next calls that take effect and get no answer.
    pub drop: u32,
}

/// The press as it is, the answer to `GET /`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Random text that is different for each process of the press.
    pub instance: String,
    /// Process id of the press.
    pub pid: u32,
    /// The posters that are there: the words on them by key.
    pub prints: BTreeMap<String, String>,
}

/// Returns the journal of the press in the directory `dir`; empty if there is none.
pub fn journal(dir: &Path) -> Vec<Line> {
    lines(&dir.join(JOURNAL))
}
