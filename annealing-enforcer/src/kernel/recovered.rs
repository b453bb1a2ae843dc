//! The records of the former owner, from which a kernel is recovered.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::records::{AssetRecord, Orphaned, Owned};
use plugin_sdk::{GroupHead, Pin};
use prodspec_model::{Asset, AssetId, Incarnation, IncarnationNo, TypeName};

use super::state::people::Interventions;

/// Everything that the store has on record about a partition.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The newest incarnation that was taken in. If none was: the newest one sealed.
    pub latest: Incarnation,
    /// The newest sealed incarnation, if it was not taken in yet.
    pub newer: Option<Incarnation>,
    /// What is known of the assets without a record of their own. `None`: nothing.
    pub floor: Option<AtFloor>,
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
    pub heads: Vec<(AssetId, GroupHead<Incarnation>)>,
    /// The commands of operators on record.
    pub interventions: Interventions,
}

/// An incarnation with which all assets of certain types were in sync that have no record of their own.
#[derive(Debug, Clone)]
pub struct AtFloor {
    /// The incarnation with which they were in sync.
    pub incarnation: Incarnation,
    /// The types that had a plugin when this was recorded.
    pub types: BTreeSet<TypeName>,
}

impl AtFloor {
    /// Returns the asset as it was in sync, if it had a plugin.
    pub(super) fn asset(&self, id: &AssetId) -> Option<Asset> {
        self.incarnation.asset(id).filter(|asset| self.knows(asset))
    }

    /// Whether assets of the type of `asset` had a plugin.
    pub(super) fn knows(&self, asset: &Asset) -> bool {
        self.types
            .iter()
            .any(|name| name.as_str() == asset.type_str())
    }
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
