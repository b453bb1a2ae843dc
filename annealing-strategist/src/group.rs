//! Finds the policy group that an asset belongs to.

use std::{collections::BTreeMap, sync::Arc};

use plugin_sdk::GroupHead;
use prodspec_model::{Asset, AssetId, Incarnation, addons::RolloutPolicyRef};

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
pub type Heads = Arc<BTreeMap<AssetId, GroupHead<Incarnation>>>;

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
    let mut newer = fixed(all).filter(|(_, other)| other.no() > head.no());
    newer.all(|(other, at)| other == policy || named_at(at).as_ref() != Some(other))
}

/// Returns the heads that are incarnations. An asset that names no policy in the newest incarnation does not name one at
/// a head that is the newest incarnation.
fn fixed(all: &Heads) -> impl Iterator<Item = (&AssetId, &Incarnation)> {
    let heads = all.iter();
    heads.filter_map(|(policy, head)| Some((policy, head.incarnation()?)))
}

/// Returns a group other than that of `policy` at whose head `asset` names that group's policy.
pub(crate) fn headed_by(all: &Heads, policy: &AssetId, asset: &AssetId) -> Option<AssetId> {
    let named_at = |of: &Incarnation| of.asset(asset).as_ref().and_then(policy_of);
    let mut heads = fixed(all).filter(|(other, _)| *other != policy);
    let found = heads.find(|(policy, at)| named_at(at).as_ref() == Some(*policy));
    found.map(|(policy, _)| policy.clone())
}

#[cfg(test)]
thread_local! {
    /// The number of changes, pins and news of heads that recoveries on this thread have examined.
    pub(crate) static EXAMINED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts changes, pins and news of heads that a recovery examines, for tests of its cost.
pub(crate) fn examined(many: usize) {
    #[cfg(test)]
    EXAMINED.set(EXAMINED.get() + many);
    let _ = many;
}
