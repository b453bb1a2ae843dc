//! Goals: values that some assets should have by a time.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{filter::Filter, message::Message};

/// A goal: some assets should have a value of a field in production by a time. Nothing moves because of it: its progress is shown,
/// and it is flagged when it is late.
///
/// A goal is the payload of a modelled-only asset, and is edited like any other asset.
///
/// ```
/// use prodspec_model::{Filter, goal::Goal};
///
/// let jobs = Filter::types(["shakespeare.v1.FrontendJob"]);
/// let goal = Goal::new(jobs, "flags.dark_mode", true, "2027-01-31T00:00:00Z".parse()?);
/// # assert_eq!(goal.field, "flags.dark_mode");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.Goal")]
#[schemars(deny_unknown_fields)]
pub struct Goal {
    /// The assets that the goal is for.
    pub targets: Filter,
    /// The field, relative to the entry of a source that each target is made from.
    pub field: String,
    /// The value that the field should have.
    pub value: Value,
    /// The deadline: later, the goal is flagged as late.
    #[schemars(with = "String")]
    pub by: Timestamp,
}

impl Message for Goal {
    const TYPE: &'static str = "prodspec.v1.Goal";
}

impl Goal {
    /// A goal for all assets that match `targets`.
    pub fn new(
        targets: Filter,
        field: impl Into<String>,
        value: impl Into<Value>,
        by: Timestamp,
    ) -> Self {
        Self {
            targets,
            field: field.into(),
            value: value.into(),
            by,
        }
    }
}
