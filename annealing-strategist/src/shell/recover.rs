//! Reads the stored data of rollouts, group by group.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use control_plane_runtime::Runtime;
use control_plane_store::{
    Store,
    incarnations::{self, Incarnations},
    record::{self, Record},
    records::GroupHead,
};
use plugin_sdk::{BoxError, Pin, PinStatus, SyncState};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, Message, rollout::RolloutPolicy};

use super::Strategist;
use crate::{
    group::{changed, governs, policy_of},
    kernel::{Heads, Recovered},
    record::{Quarantined, Rollout, State, TargetRecord, named as named_in},
};

/// One group with its stored data.
pub(super) struct Group {
    pub(super) recovered: Recovered,
    /// Whether the group's head was never stored and was derived from the pins of its assets.
    pub(super) adopted: bool,
}

/// All groups of the partition with their stored data.
pub(super) struct Remembered {
    pub(super) groups: Vec<Group>,
    pub(super) heads: Heads,
}

/// The stored data of all rollouts of the partition.
struct Memory {
    heads: Heads,
    newest: BTreeMap<AssetId, Rollout>,
    /// The records of targets, by group.
    rows: BTreeMap<AssetId, Vec<(AssetId, TargetRecord)>>,
    /// The group whose live rollout holds an asset, by asset.
    holders: BTreeMap<AssetId, AssetId>,
    /// The quarantined contents, by group.
    quarantine: BTreeMap<AssetId, Vec<(AssetId, Quarantined)>>,
}

/// An asset with a pin of its own, its pin status, and the group that it names.
struct PinState {
    asset: AssetId,
    pin_status: PinStatus,
    said: Option<AssetId>,
}

/// Reads the stored data of all groups.
pub(super) async fn remembered<R: Runtime>(
    strategist: &Strategist<R>,
    latest: &Incarnation,
    pins: &[(AssetId, PinStatus)],
) -> Result<Remembered, BoxError> {
    let memory = Memory::read(strategist, latest).await?;
    let all = [pins, &unenforced(strategist, latest, pins).await?].concat();
    let pinned = |(asset, pin_status): (AssetId, PinStatus)| PinState {
        said: latest.asset(&asset).as_ref().and_then(policy_of),
        asset,
        pin_status,
    };
    let pins: Vec<PinState> = all.into_iter().map(pinned).collect();
    let said = latest.snapshot().iter();
    let said = said.filter(|asset| asset.type_str() == RolloutPolicy::TYPE);
    let mut policies: BTreeSet<AssetId> = said.map(|asset| asset.id()).collect();
    policies.extend(memory.heads.keys().chain(memory.newest.keys()).cloned());
    let mut groups = Vec::new();
    for policy in policies {
        groups.push(memory.group(strategist, latest, &pins, policy).await?);
    }
    let heads = memory.heads;
    Ok(Remembered { groups, heads })
}

impl Memory {
    async fn read<R: Runtime>(
        strategist: &Strategist<R>,
        latest: &Incarnation,
    ) -> Result<Self, BoxError> {
        let mut kept_heads = BTreeMap::new();
        for (policy, head) in named(all::<R, GroupHead>(strategist).await?) {
            if let Some(head) = kept(&strategist.incarnations, head.incarnation).await? {
                kept_heads.insert(policy, head);
            }
        }
        let mut rows: BTreeMap<AssetId, Vec<_>> = BTreeMap::new();
        for (name, row) in all::<R, TargetRecord>(strategist).await? {
            if let Some(asset) = named_in(&row.policy, &name) {
                let ours = rows.entry(row.policy.clone()).or_default();
                ours.push((asset, row));
            }
        }
        let mut memory = Self {
            heads: Arc::new(kept_heads),
            newest: newest_by_group(strategist).await?,
            rows,
            holders: BTreeMap::new(),
            quarantine: failed_by_group(strategist).await?,
        };
        let rows = memory.rows.values().flatten();
        let held = rows.filter(|(id, row)| memory.holds(latest, id, row));
        let held = held.map(|(id, row)| (id.clone(), row.policy.clone()));
        memory.holders = held.collect();
        Ok(memory)
    }

    async fn group<R: Runtime>(
        &self,
        strategist: &Strategist<R>,
        latest: &Incarnation,
        pins: &[PinState],
        policy: AssetId,
    ) -> Result<Group, BoxError> {
        let rows = self.rows.get(&policy).cloned().unwrap_or_default();
        let written = self.heads.get(&policy).cloned();
        let pins = self.pins_of(&policy, written.as_ref(), latest, pins);
        let newest = self.newest.get(&policy).cloned();
        // A rollout in which all assets were new leaves pins, too: only a group that never had a rollout was adopted.
        let first = Group::first_pin(&pins).filter(|_| written.is_none() && newest.is_none());
        let adopted = match first {
            Some(no) => kept(&strategist.incarnations, no).await?,
            None => None,
        };
        let head = written.clone().or_else(|| adopted.clone());
        let behind = |rollout: &&Rollout| match rollout.state {
            State::Completed => head.as_ref().is_none_or(|head| head.no() < rollout.to),
            _ => !rollout.state.has_ended(),
        };
        let to = match newest.as_ref().filter(behind) {
            Some(rollout) => kept(&strategist.incarnations, rollout.to).await?,
            None => None,
        };
        let between = |before: Option<&Incarnation>, after: &Incarnation| {
            let mut all = changed(&policy, head.as_ref(), &self.heads, before, after);
            all.retain(|id| self.holder(id).is_none_or(|holder| *holder == policy));
            all
        };
        let rolling = to.as_ref().map(|to| between(head.as_ref(), to));
        let pending = between(to.as_ref().or(head.as_ref()), latest);
        let recovered = Recovered {
            latest: latest.clone(),
            newest,
            rolling: rolling.unwrap_or_default(),
            pending,
            to,
            rows,
            quarantine: self.failed_in(&policy).to_vec(),
            pins,
            head: head.clone(),
            heads: self.heads.clone(),
            policy,
        };
        Ok(Group {
            recovered,
            adopted: adopted.is_some(),
        })
    }
}

impl Memory {
    /// Whether a live rollout of the record's group holds the asset. An asset that an earlier rollout moved is held
    /// only while the group governs it.
    fn holds(&self, latest: &Incarnation, asset: &AssetId, row: &TargetRecord) -> bool {
        let (policy, newest) = (&row.policy, self.newest.get(&row.policy));
        let Some(live) = newest.filter(|newest| !newest.state.has_ended()) else {
            return false;
        };
        let governed = || governs(policy, self.heads.get(policy), &self.heads, latest, asset);
        row.rollout == live.id || governed()
    }

    /// Returns the group whose rollout holds an asset. `None`: no rollout holds it.
    fn holder(&self, asset: &AssetId) -> Option<&AssetId> {
        self.holders.get(asset)
    }

    /// Returns the quarantined contents of the group of `policy`.
    fn failed_in(&self, policy: &AssetId) -> &[(AssetId, Quarantined)] {
        self.quarantine.get(policy).map_or(&[], Vec::as_slice)
    }

    /// Returns those of `pins` that belong to the group of `policy`.
    fn pins_of(
        &self,
        policy: &AssetId,
        head: Option<&Incarnation>,
        latest: &Incarnation,
        pins: &[PinState],
    ) -> Vec<(AssetId, PinStatus)> {
        let failed = self.failed_in(policy).iter().map(|(id, _)| id);
        let failed: BTreeSet<&AssetId> = failed.collect();
        let ours = |pin: &&PinState| match (self.holder(&pin.asset), &pin.said) {
            (Some(holder), _) => holder == policy,
            (None, Some(said)) => said == policy,
            // A group that the asset has left holds it away from failed content. That group lets it go.
            (None, None) => {
                failed.contains(&pin.asset)
                    || governs(policy, head, &self.heads, latest, &pin.asset)
            }
        };
        let pins = pins.iter().filter(ours);
        pins.map(|pin| (pin.asset.clone(), pin.pin_status.clone()))
            .collect()
    }
}

/// Reads the pins of assets that are only modelled: enforcement does not report them.
async fn unenforced<R: Runtime>(
    strategist: &Strategist<R>,
    latest: &Incarnation,
    told: &[(AssetId, PinStatus)],
) -> Result<Vec<(AssetId, PinStatus)>, BoxError> {
    let told: BTreeSet<&AssetId> = told.iter().map(|(id, _)| id).collect();
    let mut at_hand = BTreeMap::new();
    let mut found = Vec::new();
    for (id, pin) in named(all::<R, Pin>(strategist).await?) {
        if told.contains(&id) {
            continue;
        }
        let mut pinned = None;
        if let Some(no) = pin.incarnation() {
            if let Entry::Vacant(unknown) = at_hand.entry(no) {
                unknown.insert(kept(&strategist.incarnations, no).await?);
            }
            let at = at_hand.get(&no).and_then(Option::as_ref);
            pinned = at.and_then(|at| at.asset(&id));
        }
        let known = latest.asset(&id).or_else(|| pinned.clone());
        if known.is_some_and(|asset| strategist.types.is_modelled_only(asset.type_str())) {
            let content = pinned.map(|asset| asset.digest());
            let since = strategist.runtime.now().wall;
            let state = SyncState::InSync { since };
            let pin_status = PinStatus {
                pin,
                content,
                state,
            };
            found.push((id, pin_status));
        }
    }
    Ok(found)
}

/// Loads an incarnation. `None`: retention has removed it.
pub(super) async fn kept(
    incarnations: &Incarnations<dyn Store>,
    no: IncarnationNo,
) -> Result<Option<Incarnation>, BoxError> {
    match incarnations.load(no).await {
        Ok(incarnation) => Ok(Some(incarnation)),
        Err(incarnations::Error::Unknown(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads the newest rollout of each group.
pub(super) async fn newest_by_group<R: Runtime>(
    strategist: &Strategist<R>,
) -> Result<BTreeMap<AssetId, Rollout>, BoxError> {
    let mut newest: BTreeMap<AssetId, Rollout> = BTreeMap::new();
    for (_, rollout) in all::<R, Rollout>(strategist).await? {
        let known = newest.get(&rollout.policy).map(|known| known.id);
        if known.is_none_or(|known| known < rollout.id) {
            newest.insert(rollout.policy.clone(), rollout);
        }
    }
    Ok(newest)
}

/// Reads the quarantined contents of each group, by asset.
pub(super) async fn failed_by_group<R: Runtime>(
    strategist: &Strategist<R>,
) -> Result<BTreeMap<AssetId, Vec<(AssetId, Quarantined)>>, BoxError> {
    let mut failed_in: BTreeMap<AssetId, Vec<_>> = BTreeMap::new();
    for (name, failed) in all::<R, Quarantined>(strategist).await? {
        if let Some(asset) = named_in(&failed.policy, &name) {
            let ours = failed_in.entry(failed.policy.clone()).or_default();
            ours.push((asset, failed));
        }
    }
    Ok(failed_in)
}

async fn all<R: Runtime, T: Record>(
    strategist: &Strategist<R>,
) -> Result<Vec<(String, T)>, BoxError> {
    let all = record::load_all::<T>(&*strategist.store, &strategist.partition).await?;
    let values = all.into_iter().map(|(name, stored)| (name, stored.value));
    Ok(values.collect())
}

fn named<T>(all: Vec<(String, T)>) -> Vec<(AssetId, T)> {
    all.into_iter()
        .filter_map(|(name, value)| Some((AssetId::new(&name).ok()?, value)))
        .collect()
}
