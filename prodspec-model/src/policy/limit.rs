//! Limits as intent: how fast, and how many at once.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AssetField, Exception, Threshold, span};
use crate::{filter::Filter, message::Message};

/// A limit on the rate of pushes to some assets, whatever their cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.RatePolicy")]
#[schemars(deny_unknown_fields)]
pub struct RatePolicy {
    /// The assets whose pushes are counted.
    pub of: Filter,
    /// Assets with the same text in this field are counted together, apart from others. `None`: all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<AssetField>,
    /// Maximum number of pushes at once, after a time without pushes.
    pub burst: u32,
    /// Time until one more push is allowed, such as `60s`.
    #[serde(with = "span")]
    #[schemars(with = "String")]
    pub every: Duration,
    /// Named exceptions, each with an end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Exception>,
}

impl Message for RatePolicy {
    const TYPE: &'static str = "prodspec.v1.RatePolicy";
}

/// A limit on the assets that are pushed and have not settled, whatever rolls them out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.BlastRadiusPolicy")]
#[schemars(deny_unknown_fields)]
pub struct BlastRadiusPolicy {
    /// The assets that are counted.
    pub of: Filter,
    /// Assets with the same text in this field are counted together, apart from others. `None`: all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<AssetField>,
    /// Maximum number of assets, or a share of those in intent such as `10%`. A share allows at least one.
    pub at_most: Threshold,
    /// Named exceptions, each with an end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<Exception>,
}

impl Message for BlastRadiusPolicy {
    const TYPE: &'static str = "prodspec.v1.BlastRadiusPolicy";
}
