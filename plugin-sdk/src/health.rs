//! Health validation: whether updated assets serve as they should, judged by production's own signals.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::{AssetId, Digest, IncarnationId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{error::BoxError, reader::IncarnationReader, rollout::RolloutId};

/// Asks a health validator whether the updated assets of a rollout are healthy.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HealthRequest {
    /// Id of the rollout whose health is judged.
    pub rollout: RolloutId,
    /// The incarnation that the rollout started from. `None`: a first turnup, nothing was in production before.
    pub from: Option<IncarnationId>,
    /// The new incarnation that the rollout moves its targets to.
    pub to: IncarnationId,
    /// Name of the rollout's current stage. `None`: the policy names no stage.
    pub stage: Option<String>,
    /// Digest of the rollout's policy asset as it is now. `None`: intent does not contain the policy asset any more.
    pub policy: Option<Digest>,
    /// Assets that have settled at the new incarnation, each with the time at which it did. A validator needs evidence
    /// of each of them; without it, the judgement is [`Judgement::Unknown`].
    pub updated: Vec<Watched>,
    /// Assets that were moved and have not settled yet, or have drifted, each with the time since which this holds.
    /// They may run the new content, the old content or a mix. Bad signals count; missing signals do not.
    pub under_way: Vec<Watched>,
    /// Other assets that the moved assets can hurt: assets of the same policy group in the same failure domains (the
    /// whole group, if a moved asset names no domain), and assets connected with a moved asset by an edge. The time of
    /// each is when the last asset of `updated` settled or, if none has, when the first asset of `under_way` was moved.
    pub neighbours: Vec<Watched>,
    /// Wall-clock time at which the rollout moved its first asset. `None`: no asset was moved yet. A neighbour that was
    /// unhealthy before this time does not count against the rollout.
    #[serde(default)]
    pub began: Option<Timestamp>,
    /// The assets of `updated` whose health decides whether the stage is over, if the policy names such targets
    /// ([`Selection::validate`](crate::Selection::validate)). A validator compares them with the other updated assets.
    /// `None`: the health of all updated assets decides.
    pub decisive: Option<Vec<AssetId>>,
    /// Wall-clock time of the request.
    pub now: Timestamp,
    /// Reads assets of `to`. Not serialized.
    #[serde(skip)]
    pub reader: IncarnationReader,
}

impl HealthRequest {
    /// Makes a request as the strategist does; tests of validators use it too. All lists are empty, all optional fields
    /// are `None`, and the reader finds no asset.
    pub fn new(rollout: RolloutId, to: IncarnationId, now: Timestamp) -> Self {
        Self {
            rollout,
            from: None,
            to,
            stage: None,
            policy: None,
            updated: Vec::new(),
            under_way: Vec::new(),
            neighbours: Vec::new(),
            began: None,
            decisive: None,
            now,
            reader: IncarnationReader::default(),
        }
    }

    /// Sets the incarnation that the rollout started from. `None`: a first turnup.
    #[must_use]
    pub fn from(mut self, from: impl Into<Option<IncarnationId>>) -> Self {
        self.from = from.into();
        self
    }

    /// Sets the name of the rollout's current stage.
    #[must_use]
    pub fn stage(mut self, stage: impl Into<Option<String>>) -> Self {
        self.stage = stage.into();
        self
    }

    /// Sets the digest of the rollout's policy asset.
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Option<Digest>>) -> Self {
        self.policy = policy.into();
        self
    }

    /// Sets the assets that have settled at the new incarnation.
    #[must_use]
    pub fn updated(mut self, updated: Vec<Watched>) -> Self {
        self.updated = updated;
        self
    }

    /// Sets the assets that were moved and are not settled.
    #[must_use]
    pub fn under_way(mut self, under_way: Vec<Watched>) -> Self {
        self.under_way = under_way;
        self
    }

    /// Sets the other assets that the moved assets can hurt.
    #[must_use]
    pub fn neighbours(mut self, neighbours: Vec<Watched>) -> Self {
        self.neighbours = neighbours;
        self
    }

    /// Sets the wall-clock time at which the rollout moved its first asset.
    #[must_use]
    pub fn began(mut self, began: impl Into<Option<Timestamp>>) -> Self {
        self.began = began.into();
        self
    }

    /// Sets the assets of `updated` whose health decides whether the stage is over.
    #[must_use]
    pub fn decisive(mut self, decisive: impl Into<Option<Vec<AssetId>>>) -> Self {
        self.decisive = decisive.into();
        self
    }

    /// Sets the reader of the assets of `to`.
    #[must_use]
    pub fn reader(mut self, reader: IncarnationReader) -> Self {
        self.reader = reader;
        self
    }

    /// A healthy verdict without findings, from evidence up to now.
    pub fn healthy(&self) -> Health {
        Health::healthy(self.now)
    }

    /// A verdict with one finding, from evidence up to now. The summary is a line for operators.
    ///
    /// ```
    /// # use plugin_sdk::{Health, HealthRequest, Judgement};
    /// # fn validate(request: HealthRequest) -> Health {
    /// request.found(Judgement::Unhealthy, "3 of 5 tasks crash").because(serde_json::json!({ "crashing": 3 }))
    /// # }
    /// ```
    pub fn found(&self, judgement: Judgement, summary: impl Into<String>) -> Health {
        Health::found(self.now, Finding::new(judgement, summary))
    }
}

/// An asset in production whose signals are evaluated. Assets that are not enforced, or are being turned down, have no
/// signals and are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Watched {
    /// Id of the asset to evaluate.
    pub asset: AssetId,
    /// Wall-clock time from which evidence counts. Older evidence is ignored.
    pub since: Timestamp,
}

impl Watched {
    /// An asset whose evidence counts from the wall-clock time `since`.
    pub fn new(asset: AssetId, since: Timestamp) -> Self {
        Self { asset, since }
    }
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
    /// The worst judgement of all findings. Healthy without findings.
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
    /// The judgement of this validator.
    pub judgement: Judgement,
    /// A one-line summary for operators.
    pub summary: String,
    /// The evidence: samples, thresholds and windows. It suffices to repeat the judgement.
    pub evidence: Value,
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

/// A query for one metric of one asset over a window of time, for a [`MetricSource`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricQuery {
    /// Name of the metric to read.
    pub metric: String,
    /// Labels that a series must have to match.
    #[serde(default)]
    pub labels: std::collections::BTreeMap<String, String>,
    /// The asset whose metric is read.
    pub asset: AssetId,
    /// Start of the window, wall-clock time.
    pub from: Timestamp,
    /// End of the window, wall-clock time, included.
    pub to: Timestamp,
}

impl MetricQuery {
    /// A query for `metric` of `asset` between two wall-clock times, both included.
    pub fn new(metric: impl Into<String>, asset: AssetId, from: Timestamp, to: Timestamp) -> Self {
        Self {
            metric: metric.into(),
            labels: std::collections::BTreeMap::new(),
            asset,
            from,
            to,
        }
    }

    /// Adds a label that a series must have.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }
}

/// One series of a metric: its labels, and its samples in the order of their times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Labels that identify the series.
    pub labels: std::collections::BTreeMap<String, String>,
    /// Samples, each a wall-clock time and a value.
    pub samples: Vec<(Timestamp, f64)>,
}

impl Series {
    /// A series without labels. The samples are in the order of their times.
    pub fn new(samples: impl IntoIterator<Item = (Timestamp, f64)>) -> Self {
        Self {
            labels: std::collections::BTreeMap::new(),
            samples: samples.into_iter().collect(),
        }
    }

    /// Adds a label that identifies the series.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// The increase of a counter over the samples. A reset counter starts from zero again. `None`: fewer than two
    /// samples, or a sample is not finite.
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

    /// Time between the first and the last sample. Zero with fewer than two samples.
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

/// A source of production metrics, such as Prometheus, a scraper or a test.
///
/// ```
/// use std::collections::BTreeMap;
/// use plugin_sdk::{BoxError, MetricQuery, MetricSource, Series};
/// use prodspec_model::AssetId;
///
/// /// Samples by asset and metric, as a scraper keeps them.
/// struct Scraped(BTreeMap<(AssetId, String), Vec<(jiff::Timestamp, f64)>>);
///
/// #[async_trait::async_trait]
/// impl MetricSource for Scraped {
///     async fn read(&self, query: MetricQuery) -> Result<Vec<Series>, BoxError> {
///         let samples = self.0.get(&(query.asset, query.metric)).into_iter().flatten();
///         let within = |(at, _): &&(jiff::Timestamp, f64)| (query.from..=query.to).contains(at);
///         // A scraper with labels returns one series for each set of them that matches `query.labels`.
///         Ok(vec![Series::new(samples.filter(within).copied())])
///     }
/// }
/// ```
#[async_trait]
pub trait MetricSource: Send + Sync + 'static {
    /// Reads every series that matches, with its samples in the window. No series, or only series without samples,
    /// means that there is no data.
    ///
    /// # Errors
    /// If the metrics cannot be read.
    async fn read(&self, query: MetricQuery) -> Result<Vec<Series>, BoxError>;
}
