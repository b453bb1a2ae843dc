//! Reads the records of rollouts from the store.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use control_plane_runtime::Runtime;
use control_plane_store::{
    Store,
    incarnations::{self, Incarnations},
    record::{self, Record, Rewrites},
};
use plugin_sdk::{BoxError, GroupHead, Holder, Pin, Standing, SyncState};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use crate::{
    change::{RollOutRecord, RollOutTarget, Stored, is_key},
    line::StoppedLine,
    record::{Quarantined, Rollout, TargetRecord, named as named_in},
    shell::Strategist,
    train::{Carried, TrainRecord},
};

/// Reads the heads of groups, as far as retention has kept their incarnations.
pub(super) async fn heads_by_group<R: Runtime>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
) -> Result<BTreeMap<AssetId, GroupHead<Incarnation>>, BoxError> {
    let mut heads = BTreeMap::new();
    for (policy, head) in named(all::<R, GroupHead>(strategist, rewrites).await?) {
        let head = match head {
            GroupHead::At(no) => kept(&strategist.incarnations, no).await?.map(GroupHead::At),
            GroupHead::Latest => Some(GroupHead::Latest),
            GroupHead::Unknown => Some(GroupHead::Unknown),
        };
        heads.extend(head.map(|head| (policy, head)));
    }
    Ok(heads)
}

/// Reads the incarnations that trains of heads have let into their stages, by the policies of the stages, and the policies of the
/// stages into which a train that has versions has let nothing.
pub(super) async fn let_in<R: Runtime>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
    carried: &Carried,
) -> Result<(BTreeMap<AssetId, Incarnation>, BTreeSet<AssetId>), BoxError> {
    let (mut found, mut waits) = (BTreeMap::new(), BTreeSet::new());
    if carried.stages().next().is_none() {
        return Ok((found, waits));
    }
    let records = named(all::<R, TrainRecord>(strategist, rewrites).await?);
    let records: BTreeMap<AssetId, TrainRecord> = records.into_iter().collect();
    for (train, stage, policy) in carried.stages() {
        let Some(record) = records.get(train).filter(|it| !it.versions.is_empty()) else {
            continue;
        };
        match record.let_in(stage) {
            Some(id) => {
                let incarnation = kept(&strategist.incarnations, id.no).await?;
                found.extend(incarnation.map(|it| (policy.clone(), it)));
            }
            None => drop(waits.insert(policy.clone())),
        }
    }
    Ok((found, waits))
}

/// Reads whether the line is stopped.
pub(super) async fn line<R: Runtime>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
) -> Result<Option<StoppedLine>, BoxError> {
    let mut all = all::<R, StoppedLine>(strategist, rewrites).await?;
    Ok(all.pop().map(|(_, line)| line))
}

/// Reads the records of targets of each group, by asset.
async fn rows_by_group<R: Runtime>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
) -> Result<BTreeMap<AssetId, Vec<(AssetId, TargetRecord)>>, BoxError> {
    let mut rows: BTreeMap<AssetId, Vec<_>> = BTreeMap::new();
    for (name, row) in all::<R, TargetRecord>(strategist, rewrites).await? {
        if let Some(asset) = named_in(&row.policy, &name) {
            let ours = rows.entry(row.policy.clone()).or_default();
            ours.push((asset, row));
        }
    }
    Ok(rows)
}

/// The records of the rollouts of groups, by group.
pub(super) struct OfGroups {
    /// The newest rollouts.
    pub(super) newest: BTreeMap<AssetId, Rollout>,
    /// The records of targets.
    pub(super) rows: BTreeMap<AssetId, Vec<(AssetId, TargetRecord)>>,
    /// The quarantined contents.
    pub(super) quarantine: BTreeMap<AssetId, Vec<(AssetId, Quarantined)>>,
}

impl OfGroups {
    async fn read<R: Runtime>(
        strategist: &Strategist<R>,
        rewrites: &Rewrites,
        newest: BTreeMap<AssetId, Rollout>,
    ) -> Result<Self, BoxError> {
        Ok(Self {
            newest,
            rows: rows_by_group(strategist, rewrites).await?,
            quarantine: failed_by_group(strategist, rewrites).await?,
        })
    }
}

/// A change that has ended.
pub(in crate::shell) struct Over {
    pub(in crate::shell) key: AssetId,
    /// It may still hold fields.
    pub(in crate::shell) holder: Holder,
    /// The targets whose records are still there.
    pub(in crate::shell) targets: Vec<AssetId>,
}

/// Reads the records of all rollouts: those of groups, the changes that are live, and the changes that have ended.
pub(super) async fn rollouts<R: Runtime>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
) -> Result<(OfGroups, Vec<Stored>, Vec<Over>), BoxError> {
    let newest = newest_by_group(strategist, rewrites).await?;
    // Each change has a rollout for ever.
    if !newest.keys().any(is_key) {
        let all = OfGroups::read(strategist, rewrites, newest).await?;
        return Ok((all, Vec::new(), Vec::new()));
    }
    let mut known = begun(strategist, rewrites).await?;
    loop {
        let newest = newest_by_group(strategist, rewrites).await?;
        let mut all = OfGroups::read(strategist, rewrites, newest).await?;
        let (live, over) = changes(strategist, rewrites, known.clone(), &mut all).await?;
        // One that began meanwhile must not be taken for one that has ended.
        let now = begun(strategist, rewrites).await?;
        if now == known {
            return Ok((all, live, over));
        }
        known = now;
    }
}

/// Reads the changes that have begun, the newest one of each name.
async fn begun<R: Runtime>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
) -> Result<Vec<(AssetId, RollOutRecord)>, BoxError> {
    Ok(named(all::<R, RollOutRecord>(strategist, rewrites).await?))
}

/// Finds which of the changes `begun` are live, and which have ended, and takes the data of all changes out of that of the
/// groups.
async fn changes<R: Runtime>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
    begun: Vec<(AssetId, RollOutRecord)>,
    of_groups: &mut OfGroups,
) -> Result<(Vec<Stored>, Vec<Over>), BoxError> {
    let mut targets: BTreeMap<AssetId, Vec<_>> = BTreeMap::new();
    for (name, target) in all::<R, RollOutTarget>(strategist, rewrites).await? {
        if let Some(asset) = named_in(&target.key, &name) {
            let ours = targets.entry(target.key.clone()).or_default();
            ours.push((asset, target));
        }
    }
    let (mut live, mut over) = (Vec::new(), Vec::new());
    for (key, record) in begun {
        let rollout = of_groups.newest.remove(&key);
        let rows = of_groups.rows.remove(&key);
        let failed = of_groups.quarantine.remove(&key);
        let rollout = rollout.filter(|rollout| !rollout.state.has_ended());
        let mut targets = targets.remove(&key).unwrap_or_default();
        targets.sort_by(|(one, _), (other, _)| one.cmp(other));
        match rollout {
            Some(rollout) => live.push(Stored {
                // The records of targets that have left may not be deleted yet, nor those of some that came with the values
                // before a handover.
                targets: targets
                    .into_iter()
                    .filter(|(asset, _)| !record.beside.contains(asset))
                    .filter(|(_, target)| !target.late_in.is_some_and(|it| record.is_over(it)))
                    .collect(),
                record,
                rollout,
                rows: rows.unwrap_or_default(),
                quarantine: failed.unwrap_or_default(),
            }),
            None => over.push(Over {
                holder: record.holder(&key),
                targets: targets.into_iter().map(|(asset, _)| asset).collect(),
                key,
            }),
        }
    }
    Ok((live, over))
}

/// Reads the pins of assets that are only modelled: enforcement does not report them.
pub(super) async fn unenforced<R: Runtime>(
    strategist: &Strategist<R>,
    latest: &Incarnation,
    told: &[(AssetId, Standing)],
    rewrites: &Rewrites,
) -> Result<Vec<(AssetId, Standing)>, BoxError> {
    let told: BTreeSet<&AssetId> = told.iter().map(|(id, _)| id).collect();
    let mut at_hand = BTreeMap::new();
    let mut found = Vec::new();
    for (id, pin) in named(all::<R, Pin>(strategist, rewrites).await?) {
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
            found.push((id, Standing::at(pin, content, state)));
        }
    }
    Ok(found)
}

/// Loads an incarnation. `None`: retention has removed it.
pub(in crate::shell) async fn kept(
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
async fn newest_by_group<R: Runtime>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
) -> Result<BTreeMap<AssetId, Rollout>, BoxError> {
    let mut newest: BTreeMap<AssetId, Rollout> = BTreeMap::new();
    for (_, rollout) in all::<R, Rollout>(strategist, rewrites).await? {
        let known = newest.get(&rollout.policy).map(|known| known.id);
        if known.is_none_or(|known| known < rollout.id) {
            newest.insert(rollout.policy.clone(), rollout);
        }
    }
    Ok(newest)
}

/// Reads the quarantined contents of each group, by asset.
async fn failed_by_group<R: Runtime>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
) -> Result<BTreeMap<AssetId, Vec<(AssetId, Quarantined)>>, BoxError> {
    let mut failed_in: BTreeMap<AssetId, Vec<_>> = BTreeMap::new();
    for (name, failed) in all::<R, Quarantined>(strategist, rewrites).await? {
        if let Some(asset) = named_in(&failed.policy, &name) {
            let ours = failed_in.entry(failed.policy.clone()).or_default();
            ours.push((asset, failed));
        }
    }
    Ok(failed_in)
}

async fn all<R: Runtime, T: Record>(
    strategist: &Strategist<R>,
    rewrites: &Rewrites,
) -> Result<Vec<(String, T)>, BoxError> {
    let all = record::load_all::<T>(&*strategist.store, &strategist.partition).await?;
    let noted = |(name, stored): (String, record::Stored<T>)| {
        rewrites.note(&strategist.partition, &name, &stored);
        (name, stored.value)
    };
    Ok(all.into_iter().map(noted).collect())
}

fn named<T>(all: Vec<(String, T)>) -> Vec<(AssetId, T)> {
    all.into_iter()
        .filter_map(|(name, value)| Some((AssetId::new(&name).ok()?, value)))
        .collect()
}
