//! Finds the policy group that governs an asset, and the assets that a group may have, from the changes since the
//! oldest head. Asking every group about every asset would cost the product of both.

use std::collections::{BTreeMap, BTreeSet};

use prodspec_model::{AssetId, Change, Incarnation};

use crate::{
    group::{examined, policy_of},
    kernel::Heads,
};

/// The policies that assets named between the oldest head and the newest incarnation.
pub(super) struct Membership {
    heads: Heads,
    /// The policies that an asset named before or after one of its changes, by asset.
    policies: BTreeMap<AssetId, BTreeSet<AssetId>>,
    /// The same by policy.
    assets: BTreeMap<AssetId, BTreeSet<AssetId>>,
}

impl Membership {
    /// Creates a membership to which no changes were added.
    pub(super) fn new(heads: Heads) -> Self {
        Self {
            heads,
            policies: BTreeMap::new(),
            assets: BTreeMap::new(),
        }
    }

    /// Adds the changes from one incarnation to a newer one. A membership is complete when it has the changes of each
    /// step from the oldest head to the newest incarnation.
    pub(super) fn add(&mut self, changes: Vec<Change>) {
        examined(changes.len());
        for change in changes {
            for asset in change.before.into_iter().chain(change.after) {
                let Some(policy) = policy_of(&asset) else {
                    continue;
                };
                let id = asset.id();
                let assets = self.assets.entry(policy.clone()).or_default();
                assets.insert(id.clone());
                self.policies.entry(id).or_default().insert(policy);
            }
        }
    }

    /// R17: returns the group that governs an asset as of the incarnation `at`, by the rule of
    /// [`governs`](crate::group::governs). `None`: no group does.
    pub(super) fn governor(&self, at: &Incarnation, asset: &AssetId) -> Option<AssetId> {
        let named_at = |of: &Incarnation| of.asset(asset).as_ref().and_then(policy_of);
        named_at(at).or_else(|| {
            // An asset that names a policy at a head, and none at `at`, has changed between the two.
            let policies = self.policies.get(asset).into_iter().flatten();
            let heads = policies
                .filter_map(|policy| Some((policy, self.heads.get(policy)?.incarnation()?)));
            let own = heads.filter(|(policy, head)| named_at(head).as_ref() == Some(policy));
            let newest = own.max_by_key(|(_, head)| head.no());
            newest.map(|(policy, _)| policy.clone())
        })
    }

    /// Returns the assets that named `policy` before or after one of their changes, sorted by id.
    pub(super) fn named(&self, policy: &AssetId) -> BTreeSet<AssetId> {
        self.assets.get(policy).cloned().unwrap_or_default()
    }
}
