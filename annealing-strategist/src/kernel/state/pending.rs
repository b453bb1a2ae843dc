//! Pending changes: what the next rollout has to look at, and whether something has changed that may begin it.

use std::collections::BTreeSet;

use prodspec_model::AssetId;

/// The changes that no rollout has taken up yet.
#[derive(Debug)]
pub(in crate::kernel) struct Pending {
    /// Assets that may differ between the group's head and the newest incarnation.
    assets: BTreeSet<AssetId>,
    /// Whether an asset has left the group and may still name it at the head.
    has_left: bool,
    /// Whether something has changed that may begin a rollout.
    look: bool,
    /// While no rollout is live: the assets that stay where they are because their intended content failed before.
    left_out: Vec<AssetId>,
}

impl Pending {
    /// Creates a state without known changes, in which a rollout may begin.
    pub(in crate::kernel) fn new() -> Self {
        Self {
            assets: BTreeSet::new(),
            has_left: false,
            look: true,
            left_out: Vec::new(),
        }
    }

    /// Asks for another look whether a rollout has to begin.
    pub(in crate::kernel) fn look(&mut self) {
        self.look = true;
    }

    /// Whether another look is asked for.
    pub(in crate::kernel) fn is_asked(&self) -> bool {
        self.look
    }

    /// Notes that the look is taken.
    pub(in crate::kernel) fn looked(&mut self) {
        self.look = false;
    }

    /// Adds assets that may differ between the group's head and the newest incarnation.
    pub(in crate::kernel) fn add(&mut self, assets: impl IntoIterator<Item = AssetId>) {
        self.assets.extend(assets);
    }

    /// Replaces these assets.
    pub(in crate::kernel) fn set(&mut self, assets: Vec<AssetId>) {
        self.assets = assets.into_iter().collect();
    }

    /// Notes that an asset has left the group. It may still name the group at the head.
    pub(in crate::kernel) fn left(&mut self, asset: &AssetId) {
        self.assets.remove(asset);
        self.has_left = true;
    }

    /// Notes that a rollout, or the head, has taken up all changes.
    pub(in crate::kernel) fn taken_up(&mut self) {
        self.assets.clear();
        self.has_left = false;
    }

    /// Returns the assets that may differ, sorted by id.
    pub(in crate::kernel) fn assets(&self) -> impl Iterator<Item = &AssetId> {
        self.assets.iter()
    }

    /// Whether no asset may differ.
    pub(in crate::kernel) fn has_no_assets(&self) -> bool {
        self.assets.is_empty()
    }

    /// Whether no asset may differ, and none has left the group.
    pub(in crate::kernel) fn is_nothing(&self) -> bool {
        self.assets.is_empty() && !self.has_left
    }

    /// Returns the assets that are left out while no rollout is live.
    pub(in crate::kernel) fn left_out(&self) -> &[AssetId] {
        &self.left_out
    }

    /// Sets the assets that are left out while no rollout is live.
    pub(in crate::kernel) fn leave_out(&mut self, assets: &[AssetId]) {
        self.left_out = assets.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::rig::id;

    #[test]
    fn r17_asset_that_left_is_pending_until_the_head_moves() {
        let mut pending = Pending::new();
        assert!(pending.is_nothing());
        pending.add([id("a")]);
        assert!(!pending.has_no_assets());
        pending.left(&id("a"));
        assert!(pending.has_no_assets() && !pending.is_nothing());
        pending.taken_up();
        assert!(pending.is_nothing());
    }

    #[test]
    fn r17_first_look_is_asked_for_by_itself() {
        let mut pending = Pending::new();
        assert!(pending.is_asked());
        pending.looked();
        assert!(!pending.is_asked());
        pending.look();
        assert!(pending.is_asked());
    }
}
