//! Who commands, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The operator who gives a command, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct By {
    /// Name of the operator who commands.
    pub who: String,
    /// Reason, for people who read the record later.
    pub why: String,
}

impl By {
    /// Creates a `By` from the operator's name and the reason.
    ///
    /// ```
    /// let by = plugin_sdk::By::new("ada", "the migration is done");
    /// assert_eq!(by.to_string(), "ada: the migration is done");
    /// ```
    pub fn new(who: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            who: who.into(),
            why: why.into(),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.why)
    }
}
