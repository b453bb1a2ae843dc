//! Health: whether what was updated serves as it should, judged by production's own signals.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::{AssetId, Digest, IncarnationId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{error::BoxError, reader::IncarnationReader, select::RolloutId};

/// Is what was updated healthy?
#[derive(Clone, Serialize, Deserialize)]
pub struct HealthRequest {
    /// Of which rollout.
    pub rollout: RolloutId,
    /// What was. `None`: nothing.
    pub from: Option<IncarnationId>,
    /// What is new.
    pub to: IncarnationId,
    /// What the rollout is at.
    pub stage: Option<String>,
    /// The policy that the rollout goes by, as it is now.
    pub policy: Option<Digest>,
    /// The assets that have settled at what is new, each since it has. Of each there has to be evidence: without, nobody
    /// can tell.
    pub updated: Vec<Watched>,
    /// The assets on their way there, or drifted, each since then. They may have what is new, or what was, or a part of
    /// each: bad signals of theirs are bad, missing ones say nothing.
    pub under_way: Vec<Watched>,
    /// Other assets that those can hurt: of the same policy group in their failure domains, and those that an edge ties
    /// to them. Each since the last of `updated` settled; if none has, since the first of `under_way` went on its way.
    pub neighbours: Vec<Watched>,
    /// When the first asset of the rollout was moved, by the wall clock. A neighbour that was unhealthy before speaks
    /// neither against the rollout nor, all the more, against a fix. `None`: nothing has moved.
    #[serde(default)]
    pub began: Option<Timestamp>,
    /// Those of `updated` whose health decides whether the stage is over, where the policy names them
    /// ([`Selection::validate`](crate::Selection::validate)): what a validator compares with the rest. `None`: all.
    pub decisive: Option<Vec<AssetId>>,
    /// The wall clock.
    pub now: Timestamp,
    /// Reads `to`; travels beside the data.
    #[serde(skip)]
    pub reader: IncarnationReader,
}

/// An asset that is in production, and whose signals matter. What nobody enforces, and what is being turned down, has none
/// and is not asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Which one.
    pub asset: AssetId,
    /// Evidence from before this time says nothing.
    pub since: Timestamp,
}

impl fmt::Debug for HealthRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthRequest")
            .field("rollout", &self.rollout)
            .field("stage", &self.stage)
            .field("updated", &self.updated)
            .field("under_way", &self.under_way)
            .field("neighbours", &self.neighbours)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// Three-valued, best first: what is unknown is never taken for healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// As it should be.
    Healthy,
    /// Nobody can tell: no data, too little of it, or the question failed.
    Unknown,
    /// Worse than it may be.
    Unhealthy,
}

/// A verdict with its evidence. A join-semilattice: [`Health::join`] only makes it worse, in any order and any number of
/// times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// The worst of all findings.
    pub judgement: Judgement,
    /// Who found what.
    pub findings: Vec<Finding>,
    /// The time up to which all evidence speaks: the earliest of all findings.
    pub as_of: Timestamp,
}

/// What one validator found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The name of the validator. Stamped by the layer that put it into its stack.
    pub validator: Arc<str>,
    /// What it makes of it.
    pub judgement: Judgement,
    /// In one line, for people.
    pub summary: String,
    /// What it rests on: samples, thresholds, windows. Enough to judge again.
    pub evidence: Value,
}

impl Finding {
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let key = |finding: &Self| (finding.validator.clone(), finding.summary.clone());
        (key(self), self.judgement)
            .cmp(&(key(other), other.judgement))
            .then_with(|| self.evidence.to_string().cmp(&other.evidence.to_string()))
    }
}

impl Health {
    /// Nothing against it, as of `as_of`.
    pub fn healthy(as_of: Timestamp) -> Self {
        Self {
            judgement: Judgement::Healthy,
            findings: Vec::new(),
            as_of,
        }
    }

    /// What one validator found, from evidence up to `as_of`.
    pub fn found(as_of: Timestamp, finding: Finding) -> Self {
        Self {
            judgement: finding.judgement,
            findings: vec![finding],
            as_of,
        }
    }

    /// Both together: the worse, with all findings.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.judgement = self.judgement.max(other.judgement);
        self.findings.extend(other.findings);
        self.findings.sort_by(Finding::order);
        self.findings.dedup();
        self.as_of = self.as_of.min(other.as_of);
        self
    }

    /// Whether it says healthy, from evidence up to `since` or later.
    pub fn is_healthy_since(&self, since: Timestamp) -> bool {
        self.judgement == Judgement::Healthy && self.as_of >= since
    }
}

/// Judges what was updated by production's own signals.
///
/// An error or a timeout is [`Judgement::Unknown`]: it holds the rollout and never passes it.
#[async_trait]
pub trait HealthValidator: Send + Sync + 'static {
    /// What its findings are filed under.
    fn name(&self) -> Arc<str>;

    /// Judges the updated assets, and what is near them.
    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError>;
}

/// A window of one metric, asked of a [`MetricSource`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricQuery {
    /// The metric's name.
    pub metric: String,
    /// Labels that a series must have.
    #[serde(default)]
    pub labels: std::collections::BTreeMap<String, String>,
    /// Of which asset.
    pub asset: AssetId,
    /// The first moment of the window.
    pub from: Timestamp,
    /// The last.
    pub to: Timestamp,
}

/// One series of a metric: samples in the order of their times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Which one: its labels.
    pub labels: std::collections::BTreeMap<String, String>,
    /// When, and how much.
    pub samples: Vec<(Timestamp, f64)>,
}

impl Series {
    /// How much a counter rose over the samples, from zero again where it was reset. `None`: fewer than two samples, or
    /// one that is no number.
    pub fn increase(&self) -> Option<f64> {
        let rise = |pair: &[(Timestamp, f64)]| match (pair[0].1, pair[1].1) {
            (before, after) if !(before.is_finite() && after.is_finite()) => None,
            (before, after) if after >= before => Some(after - before),
            (_, after) => Some(after),
        };
        match self.samples.len() {
            0 | 1 => None,
            _ => self.samples.windows(2).map(rise).sum(),
        }
    }

    /// The time between the first and the last sample.
    pub fn span(&self) -> Duration {
        match (self.samples.first(), self.samples.last()) {
            (Some((first, _)), Some((last, _))) => last
                .duration_since(*first)
                .try_into()
                .unwrap_or(Duration::ZERO),
            _ => Duration::ZERO,
        }
    }
}

/// Where metrics of production come from: Prometheus, a scraper, a test.
#[async_trait]
pub trait MetricSource: Send + Sync + 'static {
    /// Every series that matches, with its samples in the window. None, or series without samples: there is no data.
    async fn read(&self, query: MetricQuery) -> Result<Vec<Series>, BoxError>;
}
