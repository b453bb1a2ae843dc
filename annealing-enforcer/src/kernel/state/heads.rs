//! The heads of policy groups: the default pins of their assets (R17).

use plugin_sdk::{Cause, GroupHead};
use prodspec_model::{AssetId, Incarnation};

use super::{
    numbers::SlotNo,
    pin_entry::{PinEntry, PinNo},
    table::Table,
};

impl Table {
    /// Returns the policy whose group's head is the asset's intent, if any.
    pub(in crate::kernel) fn follows(&self, at: SlotNo) -> Option<&AssetId> {
        let pinned = self.pins.get(self.slot(at).pin.index())?.as_ref()?;
        pinned.group.as_ref()
    }

    /// Returns the place of the default pin of a group, if it has one.
    pub(in crate::kernel) fn place_of(&self, policy: &AssetId) -> Option<PinNo> {
        self.groups.get(policy).copied()
    }

    /// Returns the slots whose pin is at `place`. The cost is that of all slots.
    pub(in crate::kernel) fn slots_at(&self, place: PinNo) -> impl Iterator<Item = SlotNo> {
        SlotNo::all(self.len()).filter(move |slot| self.slot(*slot).pin == place)
    }

    /// Returns the head of the group of `policy`, if it has one.
    pub(in crate::kernel) fn head(&self, policy: &AssetId) -> Option<&Incarnation> {
        let place = *self.groups.get(policy)?;
        if place.is_newest() {
            return Some(&self.latest);
        }
        let (head, _) = self.pins.get(place.index())?.as_ref()?.at.as_ref()?;
        Some(head)
    }

    /// Returns the head of every group that has one.
    pub(in crate::kernel) fn heads(&self) -> impl Iterator<Item = (&AssetId, &Incarnation)> {
        let head = |(policy, _)| Some((policy, self.head(policy)?));
        self.groups.iter().filter_map(head)
    }

    /// Moves a group's head, which is the default pin of all its assets.
    /// Its place changes if it follows the newest incarnation from now on, or no longer.
    pub(in crate::kernel) fn set_head(&mut self, policy: &AssetId, head: GroupHead<Incarnation>) {
        let (old, at) = match head {
            GroupHead::At(head) => {
                if self.place_of(policy).is_some_and(PinNo::is_newest) {
                    self.groups.remove(policy);
                }
                (self.group_place(policy), Some((head, Cause::Intent)))
            }
            GroupHead::Latest => {
                let old = self.groups.insert(policy.clone(), PinNo::NEWEST);
                (old.unwrap_or(PinNo::NEWEST), None)
            }
            GroupHead::Unknown => return,
        };
        if let Some(Some(pinned)) = self.pins.get_mut(old.index()) {
            pinned.at = at;
            if pinned.slots == 0 {
                self.idle.insert(old);
            }
        }
    }

    /// Sets those of `heads` that follow the newest incarnation: before any asset has a place, because assets do not get
    /// another one by this.
    pub(in crate::kernel) fn follow_latest(&mut self, heads: &[(AssetId, GroupHead<Incarnation>)]) {
        for (policy, head) in heads {
            if let GroupHead::Latest = head {
                self.set_head(policy, GroupHead::Latest);
            }
        }
    }

    /// Returns the place of a group's default pin. Without a policy: 0, the newest incarnation.
    pub(in crate::kernel) fn default_place(&mut self, policy: Option<&AssetId>) -> PinNo {
        policy.map_or(PinNo::NEWEST, |policy| self.group_place(policy))
    }

    fn group_place(&mut self, policy: &AssetId) -> PinNo {
        if let Some(place) = self.groups.get(policy) {
            return *place;
        }
        let group = Some(policy.clone());
        let place = self.new_place(PinEntry {
            at: None,
            slots: 0,
            group,
        });
        self.groups.insert(policy.clone(), place);
        place
    }
}
