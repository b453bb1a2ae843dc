//! Which policy group an asset belongs to.

use std::{collections::BTreeMap, sync::Arc};

use prodspec_model::{Asset, AssetId, Change, Incarnation, addons::RolloutPolicyRef};

/// The policy asset that governs `asset`, as it says itself.
pub(crate) fn policy_of(asset: &Asset) -> Option<AssetId> {
    let addon = asset.addon::<RolloutPolicyRef>().ok().flatten();
    addon.map(|addon| addon.policy.id)
}

/// The assets that the group of `policy` has at `at`, sorted.
pub(crate) fn members(policy: &AssetId, at: &Incarnation) -> Vec<AssetId> {
    let mut all = at.snapshot().referrers(policy.as_str());
    all.retain(|id| at.asset(id).as_ref().and_then(policy_of).as_ref() == Some(policy));
    all
}

/// The heads of a partition's groups, by policy asset. Shared, for it changes seldom.
pub type Heads = Arc<BTreeMap<AssetId, Incarnation>>;

/// R17: whether the group of `policy` governs an asset, as of `newest`: there, or, where it names nobody, at the group's
/// head. Of several groups whose heads still name themselves, the newest head is right.
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

/// A group other than that of `policy` whose head still names itself for an asset.
pub(crate) fn headed_by(all: &Heads, policy: &AssetId, asset: &AssetId) -> Option<AssetId> {
    let named_at = |of: &Incarnation| of.asset(asset).as_ref().and_then(policy_of);
    let mut heads = all.iter().filter(|(other, _)| *other != policy);
    let found = heads.find(|(policy, at)| named_at(at).as_ref() == Some(*policy));
    found.map(|(policy, _)| policy.clone())
}

/// The group's assets that differ between two incarnations.
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
