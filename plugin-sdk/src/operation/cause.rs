//! Causes of executions.

use std::fmt;

use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationNo};
use serde::{Deserialize, Serialize};

use super::{EffectKey, ExecutionId};
use crate::run::Cause;

/// The reason why an execution was started.
///
/// ```
/// use plugin_sdk::{Cause, operation::StartCause};
/// use prodspec_model::{AssetId, IncarnationNo};
///
/// let push = StartCause::Push {
///     asset: AssetId::new("season/2027")?,
///     incarnation: IncarnationNo(42),
///     cause: Cause::Rollback,
/// };
/// assert_eq!(push.to_string(), "push of season/2027 at incarnation 42");
/// # Ok::<(), prodspec_model::id::InvalidId>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StartCause {
    /// A person or a program asked for it.
    Command,
    /// A slot of a schedule is due.
    Slot {
        /// The asset with the schedule.
        schedule: AssetId,
        /// The instant of the slot.
        at: Timestamp,
    },
    /// A watch of assets fired.
    Watch {
        /// The asset with the watch.
        watch: AssetId,
        /// The asset that changed. `None`: the run is about all assets that changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asset: Option<AssetId>,
    },
    /// The push of an asset started it.
    Push {
        /// The asset that is pushed.
        asset: AssetId,
        /// The incarnation whose content is pushed.
        incarnation: IncarnationNo,
        /// The reason for the push.
        cause: Cause,
    },
    /// The answer of a step started it, and does not wait for it.
    Step(EffectKey),
    /// An execution started it as its child and waits for it.
    Parent(ExecutionId),
    /// A listener started it when it heard of an execution, a schedule or a watch.
    Listener {
        /// Name of the listener that started it.
        name: String,
        /// The execution, or the asset with the schedule or the watch, that the listener heard of.
        #[serde(alias = "ended")]
        of: String,
    },
}

impl fmt::Display for StartCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command => f.write_str("command"),
            Self::Slot { schedule, at } => write!(f, "slot {at} of {schedule}"),
            Self::Watch { watch, asset } => match asset {
                Some(asset) => write!(f, "watch {watch} of {asset}"),
                None => write!(f, "watch {watch}"),
            },
            Self::Push {
                asset, incarnation, ..
            } => write!(f, "push of {asset} at incarnation {incarnation}"),
            Self::Step(key) => write!(f, "answer of {key}"),
            Self::Parent(execution) => write!(f, "parent {execution}"),
            Self::Listener { name, of } => write!(f, "listener {name} after {of}"),
        }
    }
}
