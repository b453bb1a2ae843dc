//! R106: counters that begin within a window. What a counter has counted by its first sample is not in the samples, so
//! errors before its first scrape would be invisible.

use std::{cmp::Ordering, collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use plugin_sdk::Series;
use serde::{Deserialize, Serialize};

/// How far before a window samples are looked for. A counter without samples for so long has begun anew; a shorter gap is
/// one of scraping.
pub(super) const LOOK_BACK: Duration = Duration::from_secs(60 * 60);

/// How a series begins in its window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Start {
    /// It counts from its first sample in the window: it has older samples, or has counted nothing by then, or is no
    /// counter.
    #[default]
    Sample,
    /// It counts from zero: it appeared, or was reset, after this time, at which other samples of its metric were taken.
    Zero(Timestamp),
    /// It is the first of its metric for this asset, so that its first sample can hold events of any time.
    Unknown,
}

impl Start {
    /// Whether the series counts from its first sample.
    pub(super) fn is_sample(&self) -> bool {
        *self == Self::Sample
    }
}

/// All samples of a counter's metric that one asset has, in a window and before it.
pub(super) struct Births<'s> {
    from: Timestamp,
    to: Timestamp,
    /// The last sample of each series before the window, by its labels.
    older: BTreeMap<&'s BTreeMap<String, String>, (Timestamp, f64)>,
    /// The times of all samples, in order.
    times: Vec<Timestamp>,
}

impl<'s> Births<'s> {
    pub(super) fn of(
        window: &[Series],
        older: &'s [Series],
        (from, to): (Timestamp, Timestamp),
    ) -> Self {
        let mut last: BTreeMap<_, (Timestamp, f64)> = BTreeMap::new();
        for series in older {
            let samples = series.samples.iter().filter(|(at, _)| *at < from);
            let samples = samples.chain(last.get(&series.labels));
            if let Some(newest) = samples.max_by(by_time).copied() {
                last.insert(&series.labels, newest);
            }
        }
        let older = last;
        let within = window.iter().flat_map(|series| &series.samples);
        let within = within.filter(|(at, _)| (from..=to).contains(at));
        let times = older.values().chain(within).map(|(at, _)| *at);
        let mut times: Vec<Timestamp> = times.collect();
        times.sort_unstable();
        Self {
            from,
            to,
            older,
            times,
        }
    }

    /// How a series begins that was read for the window. One that was reset since its last sample before the window counts
    /// from zero, too.
    pub(super) fn start(&self, series: &Series) -> Start {
        let Some((first, value)) = self.first(series).filter(|(_, value)| value.is_finite()) else {
            return Start::Sample;
        };
        match self.older.get(&series.labels) {
            Some((_, last)) if *last > value => Start::Zero(self.from),
            Some(_) => Start::Sample,
            None => {
                let before = self.times.partition_point(|at| *at < first);
                match before.checked_sub(1).and_then(|at| self.times.get(at)) {
                    Some(last) => Start::Zero(self.from.max(*last)),
                    None if value > 0.0 => Start::Unknown,
                    None => Start::Sample,
                }
            }
        }
    }

    /// The first sample of a series in the window.
    fn first(&self, series: &Series) -> Option<(Timestamp, f64)> {
        let samples = series.samples.iter();
        let within = samples.filter(|(at, _)| (self.from..=self.to).contains(at));
        within.min_by(by_time).copied()
    }
}

/// Whether it can matter how a counter begins that was read for a window.
pub(super) fn matters(window: &[Series]) -> bool {
    let values = window.iter().flat_map(|series| &series.samples);
    values.into_iter().any(|(_, value)| *value > 0.0)
}

fn by_time(one: &&(Timestamp, f64), other: &&(Timestamp, f64)) -> Ordering {
    one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
}
