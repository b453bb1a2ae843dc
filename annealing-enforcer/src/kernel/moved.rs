//! Renames (R49): an asset under a new id takes over what the kernel knows about its resource under the old one.
//!
//! Both ids stand for one resource, so they are never pushed beside each other. The asset under the new id waits until
//! the old one has no intent, no push in flight, and no push that relies on it. Then it takes over in one step: edges,
//! pauses and history go along, and the old id is forgotten. From then on its own diffs are about the resource, under
//! whichever name production has it.

use control_plane_store::records::{Ended, MovedRecord, Outcome};
use plugin_sdk::{By, Delay, Now, Pin, Recheck};
use prodspec_model::{
    Asset, AssetId,
    addons::{DependsOn, Moved},
};

use super::{
    Kernel,
    branch::Branch,
    event::{Effects, Record},
    state::{
        attempt::{Behind, Wait},
        numbers::AttemptNo,
        numbers::SlotNo,
        pin_entry::PinNo,
        slot::{Class, State, Trigger, flag},
    },
};
use crate::bug::Bug;

/// The name of the kernel's own delay of a renamed asset.
const CHECK: &str = "moved";

impl Kernel {
    /// Returns the slot of a renamed asset's old id, while that still stands for the resource. `None`: the asset was not
    /// renamed, or has taken over.
    pub(super) fn old_id_of(&self, slot: SlotNo) -> Option<SlotNo> {
        // An asset under an old id is not in the newest incarnation.
        if self.table.knows_of_latest_only() {
            return None;
        }
        let (asset, _) = self.table.intent(slot)?;
        let from = Moved::source_of(&asset)?;
        // It may have been renamed before, to an id that has left intent and was never pushed.
        let old = self
            .table
            .find(from.as_str())
            .filter(|old| self.stands_for_resource(*old));
        let old = old.or_else(|| self.taken_over_from(&from))?;
        (old != slot && self.is_rename(old, &asset)).then_some(old)
    }

    /// Returns the asset that took over from `from` and has no intent any more.
    fn taken_over_from(&self, from: &AssetId) -> Option<SlotNo> {
        let mut moved = self.moved.iter();
        let (new, _) = moved.find(|(new, moved)| {
            moved.from == *from && !moved.pushed && !self.table.has_intent(**new)
        })?;
        Some(*new)
    }

    /// Whether an asset that is not in the newest incarnation may have a resource in production.
    pub(super) fn stands_for_resource(&self, old: SlotNo) -> bool {
        let entry = self.table.slot(old);
        entry.location.is_none()
            && (entry.has(flag::ORPHAN | flag::THERE)
                || entry.in_flight()
                || self.table.has_intent(old))
    }

    /// Whether `new` can be the asset of `old` under a new id: it has the same type, and the plugin renames.
    fn is_rename(&self, old: SlotNo, new: &Asset) -> bool {
        let known = self.table.known(old);
        known.is_some_and(|known| known.type_str() == new.type_str()) && self.renames(new)
    }

    fn renames(&self, asset: &Asset) -> bool {
        let kind = self.kind_of(asset.type_str());
        kind.is_some_and(|kind| self.kinds[kind.index()].config.renames)
    }

    /// Returns the asset that continues under a new id in the newest incarnation, if the plugin of its type renames.
    pub(super) fn new_id_of(&self, old: &AssetId) -> Option<SlotNo> {
        let latest = self.table.latest();
        if latest.asset(old).is_some() {
            return None;
        }
        let after = Moved::successor(latest.snapshot(), old.as_str())?;
        self.renames(&after)
            .then(|| self.table.find(after.id_str()))?
    }

    /// Returns the id under which an asset is known now: the new one, once that has taken over from `id`.
    pub(super) fn present_id(&self, id: AssetId) -> AssetId {
        let known = self.table.find(id.as_str());
        let known = known.filter(|slot| {
            self.table.slot(*slot).location.is_some() || self.stands_for_resource(*slot)
        });
        if known.is_some() {
            return id;
        }
        let new = self
            .new_id_of(&id)
            .filter(|new| self.old_id_of(*new).is_none());
        new.and_then(|new| self.table.id(new)).unwrap_or(id)
    }

    /// Lets a renamed asset take over from its old id before its diff starts. Returns whether it has to wait instead.
    pub(super) fn waits_for_old_id(&mut self, now: Now, slot: SlotNo, out: &mut Effects) -> bool {
        // The outcome of a push of its own comes first.
        if self.table.slot(slot).in_flight() {
            return false;
        }
        let Some(old) = self.old_id_of(slot) else {
            return false;
        };
        self.table.slot_mut(slot).state = State::Running;
        if self.table.has_intent(old) && self.is_of_one_group(slot, old) {
            self.let_go(now, old, out);
        }
        let held = self.table.slot(old).in_flight() || self.holds.is_held(old);
        let why = match self.table.id(old) {
            Some(id) if self.table.has_intent(old) => {
                let why = format!("`{id}`, from which it is renamed, is still enforced");
                Some((why, Recheck::WhenSettled(id)))
            }
            Some(id) => self.is_unfinished(slot, old, &id),
            None => None,
        };
        if why.is_none() && !held {
            self.take_over(now, slot, old, out);
            return false;
        }
        self.count(Branch::WaitsForOldId);
        // R63: the resource may be changed under the old id, which may have got an intent since this asset was settled.
        self.drifted(now, slot, out);
        self.begin_attempt(slot);
        match why {
            Some((why, recheck)) => {
                // R9: as if it were pinned elsewhere, since its intent has no turn for as long as this lasts.
                if self.give_back_all(now, slot) {
                    self.remember(now, slot, out);
                }
                let delays = vec![Delay::new(why, recheck).check(CHECK)];
                self.report_waiting(slot, &delays);
                self.decide(now, slot, Outcome::Delayed(delays.clone()), out);
                let wait = Wait::Delayed(delays, None);
                self.wait_for(now, slot, wait, self.config.drift_period, out);
            }
            None => {
                self.holds.wait(slot, old);
                let why =
                    "a push of its old id, or a push that relies on that, is in flight".to_owned();
                let behind = Behind::Push(old);
                let wait = Wait::Parked { why, behind };
                self.wait_for(now, slot, wait, self.config.drift_period, out);
            }
        }
        true
    }

    /// Why an asset cannot take over from `old`, which was renamed itself and was never in sync since: its plugin would
    /// look for the resource under a name that the resource may never have had.
    fn is_unfinished(&self, slot: SlotNo, old: SlotNo, id: &AssetId) -> Option<(String, Recheck)> {
        let first = &self.moved.get(&old)?.from;
        let (asset, _) = self.table.intent(slot)?;
        let from = Moved::source_of(&asset).filter(|from| from == id)?;
        let why = format!(
            "`{from}`, from which it is renamed, was renamed from `{first}` and was never in sync since; put `{from}` back \
             until it is, or, if it was never pushed, say that this asset is moved from `{first}`"
        );
        Some((why, Recheck::After(self.config.drift_period)))
    }

    /// Whether one rollout policy governs both assets.
    fn is_of_one_group(&self, one: SlotNo, other: SlotNo) -> bool {
        let policy = self.policy_of(one);
        policy.is_some() && policy == self.policy_of(other)
    }

    /// Ends the intent of an old id, as a rollout of its group has moved the new one. No rollout moves an asset that is
    /// not in the newest incarnation.
    fn let_go(&mut self, now: Now, old: SlotNo, out: &mut Effects) {
        self.repin(now, old, None, out);
    }

    /// Gives an old id the default pin of its group again, as a rollback took the intent of the new one.
    fn take_in_again(&mut self, now: Now, old: SlotNo, out: &mut Effects) {
        let policy = self.policy_of(old);
        let place = self.table.default_place(policy.as_ref());
        self.repin(now, old, Some(place), out);
    }

    /// Moves an old id to the default pin at `place`, or to [`Pin::NotYet`].
    fn repin(&mut self, now: Now, old: SlotNo, place: Option<PinNo>, out: &mut Effects) {
        let was = self.was(old);
        match place {
            Some(place) => self.table.set_place(old, place),
            None => self.table.set_pin(old, None),
        }
        if let Some(id) = self.table.id(old) {
            let pin = self.table.pin_of(old).by_number();
            self.record(Record::Pin(id, pin), out);
        }
        self.restart_stand(now, old);
        let class = match place {
            Some(_) => Class::Rollback,
            None => Class::Intent,
        };
        self.moved(now, old, was, (Trigger::PinMoved, class), out);
    }

    fn begin_attempt(&mut self, slot: SlotNo) {
        let cause = self.cause_of(slot).unwrap_or(plugin_sdk::Cause::Intent);
        let entry = self.table.slot(slot);
        if entry.attempt != AttemptNo::NONE {
            return;
        }
        let incarnation = self.intended(slot);
        let number = self.attempts.insert(slot, incarnation, cause);
        self.table.slot_mut(slot).attempt = number;
    }

    /// Makes `new` the asset that stands for the resource of `old`, which is forgotten. All records are of one step, so
    /// they become durable together.
    fn take_over(&mut self, now: Now, new: SlotNo, old: SlotNo, out: &mut Effects) {
        let (Some(id), Some(asset)) = (self.table.id(new), self.table.known(old)) else {
            return;
        };
        self.count(Branch::TookOver);
        let from = asset.id();
        let first = self.moved.remove(&old).filter(|moved| !moved.pushed);
        let resource = first.map_or_else(|| from.clone(), |moved| moved.from);
        if resource != id {
            let pushed = self.table.slot(new).has(flag::THERE);
            let moved = MovedRecord {
                from: resource,
                pushed,
            };
            self.moved.insert(new, moved);
        }
        self.move_edges(now, &asset, &id, out);
        let gone = flag::ORPHAN | flag::THERE | flag::IN_SYNC | flag::REACHED;
        self.mark(old, out, |entry| {
            entry.set(gone | flag::RECORDED | flag::UNRECORDED, false);
        });
        self.table.last_settled_mut().forget(old);
        // Evidence that relies on the old id is void.
        let entry = self.table.slot_mut(old);
        entry.seq = entry.seq.wrapping_add(2);
        let calls = entry.n;
        // A provider that knows the resource refuses calls with a lower number than those of the old id.
        let entry = self.table.slot_mut(new);
        entry.n = entry.n.max(calls);
        let fence = self.table.fences.of(old);
        self.table.fences.raise(new, fence);
        self.observations.forget(new);
        self.move_words(now, &from, &id, out);
        self.record(Record::Orphan(from.clone(), None), out);
        if !self.planted(Bug::LeaveMovedRecord) {
            self.record(Record::Asset(from.clone(), None), out);
        }
        self.record(Record::Renamed(from, id), out);
        self.remember(now, new, out);
        self.wake_hold_waiters(now, new);
        self.give_up(now, old);
    }

    /// Moves the edges that production may have at both ends: those of the old id, and those to it.
    fn move_edges(&mut self, now: Now, asset: &Asset, id: &AssetId, out: &mut Effects) {
        self.claims.amounts.next_round();
        let from = asset.id();
        if self.planted(Bug::ForgetMovedDemand) {
            return self.edges.settle(&from, Vec::new());
        }
        let consumers = self.edges.rename(&from, id, &DependsOn::edges_of(asset));
        for consumer in consumers {
            if let Some(slot) = self.table.find(consumer.as_str()) {
                self.remember(now, slot, out);
            }
        }
    }

    /// Moves the pause of the old id, and ends approvals and overrides: they name changes of the old id.
    fn move_words(&mut self, now: Now, from: &AssetId, to: &AssetId, out: &mut Effects) {
        let why = format!("`{from}` is `{to}` now");
        let ended = Ended {
            by: By::new("the enforcer", &why),
            at: now.wall,
        };
        let (pauses, words) = self.people.rename(from, to, &ended);
        for pause in pauses {
            self.record(Record::Pause(pause), out);
        }
        for word in words {
            self.record_word(word, out);
        }
    }

    /// Handles an asset that lost its intent, `before`. Its old id, which was let go for it, has its default pin again. An
    /// asset that was never pushed under its new id gives back to the old one, if that has an intent. An asset that waits
    /// for this one may take over.
    pub(super) fn left_intent(
        &mut self,
        now: Now,
        slot: SlotNo,
        before: &Asset,
        out: &mut Effects,
    ) {
        let from = self.moved.get(&slot).map(|moved| moved.from.clone());
        let from = from.or_else(|| Moved::source_of(before));
        if let Some(old) = from.and_then(|from| self.table.find(from.as_str())) {
            if matches!(self.table.pin_of(old), Pin::NotYet) {
                self.take_in_again(now, old, out);
            }
            if self.gives_back(slot, old) {
                return self.take_over(now, old, slot, out);
            }
        }
        let new = self.table.id(slot).and_then(|id| self.new_id_of(&id));
        if let Some(new) = new {
            self.trigger(now, new, Trigger::DependencySettled, Class::Intent);
        }
    }

    /// Handles an asset that has an intent again: it takes back from its new id, if that has none and was never pushed.
    pub(super) fn came_back(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        if self.moved.is_empty() {
            return;
        }
        let Some(id) = self.table.id(slot) else {
            return;
        };
        let new = self.moved.iter().find(|(_, moved)| moved.from == id);
        let new = new.map(|(new, _)| *new);
        if let Some(new) = new.filter(|new| self.gives_back(*new, slot)) {
            self.take_over(now, slot, new, out);
        }
    }

    /// Whether the asset that took over from `old` gives back: a rollback undoes a rename that was never pushed.
    fn gives_back(&self, new: SlotNo, old: SlotNo) -> bool {
        let unpushed = self.moved.get(&new).is_some_and(|moved| !moved.pushed);
        let busy = self.table.slot(new).in_flight() || self.holds.is_held(new);
        unpushed && !busy && !self.table.has_intent(new) && self.table.has_intent(old)
    }

    /// Returns the asset under the new id of `slot`, while its push is in flight: that push is about the same resource.
    pub(super) fn pushed_under_new_id(&self, slot: SlotNo) -> Option<SlotNo> {
        if self.moved.is_empty() {
            return None;
        }
        let id = self.table.id(slot)?;
        let mut moved = self.moved.iter();
        let in_flight = |new: SlotNo| self.table.slot(new).in_flight();
        let new = moved.find(|(new, moved)| moved.from == id && in_flight(**new));
        new.map(|(new, _)| *new)
    }

    /// Voids all evidence about the old id, as a push under the new id has ended.
    pub(super) fn push_under_new_id_ended(&mut self, slot: SlotNo) {
        let Some(moved) = self.moved.get(&slot) else {
            return;
        };
        if let Some(old) = self.table.find(moved.from.as_str()) {
            let entry = self.table.slot_mut(old);
            entry.seq = entry.seq.wrapping_add(2);
        }
    }

    /// Notes that an asset is pushed under its new id: production may have the resource under that from now on.
    pub(super) fn is_pushed_as_moved(&mut self, slot: SlotNo) {
        if let Some(moved) = self.moved.get_mut(&slot) {
            moved.pushed = true;
        }
    }
}
