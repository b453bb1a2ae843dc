//! Pins: the default pin of an asset without a pin of its own, and the effects of a moved pin (R17).
//!
//! An asset that a rollout policy governs is enforced at its group's head. Its content changes only when the strategist
//! pins it elsewhere. When anything else would change its content, the kernel pins the asset where it was. If the head
//! is the newest incarnation, the asset follows that as an asset without a policy does.

use std::collections::BTreeMap;

use plugin_sdk::{Cause, GroupHead, Now, Pin};
use prodspec_model::{Asset, AssetId, Digest, Incarnation, Snapshot, addons::RolloutPolicyRef};

use super::{
    Kernel,
    branch::Branch,
    event::{Effects, Record},
    state::{
        attempt::Phase,
        numbers::AttemptNo,
        numbers::SlotNo,
        pin_entry::PinNo,
        slot::{Class, Trigger, flag},
    },
};
use crate::bug::Bug;

/// The intent of an asset before its pin, head or incarnation moved.
pub(super) struct Was {
    pub(super) intent: Option<(Asset, Incarnation)>,
    pub(super) cause: Cause,
    pub(super) place: PinNo,
    pub(super) counted: bool,
}

/// Returns the rollout policy that an asset names.
pub(super) fn policy_in(asset: &Asset) -> Option<AssetId> {
    let named = asset.addon::<RolloutPolicyRef>().ok().flatten()?;
    Some(named.policy.id)
}

fn content(intent: Option<&(Asset, Incarnation)>) -> Option<Digest> {
    intent.map(|(asset, _)| asset.digest())
}

impl Kernel {
    pub(super) fn was(&self, slot: SlotNo) -> Was {
        Was {
            intent: self.table.intent(slot),
            cause: self.table.pin_cause(slot).unwrap_or(Cause::Intent),
            place: self.table.slot(slot).pin,
            counted: self.counts_as_unsettled(slot),
        }
    }

    /// The former intent of a new asset: none.
    pub(super) fn was_nowhere(&self, slot: SlotNo) -> Was {
        Was {
            intent: None,
            cause: Cause::Intent,
            place: self.table.slot(slot).pin,
            counted: false,
        }
    }

    /// Returns the policy that governs an asset: the one that it names in the newest incarnation. If it names none
    /// there: the policy that it names at that policy's own head; of several, the one with the newest head.
    pub(super) fn policy_of(&self, slot: SlotNo) -> Option<AssetId> {
        let known = self.table.known(slot)?;
        let newest = match self.table.slot(slot).location {
            Some(_) => Some(known.clone()),
            None => self.table.latest().snapshot().get(known.id_str()),
        };
        if let Some(policy) = newest.as_ref().and_then(policy_in) {
            return Some(policy);
        }
        let at_head = |(policy, head): &(&AssetId, &Incarnation)| {
            let there = head.snapshot().get(known.id_str());
            there.as_ref().and_then(policy_in).as_ref() == Some(*policy)
        };
        let heads = self.table.heads().filter(at_head);
        let newest = heads.max_by_key(|(_, head)| head.no());
        newest.map(|(policy, _)| policy.clone())
    }

    /// Moves the heads of groups first, then pins.
    pub(super) fn actuate(
        &mut self,
        now: Now,
        heads: Vec<(AssetId, GroupHead<Incarnation>)>,
        moves: Vec<(AssetId, Pin<Incarnation>)>,
        out: &mut Effects,
    ) {
        for (policy, head) in heads {
            self.move_head(now, &policy, head, out);
        }
        for (asset, pin) in moves {
            match pin {
                Pin::Default => self.move_pin(now, &asset, pin, out),
                _ if self.is_governed(&asset) => self.move_pin(now, &asset, pin, out),
                _ => self.refuse_pin(now, &asset, out),
            }
        }
    }

    /// Whether a policy governs an asset, with or without a slot: in the newest incarnation, or at the policy's own
    /// head.
    fn is_governed(&self, id: &AssetId) -> bool {
        let named = |of: &Incarnation| of.snapshot().get(id.as_str()).as_ref().and_then(policy_in);
        let mut heads = self.table.heads();
        named(self.table.latest()).is_some()
            || heads.any(|(policy, head)| named(head).as_ref() == Some(policy))
    }

    /// R17: a pin ends with the group that set it. Here a rollout moves the pin of an asset that has left every group,
    /// which the strategist does not know yet. The asset keeps its default pin, and the strategist is informed.
    fn refuse_pin(&mut self, now: Now, id: &AssetId, out: &mut Effects) {
        self.move_pin(now, id, Pin::Default, out);
        match self.table.find(id.as_str()) {
            Some(slot) => self.report_pinned(slot),
            None => self.followed.touch_pinned(id.clone()),
        }
    }

    /// Moves the head of a group. The cost is proportional to the difference between the old and the new head; to the
    /// number of all assets if the group follows the newest incarnation from now on, or no longer.
    fn move_head(
        &mut self,
        now: Now,
        policy: &AssetId,
        head: GroupHead<Incarnation>,
        out: &mut Effects,
    ) {
        self.record(Record::Head(policy.clone(), head.by_number()), out);
        let new = head.incarnation().unwrap_or(self.table.latest()).clone();
        let old = self.table.head(policy).map(|old| old.snapshot().clone());
        let changes = old.unwrap_or_else(Snapshot::empty).diff(new.snapshot());
        let mut known = self.moved_with(policy, &head);
        let mut unknown = Vec::new();
        for change in changes {
            let (before, after) = (change.before, change.after);
            let id = after.as_ref().or(before.as_ref()).map(Asset::id_str);
            match (id.and_then(|id| self.table.find(id)), after) {
                (Some(slot), _) => drop(known.insert(slot, self.was(slot))),
                (None, Some(asset)) => unknown.push(asset),
                (None, None) => {}
            }
        }
        self.table.set_head(policy, head);
        for (slot, was) in &known {
            let counts = self.counts_as_unsettled(*slot);
            self.census.recount_one(was.counted, counts);
        }
        for (slot, was) in known {
            // R49: an asset before this one may have moved this one, which is its other id.
            let is = self.was(slot);
            let was = match is.place == was.place {
                true => Was {
                    counted: is.counted,
                    ..was
                },
                false => is,
            };
            self.regovern(now, slot, was, out);
        }
        for asset in unknown {
            self.head_has(now, policy, asset, &new, out);
        }
    }

    /// Returns the assets of a group whose default pin gets another place if its head becomes `head`: all that have it,
    /// if the group follows the newest incarnation from then on, or no longer.
    fn moved_with(&self, policy: &AssetId, head: &GroupHead<Incarnation>) -> BTreeMap<SlotNo, Was> {
        let Some(old) = self.table.place_of(policy) else {
            return BTreeMap::new();
        };
        if old.is_newest() == matches!(head, GroupHead::Latest) {
            return BTreeMap::new();
        }
        let governed = |slot: &SlotNo| self.table.slot(*slot).has(flag::GOVERNED);
        let all = self.table.slots_at(old).filter(governed);
        let ours = all.filter(|slot| self.policy_of(*slot).as_ref() == Some(policy));
        ours.map(|slot| (slot, self.was(slot))).collect()
    }

    /// The newest incarnation has the asset with a type that is not enforced. Heads may have it with an enforced type.
    pub(super) fn heads_have(&mut self, now: Now, asset: &Asset, out: &mut Effects) {
        let there = |(policy, head): (&AssetId, &Incarnation)| {
            let there = head.snapshot().get(asset.id_str())?;
            Some((policy.clone(), there, head.clone()))
        };
        let found: Vec<_> = self.table.heads().filter_map(there).collect();
        for (policy, there, head) in found {
            if self.table.find(asset.id_str()).is_none() {
                self.head_has(now, &policy, there, &head, out);
            }
        }
    }

    /// Adds an asset that is only at a head. Unless it was given a pin before, its pin is not yet: no rollout has
    /// decided that it may come back.
    fn head_has(
        &mut self,
        now: Now,
        policy: &AssetId,
        asset: Asset,
        head: &Incarnation,
        out: &mut Effects,
    ) {
        let newest = self.table.latest().snapshot().get(asset.id_str());
        let named = newest.as_ref().and_then(policy_in);
        if named.or_else(|| policy_in(&asset)).as_ref() != Some(policy) {
            return;
        }
        if let Some(slot) = self.insert_from(asset.clone(), head.clone()) {
            let was = self.was_nowhere(slot);
            self.take_early(now, slot, &asset);
            self.regovern(now, slot, was, out);
        }
    }

    /// Applies a change of the policy that governs an asset, to another one or to none: the default pin changes, the
    /// content does not.
    pub(super) fn regovern(&mut self, now: Now, slot: SlotNo, was: Was, out: &mut Effects) {
        self.settle_default(now, slot, &was, out);
        let why = (Trigger::IntentChanged, Class::Intent);
        self.moved(now, slot, was, why, out);
        self.give_up(now, slot);
    }

    /// Gives an asset without a pin of its own the default pin of the policy that governs it now. If that would change
    /// its content, the asset is pinned where it was.
    pub(super) fn settle_default(&mut self, now: Now, slot: SlotNo, was: &Was, out: &mut Effects) {
        let policy = self.policy_of(slot);
        let governed = policy.is_some();
        let left = self.table.slot(slot).has(flag::GOVERNED) && !governed;
        self.table.slot_mut(slot).set(flag::GOVERNED, governed);
        if self.table.is_pinned(slot) {
            if left {
                self.leave_group(now, slot, out);
            }
            return;
        }
        let followed = policy.filter(|_| !self.planted(Bug::FollowLatest));
        let place = self.table.default_place(followed.as_ref());
        self.table.set_place(slot, place);
        let same = content(was.intent.as_ref()) == content(self.table.intent(slot).as_ref());
        let follows = place.is_newest();
        if governed && !follows && !same && !self.planted(Bug::FollowLatest) {
            self.keep_in_place(now, slot, was, out);
        }
    }

    /// Drops the pin of an asset that no policy governs any more: no rollout would move that pin again.
    fn leave_group(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        self.count(Branch::LeftGroup);
        let place = self.table.default_place(None);
        self.table.set_place(slot, place);
        if let Some(id) = self.table.id(slot) {
            self.record(Record::Pin(id, Pin::Default), out);
        }
        self.restart_stand(now, slot);
    }

    /// Pins an asset to the incarnation at which it was.
    fn keep_in_place(&mut self, now: Now, slot: SlotNo, was: &Was, out: &mut Effects) {
        self.count(Branch::KeptInPlace);
        let at = was.intent.as_ref();
        let at = at.map(|(_, incarnation)| (incarnation.clone(), Cause::Intent));
        self.table.set_pin(slot, at);
        if let Some(id) = self.table.id(slot) {
            let pin = self.table.pin_of(slot).by_number();
            self.record(Record::Pin(id, pin), out);
        }
        self.keep_stand(now, slot);
    }

    /// Moves an asset's pin. If its content changes, the calls under way become void (R8, R11).
    pub(super) fn move_pin(
        &mut self,
        now: Now,
        id: &AssetId,
        pin: Pin<Incarnation>,
        out: &mut Effects,
    ) {
        let known = self.table.find(id.as_str());
        let there = match &pin {
            Pin::At(at, _) if known.is_none() => at.asset(id).map(|asset| (asset, at.clone())),
            _ => None,
        };
        let new = there.and_then(|(asset, at)| self.insert_from(asset, at));
        let Some(slot) = known.or(new) else {
            return self.pin_early(id, pin, out);
        };
        let mut was = self.was(slot);
        if new.is_some() {
            drop(self.pins.take_early(id));
            (was.intent, was.counted) = (None, false);
        }
        let class = match &pin {
            Pin::At(_, Cause::Rollback) => Class::Rollback,
            _ => Class::Intent,
        };
        let record = pin.by_number();
        match pin {
            Pin::At(incarnation, cause) => self.table.set_pin(slot, Some((incarnation, cause))),
            Pin::NotYet => self.table.set_pin(slot, None),
            Pin::Default => {
                let policy = self.policy_of(slot);
                let place = self.table.default_place(policy.as_ref());
                let by_default = self.table.intent_by(slot, place);
                let same = content(by_default.as_ref()) == content(was.intent.as_ref());
                if policy.is_some() && !place.is_newest() && !same {
                    // R17: no rollout has moved the asset, so its content must not change.
                    if !self.table.is_pinned(slot) {
                        return;
                    }
                    self.count(Branch::KeptInPlace);
                    return self.report_pinned(slot);
                }
                self.table.set_place(slot, place);
            }
        }
        self.record(Record::Pin(id.clone(), record), out);
        let ill = self.unhealthy(slot).is_some();
        self.restart_stand(now, slot);
        self.moved(now, slot, was, (Trigger::PinMoved, class), out);
        if ill {
            self.remember(now, slot, out);
        }
    }

    /// Stores the pin of an asset that has no slot: not known yet, no longer known, or not enforced.
    fn pin_early(&mut self, id: &AssetId, pin: Pin<Incarnation>, out: &mut Effects) {
        self.record(Record::Pin(id.clone(), pin.by_number()), out);
        self.pins.put_early(id.clone(), pin);
        self.followed.touch_id(id.as_str());
    }

    /// Applies the pin that an asset was given before it was known.
    pub(super) fn take_early(&mut self, now: Now, slot: SlotNo, asset: &Asset) {
        if self.pins.has_no_early() {
            return;
        }
        let at = match self.pins.take_early(&asset.id()) {
            Some(Pin::At(incarnation, cause)) => Some((incarnation, cause)),
            Some(Pin::NotYet) => None,
            Some(Pin::Default) | None => return,
        };
        self.table.set_pin(slot, at);
        self.restart_stand(now, slot);
    }

    /// Handles a moved pin, or another content at the same pin.
    pub(super) fn moved(
        &mut self,
        now: Now,
        slot: SlotNo,
        was: Was,
        (trigger, class): (Trigger, Class),
        out: &mut Effects,
    ) {
        let counts = self.counts_as_unsettled(slot);
        self.census.recount_one(was.counted, counts);
        self.count_behind(slot, out);
        let is = self.table.intent(slot);
        let same = content(was.intent.as_ref()) == content(is.as_ref());
        let elsewhere = self.table.slot(slot).pin != was.place;
        if let Some((before, _)) = was.intent.as_ref().filter(|_| elsewhere || !same) {
            self.had(slot, before);
        }
        let entry = self.table.slot(slot);
        let cause = self.table.pin_cause(slot).unwrap_or(Cause::Intent);
        if same
            && (cause == was.cause || entry.attempt == AttemptNo::NONE || entry.has(flag::IN_SYNC))
        {
            return self.moved_quietly(now, slot, was.place, (trigger, class), out);
        }
        let settled = entry.has(flag::IN_SYNC) && !entry.in_flight();
        if !entry.in_flight() {
            self.give_back_all(now, slot);
        }
        // The place of a pin is reused, so the number alone does not show that the pin moved.
        let at = self.table.slot(slot).attempt;
        if let Some(it) = self.attempts.at_mut(at) {
            it.pin = PinNo::REPINNED;
        }
        let has_intent = is.is_some();
        if has_intent {
            self.returned(slot, out);
        }
        let before = was.intent.as_ref().map(|(_, incarnation)| incarnation);
        self.intent_changed(now, slot, before, (trigger, class), out);
        if has_intent {
            return self.came_back(now, slot, out);
        }
        if let Some((before, last)) = was.intent {
            let dropped = self.table.slot(slot).location.is_none() && was.place.is_newest();
            let entry = self.table.slot(slot);
            if dropped || entry.has(flag::THERE) || entry.in_flight() {
                return self.orphan(now, slot, &before, last.no(), settled, out);
            }
            self.left_intent(now, slot, &before, out);
            // R49: nothing took the resource back that it has taken over from its old id.
            if self.moved.contains_key(&slot) {
                self.orphan(now, slot, &before, last.no(), settled, out);
            }
        }
    }

    /// Handles a moved pin with the same content: a settled asset stays settled, and a push under way goes on.
    fn moved_quietly(
        &mut self,
        now: Now,
        slot: SlotNo,
        place: PinNo,
        (trigger, class): (Trigger, Class),
        out: &mut Effects,
    ) {
        self.count(Branch::MovedQuietly);
        let entry = self.table.slot(slot);
        let (pin, at) = (entry.pin, entry.attempt);
        let in_place = self.pins.is_confirmed(slot) == Some(true);
        let unrecorded = !pin.is_newest()
            && pin != place
            && entry.has(flag::IN_SYNC)
            && (in_place || !entry.has(flag::RECORDED));
        // R8: a push under way goes on. A diff or check under way is repeated at the new pin.
        if let Some(it) = self.attempts.at_mut(at)
            && pin != place
        {
            let under_way = matches!(it.phase, Phase::Pushing | Phase::Continuing) || it.follows;
            it.pin = if under_way && it.pin == place {
                pin
            } else {
                PinNo::REPINNED
            };
        }
        // The floor speaks of the content in the newest incarnation only, so the asset needs a record of its own.
        if unrecorded {
            self.remember(now, slot, out);
        }
        if self.awaits_look(slot) {
            self.trigger(now, slot, trigger, class);
        }
    }

    /// Updates the set of governed assets whose content is not that of the newest incarnation.
    pub(super) fn count_behind(&mut self, slot: SlotNo, out: &mut Effects) {
        let entry = self.table.slot(slot);
        let newest = || self.table.intent_by(slot, PinNo::NEWEST);
        let behind = entry.has(flag::GOVERNED)
            && content(self.table.intent(slot).as_ref()) != content(newest().as_ref());
        let changed = self.census.set_behind(slot, behind);
        self.followed.touch(slot);
        out.settled_changed |= changed;
    }
}
