//! Restores a kernel from stored records, so that it continues where the last one stopped, at whatever step that was.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
};

use control_plane_runtime::Steady;
use plugin_sdk::{AssetTypes, GroupHead, Now, RolloutId};
use prodspec_model::{Asset, AssetId, Incarnation};

use super::{
    Effects, Kernel, Record, Recovered, Step, Taken,
    join::edited,
    state::{group::Group, past::Past, pending::Pending, pins::Pins, quarantine::Quarantine},
};
use crate::{
    config::Config,
    record::{Rollout, State, TargetRecord},
};

impl Kernel {
    /// Creates a kernel that takes over from stored data.
    pub fn recover(
        now: Now,
        config: Config,
        types: Arc<AssetTypes>,
        mut recovered: Recovered,
        out: &mut Effects,
    ) -> Self {
        let mut kernel = Self::at_rest(now, config, types, &mut recovered);
        kernel.group.set_line(recovered.line);
        if let Some(asset) = recovered.newest.as_ref().and_then(went_by) {
            kernel.group.recall_policy(asset);
        }
        let rows: BTreeMap<_, _> = recovered.rows.into_iter().collect();
        let own = recovered.newest.as_ref().map(|newest| newest.id);
        kernel.late.extend(late(&rows, own));
        let known: Vec<AssetId> = rows.keys().cloned().collect();
        match (recovered.newest, recovered.to) {
            (Some(rollout), Some(to)) if !rollout.state.has_ended() => {
                kernel.pending.set(recovered.rolling);
                let contents = with_newer(&to, rollout.id, &rows, &recovered.newer);
                kernel.revive(now, rollout, to, contents, rows, out);
                kernel.pending.set(recovered.pending.clone());
                kernel.take_in(now, &recovered.pending, out);
            }
            (newest, to) => {
                if let Some(newest) = newest {
                    kernel.past.keep(newest);
                }
                kernel.arrive(to, out);
                kernel.pending.set(recovered.pending);
                kernel.tidy_up(rows, out);
            }
        }
        kernel.let_others_go(out);
        // Assets that the group turns out not to hold were kept from other groups until now.
        let gone = known.into_iter().filter(|asset| !kernel.has(asset));
        out.released.extend(gone);
        kernel.go_on(now, out);
        kernel.remember_time(now, out);
        kernel
    }

    /// Creates the kernel without its rollouts.
    fn at_rest(
        now: Now,
        config: Config,
        types: Arc<AssetTypes>,
        recovered: &mut Recovered,
    ) -> Self {
        let policy = recovered.policy.clone();
        let (latest, head) = (recovered.latest.clone(), recovered.head.take());
        let mut group = Group::new(policy.clone(), latest, head, recovered.heads.clone());
        if let Some(sealed) = recovered.sealed.take() {
            group.see(sealed);
        }
        Self {
            config,
            types,
            clock: Steady::new(now),
            quarantine: Quarantine::new(policy, take(&mut recovered.quarantine)),
            group,
            pins: Pins::new(take(&mut recovered.pins)),
            pending: Pending::new(),
            live: None,
            past: Past::new(recovered.newest.as_ref().map(|it| it.id)),
            ties: take(&mut recovered.ties),
            late: take(&mut recovered.late),
            taken: Taken::new(),
            wanted: BTreeSet::new(),
            not_now: Vec::new(),
            asked_apart: false,
            expected: take(&mut recovered.expected),
            has_changes: recovered.has_changes,
            is_change: recovered.is_change,
            calls: 0,
        }
    }

    /// Moves the head if the step that completed the rollout was only partly made.
    fn arrive(&mut self, to: Option<Incarnation>, out: &mut Effects) {
        let completed = |last: &Rollout| last.state == State::Completed;
        let behind = |to: &Incarnation| self.group.head().is_none_or(|head| head.no() < to.no());
        if let Some(to) = to.filter(behind)
            && self.past.last().is_some_and(completed)
        {
            let to = GroupHead::At(to);
            self.group.move_head(to.clone());
            out.steps.push(Step {
                head: Some(to),
                ..Step::default()
            });
        }
    }

    /// Removes records that an incomplete step has left: no rollout holds these assets any more, and some follow the
    /// head.
    fn tidy_up(&mut self, rows: BTreeMap<AssetId, TargetRecord>, out: &mut Effects) {
        let mut step = Step::default();
        for asset in rows.into_keys() {
            step.records.push(Record::Target(asset.clone(), None));
            self.pending.add([asset]);
        }
        if let Some(head) = self.group.head().cloned() {
            self.drop_pins(&head, &mut step);
        }
        out.steps.push(step);
    }
}

/// Returns the policy that a rollout goes by although an edit has removed it.
fn went_by(rollout: &Rollout) -> Option<Asset> {
    Asset::try_from(rollout.removed_policy.as_deref()?).ok()
}

/// Returns the targets that came later than the incarnation of the rollout `own`. In a rollout that took over from it they
/// are targets as any other.
fn late(
    rows: &BTreeMap<AssetId, TargetRecord>,
    own: Option<RolloutId>,
) -> impl Iterator<Item = AssetId> {
    let late = rows
        .iter()
        .filter(move |(_, row)| row.to.is_some() && Some(row.rollout) == own);
    late.map(|(id, _)| id.clone())
}

/// Returns the contents of the targets of the rollout `id` to the incarnation `to`: those that came later are pinned at
/// `newer` incarnations.
fn with_newer(
    to: &Incarnation,
    id: RolloutId,
    rows: &BTreeMap<AssetId, TargetRecord>,
    newer: &[Incarnation],
) -> Incarnation {
    let came = rows.iter().filter(|(_, row)| row.rollout == id);
    let came = came.filter_map(|(asset, row)| {
        let there = newer.iter().find(|it| Some(it.no()) == row.to)?;
        there.asset(asset)
    });
    let came: Vec<Asset> = came.collect();
    match came.is_empty() {
        true => to.clone(),
        false => edited(to, to.no(), came, &[]),
    }
}
