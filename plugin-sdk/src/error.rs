//! Errors of plugins. The class of an error decides when the call is repeated.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::FencingToken;

/// Any error, for interfaces whose errors are only reported.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Formats an error and all of its sources on one line, separated by `: `. Use it for messages to operators.
///
/// ```
/// #[derive(Debug, thiserror::Error)]
/// #[error("the cell does not answer")]
/// struct Unreachable(#[source] std::io::Error);
///
/// let error = Unreachable(std::io::Error::other("connection refused"));
/// assert_eq!(plugin_sdk::with_causes(&error), "the cell does not answer: connection refused");
/// ```
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

/// Why a diff or a push failed. The class decides when the enforcer tries again.
///
/// ```
/// use plugin_sdk::plugin::Error;
/// let error = Error::transient("the cell does not answer");
/// assert_eq!(error.to_string(), "the cell does not answer (transient: will be retried soon)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "class", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PluginError {
    /// The failure is likely to pass by itself. The call is repeated with exponential backoff.
    #[error("{message} (transient: will be retried soon)")]
    Transient {
        /// Description of the failure, for operators.
        message: String,
    },
    /// The provider asks the caller to wait.
    #[error("{message} (throttled: will be retried in {after:?})")]
    Throttled {
        /// Description of the failure, for operators.
        message: String,
        /// Time to wait before the next call.
        after: Duration,
    },
    /// The failure will not pass by itself. The call is repeated when intent changes, when an operator asks for it, or
    /// at the drift period.
    #[error("{message} (permanent: change the intent, or fix the provider)")]
    Permanent {
        /// Description of the failure, for operators.
        message: String,
    },
    /// The push took effect, and the asset's own health check fails.
    #[error("{message} (unhealthy)")]
    Unhealthy {
        /// Description of the failure, for operators.
        message: String,
    },
    /// The call may or may not have taken effect. The asset is compared with production before it is pushed again.
    #[error(
        "{message} (outcome unknown: the asset is compared with production before the next push)"
    )]
    Unknown {
        /// Description of the failure, for operators.
        message: String,
    },
    /// The provider has seen a newer fencing token: the caller no longer owns the partition.
    #[error("{message} (fenced: another process owns this partition)")]
    Fenced {
        /// Description of the failure, for operators.
        message: String,
        /// The newer token that the provider has seen. An owner whose store was lost and recreated acquires the
        /// partition again with a token above this one. `None`: unknown; then an operator has to resolve the conflict.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seen: Option<FencingToken>,
    },
}

macro_rules! classes {
    ($($method:ident $variant:ident $doc:literal;)*) => { $(
        #[doc = $doc]
        pub fn $method(message: impl Into<String>) -> Self {
            Self::$variant { message: message.into() }
        }
    )* };
}

impl PluginError {
    classes! {
        transient Transient "Makes a [`Transient`](Self::Transient) error: the failure is likely to pass by itself.";
        permanent Permanent "Makes a [`Permanent`](Self::Permanent) error: the failure needs changed intent or an operator.";
        unhealthy Unhealthy "Makes an [`Unhealthy`](Self::Unhealthy) error: the asset's own health check fails.";
        unknown Unknown "Makes an [`Unknown`](Self::Unknown) error: the call may or may not have taken effect.";
    }

    /// Returns a plugin's own error from the error of a stack. Any other error, such as a layer's timeout, gets the class
    /// `otherwise`.
    ///
    /// ```
    /// use plugin_sdk::{BoxError, plugin::Error};
    /// let own: BoxError = Error::permanent("no such cell").into();
    /// assert_eq!(Error::of(own, Error::transient), Error::permanent("no such cell"));
    /// assert_eq!(Error::of("too late".into(), Error::transient), Error::transient("too late"));
    /// ```
    pub fn of(error: BoxError, otherwise: fn(String) -> Self) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => *own,
            Err(other) => otherwise(other.to_string()),
        }
    }

    /// Makes a [`Fenced`](Self::Fenced) error: the provider has seen a newer owner, or a newer call of this owner. If
    /// the newer token is known, use [`fenced_by`](Self::fenced_by).
    pub fn fenced(message: impl Into<String>) -> Self {
        Self::Fenced {
            message: message.into(),
            seen: None,
        }
    }

    /// Makes a [`Fenced`](Self::Fenced) error that names the newer token `seen`.
    ///
    /// ```
    /// use plugin_sdk::{FencingToken, plugin::Error};
    /// let refused = Error::fenced_by("call 3.1 is older than 7.2", FencingToken(7));
    /// assert!(matches!(refused, Error::Fenced { seen: Some(FencingToken(7)), .. }));
    /// ```
    pub fn fenced_by(message: impl Into<String>, seen: FencingToken) -> Self {
        Self::Fenced {
            message: message.into(),
            seen: Some(seen),
        }
    }

    /// Makes a [`Throttled`](Self::Throttled) error: the provider asks to wait for `after`.
    pub fn throttled(message: impl Into<String>, after: Duration) -> Self {
        Self::Throttled {
            message: message.into(),
            after,
        }
    }
}
