//! The records of the former owner, from which a kernel is recovered.

use std::collections::BTreeMap;

use control_plane_store::records::{AssetRecord, Orphaned, Owned};
use plugin_sdk::Pin;
use prodspec_model::{Asset, AssetId, Incarnation, IncarnationNo};

use super::state::people::Interventions;

/// Everything that the store has on record about a partition.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The newest incarnation that was taken in. If none was: the newest one sealed.
    pub latest: Incarnation,
    /// The newest sealed incarnation, if it was not taken in yet.
    pub newer: Option<Incarnation>,
    /// Each asset of this incarnation without a record of its own was in sync with it. `None`: there is no such
    /// incarnation.
    pub floor: Option<Incarnation>,
    /// The records of single assets.
    pub assets: Vec<(AssetId, AssetRecord)>,
    /// The incarnations that these records name: of assets whose intent has changed since, and of open pushes.
    /// Incarnations that retention removed are missing.
    pub named: BTreeMap<IncarnationNo, Incarnation>,
    /// The total time for which the partition has been owned so far.
    pub owned: Owned,
    /// The orphans, each with the last incarnation that had it, if that is kept.
    pub orphans: Vec<(Orphaned, Option<Incarnation>)>,
    /// Assets that left intent while no process enforced the partition, each with the last incarnation that had it.
    pub gone: Vec<(Asset, Incarnation)>,
    /// The pins of assets that have one of their own.
    pub pins: Vec<(AssetId, Pin<Incarnation>)>,
    /// The heads of policy groups, by policy.
    pub heads: Vec<(AssetId, Incarnation)>,
    /// The commands of operators on record.
    pub interventions: Interventions,
}

impl Recovered {
    /// Returns the state of a partition that was never enforced.
    pub fn nothing(latest: Incarnation) -> Self {
        Self {
            latest,
            newer: None,
            floor: None,
            assets: Vec::new(),
            named: BTreeMap::new(),
            owned: Owned::default(),
            orphans: Vec::new(),
            gone: Vec::new(),
            pins: Vec::new(),
            heads: Vec::new(),
            interventions: Interventions::default(),
        }
    }
}
