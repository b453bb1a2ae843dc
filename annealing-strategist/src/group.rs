//! Finds the policy group that an asset belongs to.

use std::{collections::BTreeMap, sync::Arc};

use prodspec_model::{Asset, AssetId, Change, Incarnation, addons::RolloutPolicyRef};

/// Returns the policy asset that `asset` names as its rollout policy. `None`: it names none.
pub(crate) fn policy_of(asset: &Asset) -> Option<AssetId> {
    let addon = asset.addon::<RolloutPolicyRef>().ok().flatten();
    addon.map(|addon| addon.policy.id)
}

/// Returns the assets of the group of `policy` in the incarnation `at`, sorted by id.
pub(crate) fn members(policy: &AssetId, at: &Incarnation) -> Vec<AssetId> {
    let mut all = at.snapshot().referrers(policy.as_str());
    all.retain(|id| at.asset(id).as_ref().and_then(policy_of).as_ref() == Some(policy));
    all
}

/// The heads of all policy groups of a partition, by policy asset. Shared because they change rarely.
pub type Heads = Arc<BTreeMap<AssetId, Incarnation>>;

/// R17: whether the group of `policy` governs `asset` as of the incarnation `newest`.
///
/// It does if the asset names this policy there. If the asset names no policy there, the group governs it when the
/// asset names this policy at the group's `head`. If several groups qualify by their heads, the one with the newest
/// head governs.
pub(crate) fn governs(
    policy: &AssetId,
    head: Option<&Incarnation>,
    all: &Heads,
    newest: &Incarnation,
    asset: &AssetId,
) -> bool {
    let named_at = |of: &Incarnation| of.asset(asset).as_ref().and_then(policy_of);
    if let Some(named) = named_at(newest) {
        return named == *policy;
    }
    let Some(head) = head.filter(|head| named_at(head).as_ref() == Some(policy)) else {
        return false;
    };
    let mut newer = all.iter().filter(|(_, other)| other.no() > head.no());
    newer.all(|(other, at)| other == policy || named_at(at).as_ref() != Some(other))
}

/// Returns a group other than that of `policy` at whose head `asset` names that group's policy.
pub(crate) fn headed_by(all: &Heads, policy: &AssetId, asset: &AssetId) -> Option<AssetId> {
    let named_at = |of: &Incarnation| of.asset(asset).as_ref().and_then(policy_of);
    let mut heads = all.iter().filter(|(other, _)| *other != policy);
    let found = heads.find(|(policy, at)| named_at(at).as_ref() == Some(*policy));
    found.map(|(policy, _)| policy.clone())
}

/// Returns the assets of the group that differ between two incarnations. Without `before`: all its assets.
pub(crate) fn changed(
    policy: &AssetId,
    head: Option<&Incarnation>,
    all: &Heads,
    before: Option<&Incarnation>,
    after: &Incarnation,
) -> Vec<AssetId> {
    let Some(before) = before else {
        return members(policy, after);
    };
    let ours = |change: &Change| {
        let was = change.before.as_ref().and_then(policy_of);
        was.as_ref() == Some(policy) || governs(policy, head, all, after, &change.id())
    };
    let changes = before.snapshot().diff(after.snapshot()).into_iter();
    changes.filter(ours).map(|change| change.id()).collect()
}
