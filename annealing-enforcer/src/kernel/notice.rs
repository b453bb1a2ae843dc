//! Notices to operators: each event is logged once and not again with each retry.

use prodspec_model::{AssetId, TypeName};

/// An event that an operator needs to see in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A push failed with a class of failure that it had not had since the asset was last in sync or pushed.
    PushFailed {
        /// Id of the asset that was pushed.
        asset: AssetId,
        /// Class of the failure, such as `transient`.
        class: &'static str,
        /// The error of the plugin, shortened.
        why: String,
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
