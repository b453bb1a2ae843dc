//! Followed assets: those whose changes are reported, found by slot so that a change of any other asset costs one
//! look-up, and nothing while no asset is followed. Assets with a pin of their own are reported beside these.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::Standing;
use prodspec_model::AssetId;

use super::numbers::SlotNo;

/// The followed assets, and which of them the present step touched.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Followed {
    assets: BTreeMap<AssetId, Entry>,
    /// The followed assets that have a slot.
    by_slot: BTreeMap<SlotNo, AssetId>,
    touched: BTreeSet<AssetId>,
    /// Assets with a pin of their own, or that have just lost it, whose pin, content or state the present step changed.
    pinned: BTreeSet<AssetId>,
}

/// One followed asset.
#[derive(Debug)]
struct Entry {
    /// Number of times that the asset is followed.
    followers: u32,
    /// Its slot. `None`: it has none, as enforcement does not know it or does not enforce its type.
    slot: Option<SlotNo>,
    /// Its standing as it was told last.
    told: Option<Standing>,
}

impl Followed {
    /// Follows an asset once more. `slot`: its slot, if it has one.
    pub(in crate::kernel) fn follow(&mut self, id: &AssetId, slot: Option<SlotNo>) {
        if let Some(entry) = self.assets.get_mut(id) {
            entry.followers += 1;
            return;
        }
        let (followers, told) = (1, None);
        let entry = Entry {
            followers,
            slot,
            told,
        };
        self.assets.insert(id.clone(), entry);
        if let Some(slot) = slot {
            self.by_slot.insert(slot, id.clone());
        }
    }

    /// Follows an asset once less.
    pub(in crate::kernel) fn unfollow(&mut self, id: &AssetId) {
        let Some(entry) = self.assets.get_mut(id) else {
            return;
        };
        entry.followers -= 1;
        if entry.followers > 0 {
            return;
        }
        if let Some(slot) = entry.slot {
            self.by_slot.remove(&slot);
        }
        self.assets.remove(id);
        self.touched.remove(id);
    }

    /// Whether no asset is followed.
    pub(in crate::kernel) fn is_empty(&self) -> bool {
        self.assets.is_empty()
    }

    /// Returns the standing of a followed asset as it was told last.
    pub(in crate::kernel) fn told(&self, id: &AssetId) -> Option<&Standing> {
        self.assets.get(id)?.told.as_ref()
    }

    /// Notes that the standing of a followed asset is told.
    pub(in crate::kernel) fn tell(&mut self, id: &AssetId, standing: Standing) {
        if let Some(entry) = self.assets.get_mut(id) {
            entry.told = Some(standing);
        }
    }

    /// Notes that the asset of `slot` may have changed.
    pub(in crate::kernel) fn touch(&mut self, slot: SlotNo) {
        if let Some(id) = self.by_slot.get(&slot) {
            self.touched.insert(id.clone());
        }
    }

    /// Notes that an asset with a pin of its own has changed, or has lost it.
    pub(in crate::kernel) fn touch_pinned(&mut self, id: AssetId) {
        self.pinned.insert(id);
    }

    /// Removes and returns the assets of [`Followed::touch_pinned`], each once.
    pub(in crate::kernel) fn take_pinned(&mut self) -> BTreeSet<AssetId> {
        std::mem::take(&mut self.pinned)
    }

    /// Notes that an asset may have changed that has no slot.
    pub(in crate::kernel) fn touch_id(&mut self, id: &str) {
        if let Some((id, _)) = self.assets.get_key_value(id) {
            self.touched.insert(id.clone());
        }
    }

    /// Notes that an asset has this slot from now on.
    pub(in crate::kernel) fn came(&mut self, id: &str, slot: SlotNo) {
        let Some((id, _)) = self.assets.get_key_value(id) else {
            return;
        };
        let id = id.clone();
        if let Some(entry) = self.assets.get_mut(&id) {
            entry.slot = Some(slot);
        }
        self.by_slot.insert(slot, id);
        self.touch(slot);
    }

    /// Notes that the asset of `slot` has no slot any more.
    pub(in crate::kernel) fn left(&mut self, slot: SlotNo) {
        self.touch(slot);
        let id = self.by_slot.remove(&slot);
        if let Some(entry) = id.and_then(|id| self.assets.get_mut(&id)) {
            entry.slot = None;
        }
    }

    /// Removes and returns the assets that were touched, each once.
    pub(in crate::kernel) fn take_touched(&mut self) -> BTreeSet<AssetId> {
        std::mem::take(&mut self.touched)
    }

    #[cfg(test)]
    pub(in crate::kernel) fn all(&self) -> impl Iterator<Item = (&AssetId, Option<&Standing>)> {
        let all = self.assets.iter();
        all.map(|(id, entry)| (id, entry.told.as_ref()))
    }

    #[cfg(test)]
    pub(in crate::kernel) fn len(&self) -> usize {
        self.assets.len() + self.by_slot.len() + self.touched.len() + self.pinned.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::rig::id;

    fn touched(followed: &mut Followed) -> Vec<AssetId> {
        followed.take_touched().into_iter().collect()
    }

    #[test]
    fn only_followed_assets_are_reported_each_once() {
        let (mut followed, one) = (Followed::default(), SlotNo::FIRST);
        let other = SlotNo::from_index(1);
        followed.follow(&id("a"), Some(one));
        for slot in [one, other, one] {
            followed.touch(slot);
        }
        assert_eq!(touched(&mut followed), [id("a")]);
        assert_eq!(touched(&mut followed), []);
    }

    #[test]
    fn asset_is_followed_until_its_last_follower_leaves() {
        let (mut followed, slot) = (Followed::default(), SlotNo::FIRST);
        for _ in 0..2 {
            followed.follow(&id("a"), Some(slot));
        }
        followed.unfollow(&id("a"));
        followed.touch(slot);
        assert_eq!(touched(&mut followed), [id("a")]);
        followed.touch(slot);
        followed.unfollow(&id("a"));
        followed.unfollow(&id("a"));
        followed.touch(slot);
        assert_eq!(followed.len(), 0);
    }

    #[test]
    fn slot_of_an_asset_that_left_is_that_of_another_asset() {
        let (mut followed, slot) = (Followed::default(), SlotNo::FIRST);
        followed.follow(&id("a"), Some(slot));
        followed.follow(&id("b"), None);
        followed.left(slot);
        followed.came("b", slot);
        assert_eq!(touched(&mut followed), [id("a"), id("b")]);
        followed.touch(slot);
        assert_eq!(touched(&mut followed), [id("b")]);
        followed.touch_id("a");
        assert_eq!(touched(&mut followed), [id("a")]);
        followed.came("a", SlotNo::from_index(1));
        followed.touch(SlotNo::from_index(1));
        assert_eq!(touched(&mut followed), [id("a")]);
    }
}
