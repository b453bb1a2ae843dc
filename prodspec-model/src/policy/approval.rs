//! Approvals as intent: changes that people look at before they are pushed.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Exception, span};
use crate::{filter::Filter, message::Message};

/// Default time for which an approval counts.
const EXPIRES: Duration = Duration::from_secs(24 * 3600);

/// Pushes of intent to some assets wait until people have approved the change (R110).
///
/// ```
/// use prodspec_model::policy::ApprovalPolicy;
///
/// let written = r#"{"of": {"types": ["shakespeare.v1.Schema"]}, "people": 2}"#;
/// let schema: ApprovalPolicy = serde_json::from_str(written)?;
/// assert_eq!(schema.expires.as_secs(), 24 * 3600);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.ApprovalPolicy")]
#[schemars(deny_unknown_fields)]
pub struct ApprovalPolicy {
    /// The assets whose changes are approved.
    pub of: Filter,
    /// The number of different people who have to approve a change.
    #[serde(default = "one")]
    pub people: u32,
    /// Time for which an approval counts, such as `24h`.
    #[serde(default = "expires", with = "span")]
    #[schemars(with = "String")]
    pub expires: Duration,
    /// Named exceptions, each with an end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Exception>,
}

fn one() -> u32 {
    1
}

fn expires() -> Duration {
    EXPIRES
}

impl Message for ApprovalPolicy {
    const TYPE: &'static str = "prodspec.v1.ApprovalPolicy";
}
