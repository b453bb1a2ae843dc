//! Reads what is remembered of rollouts, group by group.

use std::collections::{BTreeMap, BTreeSet};

use plane_runtime::Runtime;
use plane_store::{
    incarnations,
    record::{self, Record},
    records::{GroupHead, Standing},
};
use plugin_sdk::BoxError;
use prodspec_model::{AssetId, Incarnation, IncarnationNo, Message, rollout::RolloutPolicy};

use super::Strategist;
use crate::{
    group::{changed, governs},
    kernel::Recovered,
    record::{Quarantined, Rollout, State, TargetRecord},
};

/// One group as it was left.
pub(super) struct Group {
    pub(super) recovered: Recovered,
    /// Its head was never written down: the assets' pins tell it.
    pub(super) adopted: bool,
}

/// Everything that is remembered of the partition's rollouts.
struct Memory {
    heads: BTreeMap<AssetId, IncarnationNo>,
    newest: BTreeMap<AssetId, Rollout>,
    rows: BTreeMap<AssetId, TargetRecord>,
    quarantine: Vec<(AssetId, Quarantined)>,
}

/// Reads it all.
pub(super) async fn remembered<R: Runtime>(
    strategist: &Strategist<R>,
    latest: &Incarnation,
    pins: &[(AssetId, Standing)],
) -> Result<Vec<Group>, BoxError> {
    let memory = Memory::read(strategist).await?;
    let said = latest.snapshot().iter();
    let said = said.filter(|asset| asset.type_str() == RolloutPolicy::TYPE);
    let mut policies: BTreeSet<AssetId> = said.map(|asset| asset.id()).collect();
    policies.extend(memory.heads.keys().chain(memory.newest.keys()).cloned());
    let mut groups = Vec::new();
    for policy in policies {
        groups.push(memory.group(strategist, latest, pins, policy).await?);
    }
    Ok(groups)
}

impl Memory {
    async fn read<R: Runtime>(strategist: &Strategist<R>) -> Result<Self, BoxError> {
        let heads = all::<R, GroupHead>(strategist).await?.into_iter();
        let mut newest: BTreeMap<AssetId, Rollout> = BTreeMap::new();
        for (_, rollout) in all::<R, Rollout>(strategist).await? {
            let known = newest.get(&rollout.policy).map(|known| known.id);
            if known.is_none_or(|known| known < rollout.id) {
                newest.insert(rollout.policy.clone(), rollout);
            }
        }
        let head =
            |(name, head): (String, GroupHead)| Some((AssetId::new(&name).ok()?, head.incarnation));
        Ok(Self {
            heads: heads.filter_map(head).collect(),
            newest,
            rows: named(all::<R, TargetRecord>(strategist).await?)
                .into_iter()
                .collect(),
            quarantine: named(all::<R, Quarantined>(strategist).await?),
        })
    }

    async fn group<R: Runtime>(
        &self,
        strategist: &Strategist<R>,
        latest: &Incarnation,
        pins: &[(AssetId, Standing)],
        policy: AssetId,
    ) -> Result<Group, BoxError> {
        let rows = self.rows.iter().filter(|(_, row)| row.policy == policy);
        let rows = rows.map(|(id, row)| (id.clone(), row.clone())).collect();
        let holder = |id: &AssetId| self.rows.get(id).map(|row| &row.policy);
        let written = match self.heads.get(&policy) {
            Some(no) => kept(strategist, *no).await?,
            None => None,
        };
        let ours = |id: &AssetId| match holder(id) {
            Some(holder) => *holder == policy,
            None => governs(&policy, written.as_ref(), latest, id),
        };
        let pins = pins.iter().filter(|(id, _)| ours(id));
        let pins: Vec<_> = pins.cloned().collect();
        let newest = self.newest.get(&policy).cloned();
        // A rollout that brought everything anew leaves pins too: only a group that never had one was adopted.
        let first = Group::first_pin(&pins).filter(|_| written.is_none() && newest.is_none());
        let adopted = match first {
            Some(no) => kept(strategist, no).await?,
            None => None,
        };
        let head = written.clone().or_else(|| adopted.clone());
        let behind = |rollout: &&Rollout| match rollout.state {
            State::Completed => head.as_ref().is_none_or(|head| head.no() < rollout.to),
            _ => !rollout.state.has_ended(),
        };
        let to = match newest.as_ref().filter(behind) {
            Some(rollout) => kept(strategist, rollout.to).await?,
            None => None,
        };
        let between = |before: Option<&Incarnation>, after: &Incarnation| {
            changed(&policy, head.as_ref(), before, after)
        };
        let rolling = to.as_ref().map(|to| between(head.as_ref(), to));
        let pending = between(to.as_ref().or(head.as_ref()), latest);
        let quarantine = self.quarantine.iter();
        let quarantine = quarantine.filter(|(_, failed)| failed.policy == policy);
        let recovered = Recovered {
            latest: latest.clone(),
            newest,
            rolling: rolling.unwrap_or_default(),
            pending,
            to,
            rows,
            quarantine: quarantine.cloned().collect(),
            pins,
            head: head.clone(),
            policy,
        };
        Ok(Group {
            recovered,
            adopted: adopted.is_some(),
        })
    }
}

/// An incarnation that may have been removed.
async fn kept<R: Runtime>(
    strategist: &Strategist<R>,
    no: IncarnationNo,
) -> Result<Option<Incarnation>, BoxError> {
    match strategist.incarnations.load(no).await {
        Ok(incarnation) => Ok(Some(incarnation)),
        Err(incarnations::Error::Unknown(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
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
