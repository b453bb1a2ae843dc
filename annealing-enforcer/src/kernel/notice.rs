//! Notices to operators: each event is logged once and not again with each retry.

use std::time::Duration;

use prodspec_model::{AssetId, IncarnationNo, TypeName};

/// An event that an operator needs to see in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A push ended, with all its follow-ups.
    PushEnded {
        /// Id of the asset that was pushed.
        asset: AssetId,
        /// The incarnation at which it was pushed.
        incarnation: IncarnationNo,
        /// How it ended: `done`, or the class of its failure.
        outcome: &'static str,
        /// Time since the push was admitted.
        took: Duration,
    },
    /// Checks delay the push of an asset, or an operator has to act first, for another reason than before.
    Delayed {
        /// Id of the asset that is not pushed.
        asset: AssetId,
        /// The checks with their reasons, or what the operator has to do, shortened.
        why: String,
    },
    /// A push failed with a class of failure that it had not had since the asset was last in sync or pushed.
    PushFailed {
        /// Id of the asset that was pushed.
        asset: AssetId,
        /// Class of the failure, such as `transient`.
        class: &'static str,
        /// The error of the plugin, shortened.
        why: String,
    },
    /// An asset does not converge: its pushes succeed, and diffs find a difference afterwards. Once until it is in sync
    /// or its intent changes.
    NotConverging {
        /// Id of the asset that is concerned.
        asset: AssetId,
        /// What was found, and what to check.
        why: String,
    },
    /// Something else changes an asset again each time that it was repaired. Once per fight.
    Contested {
        /// Id of the asset that is concerned.
        asset: AssetId,
        /// Number of repairs in a row.
        repairs: u32,
    },
    /// A circuit breaker opened: the calls of many assets fail, so the plugin is only probed from now on.
    BreakerOpened {
        /// The type of assets whose calls fail.
        type_name: TypeName,
        /// The kind of call: `diff` or `push`.
        call: &'static str,
    },
    /// A circuit breaker closed: a probe succeeded, and the plugin is called as before.
    BreakerClosed {
        /// The type of assets whose calls are made again.
        type_name: TypeName,
        /// The kind of call: `diff` or `push`.
        call: &'static str,
    },
}
