//! Health validation: whether updated assets serve as they should, judged by production's own signals.

mod request;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::tolerant;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::error::BoxError;

pub use request::{HealthRequest, Watched};

/// A judgement of health, ordered from best to worst. Unknown never counts as healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The evidence shows that everything is as it should be.
    Healthy,
    /// The evidence does not suffice: no data, too little data, or the query failed.
    Unknown,
    /// The evidence shows a worse state than the validator allows.
    Unhealthy,
}

/// A verdict on health, with its findings.
///
/// Verdicts form a join-semilattice: [`Health::join`] never improves a judgement, and the result does not depend on
/// order or repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Health {
    /// The worst judgement of all findings. Healthy without findings. One that this program version does not know is
    /// [`Judgement::Unknown`], which holds.
    #[serde(deserialize_with = "judgement")]
    pub judgement: Judgement,
    /// The findings of the validators, with their evidence.
    pub findings: Vec<Finding>,
    /// The time up to which evidence was evaluated: the earliest such time of all findings.
    pub as_of: Timestamp,
}

/// The finding of one validator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// Name of the validator. The layer that put the validator into its stack stamps it.
    pub validator: Arc<str>,
    /// The judgement of this validator. One that this program version does not know is [`Judgement::Unknown`].
    #[serde(deserialize_with = "judgement")]
    pub judgement: Judgement,
    /// A one-line summary for operators.
    pub summary: String,
    /// The evidence: samples, thresholds and windows. It suffices to repeat the judgement.
    pub evidence: Value,
}

fn judgement<'de, D: Deserializer<'de>>(from: D) -> Result<Judgement, D::Error> {
    tolerant::known_or(from, |_| Judgement::Unknown)
}

impl Finding {
    /// Makes a finding without evidence. The validator's name is stamped later, by the layer of the validator.
    pub fn new(judgement: Judgement, summary: impl Into<String>) -> Self {
        Self {
            validator: "".into(),
            judgement,
            summary: summary.into(),
            evidence: Value::Null,
        }
    }

    /// Sets the name of the validator, for verdicts that no layer stamps.
    #[must_use]
    pub fn validator(mut self, validator: impl Into<Arc<str>>) -> Self {
        self.validator = validator.into();
        self
    }

    /// Sets the evidence of the finding, as JSON.
    #[must_use]
    pub fn because(mut self, evidence: impl Into<Value>) -> Self {
        self.evidence = evidence.into();
        self
    }

    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let key = |finding: &Self| (finding.validator.clone(), finding.summary.clone());
        (key(self), self.judgement)
            .cmp(&(key(other), other.judgement))
            .then_with(|| self.evidence.to_string().cmp(&other.evidence.to_string()))
    }
}

impl Health {
    /// A healthy verdict without findings, from evidence up to `as_of`.
    pub fn healthy(as_of: Timestamp) -> Self {
        Self {
            judgement: Judgement::Healthy,
            findings: Vec::new(),
            as_of,
        }
    }

    /// A verdict with one finding, from evidence up to `as_of`.
    pub fn found(as_of: Timestamp, finding: Finding) -> Self {
        Self {
            judgement: finding.judgement,
            findings: vec![finding],
            as_of,
        }
    }

    /// Sets the evidence of the findings, as JSON.
    #[must_use]
    pub fn because(mut self, evidence: impl Into<Value>) -> Self {
        let evidence = evidence.into();
        for finding in &mut self.findings {
            finding.evidence = evidence.clone();
        }
        self
    }

    /// Combines two verdicts: the worse judgement, all findings, and the earlier evidence time.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.judgement = self.judgement.max(other.judgement);
        self.findings.extend(other.findings);
        self.findings.sort_by(Finding::order);
        self.findings.dedup();
        self.as_of = self.as_of.min(other.as_of);
        self
    }

    /// Whether the judgement is healthy and rests on evidence up to `since` or later.
    pub fn is_healthy_since(&self, since: Timestamp) -> bool {
        self.judgement == Judgement::Healthy && self.as_of >= since
    }
}

/// Judges the updated assets of a rollout by production's own signals.
///
/// An error or a timeout counts as [`Judgement::Unknown`]: the rollout waits and does not pass its gate.
///
/// ```
/// use std::{collections::BTreeSet, sync::Arc};
/// use plugin_sdk::{BoxError, Health, HealthRequest, HealthValidator, Judgement};
/// use prodspec_model::AssetId;
///
/// /// Asks a supervisor which assets crash at present.
/// struct NoCrashes(Arc<dyn Fn() -> BTreeSet<AssetId> + Send + Sync>);
///
/// #[async_trait::async_trait]
/// impl HealthValidator for NoCrashes {
///     fn name(&self) -> Arc<str> {
///         "crashes".into()
///     }
///
///     async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
///         let crashing = (self.0)();
///         let mut watched = request.updated.iter().chain(&request.under_way);
///         Ok(match watched.find(|watched| crashing.contains(&watched.asset)) {
///             Some(bad) => request.found(Judgement::Unhealthy, format!("`{}` crashes", bad.asset)),
///             None => request.healthy(),
///         })
///     }
/// }
/// ```
#[async_trait]
pub trait HealthValidator: Send + Sync + 'static {
    /// The name that this validator's findings carry.
    fn name(&self) -> Arc<str>;

    /// Judges the updated assets and their neighbours.
    ///
    /// # Errors
    /// If the validator cannot judge. An error or a timeout counts as [`Judgement::Unknown`].
    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError>;
}
