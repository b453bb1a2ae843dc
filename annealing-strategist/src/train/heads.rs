//! Trains of heads: their stages are policy groups, and their versions incarnations.

use std::collections::BTreeSet;

use prodspec_model::{
    Asset, AssetId, Change, Incarnation, IncarnationId, Message, Snapshot, addons::Turndown,
    snapshot::OfType, train::Train,
};

use super::record::{TrainRecord, Version};
use crate::group::policy_of;

/// The trains of heads in intent.
#[derive(Debug, Clone)]
pub(crate) struct Carried {
    trains: OfType<Train>,
    /// The policies of all stages.
    policies: BTreeSet<AssetId>,
}

impl Default for Carried {
    fn default() -> Self {
        Self {
            trains: OfType::new(&[Train::TYPE], of_heads),
            policies: BTreeSet::new(),
        }
    }
}

impl Carried {
    /// The trains of an incarnation.
    pub(crate) fn of(latest: &Incarnation) -> Self {
        let mut carried = Self::default();
        carried.trains = carried.trains.all_of(latest.snapshot());
        carried.count();
        carried
    }

    /// Takes in the changes to a newer incarnation.
    pub(crate) fn change(&mut self, changes: &[Change]) {
        if self.trains.change(changes) {
            self.count();
        }
    }

    fn count(&mut self) {
        let policies = self.stages().map(|(_, _, policy)| policy.clone());
        self.policies = policies.collect();
    }

    /// Whether the group of `policy` is a stage of a train.
    pub(crate) fn has(&self, policy: &AssetId) -> bool {
        self.policies.contains(policy)
    }

    /// The stages of all trains: the train, the name of the stage, and its policy.
    pub(crate) fn stages(&self) -> impl Iterator<Item = (&AssetId, &str, &AssetId)> {
        self.trains.iter().flat_map(|(train, it)| {
            let stages = it.stages.iter();
            stages.map(move |stage| (train, stage.name.as_str(), &stage.policy.id))
        })
    }
}

fn of_heads(asset: Asset) -> Option<Train> {
    let stays = asset.addon::<Turndown>().ok()?.is_none();
    let train = asset.payload::<Train>().ok()?;
    (stays && train.carries_heads()).then_some(train)
}

impl Version {
    /// The incarnation that the version is. `None`: it is a value of a field.
    pub fn head(&self) -> Option<IncarnationId> {
        self.value.as_str()?.parse().ok()
    }
}

impl TrainRecord {
    /// The incarnation that was let into a stage last: its group rolls out no newer one. `None`: none was.
    pub fn let_in(&self, stage: &str) -> Option<IncarnationId> {
        let run = self.run(stage).filter(|run| run.number.is_some());
        let no = run.map_or_else(|| self.ripe(stage), |run| run.version);
        self.version(no)?.head()
    }
}

/// Whether `latest` changes an asset of a train's groups, so that it is a version of the train.
/// `before`: the version that was offered last.
pub fn is_version(train: &Train, before: &Snapshot, latest: &Snapshot) -> bool {
    let policies: BTreeSet<&AssetId> = train.stages.iter().map(|it| &it.policy.id).collect();
    let concerns = |asset: &Asset| policy_of(asset).is_some_and(|it| policies.contains(&it));
    let mut changes = before.diff(latest).into_iter();
    changes.any(|it| it.before.iter().chain(&it.after).any(concerns))
}
