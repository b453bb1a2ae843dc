//! The values of all units in one window.

use jiff::Timestamp;
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use super::rule::Rule;
use crate::health::statistics::{Share, levelled};

/// The value of one unit in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Value {
    Number(f64),
    Share { part: u64, whole: u64 },
}

/// A unit with its value. `None`: it has none.
pub(super) type Unit = (AssetId, Option<Value>);

/// The values of one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) end: Timestamp,
    /// The stage of the rollout.
    pub(super) stage: Option<String>,
    pub(super) moved: Vec<Unit>,
    pub(super) control: Vec<Unit>,
}

impl Value {
    /// The value as one number. `None`: a share of nothing.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Share { whole: 0, .. } => None,
            Self::Share { part, whole } => Some(part as f64 / whole as f64),
        }
    }
}

/// Makes the values of one window comparable: larger is worse, whatever the traffic and the unit's own mean. `means`: the mean of
/// each unit before the rollout; only for a rule that compares with it.
pub(super) fn comparable(
    values: &[Option<Value>],
    means: &[Option<f64>],
    rule: &Rule,
    seed: &[u8],
) -> Vec<Option<f64>> {
    let share = |value: &Option<Value>| match value {
        Some(Value::Share { part, whole }) => Some(Share {
            part: *part,
            whole: *whole,
        }),
        _ => None,
    };
    let shares: Vec<Option<Share>> = values.iter().map(share).collect();
    let level = match shares.iter().any(Option::is_some) {
        true => levelled(&shares, seed),
        false => values.iter().map(|it| it.and_then(Value::number)).collect(),
    };
    let turned = |value: f64| if rule.smaller { -value } else { value };
    let of = |(value, mean): (Option<f64>, &Option<f64>)| {
        relative(value, *mean, rule.than_past).map(turned)
    };
    level.into_iter().zip(means).map(of).collect()
}

/// The value, or its ratio to the unit's own mean.
pub(super) fn relative(value: Option<f64>, mean: Option<f64>, than_past: bool) -> Option<f64> {
    match than_past {
        false => value,
        true => Some(value? / mean.filter(|mean| *mean > 0.0)?),
    }
}
