//! Restores a kernel from the durable state of the toy enforcer, as the shell does.

use std::collections::BTreeSet;

use plugin_sdk::Now;
use prodspec_model::{AssetId, Change, Incarnation};

use super::plane::Plane;
use crate::{
    config::Config,
    group::{governs, members, policy_of},
    kernel::{Effects, Kernel, Recovered},
    record::{Rollout, State},
};

/// Restores a kernel from the durable state, as the shell does.
pub(super) fn take_over(plane: &Plane, now: Now, config: &Config, out: &mut Effects) -> Kernel {
    let policy = plane.policy.clone();
    let head = plane.head();
    let newest = plane.newest().cloned();
    let behind = |rollout: &&Rollout| match rollout.state {
        State::Completed => match head {
            Some(head) => head.no() < rollout.to,
            None => plane.head.is_none(),
        },
        _ => !rollout.state.has_ended(),
    };
    let heads = plane.heads.clone();
    let live = newest.as_ref().filter(behind);
    let to = live.map(|rollout| plane.all[&rollout.to].clone());
    let between = |before: Option<&Incarnation>, after: &Incarnation| changed(plane, before, after);
    let ours = |asset: &AssetId| {
        plane.rows.contains_key(asset)
            || plane.quarantine.contains_key(asset)
            || governs(&policy, head, &heads, &plane.latest, asset)
    };
    let recovered = Recovered {
        sealed: None,
        ties: Vec::new(),
        late: BTreeSet::new(),
        newer: plane.all.values().cloned().collect(),
        expected: BTreeSet::new(),
        has_changes: false,
        line: plane.line.clone(),
        is_change: false,
        latest: plane.latest.clone(),
        head: plane.head.clone(),
        heads: heads.clone(),
        rolling: to.as_ref().map(|to| between(head, to)).unwrap_or_default(),
        pending: between(to.as_ref().or(head), &plane.latest),
        newest,
        to,
        rows: plane.rows.clone().into_iter().collect(),
        quarantine: plane.quarantine.clone().into_iter().collect(),
        pins: plane
            .all_pins()
            .into_iter()
            .filter(|(asset, _)| ours(asset))
            .collect(),
        policy: policy.clone(),
    };
    Kernel::recover(now, config.clone(), plane.types.clone(), recovered, out)
}

/// Returns the assets of the group that differ between two incarnations. Without `before`: all its assets.
fn changed(plane: &Plane, before: Option<&Incarnation>, after: &Incarnation) -> Vec<AssetId> {
    let Plane { policy, heads, .. } = plane;
    let head = plane.head();
    let Some(before) = before else {
        return members(policy, after);
    };
    let ours = |change: &Change| {
        let was = change.before.as_ref().and_then(policy_of);
        was.as_ref() == Some(policy) || governs(policy, head, heads, after, &change.id())
    };
    let changes = before.snapshot().diff(after.snapshot()).into_iter();
    changes.filter(ours).map(|change| change.id()).collect()
}
