//! Failures of plugins, in the classes that decide what happens next.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::FencingToken;

/// Any error, for seams that only report it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error with everything that caused it, on one line: what a message for people should say.
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

/// Why a diff or a push failed. The class decides when it is tried again.
///
/// ```
/// use plugin_sdk::plugin::Error;
/// let error = Error::transient("the cell does not answer");
/// assert_eq!(error.to_string(), "the cell does not answer (transient: tried again soon)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "class", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PluginError {
    /// Likely to pass by itself: tried again with exponential backoff.
    #[error("{message} (transient: tried again soon)")]
    Transient {
        /// What happened, for people.
        message: String,
    },
    /// The provider asks to wait.
    #[error("{message} (throttled: tried again in {after:?})")]
    Throttled {
        /// What happened, for people.
        message: String,
        /// How long to wait.
        after: Duration,
    },
    /// Will not pass by itself: waits for changed intent or a person, tried again at the drift period.
    #[error("{message} (permanent: change the intent, or fix the provider)")]
    Permanent {
        /// What happened, for people.
        message: String,
    },
    /// The push went through and the asset's own health check says no.
    #[error("{message} (unhealthy)")]
    Unhealthy {
        /// What happened, for people.
        message: String,
    },
    /// It is not known whether the call took effect: the asset is diffed before anything else.
    #[error("{message} (outcome unknown: production is looked at again first)")]
    Unknown {
        /// What happened, for people.
        message: String,
    },
    /// The provider has seen a newer fencing token: this caller is no longer the owner.
    #[error("{message} (fenced: another process owns this partition)")]
    Fenced {
        /// What happened, for people.
        message: String,
        /// The token that the provider has seen. An owner whose store was lost and begun anew acquires the partition
        /// above it; without it only a person can help.
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
        transient Transient "A failure that is likely to pass by itself.";
        permanent Permanent "A failure that needs changed intent or a person.";
        unhealthy Unhealthy "The asset's own health check says no.";
        unknown Unknown "It is not known whether the call took effect.";
    }

    /// The provider has seen a newer owner, or a newer call of this one. Say which token with
    /// [`fenced_by`](Self::fenced_by) where it is known.
    pub fn fenced(message: impl Into<String>) -> Self {
        Self::Fenced {
            message: message.into(),
            seen: None,
        }
    }

    /// The provider has seen the token `seen`.
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

    /// The provider asks to wait for `after`.
    pub fn throttled(message: impl Into<String>, after: Duration) -> Self {
        Self::Throttled {
            message: message.into(),
            after,
        }
    }
}
