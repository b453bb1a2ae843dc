//! Asking and telling the running control plane, over HTTP on a unix socket in the state directory: `control.sock`.
//!
//! It is for the user that runs the control plane, and root: the socket's mode keeps others out, and each side looks at
//! the user of the process at the other end. That user is the speaker of every word; a name that a request gives is
//! noted beside it (R70, R72).

pub mod client;
mod server;
pub(crate) mod socket;

pub use server::{Server, Stop};

use control_plane::{
    Status,
    model::{AssetId, Digest},
    prelude::Problems,
    strategist::{Command, Rollout, View},
};
use serde::{Deserialize, Serialize};

/// What a request says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// What the speaker calls itself; noted beside the user of its process.
    pub who: Option<String>,
    /// Why.
    pub why: String,
}

/// How the partition stands, rollouts and all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// What is in force, and how far production is.
    #[serde(flatten)]
    pub status: Status,
    /// Every policy group.
    pub rollouts: Vec<View>,
}

/// The rollouts of one policy group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rolling {
    /// The group as it is now, its newest rollout included.
    pub view: View,
    /// The rollouts before that one which are remembered, oldest first.
    pub past: Vec<Rollout>,
}

/// A person's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Word {
    /// A change of an asset may destroy.
    Approve {
        /// Which asset.
        asset: AssetId,
        /// Which change; the one that it would be pushed with now, if not said.
        change: Option<Digest>,
        /// Who says so, and why.
        said: Said,
    },
    /// A check does not delay a change of an asset.
    OverrideCheck {
        /// Which check.
        check: String,
        /// Which asset.
        asset: AssetId,
        /// Which change; the one that it would be pushed with now, if not said.
        change: Option<Digest>,
        /// Who says so, and why.
        said: Said,
    },
    /// A guard lets one seal pass.
    OverrideGuard {
        /// Which guard.
        guard: String,
        /// What may pass, as the guard's problem names it.
        digest: Digest,
        /// Who says so, and why.
        said: Said,
    },
    /// An orphan is known about.
    Acknowledge {
        /// Which asset.
        asset: AssetId,
        /// Who says so, and why.
        said: Said,
    },
    /// A push whose outcome is unknown does not run any more.
    PushIsOver {
        /// The asset that was pushed.
        asset: AssetId,
        /// Who says so, and why.
        said: Said,
    },
    /// What stopped enforcement has been looked at: it starts again.
    ClearStop {
        /// Who says so, and why.
        said: Said,
    },
    /// No pushes, of one asset or at all.
    Pause {
        /// Which asset; all, if not said.
        asset: Option<AssetId>,
        /// For so many seconds; until somebody resumes it, if not said.
        seconds: Option<u64>,
        /// Who says so, and why.
        said: Said,
    },
    /// Pushes again.
    Resume {
        /// Which asset; all, if not said.
        asset: Option<AssetId>,
        /// Who says so, and why.
        said: Said,
    },
    /// Something to the rollout.
    Rollout {
        /// What.
        command: Command,
        /// Who says so, and why.
        said: Said,
    },
    /// Stop controlling. Production goes on.
    Stop,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The manifest makes no incarnation: every problem found.
    Problems(Problems),
    /// Anything else.
    Other(String),
}
