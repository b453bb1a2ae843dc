//! The stored data of watches. Operators are shown the same data.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::Record;
use jiff::Timestamp;
use prodspec_model::{AssetId, Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

use super::wanted::Wanted;
use crate::record::Paused;

/// The state of one watch, stored as `workflow-watch/{partition}/{asset}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchRecord {
    /// The content of the asset that was seen last. It stays in force if the asset leaves intent.
    pub wanted: Wanted,
    /// How far it has come.
    #[serde(flatten)]
    pub progress: Progress,
    /// Whether conditions that hold when they are told for the first time start nothing: they were there before the watch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_fresh: bool,
    /// Set while an operator, or the limit of chains of causes, has paused the watch. `None`: runs start.
    #[serde(default)]
    pub paused: Option<Paused>,
    /// Time at which the asset left intent. The watch goes on with what it wanted last, until a person acknowledges that
    /// it is gone. `None`: it is in intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan: Option<Timestamp>,
}

impl Record for WatchRecord {
    const KIND: &'static str = "workflow-watch";
}

/// How far a watch has come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The incarnation whose changes were taken last, for a watch on intent. Retention spares it.
    #[serde(default)]
    pub handled: IncarnationNo,
    /// Number of the next run.
    #[serde(default)]
    pub next_run: u64,
    /// Number of changes by what became of them.
    #[serde(default)]
    pub counts: WatchCounts,
}

impl Progress {
    /// Counts a run, and returns its number.
    pub(super) fn start(&mut self) -> u64 {
        let run = self.next_run;
        self.next_run += 1;
        self.counts.started += 1;
        run
    }
}

/// Records to store in one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed<'a> {
    /// How far the watch has come.
    pub progress: &'a Progress,
    /// The records of assets. `None`: delete the record.
    pub assets: Vec<(AssetId, Option<&'a WatchedRecord>)>,
}

impl<'a> Changed<'a> {
    pub(super) fn new(
        progress: &'a Progress,
        ids: BTreeSet<AssetId>,
        assets: &'a BTreeMap<AssetId, WatchedRecord>,
    ) -> Self {
        let row = |id| {
            let row = assets.get(&id);
            (id, row)
        };
        Self {
            progress,
            assets: ids.into_iter().map(row).collect(),
        }
    }
}

/// Number of changes by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchCounts {
    /// Number of runs that were started since the watch exists.
    pub started: u64,
    /// Changes that executions of the watch made themselves.
    pub own: u64,
    /// Changes that a later one joined, or took back, before they were handled.
    pub coalesced: u64,
}

/// What a watch knows of one asset, stored as `workflow-watched/{partition}/{watch} {asset}` while it
/// matters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchedRecord {
    /// The content that the newest run was started for, or that was there before the first change. `None`: nothing has
    /// changed yet.
    #[serde(default)]
    pub handled: Option<Content>,
    /// The newest content, if a run has to start for it. `None`: it is handled.
    #[serde(default)]
    pub pending: Option<Pending>,
    /// The runs that are live, by their numbers.
    #[serde(default)]
    pub running: Vec<u64>,
    /// The executions and watches that led to the change that waits, the nearest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// Changes that executions committed, and that no incarnation has shown yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<Made>,
    /// Whether a live run is being cancelled for newer content. Then no content counts as handled before the next run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    /// Whether the condition of a watch on status has had its run, and is not over.
    #[serde(default)]
    pub fired: bool,
}

impl Record for WatchedRecord {
    const KIND: &'static str = "workflow-watched";
}

/// The selected content of an asset, and an incarnation that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Digest of the selected content. `None`: the watch does not select the asset.
    pub digest: Option<Digest>,
    /// The incarnation in which it is found. Retention spares it.
    pub at: IncarnationNo,
}

/// A change that waits for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The newest content of the asset.
    pub content: Content,
    /// The incarnation of the first change that is not handled. The oldest starts first.
    pub since: IncarnationNo,
}

/// A change that an execution committed to a source of truth.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Made {
    /// Digest of the selected content that the edit was made on.
    pub before: Option<Digest>,
    /// Digest of the selected content that the edit leads to.
    pub after: Option<Digest>,
    /// Whether an execution of this watch made it.
    pub own: bool,
    /// The executions and watches that led to it, the one that made it last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// The newest incarnation when it was made. The one after the next has it, if the next has not.
    pub at: IncarnationNo,
}

impl WatchedRecord {
    /// Whether there is nothing to remember about the asset.
    pub(super) fn is_idle(&self) -> bool {
        *self
            == Self {
                handled: self.handled,
                ..Self::default()
            }
    }

    /// The incarnation since which a change waits for a run.
    pub(super) fn waits_since(&self) -> Option<IncarnationNo> {
        self.pending.map(|pending| pending.since)
    }

    /// The name of the record of an asset of a watch. Ids have no spaces.
    pub fn name(watch: &AssetId, asset: &AssetId) -> String {
        format!("{watch} {asset}")
    }

    /// Takes the edits off the list that lead from `before` to `after`, with all that are older. Returns those that lead
    /// there, without those by which content came and went on the way. Empty: another change is among it.
    pub(super) fn take_made(&mut self, before: Option<Digest>, after: Option<Digest>) -> Vec<Made> {
        // Contents that are `before`, or were made of it. What others made of them meanwhile came and went.
        let mut known = vec![before];
        let (mut reached, mut last) = (Vec::new(), None);
        for (nth, made) in self.made.iter().enumerate() {
            if known.contains(&made.before) {
                known.push(made.after);
                reached.push(nth);
                last = (made.after == after).then_some(nth).or(last);
            }
        }
        let Some(last) = last else {
            return Vec::new();
        };
        let way = self.way_back(&reached, before, after);
        let taken = self.made.drain(..=last).enumerate();
        taken
            .filter(|(nth, _)| way.contains(nth))
            .map(|(_, made)| made)
            .collect()
    }

    /// Which of the edits `reached` lead from `before` to `after`, the newest first.
    fn way_back(
        &self,
        reached: &[usize],
        before: Option<Digest>,
        after: Option<Digest>,
    ) -> Vec<usize> {
        let (mut way, mut at) = (Vec::<usize>::new(), after);
        for nth in reached.iter().rev() {
            let made = &self.made[*nth];
            if made.after != at {
                continue;
            }
            way.push(*nth);
            at = made.before;
            if at == before {
                break;
            }
            // An edit that was found already led to this content again.
            if let Some(again) = way.iter().position(|nth| self.made[*nth].after == at) {
                way.truncate(again);
            }
        }
        way
    }
}
