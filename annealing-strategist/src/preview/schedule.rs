//! What a preview finds, as data.

use jiff::Timestamp;
use plugin_sdk::{BoxError, Wait};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

/// What a rollout would do, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Its steps, in order.
    pub steps: Vec<Step>,
    /// When it would be over.
    pub done: Timestamp,
}

/// Targets that would be selected together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When.
    pub at: Timestamp,
    /// What the rollout would be at.
    pub stage: Option<String>,
    /// Which, in the order of the targets.
    pub selected: Vec<AssetId>,
}

/// A rollout that would never end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Since when nothing would happen.
    pub at: Timestamp,
    /// What it would wait for, in vain.
    pub waits: Vec<Wait>,
    /// The targets that would never be selected.
    pub left: Vec<AssetId>,
    /// What would be done before.
    pub steps: Vec<Step>,
}

/// Why there is no schedule.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rollout would never end.
    #[error("stalls at {}: {}", .0.at, reasons(.0))]
    Stalls(Box<Stall>),
    /// The rollout would not be over within what a preview looks at.
    #[error(
        "{left} targets are left after {rounds} selections, at {at}; it is not looked further ahead"
    )]
    TooLong {
        /// How far it was looked.
        at: Timestamp,
        /// How many selections were made.
        rounds: usize,
        /// How many targets are left.
        left: usize,
    },
    /// A layer waits for something outside.
    #[error("the policy does not answer at once; preview only layers that ask nobody")]
    NotAtOnce,
    /// The stack failed.
    #[error("the policy failed")]
    Failed(#[source] BoxError),
    /// The stack breaks a law of selection.
    #[error("the policy selected place {0}, where no target waits")]
    Unlawful(u32),
}

fn reasons(stall: &Stall) -> String {
    let reasons: Vec<&str> = stall.waits.iter().map(|wait| &*wait.why).collect();
    match reasons.as_slice() {
        [] => format!(
            "{} targets are left, and it does not say why",
            stall.left.len()
        ),
        reasons => reasons.join("; "),
    }
}
