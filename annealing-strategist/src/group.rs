//! Which policy group an asset belongs to.

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

/// R17: whether the group of `policy` governs an asset, as of `newest`: there, or, where it says nothing, at the group's
/// head.
pub(crate) fn governs(
    policy: &AssetId,
    head: Option<&Incarnation>,
    newest: &Incarnation,
    asset: &AssetId,
) -> bool {
    let at = |of: &Incarnation| of.asset(asset).as_ref().and_then(policy_of);
    let said = at(newest).or_else(|| head.and_then(at));
    said.as_ref() == Some(policy)
}

/// The group's assets that differ between two incarnations.
pub(crate) fn changed(
    policy: &AssetId,
    head: Option<&Incarnation>,
    before: Option<&Incarnation>,
    after: &Incarnation,
) -> Vec<AssetId> {
    let Some(before) = before else {
        return members(policy, after);
    };
    let ours = |change: &Change| {
        let was = change.before.as_ref().and_then(policy_of);
        was.as_ref() == Some(policy) || governs(policy, head, after, &change.id())
    };
    let changes = before.snapshot().diff(after.snapshot()).into_iter();
    changes.filter(ours).map(|change| change.id()).collect()
}
