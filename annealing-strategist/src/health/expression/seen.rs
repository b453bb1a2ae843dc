//! The evidence about one asset, and how the verdict follows from it. Pure: the verdict can be reproduced from the evidence
//! alone.

use std::sync::Arc;

use jiff::Timestamp;
use plugin_sdk::{Expression, Finding, Judgement, Quantity, Windows};
use prodspec_model::{AssetId, Digest, IncarnationId, policy::Count};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::health::{bound::Bound, scope::Role};

/// The question that a rule asks about each asset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::health) struct Question {
    pub(super) expression: Expression,
    /// The number of all events, if the rule is about a share of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) among: Option<Expression>,
    pub(super) bound: Bound,
    pub(super) count: Count,
    /// The health policy that has the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<(AssetId, Digest)>,
}

/// The values of an asset's series in a window. There should be one of each. `None` stands for one that is no number.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Values {
    pub(super) values: Vec<Option<f64>>,
    /// The numbers of all events, if the rule is about a share of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) among: Option<Vec<Option<f64>>>,
}

/// The evidence of one verdict about one asset. The `evidence` of a [`Finding`] is this value as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) rule: Arc<str>,
    pub(super) question: Question,
    pub(super) asset: AssetId,
    pub(super) role: Role,
    /// The incarnation that is rolled out.
    pub(super) incarnation: IncarnationId,
    /// Digest of the rollout policy that was in force.
    pub(super) policy: Option<Digest>,
    /// Time from which evidence counts.
    pub(super) since: Timestamp,
    pub(super) window: Windows,
    #[serde(flatten)]
    pub(super) values: Values,
    /// Only for a neighbour that is not healthy: the window before the rollout began, and the values there.
    pub(super) before: Option<(Windows, Values)>,
}

/// Judges evidence again: returns the finding that has this evidence, to the same bytes.
///
/// # Errors
/// If it is not the evidence of a finding of [`ByExpression`](super::ByExpression).
pub fn replay(evidence: &Value) -> Result<Finding, serde_json::Error> {
    Seen::deserialize(evidence)?.finding()
}

/// The judgement that counts, with a note for the reader.
pub(in crate::health) fn counted(count: Count, judgement: Judgement) -> (Judgement, &'static str) {
    match (count, judgement) {
        (Count::Muted, Judgement::Unknown | Judgement::Unhealthy) => {
            (Judgement::Healthy, " (muted)")
        }
        (Count::Optional, Judgement::Unknown) => (Judgement::Healthy, " (optional)"),
        _ => (judgement, ""),
    }
}

impl Seen {
    /// The finding that follows from the evidence.
    ///
    /// # Errors
    /// If the evidence cannot be written.
    pub(super) fn finding(&self) -> Result<Finding, serde_json::Error> {
        let (judgement, why) = self.judged();
        let (judgement, note) = counted(self.question.count, judgement);
        let finding = Finding::new(judgement, format!("{}: {why}{note}", self.asset));
        let finding = finding.validator(self.rule.clone());
        Ok(finding.because(serde_json::to_value(self)?))
    }

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
        let Some((window, values)) = &self.before else {
            return false;
        };
        let measured = self.question.measured(values, *window);
        measured.is_ok_and(|it| self.question.bound.judge(it) == Judgement::Unhealthy)
    }

    fn now(&self) -> (Judgement, String) {
        if self.since > self.window.start() {
            let why = format!("no window since {} is over yet", self.since);
            return (Judgement::Unknown, why);
        }
        let bound = self.question.bound;
        match self.question.measured(&self.values, self.window) {
            Err(why) => (Judgement::Unknown, why),
            Ok(value) => match bound.judge(value) {
                Judgement::Unhealthy => {
                    let why = format!("{value} instead of {bound}");
                    (Judgement::Unhealthy, why)
                }
                judgement => (judgement, format!("{value}, {bound}")),
            },
        }
    }
}

impl Question {
    /// Both expressions, or the one.
    pub(in crate::health) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        [&self.expression].into_iter().chain(&self.among)
    }

    /// The measured value, or the reason why there is none.
    fn measured(&self, values: &Values, window: Windows) -> Result<f64, String> {
        let part = one(&values.values, window)?;
        match (&values.among, &self.expression.of) {
            (Some(all), _) => match one(all, window)? {
                whole if whole > 0.0 => Ok(part / whole),
                _ => Err(format!("no events at {}", window.last)),
            },
            (None, Quantity::Counter(_)) => Ok(part / window.length.as_secs_f64()),
            (None, Quantity::Text(_)) => Ok(part),
        }
    }
}

fn one(values: &[Option<f64>], window: Windows) -> Result<f64, String> {
    let end = window.last;
    match values {
        [] => Err(format!("no value at {end}")),
        [None] => Err(format!("the value at {end} is no number")),
        [Some(value)] => Ok(*value),
        several => Err(format!("{} series: aggregate them to one", several.len())),
    }
}
