//! Composes the stored data of each group.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use control_plane_runtime::Runtime;
use control_plane_store::record::Rewrites;
use plugin_sdk::{BoxError, GroupHead, Standing};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, Message, rollout::RolloutPolicy};

use super::{
    Group,
    membership::Membership,
    others_run,
    records::{OfGroups, Over, heads_by_group, kept, let_in, rollouts},
};
use crate::{
    change::Stored,
    group::{examined, members, policy_of},
    kernel::{Heads, Recovered},
    record::{Quarantined, Rollout, State, TargetRecord},
    shell::Strategist,
    train::Carried,
};

/// The stored data of all rollouts of the partition.
pub(super) struct Memory {
    latest: Incarnation,
    heads: Heads,
    newest: BTreeMap<AssetId, Rollout>,
    /// The incarnations of rollouts that are live, or completed without the head having moved, by group.
    to: BTreeMap<AssetId, Incarnation>,
    /// The incarnations at which rollouts that are live have pinned assets that came later.
    newer: Vec<Incarnation>,
    /// The records of targets, by group.
    rows: BTreeMap<AssetId, Vec<(AssetId, TargetRecord)>>,
    /// The group whose live rollout holds an asset, by asset.
    holders: BTreeMap<AssetId, AssetId>,
    /// The groups that are stages of trains of heads.
    carried: Carried,
    /// The incarnations that trains have let into their stages, by group.
    let_in: BTreeMap<AssetId, Incarnation>,
    /// The groups into which a train that has versions has let nothing yet.
    waits: BTreeSet<AssetId>,
    /// The quarantined contents, by group.
    quarantine: BTreeMap<AssetId, Vec<(AssetId, Quarantined)>>,
    /// The groups that quarantine a content of an asset, by asset.
    failed_in: BTreeMap<AssetId, BTreeSet<AssetId>>,
    membership: Membership,
}

impl Memory {
    /// Reads the data of groups, that of the changes that are live, and the changes that have ended.
    pub(super) async fn read<R: Runtime>(
        strategist: &Strategist<R>,
        latest: &Incarnation,
        rewrites: &Rewrites,
    ) -> Result<(Self, Vec<Stored>, Vec<Over>), BoxError> {
        let heads = Arc::new(heads_by_group(strategist, rewrites).await?);
        let (all, changes, over) = rollouts(strategist, rewrites).await?;
        let OfGroups {
            newest,
            rows,
            quarantine,
        } = all;
        let mut failed_in: BTreeMap<AssetId, BTreeSet<AssetId>> = BTreeMap::new();
        for (policy, failed) in &quarantine {
            for (asset, _) in failed {
                let groups = failed_in.entry(asset.clone()).or_default();
                groups.insert(policy.clone());
            }
        }
        let carried = Carried::of(latest);
        let (let_in, waits) = let_in(strategist, rewrites, &carried).await?;
        let mut memory = Self {
            latest: latest.clone(),
            let_in,
            waits,
            carried,
            heads: heads.clone(),
            newest,
            to: BTreeMap::new(),
            newer: Vec::new(),
            rows,
            holders: BTreeMap::new(),
            quarantine,
            failed_in,
            membership: Membership::new(heads),
        };
        memory.read_rolling(strategist).await?;
        memory.compare().await;
        memory.find_holders();
        Ok((memory, changes, over))
    }

    /// Loads the incarnations of rollouts that the heads of their groups have not reached, and those of assets that came
    /// later.
    async fn read_rolling<R: Runtime>(
        &mut self,
        strategist: &Strategist<R>,
    ) -> Result<(), BoxError> {
        for (policy, rollout) in &self.newest {
            let behind = match (&rollout.state, self.heads.get(policy)) {
                (State::Completed, Some(GroupHead::At(head))) => head.no() < rollout.to,
                (State::Completed, head) => head.is_none(),
                (state, _) => !state.has_ended(),
            };
            if behind && let Some(to) = kept(&strategist.incarnations, rollout.to).await? {
                self.to.insert(policy.clone(), to);
            }
        }
        let rows = self.rows.values().flatten();
        let all: BTreeSet<IncarnationNo> = rows.filter_map(|(_, row)| row.to).collect();
        for no in all {
            self.newer.extend(kept(&strategist.incarnations, no).await?);
        }
        Ok(())
    }

    /// Compares the incarnations that groups are at, from each to the next. Other tasks run between two of them.
    async fn compare(&mut self) {
        let heads = self.heads.values().filter_map(GroupHead::incarnation);
        let all = heads.chain(self.to.values()).chain(self.let_in.values());
        let all: Vec<Incarnation> = all.chain([&self.latest]).cloned().collect();
        for changes in Incarnation::changes_step_by_step(all) {
            self.membership.add(changes);
            others_run().await;
        }
    }

    /// Finds which live rollout holds which asset. An asset that an earlier rollout moved is held only while the group
    /// governs it.
    fn find_holders(&mut self) {
        let rows = self.rows.values().flatten();
        let holds = |(asset, row): &&(AssetId, TargetRecord)| {
            let live = self.newest.get(&row.policy);
            let live = live.filter(|newest| !newest.state.has_ended());
            let governor = || self.membership.governor(&self.latest, asset);
            live.is_some_and(|live| {
                row.rollout == live.id || governor().as_ref() == Some(&row.policy)
            })
        };
        let held = rows.filter(holds);
        let holders = held.map(|(asset, row)| (asset.clone(), row.policy.clone()));
        self.holders = holders.collect();
    }

    /// The heads of all groups that have one.
    pub(super) fn heads(&self) -> Heads {
        self.heads.clone()
    }

    /// The groups that are stages of trains of heads.
    pub(super) fn carried(&self) -> Carried {
        self.carried.clone()
    }

    /// Returns the policy assets of all groups, in the newest incarnation or on record.
    pub(super) fn policies(&self) -> BTreeSet<AssetId> {
        let all = self.latest.snapshot().iter();
        let all = all.filter(|asset| asset.type_str() == RolloutPolicy::TYPE);
        let mut policies: BTreeSet<AssetId> = all.map(|asset| asset.id()).collect();
        policies.extend(self.heads.keys().chain(self.newest.keys()).cloned());
        policies
    }

    /// Sorts pins by the groups that they belong to.
    pub(super) fn pins_by_group(
        &self,
        pins: Vec<(AssetId, Standing)>,
    ) -> BTreeMap<AssetId, Vec<(AssetId, Standing)>> {
        examined(pins.len());
        let mut sorted: BTreeMap<AssetId, Vec<_>> = BTreeMap::new();
        for (asset, standing) in pins {
            for policy in self.groups_of(&asset) {
                let ours = sorted.entry(policy).or_default();
                ours.push((asset.clone(), standing.clone()));
            }
        }
        sorted
    }

    /// Returns the groups to which the pin of an asset belongs.
    fn groups_of(&self, asset: &AssetId) -> BTreeSet<AssetId> {
        if let Some(holder) = self.holders.get(asset) {
            return [holder.clone()].into();
        }
        let governor = self.membership.governor(&self.latest, asset);
        let named = self.latest.asset(asset).as_ref().and_then(policy_of);
        let failed = match named {
            // A group that the asset has left holds it away from failed content. That group lets it go.
            None => self.failed_in.get(asset).cloned(),
            Some(_) => None,
        };
        failed.into_iter().flatten().chain(governor).collect()
    }

    /// Composes the data of the group of `policy`, to which `pins` belong.
    pub(super) async fn group<R: Runtime>(
        &self,
        strategist: &Strategist<R>,
        pins: Vec<(AssetId, Standing)>,
        policy: AssetId,
    ) -> Result<Group, BoxError> {
        let written = self.heads.get(&policy);
        let newest = self.newest.get(&policy).cloned();
        // A rollout in which all assets were new leaves pins, too: only a group that never had a rollout was adopted.
        let first = Group::first_pin(&pins).filter(|_| written.is_none() && newest.is_none());
        let adopted = match first {
            Some(no) => kept(&strategist.incarnations, no).await?,
            None => None,
        };
        let head = written
            .cloned()
            .or_else(|| adopted.clone().map(GroupHead::At));
        let to = self.to.get(&policy);
        let latest = self.newest_of(&policy, head.as_ref());
        let at = head
            .as_ref()
            .map(|head| head.incarnation().unwrap_or(&latest));
        let candidates = match &adopted {
            None => self.membership.named(&policy),
            // The changes since an adopted head may not be in the membership.
            Some(adopted) => [adopted, &latest]
                .into_iter()
                .flat_map(|at| members(&policy, at))
                .collect(),
        };
        examined(candidates.len());
        let between = |before, after: &_| self.between(&policy, &candidates, before, after);
        let rolling = to.map(|to| between(at, to));
        let is_carried = self.carried.has(&policy);
        let waits = is_carried && at.is_none() && self.waits.contains(&policy);
        let pending = match waits {
            true => Vec::new(),
            false => between(to.or(at), &latest),
        };
        let recovered = Recovered {
            newest,
            rolling: rolling.unwrap_or_default(),
            to: to.cloned(),
            newer: to.map(|_| self.newer.clone()).unwrap_or_default(),
            rows: self.rows.get(&policy).cloned().unwrap_or_default(),
            quarantine: self.quarantine.get(&policy).cloned().unwrap_or_default(),
            pins,
            head,
            heads: self.heads.clone(),
            sealed: is_carried.then(|| self.latest.clone()),
            ..Recovered::nothing(policy, latest, pending)
        };
        Ok(Group {
            recovered,
            adopted: adopted.is_some(),
        })
    }

    /// Returns the newest incarnation that the group of `policy`, which has this head, has taken in. That of a stage of a train is
    /// the one that was let in, and not older than those that the group is at.
    fn newest_of(&self, policy: &AssetId, head: Option<&GroupHead<Incarnation>>) -> Incarnation {
        let all = self.let_in.get(policy).into_iter();
        let all = all
            .chain(head.and_then(GroupHead::incarnation))
            .chain(self.to.get(policy));
        let newest = all.max_by_key(|it| it.no());
        // One that was updated by edits until now has followed the newest.
        let follows = matches!(head, Some(GroupHead::Latest));
        let newest = newest.filter(|_| self.carried.has(policy) && !follows);
        newest.unwrap_or(&self.latest).clone()
    }

    /// Returns the assets of the group that differ between two incarnations, without those that another group's rollout holds.
    fn between(
        &self,
        policy: &AssetId,
        candidates: &BTreeSet<AssetId>,
        before: Option<&Incarnation>,
        after: &Incarnation,
    ) -> Vec<AssetId> {
        let mut all = match before {
            None => members(policy, after),
            Some(before) => self.changed(policy, candidates, before, after),
        };
        all.retain(|id| self.holders.get(id).is_none_or(|holder| holder == policy));
        all
    }

    /// Returns those of `candidates` that belong to the group and differ between two incarnations.
    fn changed(
        &self,
        policy: &AssetId,
        candidates: &BTreeSet<AssetId>,
        before: &Incarnation,
        after: &Incarnation,
    ) -> Vec<AssetId> {
        let changed = |id: &&AssetId| {
            let (was, is) = (before.asset(id), after.asset(id));
            let differs = was.as_ref().map(|it| it.digest()) != is.map(|it| it.digest());
            let named = || was.as_ref().and_then(policy_of);
            let governor = || self.membership.governor(after, id);
            differs && (named().as_ref() == Some(policy) || governor().as_ref() == Some(policy))
        };
        candidates.iter().filter(changed).cloned().collect()
    }
}
