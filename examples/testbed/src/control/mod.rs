//! Questions and commands to the running control plane: HTTP on a unix socket in the state directory, `control.sock`.
//!
//! Only the user that runs the control plane, and root, can use the socket: its mode keeps other users out, and each
//! side checks the user of the process at the other end. That user is recorded with every command; a name that the
//! request gives is recorded beside it (R70, R72).

mod answer;
pub mod client;
mod executions;
mod server;
mod triggers;

pub use answer::Stop;
pub use executions::{Begun, Followed, Shown, StartWorkflow, WordToExecution, WordToWorkflow};
pub use server::Server;

use control_plane::{
    Status,
    model::{AssetId, Digest, rollout::RollOut},
    prelude::Problems,
    strategist::{Command, Rollout, View, train},
    workflow::ExecutionId,
};
use serde::{Deserialize, Serialize};

/// The name and the reason that a request gives for its command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// Name that the operator gives. It is recorded beside the user of the calling process; none if not given.
    pub who: Option<String>,
    /// Reason for the command, as the operator gives it.
    pub why: String,
}

/// The state of the partition, with its rollouts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// State of generation and enforcement.
    #[serde(flatten)]
    pub status: Status,
    /// Every policy group with its newest rollout.
    pub rollouts: Vec<View>,
}

/// The rollouts of one policy group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rolling {
    /// The group as it is now, its newest rollout included.
    pub view: View,
    /// Earlier rollouts that the store still has, oldest first.
    pub past: Vec<Rollout>,
}

/// A command of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Word {
    /// Approves one change of an asset.
    Approve {
        /// Id of the asset concerned.
        asset: AssetId,
        /// Digest of the change. None means the change that a push would make now.
        change: Option<Digest>,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Approves all changes of a set.
    ApproveSet {
        /// Digest of the set, or its beginning.
        set: String,
        /// Number of changes in the set.
        size: usize,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Overrides a check for one change of an asset.
    OverrideCheck {
        /// Name of the check to override.
        check: String,
        /// Id of the asset concerned.
        asset: AssetId,
        /// Digest of the change. None means the change that a push would make now.
        change: Option<Digest>,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Overrides a guard for one seal.
    OverrideGuard {
        /// Name of the guard to override.
        guard: String,
        /// Digest of the seal that may pass, as the guard's problem names it.
        digest: Digest,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Acknowledges an orphan, so that it is no longer listed.
    Acknowledge {
        /// Id of the asset concerned.
        asset: AssetId,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Confirms that a push with an unknown outcome is over and will not take effect any more.
    PushIsOver {
        /// The asset that was pushed.
        asset: AssetId,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Starts enforcement again after a violated invariant stopped it.
    ClearStop {
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Pauses the pushes of one asset, or of all.
    Pause {
        /// Id of the asset. None means all assets.
        asset: Option<AssetId>,
        /// Length of the pause in seconds. None means until [`Word::Resume`].
        seconds: Option<u64>,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Ends a pause, so that pushes start again.
    Resume {
        /// Id of the asset. None means the pause of all assets.
        asset: Option<AssetId>,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Starts a run of a schedule now.
    RunNow {
        /// The asset with the schedule.
        asset: AssetId,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Begins a change: a rollout that edits fields of the manifest.
    RollOut(ChangeRequest),
    /// Gives a command to a rollout.
    Rollout {
        /// The key of a change. None means the rollout of the manifest's policy.
        of: Option<AssetId>,
        /// Which command to give to the rollout.
        command: Command,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Gives a command to a train.
    Train {
        /// The asset of the train.
        of: AssetId,
        /// Which command to give to the train.
        command: train::Command,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Gives a word to an execution of a workflow.
    Execution {
        /// The execution.
        id: ExecutionId,
        /// What it is told.
        word: WordToExecution,
        /// Name and reason given by the operator.
        said: Said,
    },
    /// Drains a workflow, or resumes it.
    Workflow(WordToWorkflow),
    /// Stops the control plane. Production goes on.
    Stop,
}

/// A change that an operator wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRequest {
    /// Which fields, of which assets, and how slowly.
    pub change: RollOut,
    /// Whether a live change with the name gets these values now.
    #[serde(default)]
    pub hand_over: bool,
    /// Name and reason given by the operator.
    pub said: Said,
}

/// The body of an answer that refuses a question or a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The manifest makes no incarnation. Contains all its problems.
    Problems(Problems),
    /// Any other reason, as text.
    Other(String),
}
