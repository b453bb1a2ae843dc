//! The bound that a measured value has to keep.

use std::{cmp::Ordering, fmt};

use plugin_sdk::Judgement;
use serde::{Deserialize, Serialize};

/// The bound that separates healthy from unhealthy values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// This value and smaller ones are healthy.
    AtMost(f64),
    /// This value and larger ones are healthy.
    AtLeast(f64),
}

impl Bound {
    /// Judges a measured value. A value that cannot be compared is unknown.
    pub(super) fn judge(self, measured: f64) -> Judgement {
        let kept = match self {
            Self::AtMost(most) => measured.partial_cmp(&most).map(Ordering::is_le),
            Self::AtLeast(least) => measured.partial_cmp(&least).map(Ordering::is_ge),
        };
        match kept {
            Some(true) => Judgement::Healthy,
            Some(false) => Judgement::Unhealthy,
            None => Judgement::Unknown,
        }
    }

    /// Returns the worse of two values.
    pub(super) fn worse(self, one: f64, other: f64) -> f64 {
        match self {
            Self::AtMost(_) => one.max(other),
            Self::AtLeast(_) => one.min(other),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}
