//! The durable state of a train.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use control_plane_store::Record;
use jiff::Timestamp;
use plugin_sdk::By;
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Number of a version within its train, by the order of offering, from 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct VersionNo(pub u64);

impl fmt::Display for VersionNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}", self.0)
    }
}

/// The durable state of a train: its versions, and the runs of its stages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrainRecord {
    /// The versions, oldest first, at most 300. Those that can enter no stage any more are forgotten, but for the newest 20.
    pub versions: Vec<Version>,
    /// The states of the stages, by their names.
    pub stages: BTreeMap<String, StageRecord>,
    /// The number of the newest version.
    pub newest: VersionNo,
    /// The version that intent offered last.
    #[serde(default)]
    pub offered: Option<Value>,
}

impl Record for TrainRecord {
    const KIND: &'static str = "train";
}

/// A version of a train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Version {
    /// Its number in the order of offering.
    pub no: VersionNo,
    /// The value of the field that carries it.
    pub value: Value,
    /// Time at which it was offered.
    pub at: Timestamp,
    /// The person who offered it. `None`: it was offered by intent.
    pub by: Option<By>,
    /// The stage that it enters first, as a hotfix. `None`: the first stage.
    pub enters: Option<String>,
    /// A person holds it: it enters no further stage.
    pub held: Option<By>,
    /// A person has abandoned it: it enters no further stage, and leaves those where it is not ripe.
    pub abandoned: Option<By>,
    /// The facts about it, by the name of the stage.
    pub stages: BTreeMap<String, Facts>,
}

/// The facts about a version in a stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Facts {
    /// Time at which it entered the stage last.
    pub arrived: Option<Timestamp>,
    /// Time since which it is ripe: its rollout to the stage is completed.
    pub ripe: Option<Timestamp>,
    /// Its rollout to the stage was taken back.
    pub failed: Option<Failed>,
    /// A person lets it count as ripe for the next stage.
    pub skipped: Option<By>,
}

/// The failure of a version in a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// Time at which its rollout had gone back.
    pub at: Timestamp,
    /// The reason in words, for operators.
    pub why: String,
}

/// The state of a stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageRecord {
    /// The rollout under way. `None`: the stage is free.
    pub runs: Option<Run>,
    /// A person holds the stage: no version enters it.
    pub held: Option<By>,
    /// The assets that were chosen, for a stage of the first few ones.
    #[serde(default)]
    pub chosen: BTreeSet<AssetId>,
    /// The last rollout that could not begin. `None`: the last one has begun.
    #[serde(default)]
    pub refused: Option<Refused>,
}

/// A rollout to a stage that could not begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Refused {
    /// Number of the version that was to enter.
    pub version: VersionNo,
    /// The reason in words, for operators.
    pub why: String,
    /// Time at which it is tried again. A newer version is tried at once.
    pub again: Timestamp,
}

/// A version that is rolled out to a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// Number of the version that is rolled out.
    pub version: VersionNo,
    /// The number of the change among those of the stage; in a train of heads, that of the incarnation. `None`: it was not given
    /// one yet.
    pub number: Option<u64>,
    /// The reason for which the version leaves the stage again, although it has not failed. `None`: it stays.
    pub leaves: Option<String>,
}

impl TrainRecord {
    /// The version with this number.
    pub fn version(&self, no: VersionNo) -> Option<&Version> {
        let at = self.versions.binary_search_by_key(&no, |it| it.no).ok()?;
        self.versions.get(at)
    }

    pub(super) fn version_mut(&mut self, no: VersionNo) -> Option<&mut Version> {
        let at = self.versions.binary_search_by_key(&no, |it| it.no).ok()?;
        self.versions.get_mut(at)
    }

    /// The rollout under way in a stage.
    pub fn run(&self, stage: &str) -> Option<&Run> {
        self.stages.get(stage)?.runs.as_ref()
    }

    /// The version that a stage has: the one that is rolled out there, or else the newest one that is ripe there.
    pub fn has(&self, stage: &str) -> Option<VersionNo> {
        let run = self.run(stage).map(|run| run.version);
        let ripe = || Some(self.ripe(stage)).filter(|no| *no != VersionNo::default());
        run.or_else(ripe)
    }

    /// The newest version that is ripe in a stage; 0 if none is.
    pub(super) fn ripe(&self, stage: &str) -> VersionNo {
        let mut newest = self.versions.iter().rev();
        let ripe = newest.find(|it| it.is_ripe(stage));
        ripe.map(|it| it.no).unwrap_or_default()
    }
}

impl Run {
    /// Whether this is the run `other`, whatever was decided about it since.
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.version, self.number) == (other.version, other.number)
    }
}

impl Version {
    pub(super) fn is_ripe(&self, stage: &str) -> bool {
        self.stages.get(stage).is_some_and(|it| it.ripe.is_some())
    }

    /// Whether the stage after this one may take it.
    pub(super) fn may_pass(&self, stage: &str) -> bool {
        let facts = self.stages.get(stage);
        facts.is_some_and(|it| it.ripe.is_some() || it.skipped.is_some())
    }

    pub(super) fn has_failed(&self, stage: &str) -> bool {
        self.stages.get(stage).is_some_and(|it| it.failed.is_some())
    }

    pub(super) fn facts(&mut self, stage: &str) -> &mut Facts {
        self.stages.entry(stage.to_owned()).or_default()
    }
}
