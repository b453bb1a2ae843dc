//! What an asset wants of its watch.

use plugin_sdk::document::FieldPath;
use prodspec_model::{
    Asset, Digest, Filter,
    operation::{Concurrency, History, Operation, Per, Watch, WatchOperation},
    tolerant,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::runs::Limits;

/// What an asset wants of its watch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// The assets that are watched, and the changes that count.
    #[serde(deserialize_with = "on")]
    pub on: Watch,
    /// What one run is about.
    #[serde(default, deserialize_with = "per")]
    pub per: Per,
    /// What happens when an asset changes while a run for it is live. Default: [`Concurrency::Forbid`].
    #[serde(default, deserialize_with = "concurrency")]
    pub concurrency: Concurrency,
    /// Maximum number of live runs.
    pub at_most: u32,
    /// Numbers of ended runs that are kept. The watch does not look at it.
    #[serde(default)]
    pub history: History,
    /// What a run performs, as the asset has it. The watch does not look at it.
    #[serde(default)]
    pub template: Value,
}

impl Wanted {
    /// What an asset with this content wants.
    pub fn of(content: &WatchOperation) -> Self {
        Self {
            on: content.on.clone(),
            per: content.per,
            concurrency: content.concurrency,
            at_most: content.at_most,
            history: content.history,
            template: serde_json::to_value(&content.template).unwrap_or_default(),
        }
    }

    /// The operation that a run performs.
    ///
    /// # Errors
    /// If the template is no operation, such as one that a newer program version wrote.
    pub fn operation(&self) -> Result<Operation, serde_json::Error> {
        Operation::deserialize(&self.template)
    }

    /// How many runs may be live.
    pub fn limits(&self) -> Limits {
        Limits {
            per: self.per,
            concurrency: self.concurrency,
            at_most: usize::try_from(self.at_most).unwrap_or(usize::MAX),
        }
    }
}

/// The digest of what a watch selects of an asset: all of its content, or the values of `fields`. `None`: the filter does
/// not match the asset.
///
/// ```
/// use annealing_workflow::watch::selected;
/// use plugin_sdk::testing;
/// use prodspec_model::Filter;
///
/// let (filter, fields) = (Filter::default().under("job/"), ["payload.content".parse()?]);
/// let job = testing::asset("job/eu");
/// assert_eq!(selected(&job, &filter, &[]), Some(job.digest()));
/// assert_eq!(selected(&job, &filter, &fields), selected(&testing::asset("job/us"), &filter, &fields));
/// assert_eq!(selected(&testing::asset("db/eu"), &filter, &fields), None);
/// # Ok::<(), plugin_sdk::document::PathError>(())
/// ```
pub fn selected(asset: &Asset, filter: &Filter, fields: &[FieldPath]) -> Option<Digest> {
    if !filter.matches(asset) {
        return None;
    }
    if fields.is_empty() {
        return Some(asset.digest());
    }
    let content: Value = serde_json::from_str(asset.canonical()).unwrap_or_default();
    // A field that is missing differs from one that is null.
    let values = fields.iter().map(|path| at(&content, path).into_iter());
    let values: Vec<Vec<&Value>> = values.map(Iterator::collect).collect();
    let json = serde_json::to_vec(&values).unwrap_or_default();
    Some(Digest::of(&json))
}

fn at<'v>(content: &'v Value, path: &FieldPath) -> Option<&'v Value> {
    let mut steps = path.steps().iter();
    steps.try_fold(content, |value, step| step.of(value))
}

/// Reads which changes are watched; those that this program version does not know start nothing.
fn on<'de, D: Deserializer<'de>>(from: D) -> Result<Watch, D::Error> {
    tolerant::known_or(from, |_| Watch::Status(Watch::status([])))
}

/// Reads a concurrency; one that this program version does not know starts nothing beside what runs.
fn concurrency<'de, D: Deserializer<'de>>(from: D) -> Result<Concurrency, D::Error> {
    tolerant::known_or(from, |_| Concurrency::Forbid)
}

/// Reads what one run is about; for one that this program version does not know, it is one asset.
fn per<'de, D: Deserializer<'de>>(from: D) -> Result<Per, D::Error> {
    tolerant::known_or(from, |_| Per::Asset)
}
