//! Asking and telling the running control plane, over HTTP on loopback: any local user may, nobody else can. The file
//! `control.json` in the state directory says where.

pub mod client;
mod server;

pub use server::{Server, Stop};

use std::net::SocketAddr;

use control_plane::{
    By, Status,
    model::{AssetId, Digest},
    prelude::Problems,
    strategist::{Command, Rollout, View},
};
use serde::{Deserialize, Serialize};

/// Where the running control plane listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// On loopback.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
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
        /// On whose word.
        by: By,
    },
    /// A check does not delay a change of an asset.
    OverrideCheck {
        /// Which check.
        check: String,
        /// Which asset.
        asset: AssetId,
        /// Which change; the one that it would be pushed with now, if not said.
        change: Option<Digest>,
        /// On whose word.
        by: By,
    },
    /// A guard lets one seal pass.
    OverrideGuard {
        /// Which guard.
        guard: String,
        /// What may pass, as the guard's problem names it.
        digest: Digest,
        /// On whose word.
        by: By,
    },
    /// An orphan is known about.
    Acknowledge {
        /// Which asset.
        asset: AssetId,
    },
    /// No pushes, of one asset or at all.
    Pause {
        /// Which asset; all, if not said.
        asset: Option<AssetId>,
        /// For so many seconds; until somebody resumes it, if not said.
        seconds: Option<u64>,
        /// On whose word.
        by: By,
    },
    /// Pushes again.
    Resume {
        /// Which asset; all, if not said.
        asset: Option<AssetId>,
    },
    /// Something to the rollout.
    Rollout {
        /// What.
        command: Command,
        /// On whose word.
        by: By,
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
