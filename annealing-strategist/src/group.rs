//! Which policy group an asset belongs to.

use prodspec_model::{Asset, AssetId, Incarnation, addons::RolloutPolicyRef};

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
