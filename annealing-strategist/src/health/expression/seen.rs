//! The evidence about one asset, and how the verdict follows from it. Pure: the verdict can be reproduced from the evidence
//! alone.

use jiff::Timestamp;
use plugin_sdk::{Expression, Judgement, Windows};
use prodspec_model::{AssetId, Digest, IncarnationId};
use serde::Serialize;

use crate::health::{bound::Bound, scope::Role};

/// The evidence of one verdict about one asset. The `evidence` of a [`Finding`](plugin_sdk::Finding) is this value as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Seen {
    pub(super) asset: AssetId,
    pub(super) role: Role,
    /// The incarnation that is rolled out.
    pub(super) incarnation: IncarnationId,
    /// Digest of the policy asset that was in force.
    pub(super) policy: Option<Digest>,
    pub(super) expression: Expression,
    pub(super) bound: Bound,
    /// Time from which evidence counts.
    pub(super) since: Timestamp,
    pub(super) window: Windows,
    /// The values of the asset's series in the window. There should be one.
    pub(super) values: Vec<f64>,
    /// Only for a neighbour that is not healthy: the window before the rollout began, and the values there.
    pub(super) before: Option<(Windows, Vec<f64>)>,
}

impl Seen {
    /// The judgement, with the reason in words.
    pub(super) fn judged(&self) -> (Judgement, String) {
        let (judgement, why) = self.now();
        if judgement != Judgement::Healthy && self.was_ill() {
            let why = "unhealthy since before the rollout began";
            return (Judgement::Healthy, why.to_owned());
        }
        (judgement, why)
    }

    fn was_ill(&self) -> bool {
        match &self.before {
            Some((_, values)) => self.judge(values) == Judgement::Unhealthy,
            None => false,
        }
    }

    /// Judges the values of a window by themselves.
    fn judge(&self, values: &[f64]) -> Judgement {
        match values {
            [value] if value.is_finite() => self.bound.judge(*value),
            _ => Judgement::Unknown,
        }
    }

    fn now(&self) -> (Judgement, String) {
        let end = self.window.last;
        if self.since > self.window.start() {
            let why = format!("no window since {} is over yet", self.since);
            return (Judgement::Unknown, why);
        }
        let judgement = self.judge(&self.values);
        let why = match (&self.values[..], judgement) {
            ([], _) => format!("no value at {end}"),
            ([value], Judgement::Unhealthy) => format!("{value} instead of {}", self.bound),
            ([value], Judgement::Healthy) => format!("{value}, {}", self.bound),
            ([value], Judgement::Unknown) => format!("{value} at {end}, which is no number"),
            (several, _) => format!("{} series: aggregate them to one", several.len()),
        };
        (judgement, why)
    }
}
