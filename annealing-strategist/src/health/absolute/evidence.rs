//! What a verdict rests on, and how it follows: pure, so that anybody can judge again from the evidence alone.

use std::{cmp::Ordering, collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;
use plugin_sdk::{Judgement, Series};
use prodspec_model::{AssetId, Digest, IncarnationId};
use serde::{Deserialize, Serialize};

use super::query::Of;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// How much of what `whole` counts `part` counts. Sums over all series.
    Ratio {
        /// Counters.
        part: Of,
        /// Counters. If it is the same metric, a part without series is zero.
        whole: Of,
    },
    /// How fast counters rise, per second. The sum over all series.
    Rate {
        /// Counters.
        of: Of,
    },
    /// What gauges show: the mean of each series, and of those the worst.
    Value {
        /// Gauges.
        of: Of,
    },
}

/// What is healthy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// This and less.
    AtMost(f64),
    /// This and more.
    AtLeast(f64),
}

impl Bound {
    /// What `measured` means. What cannot be compared is unknown.
    fn judge(self, measured: f64) -> Judgement {
        let kept = match self {
            Self::AtMost(most) => measured.partial_cmp(&most).map(Ordering::is_le),
            Self::AtLeast(least) => measured.partial_cmp(&least).map(Ordering::is_ge),
        };
        match kept {
            Some(true) => Judgement::Healthy,
            Some(false) => Judgement::Unhealthy,
            None => Judgement::Unknown,
        }
    }

    /// The worse of two values.
    fn worse(self, one: f64, other: f64) -> f64 {
        match self {
            Self::AtMost(_) => one.max(other),
            Self::AtLeast(_) => one.min(other),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}

/// A rule as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// What is measured.
    pub kind: Kind,
    /// What is healthy.
    pub bound: Bound,
    /// The length of the window.
    pub over: Duration,
    /// Fewer samples say nothing.
    pub min_samples: usize,
    /// Of a ratio: fewer events in the whole say nothing.
    pub min_events: u64,
}

/// What an asset is to the rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It has what is new.
    Updated,
    /// It is on its way there.
    UnderWay,
    /// It can be hurt by those.
    Neighbour,
}

/// One series of the window, as far as it matters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Which one.
    pub labels: BTreeMap<String, String>,
    /// How many samples it has.
    pub samples: usize,
    /// From its first sample to its last.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// How much a counter rose, or the mean of a gauge. `None`: nobody can tell.
    pub amount: Option<f64>,
}

impl Tally {
    fn of(mut series: Series, from: Timestamp, to: Timestamp, counter: bool) -> Self {
        series.samples.retain(|(at, _)| (from..=to).contains(at));
        series
            .samples
            .sort_by(|(at, one), (then, other)| at.cmp(then).then(one.total_cmp(other)));
        let samples = &series.samples;
        let amount = if counter {
            series.increase()
        } else {
            let sum: f64 = samples.iter().map(|(_, value)| value).sum();
            (!samples.is_empty()).then(|| sum / samples.len() as f64)
        };
        Self {
            samples: samples.len(),
            seen: samples.first().zip(samples.last()).map(|(a, b)| (a.0, b.0)),
            amount: amount.filter(|amount| amount.is_finite()),
            labels: series.labels,
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        let amount = |tally: &Self| tally.amount.unwrap_or(f64::NAN);
        (&self.labels, self.samples, self.seen)
            .cmp(&(&other.labels, other.samples, other.seen))
            .then_with(|| amount(self).total_cmp(&amount(other)))
    }
}

/// What one verdict about one asset rests on. The `evidence` of a [`Finding`](plugin_sdk::Finding) is this, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// About whom.
    pub asset: AssetId,
    /// What it is to the rollout.
    pub role: Role,
    /// At which incarnation.
    pub incarnation: IncarnationId,
    /// By which policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Digest>,
    /// The rule.
    pub question: Question,
    /// The first moment that counts.
    pub from: Timestamp,
    /// The last.
    pub to: Timestamp,
    /// What was read, by label: of a ratio, the whole; otherwise, all.
    pub read: Vec<Tally>,
    /// Of a ratio, what was read of the part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub part: Vec<Tally>,
    /// How the source failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of a neighbour that does not do well: the same before the rollout began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Evidence>>,
}

/// What follows from evidence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    pub(super) judgement: Judgement,
    pub(super) measured: Option<f64>,
    /// Why it is unknown.
    pub(super) lacks: Option<String>,
}

impl Evidence {
    /// What the evidence says, by itself.
    pub fn judge(&self) -> Judgement {
        self.judged().judgement
    }

    /// The last sample that it rests on; without any, the beginning of the window.
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

    /// Fills in what was read, in any order.
    pub(super) fn fill(&mut self, whole: Vec<Series>, part: Vec<Series>) {
        let counter = !matches!(self.question.kind, Kind::Value { .. });
        let tallied = |read: Vec<Series>| {
            let mut tallies: Vec<Tally> = read
                .into_iter()
                .map(|series| Tally::of(series, self.from, self.to, counter))
                .collect();
            tallies.sort_by(Tally::order);
            tallies
        };
        (self.read, self.part) = (tallied(whole), tallied(part));
    }

    /// Whether it was unhealthy before the rollout began.
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
            (_, Some(Lack::Enough(lacks))) => unknown(lacks),
            (Some(Judgement::Healthy), Some(Lack::Part(lacks))) => unknown(lacks),
            (None | Some(Judgement::Unknown), lack) => {
                let why = lack.map(|(Lack::Enough(why) | Lack::Part(why))| why);
                unknown(why.unwrap_or_else(|| "it is no number".into()))
            }
            (Some(judgement), _) => Judged {
                judgement,
                measured,
                lacks: None,
            },
        }
    }

    /// The figure that is compared, from those series that have one.
    fn measured(&self) -> Option<f64> {
        let sum = |read: &[Tally]| read.iter().filter_map(|tally| tally.amount).sum::<f64>();
        let mut amounts = self.read.iter().filter_map(|tally| tally.amount);
        let figure = match &self.question.kind {
            Kind::Ratio { .. } => sum(&self.part) / sum(&self.read),
            Kind::Rate { .. } => {
                let seen = self.read.iter().filter_map(|tally| tally.seen);
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

    /// What is missing, if anything.
    fn lacks(&self) -> Option<Lack> {
        if let Some(error) = &self.error {
            return Some(Lack::Enough(format!("the source failed: {error}")));
        }
        let samples = self.read.iter().map(|tally| tally.samples).max();
        let least = self.question.min_samples;
        match samples.unwrap_or(0) {
            0 => return Some(Lack::Enough("there is no data".into())),
            few if few < least => {
                return Some(Lack::Enough(format!(
                    "{few} samples of the {least} it needs"
                )));
            }
            _ => {}
        }
        if let Kind::Ratio { part, whole } = &self.question.kind {
            let events: f64 = self.read.iter().filter_map(|tally| tally.amount).sum();
            let least = self.question.min_events;
            if events < least as f64 {
                let lacks = format!("{events} events of the {least} it needs");
                return Some(Lack::Enough(lacks));
            }
            if part.metric() != whole.metric() && self.part.is_empty() {
                return Some(Lack::Enough(format!("there is no {}", part.metric())));
            }
        }
        let silent = |tally: &&Tally| tally.amount.is_none();
        let tally = self.read.iter().chain(&self.part).find(silent)?;
        let what = match tally.samples {
            0 => "no data",
            1 => "one sample only",
            _ => "samples that are no numbers",
        };
        Some(Lack::Part(format!("{what} of {:?}", tally.labels)))
    }
}

/// What evidence lacks.
enum Lack {
    /// It says nothing.
    Enough(String),
    /// It can say unhealthy, and not healthy.
    Part(String),
}
