//! The part of a rule on which the judgement depends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How units are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::health) struct Rule {
    pub(in crate::health) name: Arc<str>,
    /// The ratio of means from which on evidence is an alarm.
    pub(in crate::health) guard: f64,
    /// Whether smaller values are worse.
    pub(in crate::health) smaller: bool,
    /// Whether each value is divided by the mean of its unit before the rollout.
    pub(in crate::health) than_past: bool,
    /// The evidence from which on there is an alarm: the number of such rules, divided by the rate of false alarms.
    pub(in crate::health) threshold: f64,
}
