//! Operations that run when intent or the state of assets changes.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Concurrency, History, Operation};
use crate::{filter::Filter, message::Message};

/// An operation that runs when watched assets change.
///
/// ```
/// use prodspec_model::{Filter, operation::{Operation, PipelineStep, StatusIs, Watch, WatchOperation}};
/// use std::time::Duration;
///
/// let notice = Operation::pipeline([PipelineStep::new("tell", "send-notice")]);
/// let watch = Watch::status([StatusIs::OutOfSync])
///     .held_for(Duration::from_secs(60))
///     .of(Filter::types(["shakespeare.v1.FrontendJob"]));
/// let operation = WatchOperation::new(watch, notice);
/// # let _ = operation;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.WatchOperation")]
#[schemars(deny_unknown_fields)]
pub struct WatchOperation {
    /// The assets that are watched, and the changes that count.
    pub on: Watch,
    /// Whether each changed asset has a run of its own.
    #[serde(default)]
    pub per: Per,
    /// What happens to a change while an earlier run is under way.
    #[serde(default)]
    pub concurrency: Concurrency,
    /// Maximum number of live runs. Further changes wait, and changes of one asset become one. 1 by default.
    #[serde(default = "one")]
    pub at_most: u32,
    /// Numbers of ended runs that are kept.
    #[serde(default)]
    pub history: History,
    /// The operation that each run performs.
    pub template: Operation,
}

fn one() -> u32 {
    1
}

impl WatchOperation {
    /// Runs `template` for each asset of `on` that changes, one run at a time.
    pub fn new(on: Watch, template: Operation) -> Self {
        Self {
            on,
            per: Per::default(),
            concurrency: Concurrency::default(),
            at_most: one(),
            history: History::default(),
            template,
        }
    }
}

impl Message for WatchOperation {
    const TYPE: &'static str = "prodspec.v1.WatchOperation";
}

/// The assets that are watched, and the changes that count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename = "prodspec.v1.Watch")]
pub enum Watch {
    /// Changes of the content of assets.
    Intent(IntentWatch),
    /// Conditions of assets in production.
    Status(StatusWatch),
}

impl Watch {
    /// Watches the content of assets. Finish with [`IntentWatch::of`].
    pub fn intent() -> IntentWatch {
        IntentWatch::default()
    }

    /// Watches whether assets are in one of these conditions. Finish with [`StatusWatch::of`].
    pub fn status(is: impl IntoIterator<Item = StatusIs>) -> StatusWatch {
        StatusWatch {
            is: is.into_iter().collect(),
            ..StatusWatch::default()
        }
    }

    /// The assets that are watched.
    pub fn filter(&self) -> &Filter {
        match self {
            Self::Intent(watch) => &watch.of,
            Self::Status(watch) => &watch.of,
        }
    }

    /// Whether a new watch also starts runs for what it finds.
    pub fn existing(&self) -> bool {
        match self {
            Self::Intent(watch) => watch.existing,
            Self::Status(watch) => watch.existing,
        }
    }
}

/// A watch of the content of assets: arrivals, departures and changes of the assets that match before or after.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename = "prodspec.v1.IntentWatch")]
#[schemars(deny_unknown_fields)]
pub struct IntentWatch {
    /// The assets that are watched.
    pub of: Filter,
    /// The fields whose changes count, such as `payload.replicas` or `addons["prodspec.v1.Owner"]`. Empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Whether a new watch also runs for assets that are there already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub existing: bool,
}

impl IntentWatch {
    /// Sets the fields whose changes count.
    #[must_use]
    pub fn fields<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> Self {
        self.fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Also runs for assets that are there when the watch is new.
    #[must_use]
    pub fn existing(mut self) -> Self {
        self.existing = true;
        self
    }

    /// Watches the assets that match `filter`.
    pub fn of(mut self, filter: Filter) -> Watch {
        self.of = filter;
        Watch::Intent(self)
    }
}

/// A watch of conditions: it fires once when an asset has been in one of them for a time, and again only after the
/// condition was over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename = "prodspec.v1.StatusWatch")]
#[schemars(deny_unknown_fields)]
pub struct StatusWatch {
    /// The assets that are watched.
    pub of: Filter,
    /// The conditions, one of which an asset must be in.
    pub is: Vec<StatusIs>,
    /// Seconds for which the condition must have held. 0 by default.
    pub held_for_secs: u64,
    /// Whether a new watch also runs for assets that are in the condition already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub existing: bool,
}

impl StatusWatch {
    /// Sets for how long the condition must have held, in whole seconds.
    #[must_use]
    pub fn held_for(mut self, time: Duration) -> Self {
        self.held_for_secs = time.as_secs();
        self
    }

    /// Also runs for assets that are in the condition when the watch is new.
    #[must_use]
    pub fn existing(mut self) -> Self {
        self.existing = true;
        self
    }

    /// Watches the assets that match `filter`.
    pub fn of(mut self, filter: Filter) -> Watch {
        self.of = filter;
        Watch::Status(self)
    }
}

/// A condition of an asset, as enforcement last found it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StatusIs {
    /// Production has the content at the asset's pin.
    InSync,
    /// Production differs from the content at the asset's pin, or it is not known yet.
    OutOfSync,
    /// The asset's own health check refused the content that was pushed.
    Unhealthy,
}

/// Whether each changed asset has a run of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// A run for each asset, one at a time for each of them.
    #[default]
    Asset,
    /// One run for all assets that have changed; it is given the whole set.
    Watch,
}
