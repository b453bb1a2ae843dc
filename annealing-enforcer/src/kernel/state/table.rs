//! The table of assets by slot and by id, and of the incarnations at which they are pinned.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{Cause, Pin};
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationNo, TypeName, snapshot::Location,
};

use super::{
    fences::Fences,
    index::Index,
    last_settled::LastSettled,
    numbers::SlotNo,
    pin_entry::{Name, PinEntry, PinNo, is_unused},
    slot::{Slot, flag},
};

/// The slots, the index by id and the pins.
#[derive(Debug)]
pub(in crate::kernel) struct Table {
    slots: Vec<Slot>,
    /// Slots that no asset needs any more, to be reused.
    free: Vec<SlotNo>,
    /// A call number above those of all assets whose slots were given up.
    calls: u32,
    pub(in crate::kernel) fences: Fences,
    index: Index,
    /// The types that have a plugin. Assets of other types are modelled only and are not enforced.
    types: Vec<TypeName>,
    pub(super) latest: Incarnation,
    /// The last incarnation in which a policy that is a check changed.
    policies_since: IncarnationNo,
    /// The pins by place. Place 0 stands for the newest incarnation and is empty.
    pub(super) pins: Vec<Option<PinEntry>>,
    /// The place of each pin that is not the default of a group.
    places: BTreeMap<Name, PinNo>,
    /// Places that may be unused: all unused ones, and some that were taken since.
    pub(super) idle: BTreeSet<PinNo>,
    /// The place of each policy group's default pin.
    pub(super) groups: BTreeMap<AssetId, PinNo>,
    /// Assets that the newest incarnation does not have, or has as modelled only: orphans, and assets pinned elsewhere.
    elsewhere: BTreeMap<SlotNo, Elsewhere>,
    /// The contents with which assets settled last whose intent has changed since.
    last_settled: LastSettled,
}

/// An asset that the newest incarnation does not have, or has as modelled only.
#[derive(Debug, Clone)]
pub(in crate::kernel) struct Elsewhere {
    pub(in crate::kernel) asset: Asset,
    pub(in crate::kernel) last: Incarnation,
}

impl Table {
    pub(in crate::kernel) fn new(types: Vec<TypeName>, latest: Incarnation) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            calls: 0,
            fences: Fences::default(),
            types,
            index: Index::default(),
            latest,
            policies_since: IncarnationNo::default(),
            pins: vec![None],
            places: BTreeMap::new(),
            idle: BTreeSet::new(),
            groups: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            last_settled: LastSettled::default(),
        }
    }

    pub(in crate::kernel) fn last_settled(&self) -> &LastSettled {
        &self.last_settled
    }

    pub(in crate::kernel) fn last_settled_mut(&mut self) -> &mut LastSettled {
        &mut self.last_settled
    }

    pub(in crate::kernel) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Number of slots that an asset uses.
    pub(in crate::kernel) fn used(&self) -> u32 {
        self.len() - self.free.len() as u32
    }

    pub(in crate::kernel) fn elsewhere_slots(&self) -> impl Iterator<Item = SlotNo> {
        self.elsewhere.keys().copied()
    }

    pub(in crate::kernel) fn slot(&self, at: SlotNo) -> &Slot {
        &self.slots[at.index()]
    }

    pub(in crate::kernel) fn slot_mut(&mut self, at: SlotNo) -> &mut Slot {
        &mut self.slots[at.index()]
    }

    #[cfg(test)]
    pub(in crate::kernel) fn slots(&self) -> impl Iterator<Item = (SlotNo, &Slot)> {
        SlotNo::all(self.len()).zip(&self.slots)
    }

    pub(in crate::kernel) fn latest(&self) -> &Incarnation {
        &self.latest
    }

    /// Makes `newer` the newest incarnation. The caller updates the locations in the slots.
    pub(in crate::kernel) fn set_latest(&mut self, newer: Incarnation) {
        self.latest = newer;
    }

    pub(in crate::kernel) fn policies_since(&self) -> IncarnationNo {
        self.policies_since
    }

    /// Notes that policies that are checks changed in the newest incarnation.
    pub(in crate::kernel) fn policies_changed(&mut self) {
        self.policies_since = self.latest.no();
    }

    pub(in crate::kernel) fn find(&self, id: &str) -> Option<SlotNo> {
        self.index
            .find(id, |at| self.with_id(at, |known| known == id))
    }

    /// Reserves slots for `more` assets at once.
    pub(in crate::kernel) fn reserve(&mut self, more: usize) {
        if more > self.slots.len() {
            self.slots.reserve_exact(more);
        } else {
            self.slots.reserve(more);
        }
        self.index.reserve(more);
    }

    /// Adds a slot for `id`, which has none yet.
    pub(in crate::kernel) fn insert(&mut self, id: &str, slot: Slot) -> SlotNo {
        let at = self.put(slot);
        self.index_with(|index, hash_of| index.insert(id, at, hash_of));
        at
    }

    /// Adds a slot for `id`, which has none yet. [`Table::find`] finds it after [`Table::index_added`].
    pub(in crate::kernel) fn insert_later(&mut self, id: &str, slot: Slot) -> SlotNo {
        let at = self.put(slot);
        self.index.insert_later(id, at);
        at
    }

    /// Takes the slots into the index that [`Table::insert_later`] added.
    pub(in crate::kernel) fn index_added(&mut self) {
        self.index_with(|index, hash_of| index.take_added(hash_of));
    }

    fn put(&mut self, mut slot: Slot) -> SlotNo {
        let at = self.next_place();
        // Providers refuse calls with a lower number than the last one that they saw, whatever slot it came from.
        slot.n = self.calls;
        self.fences.raise(at, self.calls);
        match self.free.pop() {
            Some(_) => {
                // The push counter goes on, so that findings about the slot's former asset do not match.
                slot.seq = self.slot(at).seq;
                self.slots[at.index()] = slot;
            }
            None => self.slots.push(slot),
        }
        at
    }

    /// Changes the index; `change` gets it with the function that hashes the id of a slot's asset.
    fn index_with(&mut self, change: impl FnOnce(&mut Index, &dyn Fn(&Index, SlotNo) -> u64)) {
        let (slots, latest, elsewhere) = (&self.slots, &self.latest, &self.elsewhere);
        change(&mut self.index, &|index, at| {
            let asset = id_of(slots, latest, elsewhere, at);
            index.hash(asset.as_ref().map_or("", Asset::id_str))
        });
    }

    /// Adds a slot for an asset that the newest incarnation does not have as an enforced one.
    pub(in crate::kernel) fn insert_elsewhere(&mut self, slot: Slot, there: Elsewhere) -> SlotNo {
        let id = there.asset.id();
        self.elsewhere.insert(self.next_place(), there);
        self.insert(id.as_str(), slot)
    }

    fn next_place(&self) -> SlotNo {
        let next = SlotNo::from_index(self.slots.len());
        self.free.last().copied().unwrap_or(next)
    }

    /// Gives up the slot of an asset that is in no incarnation in use. Its number is reused for another asset.
    pub(in crate::kernel) fn give_up(&mut self, at: SlotNo) {
        let Some(asset) = self.known(at) else { return };
        self.index.remove(asset.id_str(), at);
        self.elsewhere.remove(&at);
        self.last_settled.forget(at);
        self.set_place(at, PinNo::NEWEST);
        let (seq, n) = (self.slot(at).seq, self.slot(at).n);
        self.calls = self.calls.max(n.wrapping_add(1));
        self.fences.forget(at);
        *self.slot_mut(at) = Slot {
            seq: seq.wrapping_add(2),
            ..Slot::unused()
        };
        self.free.push(at);
    }

    #[cfg(test)]
    pub(in crate::kernel) fn pins(&self) -> usize {
        self.pins.len() + self.groups.len() + self.elsewhere.len()
    }

    /// Whether no asset uses the slot.
    pub(in crate::kernel) fn is_free(&self, at: SlotNo) -> bool {
        self.slot(at).location.is_none() && !self.elsewhere.contains_key(&at)
    }

    /// Whether a plugin enforces assets of this type.
    pub(in crate::kernel) fn enforces(&self, asset: &Asset) -> bool {
        self.types
            .iter()
            .any(|name| name.as_str() == asset.type_str())
    }

    /// Returns the asset's location in the newest incarnation, if it has the asset with an enforced type.
    pub(in crate::kernel) fn locate(&self, id: &str) -> Option<Location> {
        let newest = self.latest.snapshot();
        let enforced = newest.get(id).is_some_and(|asset| self.enforces(&asset));
        newest.locate(id).filter(|_| enforced)
    }

    /// Returns the incarnations that are the intent of an asset, are a group's head, or had an orphan last.
    pub(in crate::kernel) fn referenced(&self) -> Vec<IncarnationNo> {
        let used = |pinned: &&PinEntry| pinned.slots > 0 || pinned.group.is_some();
        let pinned = self.pins.iter().flatten().filter(used);
        let pinned =
            pinned.filter_map(|pinned| pinned.at.as_ref().map(|(incarnation, _)| incarnation.no()));
        let elsewhere = self.elsewhere.values().map(|there| there.last.no());
        std::iter::once(self.latest.no())
            .chain(pinned)
            .chain(elsewhere)
            .collect()
    }

    /// Whether every asset that has a slot is in the newest incarnation.
    pub(in crate::kernel) fn knows_of_latest_only(&self) -> bool {
        self.elsewhere.is_empty()
    }

    pub(in crate::kernel) fn elsewhere(&self, at: SlotNo) -> Option<&Elsewhere> {
        self.elsewhere.get(&at)
    }

    /// Notes that the newest incarnation no longer has the asset. `None`: it has the asset again.
    pub(in crate::kernel) fn set_elsewhere(&mut self, at: SlotNo, there: Option<Elsewhere>) {
        match there {
            Some(there) => self.elsewhere.insert(at, there),
            None => self.elsewhere.remove(&at),
        };
    }

    /// Returns the newest known content of the asset, from the newest incarnation that had it with an enforced type.
    pub(in crate::kernel) fn known(&self, at: SlotNo) -> Option<Asset> {
        id_of(&self.slots, &self.latest, &self.elsewhere, at)
    }

    pub(in crate::kernel) fn id(&self, at: SlotNo) -> Option<AssetId> {
        self.known(at).map(|asset| asset.id())
    }

    fn with_id<T>(&self, at: SlotNo, then: impl FnOnce(&str) -> T) -> T {
        then(self.known(at).as_ref().map_or("", Asset::id_str))
    }

    /// Brings the contents of several assets into the caches that are read soon.
    pub(in crate::kernel) fn read_ahead(&self, slots: impl Iterator<Item = SlotNo>) {
        let places = slots.filter_map(|at| self.slot(at).location);
        self.latest.snapshot().read_ahead(places);
    }

    /// Returns the asset's intent at its pin. `None`: it has no intent, and is left alone.
    pub(in crate::kernel) fn intent(&self, at: SlotNo) -> Option<(Asset, Incarnation)> {
        self.intent_by(at, self.slot(at).pin)
    }

    /// Returns the intent that the asset would have with the pin at `place`.
    pub(in crate::kernel) fn intent_by(
        &self,
        at: SlotNo,
        place: PinNo,
    ) -> Option<(Asset, Incarnation)> {
        match self.pins.get(place.index())? {
            None => {
                let asset = self.latest.snapshot().at(self.slot(at).location?)?;
                Some((asset, self.latest.clone()))
            }
            Some(pinned) => {
                let (incarnation, _) = pinned.at.as_ref()?;
                let known = self.known(at)?;
                let asset = incarnation.snapshot().get(known.id_str())?;
                self.enforces(&asset).then(|| (asset, incarnation.clone()))
            }
        }
    }

    /// Returns the digest of the asset's content at its pin, modelled only or not.
    pub(in crate::kernel) fn content(&self, at: SlotNo) -> Option<Digest> {
        let known = self.known(at)?;
        let incarnation = match self.pins.get(self.slot(at).pin.index())? {
            None => &self.latest,
            Some(pinned) => &pinned.at.as_ref()?.0,
        };
        let asset = incarnation.snapshot().get(known.id_str())?;
        Some(asset.digest())
    }

    /// Whether the asset has an intent. The asset itself is read only if that is necessary.
    pub(in crate::kernel) fn has_intent(&self, at: SlotNo) -> bool {
        let slot = self.slot(at);
        if slot.pin.is_newest() {
            slot.location.is_some()
        } else {
            self.intent(at).is_some()
        }
    }

    /// Whether the asset is in the newest incarnation as an enforced one, and the rollout of its policy group has not
    /// given it an intent yet.
    pub(in crate::kernel) fn is_not_yet(&self, at: SlotNo) -> bool {
        let slot = self.slot(at);
        let pinned = self.pins.get(slot.pin.index());
        slot.location.is_some() && matches!(pinned, Some(Some(PinEntry { at: None, .. })))
    }

    /// Returns the cause of the asset's pin, if it has one.
    pub(in crate::kernel) fn pin_cause(&self, at: SlotNo) -> Option<Cause> {
        self.pins
            .get(self.slot(at).pin.index())?
            .as_ref()?
            .at
            .as_ref()
            .map(|(_, cause)| *cause)
    }

    /// Returns the asset's own pin, or [`Pin::Default`] if it has none.
    pub(in crate::kernel) fn pin_of(&self, at: SlotNo) -> Pin<Incarnation> {
        match self.pins.get(self.slot(at).pin.index()) {
            Some(Some(PinEntry { group: Some(_), .. })) => Pin::Default,
            Some(Some(PinEntry {
                at: Some((incarnation, cause)),
                ..
            })) => Pin::At(incarnation.clone(), *cause),
            Some(Some(PinEntry { at: None, .. })) => Pin::NotYet,
            _ => Pin::Default,
        }
    }

    /// Whether the asset has a pin of its own.
    pub(in crate::kernel) fn is_pinned(&self, at: SlotNo) -> bool {
        let pinned = self.pins.get(self.slot(at).pin.index());
        matches!(pinned, Some(Some(PinEntry { group: None, .. })))
    }

    /// Returns a place for a new pin, an unused one if there is one. There are never more places than assets and groups
    /// together, so the number fits.
    pub(super) fn new_place(&mut self, pinned: PinEntry) -> PinNo {
        let place = self.idle_place().unwrap_or_else(|| {
            self.pins.push(None);
            PinNo::from_index(self.pins.len() - 1)
        });
        match self.pins[place.index()].replace(pinned) {
            Some(PinEntry {
                group: Some(policy),
                ..
            }) if self.place_of(&policy) == Some(place) => {
                self.groups.remove(&policy);
            }
            // The head of the group has another place by now.
            Some(PinEntry { group: Some(_), .. }) => {}
            Some(own) => {
                self.places.remove(&own.name());
            }
            None => {}
        }
        // The caller may not use the place after all.
        self.idle.insert(place);
        place
    }

    fn idle_place(&mut self) -> Option<PinNo> {
        while let Some(place) = self.idle.pop_first() {
            if is_unused(&self.pins[place.index()]) {
                return Some(place);
            }
        }
        None
    }

    /// Gives the asset a pin of its own: this incarnation, or (`None`) not yet.
    pub(in crate::kernel) fn set_pin(&mut self, at: SlotNo, pin: Option<(Incarnation, Cause)>) {
        let place = self.pin_place(pin);
        self.set_place(at, place);
    }

    /// Gives the asset the pin at this place.
    pub(in crate::kernel) fn set_place(&mut self, at: SlotNo, place: PinNo) {
        let old = self.slot(at).pin;
        if let Some(Some(pinned)) = self.pins.get_mut(place.index()) {
            pinned.slots += 1;
        }
        if let Some(Some(pinned)) = self.pins.get_mut(old.index()) {
            pinned.slots -= 1;
            if pinned.slots == 0 {
                self.idle.insert(old);
            }
        }
        self.slot_mut(at).pin = place;
    }

    fn pin_place(&mut self, wanted: Option<(Incarnation, Cause)>) -> PinNo {
        let entry = PinEntry {
            at: wanted,
            slots: 0,
            group: None,
        };
        let name = entry.name();
        if let Some(place) = self.places.get(&name) {
            return *place;
        }
        let place = self.new_place(entry);
        self.places.insert(name, place);
        place
    }

    /// Whether the last diff found the asset in sync and no push is in flight.
    pub(in crate::kernel) fn is_settled(&self, at: SlotNo) -> bool {
        let slot = self.slot(at);
        slot.has(flag::IN_SYNC) && !slot.in_flight()
    }
}

fn id_of(
    slots: &[Slot],
    latest: &Incarnation,
    elsewhere: &BTreeMap<SlotNo, Elsewhere>,
    at: SlotNo,
) -> Option<Asset> {
    match slots[at.index()].location {
        Some(location) => latest.snapshot().at(location),
        None => elsewhere.get(&at).map(|there| there.asset.clone()),
    }
}
