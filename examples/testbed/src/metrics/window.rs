//! The scraped samples of the last five minutes. Pure data without I/O, so that tests can cover the difference between
//! missing, zero and removed series.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use control_plane::{
    prelude::Timestamp,
    sdk::{SampleQuery, Series},
};

use super::text::Sample;
use crate::production::{GLOBAL_CELL, api::MetricsTarget};

/// How long samples are kept.
const KEPT: Duration = Duration::from_secs(300);
/// Maximum number of samples per series.
const SAMPLES: usize = 400;

type Labels = BTreeMap<String, String>;
/// Key of a process within its cell: its resource and its process id.
type Process = (String, Option<u32>);

/// All scraped samples, by cell.
#[derive(Debug, Default)]
pub(super) struct Window {
    cells: BTreeMap<String, Cell>,
}

#[derive(Debug, Default)]
struct Cell {
    listed_at: Option<Timestamp>,
    processes: BTreeMap<Process, Seen>,
}

/// The scraped samples of one process.
#[derive(Debug)]
struct Seen {
    asset: String,
    labels: Labels,
    /// True while the process should answer.
    expected: bool,
    /// True if the process answered the last scrape.
    answered: bool,
    /// Last time at which a series that appears now did not exist yet. A new counter has risen from zero since then.
    absent_at: Option<Timestamp>,
    series: BTreeMap<(String, Labels), VecDeque<(Timestamp, f64)>>,
}

impl Window {
    /// Records the list of processes that a cell reported at the time `at`.
    pub(super) fn listed(&mut self, cell: &str, at: Timestamp, targets: &[MetricsTarget]) {
        let here = self.cells.entry(cell.into()).or_default();
        for seen in here.processes.values_mut() {
            seen.expected = false;
        }
        for target in targets {
            let process = (target.resource.clone(), target.pid);
            let absent_at = here.listed_at;
            let seen = here
                .processes
                .entry(process)
                .or_insert_with(|| Seen::new(cell, target, absent_at));
            seen.expected = target.serving;
        }
        here.listed_at = Some(at);
        here.forget(at);
    }

    /// Records the counters that a process reported at the time `at`.
    pub(super) fn scraped(
        &mut self,
        cell: &str,
        target: &MetricsTarget,
        at: Timestamp,
        samples: Vec<Sample>,
    ) {
        if let Some(seen) = self.seen(cell, target) {
            seen.take(at, samples);
        }
    }

    /// Records that a process did not answer.
    pub(super) fn silent(&mut self, cell: &str, target: &MetricsTarget) {
        if let Some(seen) = self.seen(cell, target) {
            seen.answered = false;
        }
    }

    /// Records that a cell did not answer: the state of its processes is unknown.
    pub(super) fn lost(&mut self, cell: &str, at: Timestamp) {
        if let Some(here) = self.cells.get_mut(cell) {
            for seen in here.processes.values_mut() {
                seen.answered = false;
            }
            here.forget(at);
        }
    }

    /// Returns all series that match. A series without samples stands for a process that should answer but does not.
    pub(super) fn read(&self, query: &SampleQuery) -> Vec<Series> {
        let cells = self.cells.values();
        cells
            .flat_map(|cell| cell.processes.values())
            .filter(|seen| seen.asset == query.asset.as_str())
            .flat_map(|seen| seen.read(query))
            .collect()
    }

    fn seen(&mut self, cell: &str, target: &MetricsTarget) -> Option<&mut Seen> {
        let process = (target.resource.clone(), target.pid);
        self.cells.get_mut(cell)?.processes.get_mut(&process)
    }
}

impl Cell {
    /// Removes old samples, and processes that are gone and have no samples left.
    fn forget(&mut self, now: Timestamp) {
        let kept = now.checked_sub(KEPT).unwrap_or(Timestamp::MIN);
        self.processes.retain(|_, seen| {
            seen.series.retain(|_, samples| {
                while samples.len() > SAMPLES || samples.front().is_some_and(|(at, _)| *at < kept) {
                    samples.pop_front();
                }
                !samples.is_empty()
            });
            seen.expected || !seen.series.is_empty()
        });
    }
}

impl Seen {
    fn new(cell: &str, target: &MetricsTarget, absent_at: Option<Timestamp>) -> Self {
        let task = target.resource.strip_prefix("jobs/");
        let asset = match task {
            Some(_) => format!("job/{cell}"),
            None if cell == GLOBAL_CELL => GLOBAL_CELL.to_owned(),
            None => format!("balancer/{cell}"),
        };
        let labels = [
            ("asset", Some(asset.clone())),
            ("cluster", Some(cell.to_owned())),
            ("resource", Some(target.resource.clone())),
            ("process", target.pid.map(|pid| pid.to_string())),
            ("task", task.map(str::to_owned)),
            ("version", target.version.clone()),
        ];
        let labels = labels.into_iter();
        Self {
            asset,
            labels: labels
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
            expected: true,
            answered: false,
            absent_at,
            series: BTreeMap::new(),
        }
    }

    fn take(&mut self, at: Timestamp, samples: Vec<Sample>) {
        self.answered = true;
        for sample in samples {
            let counts = sample.metric.ends_with("_total");
            let absent_at = self.absent_at.filter(|absent| counts && *absent < at);
            let mut labels = sample.labels;
            labels.extend(self.labels.clone());
            let series = self
                .series
                .entry((sample.metric, labels))
                .or_insert_with(|| {
                    let zero = absent_at.map(|absent| (absent, 0.0));
                    zero.into_iter().collect()
                });
            // If the clock was set back, drop the sample: samples must stay in order of time.
            if series.back().is_none_or(|(last, _)| *last < at) {
                series.push_back((at, sample.value));
            }
        }
        self.absent_at = Some(at);
    }

    fn read(&self, query: &SampleQuery) -> Vec<Series> {
        let fits = |labels: &Labels, unknown: bool| {
            let mut wanted = query.labels.iter();
            wanted.all(|(name, value)| labels.get(name).map_or(unknown, |is| is == value))
        };
        let within = |(at, _): &&(Timestamp, f64)| (query.from..=query.to).contains(at);
        // For a process that is gone, a single sample shows no increase.
        let least = if self.expected { 1 } else { 2 };
        let mut read: Vec<Series> = self
            .series
            .iter()
            .filter(|((metric, labels), _)| *metric == query.metric && fits(labels, false))
            .map(|((_, labels), samples)| Series {
                labels: labels.clone(),
                samples: samples.iter().filter(within).copied().collect(),
            })
            .filter(|series| series.samples.len() >= least)
            .collect();
        if self.expected && !self.answered && fits(&self.labels, true) {
            read.push(Series {
                labels: self.labels.clone(),
                samples: vec![],
            });
        }
        read
    }
}

#[cfg(test)]
mod tests;
