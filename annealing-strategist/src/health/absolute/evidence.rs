//! The evidence of a verdict, and how the verdict follows from it. Pure: the verdict can be reproduced from the
//! evidence alone.

use std::{cmp::Ordering, collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use plugin_sdk::{Judgement, Series};
use prodspec_model::{AssetId, Digest, IncarnationId};
use serde::{Deserialize, Serialize};

use super::{birth::Start, query::Of};
use crate::health::{bound::Bound, scope::Role};

/// The quantity that a rule measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// The share of the events counted by `whole` that `part` counts. Sums over all series.
    Ratio {
        /// The counters of the events in question, such as errors.
        part: Of,
        /// The counters of all events. If they are of the same metric as `part`, a part without series is zero.
        whole: Of,
    },
    /// How fast counters rise, per second. The sum over all series.
    Rate {
        /// The counters whose rises are added up.
        of: Of,
    },
    /// What gauges show: the mean of each series over the window, and of those the worst.
    Value {
        /// The gauges to take the mean of.
        of: Of,
    },
}

/// A rule as data, without its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The quantity that is measured.
    pub kind: Kind,
    /// The bound that healthy values keep.
    pub bound: Bound,
    /// The length of the window.
    pub over: Duration,
    /// Minimum number of samples in the longest series; with fewer the verdict is unknown.
    pub min_samples: usize,
    /// Only for ratios: minimum number of events in the whole; with fewer the verdict is unknown.
    pub min_events: u64,
}

/// A series that was read for a window, and how it begins there.
pub(super) type Counted = (Series, Start);

/// One series within the window, reduced to what the verdict needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// The labels of the series.
    pub labels: BTreeMap<String, String>,
    /// Number of samples in the window.
    pub samples: usize,
    /// The times of the first and the last sample. `None`: there are no samples.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// The rise of a counter, or the mean of a gauge. `None`: it cannot be computed.
    pub amount: Option<f64>,
    /// From where a counter rises.
    #[serde(default, skip_serializing_if = "Start::is_sample")]
    pub start: Start,
}

impl Tally {
    fn of((mut series, start): Counted, from: Timestamp, to: Timestamp, counter: bool) -> Self {
        series.samples.retain(|(at, _)| (from..=to).contains(at));
        series
            .samples
            .sort_by(|(at, one), (then, other)| at.cmp(then).then(one.total_cmp(other)));
        let samples = &series.samples;
        let amount = if let Start::Zero(since) = start {
            let zero = std::iter::once((since, 0.0));
            Series::new(zero.chain(samples.iter().copied())).increase()
        } else if counter {
            series.increase()
        } else {
            let sum: f64 = samples.iter().map(|(_, value)| value).sum();
            (!samples.is_empty()).then(|| sum / samples.len() as f64)
        };
        Self {
            samples: samples.len(),
            seen: samples.first().zip(samples.last()).map(|(a, b)| (a.0, b.0)),
            amount: amount.filter(|amount| amount.is_finite()),
            start,
            labels: series.labels,
        }
    }

    /// The time from which the amount was counted.
    fn since(&self) -> Option<Timestamp> {
        match self.start {
            Start::Zero(since) => Some(since),
            _ => Some(self.seen?.0),
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        let amount = |tally: &Self| tally.amount.unwrap_or(f64::NAN);
        (&self.labels, self.samples, self.seen, self.start)
            .cmp(&(&other.labels, other.samples, other.seen, other.start))
            .then_with(|| amount(self).total_cmp(&amount(other)))
    }
}

/// The evidence of one verdict about one asset. The `evidence` of a [`Finding`](plugin_sdk::Finding) is this value as
/// JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The asset that the verdict is about.
    pub asset: AssetId,
    /// The role of the asset in the rollout.
    pub role: Role,
    /// The incarnation that is rolled out.
    pub incarnation: IncarnationId,
    /// Digest of the policy asset that was in force. `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Digest>,
    /// The rule that was applied.
    pub question: Question,
    /// The start of the window, inclusive.
    pub from: Timestamp,
    /// The end of the window, inclusive.
    pub to: Timestamp,
    /// The series that were read: for a ratio those of the whole, otherwise all.
    pub read: Vec<Tally>,
    /// Only for ratios: the series of the part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub part: Vec<Tally>,
    /// The error of the source. `None`: it did not fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Only for a neighbour that is not healthy: the evidence from before the rollout began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Evidence>>,
}

/// The result of judging evidence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    pub(super) judgement: Judgement,
    pub(super) measured: Option<f64>,
    /// The reason why the judgement is unknown.
    pub(super) lacks: Option<String>,
}

impl Evidence {
    /// Judges the evidence by itself.
    pub fn judge(&self) -> Judgement {
        self.judged().judgement
    }

    /// Returns the time of the last sample; without samples, the start of the window.
    pub fn as_of(&self) -> Timestamp {
        let last = |read: &[Tally]| read.iter().filter_map(|tally| Some(tally.seen?.1)).max();
        match &self.question.kind {
            Kind::Ratio { part, whole } if part.metric() != whole.metric() => {
                last(&self.read).min(last(&self.part))
            }
            _ => last(&self.read),
        }
        .unwrap_or(self.from)
    }

    /// Fills in the series that were read, in any order.
    pub(super) fn fill(&mut self, whole: Vec<Counted>, part: Vec<Counted>) {
        let counter = !matches!(self.question.kind, Kind::Value { .. });
        let tallied = |read: Vec<Counted>| {
            let mut tallies: Vec<Tally> = read
                .into_iter()
                .map(|series| Tally::of(series, self.from, self.to, counter))
                .collect();
            tallies.sort_by(Tally::order);
            tallies
        };
        (self.read, self.part) = (tallied(whole), tallied(part));
    }

    /// Whether the asset was unhealthy before the rollout began.
    pub(super) fn was_ill(&self) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|before| before.judge() == Judgement::Unhealthy)
    }

    pub(super) fn judged(&self) -> Judged {
        let measured = self.measured();
        if self.was_ill() {
            return Judged {
                judgement: Judgement::Healthy,
                measured,
                lacks: None,
            };
        }
        let lacks = self.lacks();
        let unknown = |lacks| Judged {
            judgement: Judgement::Unknown,
            measured,
            lacks: Some(lacks),
        };
        let judgement = measured.map(|measured| self.question.bound.judge(measured));
        match (judgement, lacks) {
            (_, Some(Missing::Enough(lacks))) => unknown(lacks),
            (Some(Judgement::Healthy), Some(Missing::Part(lacks))) => unknown(lacks),
            (None | Some(Judgement::Unknown), lack) => {
                let why = lack.map(|(Missing::Enough(why) | Missing::Part(why))| why);
                unknown(why.unwrap_or_else(|| "the measured value is not a number".into()))
            }
            (Some(judgement), _) => Judged {
                judgement,
                measured,
                lacks: None,
            },
        }
    }

    /// Returns the figure that is compared with the bound, from the series that have an amount.
    fn measured(&self) -> Option<f64> {
        let sum = |read: &[Tally]| read.iter().filter_map(|tally| tally.amount).sum::<f64>();
        let mut amounts = self.read.iter().filter_map(|tally| tally.amount);
        let figure = match &self.question.kind {
            Kind::Ratio { .. } => sum(&self.part) / sum(&self.read),
            Kind::Rate { .. } => {
                let seen = self.read.iter();
                let seen = seen.filter_map(|tally| Some((tally.since()?, tally.seen?.1)));
                let (first, last) = seen.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
                amounts.next()?;
                sum(&self.read) / last.duration_since(first).as_secs_f64()
            }
            Kind::Value { .. } => {
                let first = amounts.next()?;
                amounts.fold(first, |one, other| self.question.bound.worse(one, other))
            }
        };
        figure.is_finite().then_some(figure)
    }

    /// Returns what the evidence lacks, if anything.
    fn lacks(&self) -> Option<Missing> {
        if let Some(error) = &self.error {
            return Some(Missing::Enough(format!("the source failed: {error}")));
        }
        let samples = self.read.iter().map(|tally| tally.samples).max();
        let least = self.question.min_samples;
        match samples.unwrap_or(0) {
            0 => return Some(Missing::Enough("there is no data".into())),
            few if few < least => {
                return Some(Missing::Enough(format!(
                    "{few} of at least {least} samples"
                )));
            }
            _ => {}
        }
        if let Kind::Ratio { part, whole } = &self.question.kind {
            let events: f64 = self.read.iter().filter_map(|tally| tally.amount).sum();
            let least = self.question.min_events;
            if events < least as f64 {
                let lacks = format!("{events} of at least {least} events");
                return Some(Missing::Enough(lacks));
            }
            if part.metric() != whole.metric() && self.part.is_empty() {
                return Some(Missing::Enough(format!(
                    "there are no series of {}",
                    part.metric()
                )));
            }
        }
        if let Some(lacks) = self.lacks_start() {
            return Some(lacks);
        }
        let silent = |tally: &&Tally| tally.amount.is_none();
        let tally = self.read.iter().chain(&self.part).find(silent)?;
        let what = match tally.samples {
            0 => "no data",
            1 => "only one sample",
            _ => "samples that are not numbers",
        };
        Some(Missing::Part(format!("{what} of {:?}", tally.labels)))
    }

    /// R106: what is not known about the start of a counter. The samples after the first still show too much of something,
    /// if all that is compared was counted from the same time on. They never show too little.
    fn lacks_start(&self) -> Option<Missing> {
        let unknown = |tally: &&Tally| tally.start == Start::Unknown;
        let tally = self.read.iter().chain(&self.part).find(unknown)?;
        let lacks = format!(
            "no samples from before {:?}, which may have begun with what it counts",
            tally.labels
        );
        let one_metric = match &self.question.kind {
            Kind::Ratio { part, whole } => part.metric() == whole.metric(),
            Kind::Rate { .. } | Kind::Value { .. } => true,
        };
        match (self.question.bound, one_metric) {
            (Bound::AtMost(_), true) => Some(Missing::Part(lacks)),
            _ => Some(Missing::Enough(lacks)),
        }
    }
}

/// Data that evidence lacks.
enum Missing {
    /// There is too little data for any judgement.
    Enough(String),
    /// Some data is missing: the rest can show *unhealthy*, but not *healthy*.
    Part(String),
}
