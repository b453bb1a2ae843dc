//! The decisions of a train: which version enters which stage, and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use prodspec_model::{
    AssetId, Filter, Snapshot,
    train::{Stage, Train},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bug::{Bug, planted};

use super::record::{Failed, Refused, Run, StageRecord, TrainRecord, Version, VersionNo};

/// Number of the newest versions that are remembered for people.
const SHOWN: usize = 20;
/// Maximum number of versions that a train remembers.
const MOST: usize = 300;

/// Wait before a rollout that could not begin is tried again.
const AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// The end of a rollout of a version to a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is completed: the version is ripe.
    Completed,
    /// It was taken back, for this reason: the version has failed.
    RolledBack(String),
    /// It was taken back because the version leaves the stage, and has not failed.
    Left,
    /// It did not begin, for this reason.
    NotBegun(String),
}

/// The reason why no version enters a stage now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Idle {
    /// A version is rolled out there.
    Busy,
    /// A person holds the stage.
    Held(String),
    /// No newer version is ripe in the stage before.
    NothingNewer,
    /// Versions enter from this time on.
    Until(Timestamp),
    /// The rollout could not begin for this reason, and is tried again at this time.
    Refused(String, Timestamp),
    /// Its days are not known, for this reason.
    NoCalendar(String),
}

impl TrainRecord {
    /// Takes in the offer of intent: a value that differs from the last one is a new version.
    pub fn hear(&mut self, offer: Option<&Value>, now: Timestamp) {
        let last = self.offered.as_ref();
        let Some(value) = offer.filter(|it| last != Some(it)) else {
            return;
        };
        self.offered = Some(value.clone());
        if self.is_new(value, None).is_ok() {
            self.offer(value.clone(), None, None, now);
        }
    }

    /// Chooses the assets of the stages of the first few ones, where there are fewer than the stage is for.
    pub fn choose(&mut self, train: &Train, latest: &Snapshot) {
        for (at, stage) in train.stages.iter().enumerate() {
            let Some(count) = stage.first else { continue };
            let others = self.filter(train, at, stage.targets.clone());
            let later = train.stages[at + 1..].iter();
            let later = later.filter_map(|stage| self.stages.get(&stage.name));
            let theirs: BTreeSet<AssetId> = later.flat_map(|it| it.chosen.clone()).collect();
            let fits = others.find(latest).map(|asset| asset.id());
            let fits: Vec<AssetId> = fits.filter(|id| !theirs.contains(id)).collect();
            let chosen = &mut self.stage_mut(&stage.name).chosen;
            chosen.retain(|id| fits.binary_search(id).is_ok());
            for id in fits {
                if chosen.len() < count as usize {
                    chosen.insert(id);
                }
            }
        }
    }

    /// The assets of a stage. `None`: it has none.
    pub fn targets(&self, train: &Train, at: usize) -> Option<Filter> {
        let stage = &train.stages[at];
        Some(self.filter(train, at, self.named_by(stage)?))
    }

    /// The assets that a stage names. `None`: it has chosen none.
    fn named_by(&self, stage: &Stage) -> Option<Filter> {
        if stage.first.is_none() {
            return Some(stage.targets.clone());
        }
        let chosen = &self.stages.get(&stage.name)?.chosen;
        // A filter of no ids matches every asset.
        (!chosen.is_empty()).then(|| Filter::ids(chosen.iter().cloned()))
    }

    /// The assets that match `targets` and belong to no stage before this one.
    fn filter(&self, train: &Train, at: usize, targets: Filter) -> Filter {
        let before = train.stages[..at].iter();
        let before = before.filter_map(|stage| self.named_by(stage));
        before.fold(targets, Filter::except)
    }

    /// Decides about every stage, after each event. A new run of a stage is begun, and one that leaves is taken back, once the
    /// record is durable.
    pub fn decide(&mut self, train: &Train, now: Timestamp) {
        for at in 0..train.stages.len() {
            self.leave(train, at);
            if let Ok(version) = self.next(train, at, now) {
                let (no, stage) = (version.no, train.stages[at].name.as_str());
                if let Some(version) = self.version_mut(no) {
                    version.facts(stage).arrived = Some(now);
                }
                self.stage_mut(stage).runs = Some(Run {
                    version: no,
                    number: None,
                    leaves: None,
                });
            }
        }
        self.forget(train);
    }

    /// A run has the number `number` among the changes of its stage. Nothing happens if the stage has another run now.
    pub fn number(&mut self, stage: &str, run: &Run, number: u64) {
        let now = &mut self.stage_mut(stage).runs;
        if let Some(now) = now.as_mut().filter(|now| now.is(run)) {
            now.number = Some(number);
        }
    }

    /// The time that each stage took for its newest ripe version, from its arrival on.
    pub fn times(&self) -> BTreeMap<String, Duration> {
        let mut times = BTreeMap::new();
        for (stage, facts) in self.versions.iter().flat_map(|it| &it.stages) {
            if let (Some(arrived), Some(ripe)) = (facts.arrived, facts.ripe) {
                let took = Duration::try_from(ripe.duration_since(arrived));
                times.insert(stage.clone(), took.unwrap_or_default());
            }
        }
        times
    }

    /// The version of a run has failed in its stage, before the run is taken back. Nothing happens if the stage has another run
    /// now.
    pub fn failed(&mut self, stage: &str, run: &Run, why: &str, now: Timestamp) {
        let is_run = self.run(stage).is_some_and(|now| now.is(run));
        if let Some(version) = self.version_mut(run.version).filter(|_| is_run) {
            let failed = || Failed {
                at: now,
                why: why.to_owned(),
            };
            version.facts(stage).failed.get_or_insert_with(failed);
        }
    }

    /// A run is over. Nothing happens if the stage has another run now.
    pub fn ended(&mut self, stage: &str, run: &Run, outcome: Outcome, now: Timestamp) {
        let state = self.stage_mut(stage);
        let Some(run) = state.runs.take_if(|now| now.is(run)) else {
            return;
        };
        state.refused = match &outcome {
            Outcome::NotBegun(why) => Some(Refused {
                version: run.version,
                why: why.clone(),
                again: now + AGAIN,
            }),
            _ => None,
        };
        let Some(version) = self.version_mut(run.version) else {
            return;
        };
        let facts = version.facts(stage);
        match outcome {
            Outcome::Completed => facts.ripe = Some(now),
            Outcome::RolledBack(_) if planted(Bug::RipeWhenBack) => facts.ripe = Some(now),
            Outcome::RolledBack(why) => facts.failed = Some(Failed { at: now, why }),
            Outcome::NotBegun(_) => facts.arrived = None,
            Outcome::Left => {}
        }
    }

    /// Marks a run that leaves its stage, because its version was abandoned or a hotfix displaces it.
    fn leave(&mut self, train: &Train, at: usize) {
        let stage = &train.stages[at].name;
        let Some(run) = self.run(stage).filter(|run| run.leaves.is_none()) else {
            return;
        };
        let version = self.version(run.version);
        let abandoned = version.and_then(|it| it.abandoned.as_ref());
        let why = match abandoned {
            Some(by) => Some(format!("abandoned by {by}")),
            None => self
                .hotfix(train, at)
                .map(|it| format!("displaced by the hotfix {}", it.value)),
        };
        if let (Some(why), Some(run)) = (why, &mut self.stage_mut(stage).runs) {
            run.leaves = Some(why);
        }
    }

    /// The hotfix that enters this stage and has not been there.
    fn hotfix(&self, train: &Train, at: usize) -> Option<&Version> {
        let stage = &train.stages[at];
        let is_held = self
            .stages
            .get(&stage.name)
            .is_some_and(|it| it.held.is_some());
        let newer = self
            .newer(&stage.name)
            .find(|it| self.may_enter(train, at, it));
        newer.filter(|it| !is_held && it.enters.as_ref() == Some(&stage.name))
    }

    /// The version that enters a stage now, or the reason why none does.
    ///
    /// # Errors
    /// The reason why no version enters it.
    pub fn next(&self, train: &Train, at: usize, now: Timestamp) -> Result<&Version, Idle> {
        let stage = &train.stages[at];
        let state = self.stages.get(&stage.name);
        if state.is_some_and(|it| it.runs.is_some()) {
            return Err(Idle::Busy);
        }
        if let Some(by) = state.and_then(|it| it.held.as_ref()) {
            return Err(Idle::Held(by.to_string()));
        }
        let mut newer = self.newer(&stage.name);
        let next = newer.find(|version| self.may_enter(train, at, version));
        let next = next.ok_or(Idle::NothingNewer)?;
        if next.enters.as_ref() != Some(&stage.name) {
            is_open(stage, now)?;
        }
        match state.and_then(|it| it.refused.as_ref()) {
            Some(refused) if refused.version == next.no && now < refused.again => {
                return Err(Idle::Refused(refused.why.clone(), refused.again));
            }
            _ => {}
        }
        Ok(next)
    }

    /// The versions that are newer than the one of a stage, newest first.
    fn newer(&self, stage: &str) -> impl Iterator<Item = &Version> {
        let has = self.has(stage).unwrap_or_default();
        let newest = self.versions.iter().rev();
        newest.take_while(move |version| version.no > has)
    }

    fn may_enter(&self, train: &Train, at: usize, version: &Version) -> bool {
        version.held.is_none() && comes(train, at, version)
    }

    /// Forgets the versions that can enter no stage any more, however others end.
    fn forget(&mut self, train: &Train) {
        let stages = || train.stages.iter().enumerate();
        let ripe: Vec<VersionNo> = stages().map(|(_, stage)| self.ripe(&stage.name)).collect();
        let run = self.stages.values().filter_map(|it| it.runs.as_ref());
        let stay: BTreeSet<VersionNo> = run.map(|run| run.version).chain(ripe.clone()).collect();
        let shown = self.versions.len().saturating_sub(SHOWN);
        let mut spare = self.versions.len().saturating_sub(MOST);
        let mut place = 0;
        self.versions.retain(|version| {
            place += 1;
            let enters = |at: usize| version.no > ripe[at] && comes(train, at, version);
            let useful = place > shown || (0..ripe.len()).any(enters);
            let stays = stay.contains(&version.no) || (useful && spare == 0);
            spare = spare.saturating_sub(usize::from(!stays));
            stays
        });
    }

    pub(super) fn stage_mut(&mut self, stage: &str) -> &mut StageRecord {
        self.stages.entry(stage.to_owned()).or_default()
    }
}

/// Whether a version has come as far as to the gate of a stage, and has not failed on the way.
fn comes(train: &Train, at: usize, version: &Version) -> bool {
    let stage = &train.stages[at].name;
    let is_there = match &version.enters {
        Some(first) if first == stage => true,
        None if at == 0 => true,
        _ if planted(Bug::EntersUnripe) => true,
        _ => at > 0 && version.may_pass(&train.stages[at - 1].name),
    };
    let has_failed = |stage: &Stage| version.has_failed(&stage.name);
    is_there && version.abandoned.is_none() && !train.stages[..=at].iter().any(has_failed)
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("a version is rolled out"),
            Self::Held(by) => write!(f, "held by {by}"),
            Self::NothingNewer => f.write_str("no newer version is ripe in the stage before"),
            Self::Until(at) => write!(f, "opens at {at}"),
            Self::Refused(why, at) => write!(f, "cannot begin: {why}; tried again at {at}"),
            Self::NoCalendar(why) => write!(f, "its days are not known: {why}"),
        }
    }
}

fn is_open(stage: &Stage, now: Timestamp) -> Result<(), Idle> {
    match stage.opens(now) {
        Ok(opens) if opens > now => Err(Idle::Until(opens)),
        Ok(_) => Ok(()),
        Err(error) => Err(Idle::NoCalendar(error.to_string())),
    }
}
