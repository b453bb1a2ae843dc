//! The stored data of watches. Operators are shown the same data.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::Record;
use prodspec_model::{AssetId, Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

/// The state of one watch, stored as `watch/{partition}/{asset}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchRecord {
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

impl Record for WatchRecord {
    const KIND: &'static str = "watch";
}

impl WatchRecord {
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
    /// The record of the watch.
    pub record: &'a WatchRecord,
    /// The records of assets. `None`: delete the record.
    pub assets: Vec<(AssetId, Option<&'a WatchedRecord>)>,
}

impl<'a> Changed<'a> {
    pub(super) fn new(
        record: &'a WatchRecord,
        ids: BTreeSet<AssetId>,
        assets: &'a BTreeMap<AssetId, WatchedRecord>,
    ) -> Self {
        let row = |id| {
            let row = assets.get(&id);
            (id, row)
        };
        Self {
            record,
            assets: ids.into_iter().map(row).collect(),
        }
    }
}

/// Number of changes by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchCounts {
    /// Runs that started.
    pub started: u64,
    /// Changes that executions of the watch made themselves.
    pub own: u64,
    /// Changes that a later one joined, or took back, before they were handled.
    pub coalesced: u64,
}

/// What a watch knows of one asset, stored as `watched/{partition}/{watch} {asset}` while it matters.
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
    /// Changes that executions of the watch committed, and that no incarnation has shown yet.
    #[serde(default)]
    pub made: Vec<Made>,
    /// Whether the condition of a watch on status has had its run, and is not over.
    #[serde(default)]
    pub fired: bool,
}

impl Record for WatchedRecord {
    const KIND: &'static str = "watched";
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

/// A change that an execution of the watch committed to a source of truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Digest of the selected content that the edit was made on.
    pub before: Option<Digest>,
    /// Digest of the selected content that the edit leads to.
    pub after: Option<Digest>,
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

    /// Takes the edits that lead from `before` to `after` off the list. Returns whether there are such.
    pub(super) fn made_itself(&mut self, before: Option<Digest>, after: Option<Digest>) -> bool {
        // Contents that are `before`, or were made of it. What others made of them meanwhile came and went.
        let mut known = vec![before];
        let mut last = None;
        for (nth, made) in self.made.iter().enumerate() {
            if known.contains(&made.before) {
                known.push(made.after);
                last = (made.after == after).then_some(nth).or(last);
            }
        }
        if let Some(last) = last {
            self.made.drain(..=last);
        }
        last.is_some()
    }
}
