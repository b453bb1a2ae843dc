//! Preview: plays a train in virtual time, in which every version becomes ripe.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use prodspec_model::train::Train;
use serde_json::Value;

use super::{
    kernel::{Idle, Outcome},
    record::{TrainRecord, VersionNo},
};

/// Maximum number of steps of the play.
const STEPS: usize = 10_000;

/// The expected arrival of a version at a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arrival {
    /// The number of the version.
    pub no: VersionNo,
    /// Value of the field that carries it.
    pub version: Value,
    /// Name of the stage that it enters.
    pub stage: String,
    /// Time at which it enters the stage.
    pub at: Timestamp,
    /// Time at which it is ripe there.
    pub ripe: Timestamp,
}

/// The expected arrivals from `now` to `until`, if every version becomes ripe in `takes` after its arrival at a stage, and the
/// versions of `offers` are offered at these times. A stage that is not in `takes` takes no time.
pub fn preview(
    record: &TrainRecord,
    train: &Train,
    takes: &BTreeMap<String, Duration>,
    offers: &[(Timestamp, Value)],
    (now, until): (Timestamp, Timestamp),
) -> Vec<Arrival> {
    let mut play = Play {
        record: record.clone(),
        ends: BTreeMap::new(),
        arrivals: Vec::new(),
    };
    let mut offers = offers.iter().peekable();
    let mut now = now;
    for _ in 0..STEPS {
        while let Some((_, value)) = offers.next_if(|(at, _)| *at <= now) {
            play.record.offer(value.clone(), None, None, now);
        }
        play.end(now);
        play.record.decide(train, now);
        if play.leave(now) {
            play.record.decide(train, now);
        }
        play.begin(train, takes, now);
        let opens = (0..train.stages.len()).filter_map(|at| play.opens(train, at, now));
        let ends = play.ends.values().map(|(_, at)| *at);
        let offered = offers.peek().map(|(at, _)| *at);
        match opens.chain(ends).chain(offered).min() {
            Some(next) if next <= until => now = next.max(now),
            _ => break,
        }
    }
    play.arrivals
}

struct Play {
    record: TrainRecord,
    /// The version under way and its end, by stage.
    ends: BTreeMap<String, (VersionNo, Timestamp)>,
    arrivals: Vec<Arrival>,
}

impl Play {
    fn end(&mut self, now: Timestamp) {
        let over = self.ends.iter().filter(|(_, (_, at))| *at <= now);
        let over: Vec<String> = over.map(|(stage, _)| stage.clone()).collect();
        for stage in over {
            self.ends.remove(&stage);
            self.over(&stage, Outcome::Completed, now);
        }
    }

    fn over(&mut self, stage: &str, outcome: Outcome, now: Timestamp) {
        if let Some(run) = self.record.run(stage).cloned() {
            self.record.ended(stage, &run, outcome, now);
        }
    }

    /// Takes back the versions that leave their stages. Returns whether there was any.
    fn leave(&mut self, now: Timestamp) -> bool {
        let stages = self.record.stages.iter();
        let leaves = stages.filter(|(_, stage)| {
            let run = stage.runs.as_ref();
            run.is_some_and(|run| run.leaves.is_some())
        });
        let leaves: Vec<String> = leaves.map(|(name, _)| name.clone()).collect();
        for stage in &leaves {
            self.ends.remove(stage);
            self.over(stage, Outcome::Left, now);
        }
        !leaves.is_empty()
    }

    fn begin(&mut self, train: &Train, takes: &BTreeMap<String, Duration>, now: Timestamp) {
        for stage in train.stages.iter().map(|stage| &stage.name) {
            let Some(run) = self.record.run(stage) else {
                continue;
            };
            let no = run.version;
            let Some(version) = self.record.version(no) else {
                continue;
            };
            if self.ends.get(stage).is_some_and(|(known, _)| *known == no) {
                continue;
            }
            let arrived = version.stages.get(stage).and_then(|it| it.arrived);
            let at = arrived.unwrap_or(now);
            let takes = takes.get(stage).copied().unwrap_or_default();
            let ripe = at.checked_add(takes).unwrap_or(Timestamp::MAX).max(now);
            self.arrivals.push(Arrival {
                no,
                version: version.value.clone(),
                stage: stage.clone(),
                at,
                ripe,
            });
            self.ends.insert(stage.clone(), (no, ripe));
        }
    }

    fn opens(&self, train: &Train, at: usize, now: Timestamp) -> Option<Timestamp> {
        match self.record.next(train, at, now) {
            Err(Idle::Until(opens)) => Some(opens),
            _ => None,
        }
    }
}
