//! Operations: pipelines of functions that are run once, on a schedule, or when something changes. Payloads of assets,
//! edited like any other asset.

mod limits;
mod schedule;
mod watch;

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::{
    limits::{Limit, Limits, Rate},
    schedule::{Concurrency, CronOperation, History, Schedule},
    watch::{IntentWatch, Per, StatusIs, StatusWatch, Watch, WatchOperation},
};
use crate::{incarnation::SourceName, message::Message};

/// A pipeline of functions. As an asset it is run once for each content: neither a restart nor a rollback to an older
/// content runs it again.
///
/// ```
/// use prodspec_model::operation::{Operation, PipelineStep, Power};
/// use std::time::Duration;
///
/// let resize = Operation::pipeline([
///     PipelineStep::new("measure", "peak-usage"),
///     PipelineStep::new("grow", "grow-elsewhere").input(serde_json::json!({ "percent": 25 })),
/// ])
/// .may([Power::edit("manifest.yaml", "clusters.*.replicas")])
/// .blast_radius(6)
/// .settles(Duration::from_secs(900));
/// # assert_eq!(resize.settle_secs, Some(900));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.Operation")]
#[schemars(deny_unknown_fields)]
pub struct Operation {
    /// The steps, in the order in which they run. Each sees the context that the steps before it left, and their edits; it
    /// sees no output of them.
    pub pipeline: Vec<PipelineStep>,
    /// What the functions of the pipeline may do. A function does only what it declares itself, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may: Vec<Power>,
    /// Maximum number of assets that the edits may change, as the dry run finds it. `None`: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blast_radius: Option<u32>,
    /// Seconds within which production must have the edits: the operation is done when the assets that they changed are in
    /// sync. `None`: it is done when the edits are committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_secs: Option<u64>,
    /// Labels of the executions that run it, such as `app`, by which limits and dispatch layers tell them apart. At most 32.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// A number to raise, so that an operation that is an asset runs once more with the same content. 0 by default.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rerun: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Operation {
    /// Maximum number of assets that the edits of an operation may change, unless it says otherwise.
    pub const BLAST_RADIUS: u32 = 100;

    /// An operation that runs these steps, one after the other. It may do nothing.
    pub fn pipeline(steps: impl IntoIterator<Item = PipelineStep>) -> Self {
        Self {
            pipeline: steps.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets what the functions of the pipeline may do.
    #[must_use]
    pub fn may(mut self, powers: impl IntoIterator<Item = Power>) -> Self {
        self.may = powers.into_iter().collect();
        self
    }

    /// Sets the maximum number of assets that the edits may change.
    #[must_use]
    pub fn blast_radius(mut self, assets: u32) -> Self {
        self.blast_radius = Some(assets);
        self
    }

    /// Waits until production has the edits, for this time at most, in whole seconds.
    #[must_use]
    pub fn settles(mut self, within: Duration) -> Self {
        self.settle_secs = Some(within.as_secs());
        self
    }

    /// Adds a label of the executions that run it.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the number that is raised to run the same content once more.
    #[must_use]
    pub fn rerun(mut self, number: u64) -> Self {
        self.rerun = number;
        self
    }
}

impl Message for Operation {
    const TYPE: &'static str = "prodspec.v1.Operation";
}

/// One step of an operation: the call of one function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.PipelineStep")]
#[schemars(deny_unknown_fields)]
pub struct PipelineStep {
    /// Name of the step, unique in its pipeline.
    pub name: String,
    /// Name of the function that the step calls. It must be registered with the control plane.
    pub function: String,
    /// The input of the function, as JSON, at most 64 KiB. `null`: none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Maximum number of attempts that fail one after the other. `None`: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_limit: Option<u32>,
}

impl PipelineStep {
    /// A step named `name` that calls `function`, without input.
    pub fn new(name: impl Into<String>, function: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            function: function.into(),
            input: Value::Null,
            retry_limit: None,
        }
    }

    /// Sets the input of the function, as JSON.
    #[must_use]
    pub fn input(mut self, input: impl Into<Value>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets the maximum number of attempts that fail one after the other.
    #[must_use]
    pub fn retry_limit(mut self, attempts: u32) -> Self {
        self.retry_limit = Some(attempts);
        self
    }
}

/// What a function or an operation may do beside returning an output. Without a power, an answer that needs it is refused.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case", rename = "prodspec.v1.Power")]
#[schemars(deny_unknown_fields)]
#[non_exhaustive]
pub enum Power {
    /// Edits of fields of one source of truth.
    Edit {
        /// Name of the source, such as `manifest.yaml`.
        #[schemars(with = "String")]
        source: SourceName,
        /// Pattern of the fields that may be edited, with all that is in them, such as `clusters.*.replicas`. `*` is any
        /// key or index. Empty: all fields.
        under: String,
    },
    /// Pauses of assets: no push of them starts.
    Pause,
    /// Edits that ask for the removal of resources, with the addon `Turndown`.
    Turndown,
    /// Starts of the workflow with this name.
    Start(String),
}

impl Power {
    /// The power to edit the fields of `source` that match the pattern `under`.
    pub fn edit(source: impl AsRef<str>, under: impl Into<String>) -> Self {
        Self::Edit {
            source: SourceName(source.as_ref().into()),
            under: under.into(),
        }
    }

    /// The power to start the workflow named `workflow`.
    pub fn start(workflow: impl Into<String>) -> Self {
        Self::Start(workflow.into())
    }
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;
    use serde_json::json;

    use super::*;
    use crate::Filter;

    #[test]
    fn payloads_are_read_as_people_write_them() {
        let written = json!({
            "schedule": { "cron": "30 3,15 * * *", "zone": "Europe/London" },
            "starting_deadline_secs": 7200,
            "concurrency": "replace",
            "history": { "succeeded": 1 },
            "template": {
                "pipeline": [{ "name": "run", "function": "reindex" }],
                "may": [{ "edit": { "source": "m.yaml", "under": "a.*" } }, "pause", { "start": "season" }],
            },
        });
        let nightly: CronOperation = serde_json::from_value(written).unwrap();
        let history = History {
            succeeded: 1,
            failed: 3,
        };
        let powers = [
            Power::edit("m.yaml", "a.*"),
            Power::Pause,
            Power::start("season"),
        ];
        let expected = CronOperation {
            schedule: Schedule::new("30 3,15 * * *").zone("Europe/London"),
            starting_deadline_secs: Some(7200),
            concurrency: Concurrency::Replace,
            history,
            template: Operation::pipeline([PipelineStep::new("run", "reindex")]).may(powers),
        };
        assert_eq!(nightly, expected);
    }

    #[test]
    fn parts_that_are_left_out_have_their_defaults() {
        let watch: WatchOperation = serde_json::from_value(json!({
            "on": { "intent": { "of": { "types": ["docs.v1.Job"] } } },
            "template": { "pipeline": [] },
        }))
        .unwrap();
        let expected = WatchOperation::new(
            Watch::intent().of(Filter::types(["docs.v1.Job"])),
            Operation::default(),
        );
        assert_eq!(watch, expected);
        assert_eq!((watch.per, watch.at_most), (Per::Asset, 1));
        let cron: CronOperation = serde_json::from_value(json!({
            "schedule": { "cron": "@daily" },
            "template": { "pipeline": [] },
        }))
        .unwrap();
        assert_eq!(cron.schedule.zone, "UTC");
        assert_eq!(cron.history, History::default());
        assert_eq!(cron.concurrency, Concurrency::Forbid);
    }

    #[test]
    fn labels_are_stored_by_name_if_there_are_any() {
        let steps = json!([{ "name": "run", "function": "reindex" }]);
        let plain = Operation::pipeline([PipelineStep::new("run", "reindex")]);
        let stored = json!({ "pipeline": steps });
        assert_eq!(serde_json::to_value(&plain).unwrap(), stored);
        let labelled = plain.label("app", "shop").label("size", "big");
        let stored = json!({ "pipeline": steps, "labels": { "app": "shop", "size": "big" } });
        assert_eq!(serde_json::to_value(&labelled).unwrap(), stored);
        let read: Operation = serde_json::from_value(stored).unwrap();
        assert_eq!(read, labelled);
    }

    #[test]
    fn schemas_refuse_unknown_fields() {
        let schemas = [
            schema_for!(Operation),
            schema_for!(CronOperation),
            schema_for!(WatchOperation),
        ];
        for schema in schemas {
            let schema = serde_json::to_value(&schema).unwrap();
            assert_eq!(schema["additionalProperties"], json!(false), "{schema}");
            let powers = &schema["$defs"]["prodspec.v1.Power"];
            let edit = powers["oneOf"].as_array().into_iter().flatten();
            let mut edit = edit.filter_map(|it| it["properties"].get("edit"));
            assert_eq!(
                edit.next().unwrap()["additionalProperties"],
                json!(false),
                "{powers}"
            );
        }
    }
}
