//! The stored data of a policy group, from which a kernel takes over.

use std::collections::BTreeSet;

use plugin_sdk::{GroupHead, Standing};
use prodspec_model::{AssetId, Incarnation};

use crate::{
    group::Heads,
    line::StoppedLine,
    record::{Quarantined, Rollout, TargetRecord},
};

/// All stored data of a policy group.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The policy asset that names the group.
    pub policy: AssetId,
    /// The newest incarnation that the group has taken in.
    pub latest: Incarnation,
    /// The newest incarnation in force, if the group of a stage of a train has not taken it in. `None`: it has.
    pub sealed: Option<Incarnation>,
    /// The head of the group. `None`: no rollout has completed.
    pub head: Option<GroupHead<Incarnation>>,
    /// The heads of all policy groups of the partition.
    pub heads: Heads,
    /// The group's newest rollout. `None`: it never had one.
    pub newest: Option<Rollout>,
    /// The incarnation of that rollout, if it is live, or completed without the head having moved.
    pub to: Option<Incarnation>,
    /// The incarnations at which that rollout has pinned assets that came later.
    pub newer: Vec<Incarnation>,
    /// The group's assets that differ between the head and the incarnation of that rollout.
    pub rolling: Vec<AssetId>,
    /// The group's assets that differ between that incarnation, or the head, and the newest incarnation.
    pub pending: Vec<AssetId>,
    /// The stored records of the group's targets.
    pub rows: Vec<(AssetId, TargetRecord)>,
    /// The quarantined contents, by asset.
    pub quarantine: Vec<(AssetId, Quarantined)>,
    /// The group's assets with a pin of their own.
    pub pins: Vec<(AssetId, Standing)>,
    /// Assets that move together, beside those that edges tie.
    pub ties: Vec<Vec<AssetId>>,
    /// Assets that came while that rollout was live.
    pub late: BTreeSet<AssetId>,
    /// Assets that have come and may join that rollout.
    pub expected: BTreeSet<AssetId>,
    /// Set while the line is stopped.
    pub line: Option<StoppedLine>,
    /// Whether changes are live on assets of the group.
    pub has_changes: bool,
    /// Whether this is the rollout of a change: assets that are only modelled are waited for, too, and a target that leaves is no
    /// target any more.
    pub is_change: bool,
}

impl Recovered {
    /// Creates the data of a group that was never rolled out. All its assets are `pending`.
    pub fn nothing(policy: AssetId, latest: Incarnation, pending: Vec<AssetId>) -> Self {
        Self {
            policy,
            latest,
            sealed: None,
            head: None,
            heads: Heads::default(),
            newest: None,
            to: None,
            newer: Vec::new(),
            rolling: Vec::new(),
            pending,
            rows: Vec::new(),
            quarantine: Vec::new(),
            pins: Vec::new(),
            ties: Vec::new(),
            late: BTreeSet::new(),
            expected: BTreeSet::new(),
            line: None,
            has_changes: false,
            is_change: false,
        }
    }
}
