//! The results of a preview, as data.

use jiff::Timestamp;
use plugin_sdk::{BoxError, Wait};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

/// The course of a rollout that would complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The selections of the rollout, in order.
    pub steps: Vec<Step>,
    /// Time at which the rollout would be over.
    pub done: Timestamp,
}

/// Targets that would be selected together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Time at which they would be selected.
    pub at: Timestamp,
    /// The stage of the rollout at that time. `None`: the policy names no stage.
    pub stage: Option<String>,
    /// The selected assets, in the order of the targets.
    pub selected: Vec<AssetId>,
}

/// A rollout that would stall, which means that it never ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Time after which nothing would happen any more.
    pub at: Timestamp,
    /// The conditions that the rollout would wait for, and that would never come.
    pub waits: Vec<Wait>,
    /// The targets that would never be selected.
    pub left: Vec<AssetId>,
    /// The selections before the stall.
    pub steps: Vec<Step>,
}

/// Why a preview has no schedule.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The rollout would stall before its end.
    #[error("stalls at {}: {}", .0.at, reasons(.0))]
    Stalls(Box<Stall>),
    /// The rollout would not end within the limits of a preview.
    #[error("{left} targets are left after {rounds} selections, at {at}; the preview ends here")]
    TooLong {
        /// The virtual time that the preview reached.
        at: Timestamp,
        /// The number of selections that were made.
        rounds: usize,
        /// The number of targets that are not selected.
        left: usize,
    },
    /// A layer did not answer without waiting.
    #[error(
        "a layer of the policy did not answer at once; preview only layers that make no asynchronous calls"
    )]
    NotAtOnce,
    /// The policy stack returned an error.
    #[error("the policy failed")]
    Failed(#[source] BoxError),
    /// The policy stack selected a place at which no target waits.
    #[error("the policy selected place {0}, at which no target waits")]
    Unlawful(u32),
}

fn reasons(stall: &Stall) -> String {
    let reasons: Vec<&str> = stall.waits.iter().map(|wait| &*wait.why).collect();
    match reasons.as_slice() {
        [] => format!(
            "{} targets are left, and the policy gives no reason",
            stall.left.len()
        ),
        reasons => reasons.join("; "),
    }
}
