//! Taking in a newer incarnation: the assets that changed, came or left. Costs O(changes · log N).

use control_plane_store::records::Orphaned;
use plugin_sdk::Now;
use prodspec_model::{Asset, Incarnation, IncarnationNo, Message, addons, snapshot::Location};

use super::{
    Kernel,
    branch::Branch,
    event::{Effects, News, Record},
    state::{
        numbers::SlotNo,
        numbers::TypeNo,
        pin_entry::PinNo,
        slot::{Class, Slot, State, Trigger, flag},
        table::Elsewhere,
    },
};
use crate::bug::Bug;

/// Number of assets whose contents are read ahead together.
pub(super) const AHEAD: usize = 64;

/// A known asset that the newer incarnation has at another location, with other content, or not at all. A modelled-only
/// asset counts as absent.
struct Touched {
    slot: SlotNo,
    before: Option<Asset>,
    after: Option<Location>,
    changed: bool,
    /// `true`: the newer incarnation names a rollout policy for the asset.
    governed: bool,
}

impl Kernel {
    /// Takes a newer incarnation in. The present one and older ones change nothing.
    pub(super) fn publish(&mut self, now: Now, newer: Incarnation, out: &mut Effects) {
        let older = self.table.latest().clone();
        if newer.no() <= older.no() {
            return;
        }
        let (touched, new, mut unknown) = self.compare(&older, &newer);
        let before = touched
            .iter()
            .filter(|place| self.counts_as_unsettled(place.slot));
        let before = before.count() as u32;
        // Slots hold locations in the newest incarnation, so all of them move before any of them is read again.
        for place in &touched {
            self.table.slot_mut(place.slot).location = place.after;
            self.followed.touch(place.slot);
            if let (Some(asset), None) = (place.before.clone(), place.after) {
                let last = older.clone();
                let there = Elsewhere { asset, last };
                self.table.set_elsewhere(place.slot, Some(there));
            }
        }
        self.table.set_latest(newer.clone());
        self.touch_old_ids(&older, &newer);
        let after = touched
            .iter()
            .filter(|place| self.counts_as_unsettled(place.slot));
        let after = after.count() as u32;
        self.census.recount(before, after);
        // A caller may wait for this incarnation although it changes nothing.
        out.settled_changed = true;
        self.table.reserve(new.len());
        for lot in new.chunks(AHEAD) {
            newer.snapshot().read_ahead(lot.iter().copied());
            for location in lot {
                if self.add(now, *location, out).is_none() {
                    unknown.extend(newer.snapshot().at(*location));
                }
            }
        }
        self.table.index_added();
        self.assets_without_slot_changed(now, &older, &unknown);
        for asset in unknown {
            self.followed.touch_id(asset.id_str());
            self.heads_have(now, &asset, out);
        }
        for place in touched.into_iter().filter(|place| place.changed) {
            self.touch(now, place, &older, out);
        }
        self.record(Record::Taken(newer.no()), out);
        // R20: assets that were kept in place are reported before the incarnation that changed their default.
        self.tell_pinned(now, out);
        out.feed.push(News::Took(newer));
    }

    /// Compares two incarnations. Returns the known assets that differ, the locations of new assets, and the assets
    /// that left without ever having had a slot.
    fn compare(
        &self,
        older: &Incarnation,
        newer: &Incarnation,
    ) -> (Vec<Touched>, Vec<Location>, Vec<Asset>) {
        let mut touched = Vec::new();
        let mut new = Vec::new();
        let mut unknown = Vec::new();
        for place in older.snapshot().diff_locations(newer.snapshot()) {
            let before = place.before.and_then(|at| older.snapshot().at(at));
            let known = match &before {
                Some(asset) => self.table.find(asset.id_str()),
                // An asset that is not in the older incarnation is known only if it left before that.
                None if self.table.knows_of_latest_only() => None,
                None => place
                    .after
                    .and_then(|at| newer.snapshot().at(at))
                    .and_then(|a| self.table.find(a.id_str())),
            };
            match (known, place.after) {
                (Some(slot), after) => {
                    let enforced = |asset: &Asset| self.table.enforces(asset);
                    let newest = after.and_then(|at| newer.snapshot().at(at));
                    touched.push(Touched {
                        slot,
                        before: before.filter(enforced),
                        after: after.filter(|_| newest.as_ref().is_some_and(enforced)),
                        changed: place.changed,
                        governed: newest
                            .is_some_and(|asset| asset.has_addon(addons::RolloutPolicyRef::TYPE)),
                    });
                }
                (None, Some(at)) => new.push(at),
                (None, None) => unknown.extend(before),
            }
        }
        (touched, new, unknown)
    }

    /// Adds an asset that has no slot yet. The caller indexes all added assets together.
    fn add(&mut self, now: Now, location: Location, out: &mut Effects) -> Option<SlotNo> {
        let latest = self.table.latest().clone();
        let asset = latest.snapshot().at(location)?;
        let kind = self.kind_of(asset.type_str())?;
        let slot = self
            .table
            .insert_later(asset.id_str(), Slot::new(kind, Some(location), latest.no()));
        self.followed.came(asset.id_str(), slot);
        self.claims.amounts.next_round();
        self.pin_new(now, slot, &asset, out);
        let counts = self.counts_as_unsettled(slot);
        self.census.recount_one(false, counts);
        out.settled_changed = true;
        self.enqueue(now, slot, Trigger::IntentChanged, Class::Intent);
        Some(slot)
    }

    /// Returns the number of a registered type. `None` for modelled-only types.
    pub(super) fn kind_of(&self, type_name: &str) -> Option<TypeNo> {
        self.kinds
            .iter()
            .position(|kind| kind.has_plugin && kind.config.name.as_str() == type_name)
            .map(TypeNo::from_index)
    }

    /// Sets the pin of a new asset: the one that it was given before it was known, otherwise its default.
    fn pin_new(&mut self, now: Now, slot: SlotNo, asset: &Asset, out: &mut Effects) {
        let was = self.was_nowhere(slot);
        self.take_early(now, slot, asset);
        self.settle_default(now, slot, &was, out);
        self.count_behind(slot, out);
    }

    /// Handles an asset whose content changed, or that left intent or came back.
    fn touch(&mut self, now: Now, place: Touched, older: &Incarnation, out: &mut Effects) {
        let slot = place.slot;
        if place.after.is_none() && self.ledger.kept(slot).is_some() {
            self.left_without_plugin(now, slot, out);
        }
        if place.after.is_some() {
            self.table.set_elsewhere(slot, None);
        }
        let entry = self.table.slot(slot);
        if entry.has(flag::GOVERNED) || !entry.pin.is_newest() || place.governed {
            let mut was = self.was(slot);
            if was.place.is_newest() {
                was.intent = place.before.map(|asset| (asset, older.clone()));
            }
            return self.regovern(now, slot, was, out);
        }
        match (&place.before, place.after) {
            (Some(before), None) => {
                let entry = self.table.slot(slot);
                let settled = entry.has(flag::IN_SYNC) && !entry.in_flight();
                self.orphan(now, slot, before, older.no(), settled, out);
            }
            (before, Some(_)) => {
                self.returned(slot, out);
                if let Some(before) = before
                    .as_ref()
                    .filter(|_| !self.planted(Bug::ForgetVanishedEdge))
                {
                    self.had(slot, before);
                }
                let was = before.as_ref().map(|_| older);
                let why = (Trigger::IntentChanged, Class::Intent);
                self.intent_changed(now, slot, was, why, out);
            }
            (None, None) => {}
        }
    }

    /// Keeps the edges of an asset's former intent, because production may have them. It has them if that intent was in
    /// sync.
    pub(super) fn had(&mut self, slot: SlotNo, before: &Asset) {
        self.claims.amounts.next_round();
        let (id, edges) = (before.id(), addons::DependsOn::edges_of(before));
        self.edges.keep(&id, &edges);
        if self.table.slot(slot).has(flag::REACHED) {
            self.edges.had(&id, &edges);
        }
    }

    /// Handles changed intent; `was` is the incarnation of the former intent. All findings about the asset become void.
    pub(super) fn intent_changed(
        &mut self,
        now: Now,
        slot: SlotNo,
        was: Option<&Incarnation>,
        (trigger, class): (Trigger, Class),
        out: &mut Effects,
    ) {
        let no = self.table.latest().no();
        self.claims.amounts.next_round();
        self.remember_settled(now, slot, was);
        self.mark(slot, out, |entry| {
            entry.changed = no;
            entry.set(flag::IN_SYNC | flag::REACHED, false);
        });
        self.observations.forget(slot);
        self.census.contested.forget(slot);
        // R8, R16: a check under way has seen the asset at its former pin. Newer intent is left to R11.
        if self.settle_waits.is_checking()
            && trigger == Trigger::PinMoved
            && let Some(id) = self.table.id(slot)
        {
            self.edges.pinned(id);
        }
        let at = self.table.slot(slot).attempt;
        if let Some(it) = self.attempts.at_mut(at) {
            (it.failures, it.asleep, it.throttled, it.said) = (0, None, None, None);
            it.forget_pushes();
        }
        self.trigger(now, slot, trigger, class);
    }

    /// R15: an asset that left intent is left alone and listed as an orphan, unless it was turned down before:
    /// `settled` with its last intent, which had the turndown addon.
    pub(super) fn orphan(
        &mut self,
        now: Now,
        slot: SlotNo,
        asset: &Asset,
        last: IncarnationNo,
        settled: bool,
        out: &mut Effects,
    ) {
        self.ledger.forget_kept(slot);
        let gone = asset.has_addon(addons::Turndown::TYPE) && settled;
        let (id, no) = (asset.id(), self.table.latest().no());
        let found = flag::IN_SYNC | flag::REACHED | flag::THERE;
        if gone {
            self.mark(slot, out, |entry| {
                entry.changed = no;
                entry.set(flag::ORPHAN | found, false);
            });
            self.edges.settle(&id, Vec::new());
            self.claims.amounts.next_round();
            self.record(Record::Asset(id, None), out);
        } else {
            self.count(Branch::Orphaned);
            self.had(slot, asset);
            self.mark(slot, out, |entry| {
                entry.changed = no;
                entry.set(flag::ORPHAN, true);
                entry.set(flag::IN_SYNC | flag::REACHED, false);
            });
            let orphaned = Orphaned {
                last,
                at: now.wall,
                asset: asset.canonical().to_owned(),
                edges: self.edges.of(&id),
            };
            self.record(Record::Orphan(id, Some(orphaned)), out);
        }
        self.table.last_settled_mut().forget(slot);
        if !gone {
            // R15: neither this owner nor the next one restores an orphan to an earlier content.
            self.remember(now, slot, out);
        }
        self.leave_alone(now, slot);
        self.left_intent(now, slot, asset, out);
        self.give_up(now, slot);
        if self.planted(Bug::RemoveOrphan) {
            self.trigger(now, slot, Trigger::IntentChanged, Class::Intent);
        }
    }

    /// Ends the attempt of an orphan, except while the outcome of a push is open. R11: what a run under way has found is
    /// void, even if the asset comes back into intent.
    fn leave_alone(&mut self, now: Now, slot: SlotNo) {
        let entry = self.table.slot(slot);
        if let Some(it) = self.attempts.at_mut(entry.attempt) {
            it.pin = PinNo::REPINNED;
        }
        match entry.state {
            State::Running => {}
            _ if entry.in_flight() => {}
            State::Idle => {}
            State::Queued => {
                self.kinds[entry.kind.index()].queued -= 1;
                self.table.slot_mut(slot).state = State::Idle;
                self.give_back_all(now, slot);
                self.finish(now, slot);
            }
            State::Waiting => {
                self.give_back_all(now, slot);
                self.finish(now, slot);
            }
        }
    }

    /// Ends the orphan state of an asset that has an intent again.
    pub(super) fn returned(&mut self, slot: SlotNo, out: &mut Effects) {
        self.ledger.forget_kept(slot);
        if self.table.slot(slot).has(flag::ORPHAN) {
            self.count(Branch::Returned);
            self.mark(slot, out, |entry| entry.set(flag::ORPHAN, false));
            if let Some(id) = self.table.id(slot) {
                self.record(Record::Orphan(id, None), out);
            }
        }
    }
}
