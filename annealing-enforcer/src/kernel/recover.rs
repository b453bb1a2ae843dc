//! Recovery: from the records of the former owner to a kernel that continues its work.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::records::{AssetRecord, Orphaned};
use plugin_sdk::{FencingToken, GroupHead, Now, Pin, SyncState};
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo, Message as _, addons, snapshot::Location,
};

use super::{
    AtFloor, Kernel, Recovered,
    branch::Branch,
    event::{Effects, Record},
    pin::policy_in,
    publish::AHEAD,
    state::{
        numbers::AttemptNo,
        numbers::SlotNo,
        pins::Stand,
        registered::RegisteredType,
        slot::{Class, Slot, State, Trigger, flag},
        table::Elsewhere,
    },
    without_plugin::may_be_there,
};
use crate::bug::Bug;
use crate::config::{Config, TypeConfig};

impl Kernel {
    /// Creates a kernel that takes the partition over. Unsettled assets are diffed first, the others over a drift
    /// period.
    pub fn recover(
        now: Now,
        config: Config,
        kinds: Vec<TypeConfig>,
        token: FencingToken,
        recovered: Recovered,
        out: &mut Effects,
    ) -> Self {
        let owned = recovered.owned.total;
        let mut kernel = Self::new(now, config, kinds, token, owned, recovered.latest);
        kernel.table.follow_latest(&recovered.heads);
        kernel.people.remember(recovered.interventions, now.wall);
        let kept = kernel.recover_orphans(recovered.orphans);
        let floor = recovered.floor;
        let mut assets = recovered.assets;
        kernel.recover_gone(now, recovered.gone, &assets, floor.as_ref(), out);
        let bare = kernel.recover_intent();
        kernel.recover_without_plugin(now, &bare, floor.as_ref(), &mut assets, out);
        kernel.recover_heads(recovered.heads);
        for (id, pin) in recovered.pins {
            kernel.recover_pin(id, pin);
        }
        kernel.recover_without_slot(now, &assets, &recovered.named, out);
        if let Some(floor) = &floor {
            kernel.recover_floor(floor);
        }
        let records: Vec<_> = assets
            .into_iter()
            .filter_map(|(id, record)| Some((kernel.table.find(id.as_str())?, id, record)))
            .collect();
        for (slot, id, record) in &records {
            kernel.recover_record(*slot, id, record);
            kernel.recover_settled(*slot, id, record, &recovered.named);
        }
        kernel.mark_without_plugin();
        kernel.recover_left(now, kept, out);
        for (slot, _, record) in &records {
            kernel.recover_push(now, *slot, record, &recovered.named, out);
        }
        let drifted = records.iter().filter(|(_, _, record)| record.drifted);
        let drifted: BTreeSet<SlotNo> = drifted.map(|(slot, ..)| *slot).collect();
        kernel.start(now, &drifted, out);
        kernel.recover_standings(now, &records);
        match recovered.newer {
            Some(newer) => kernel.publish(now, newer, out),
            None => {
                let taken = kernel.table.latest().no();
                kernel.record(Record::Taken(taken), out);
            }
        }
        kernel
    }

    /// Restores orphans. If the newest incarnation has such an asset nevertheless, its pin decides whether it is one.
    /// Returns the assets concerned.
    fn recover_orphans(&mut self, orphans: Vec<(Orphaned, Option<Incarnation>)>) -> Vec<Asset> {
        let mut kept = Vec::new();
        for (orphaned, last) in orphans {
            let Ok(asset) = Asset::try_from(orphaned.asset.as_str()) else {
                continue;
            };
            let Some(kind) = self.stored_kind(asset.type_str()) else {
                continue;
            };
            if self.table.locate(asset.id_str()).is_some() {
                self.edges.keep(&asset.id(), &orphaned.edges);
                kept.push(asset);
                continue;
            }
            let mut slot = Slot::new(kind, None, orphaned.last);
            slot.set(flag::ORPHAN, true);
            self.edges.keep(&asset.id(), &orphaned.edges);
            slot.set(flag::THERE, true);
            kept.push(asset.clone());
            let last = last.unwrap_or_else(|| self.table.latest().clone());
            let at = self.table.insert_elsewhere(slot, Elsewhere { asset, last });
            if let Some(policy) = self.policy_of(at) {
                self.govern(at, &policy);
            }
        }
        kept
    }

    /// R15 also holds for an asset that left intent while no process enforced the partition: unless it was turned down
    /// before, it becomes an orphan, and its edges count.
    fn recover_gone(
        &mut self,
        now: Now,
        gone: Vec<(Asset, Incarnation)>,
        records: &[(AssetId, AssetRecord)],
        floor: Option<&AtFloor>,
        out: &mut Effects,
    ) {
        for (asset, last) in gone {
            let id = asset.id();
            let record = records.iter().find(|(other, _)| *other == id);
            let record = record.map(|(_, record)| record);
            let was_enforced =
                record.is_some_and(may_be_there) || floor.is_some_and(|floor| floor.knows(&asset));
            let kind = match was_enforced {
                true => self.stored_kind(asset.type_str()),
                false => self.kind_of(asset.type_str()),
            };
            let Some(kind) = kind.filter(|_| self.table.find(id.as_str()).is_none()) else {
                continue;
            };
            let settled = |record: &AssetRecord| {
                let content = record.settled.as_ref().map(|settled| settled.content);
                record.open.is_none() && content == Some(asset.digest())
            };
            if asset.has_addon(addons::Turndown::TYPE) && record.is_none_or(settled) {
                self.record(Record::Asset(id.clone(), None), out);
                self.record(Record::Gone(id), out);
                continue;
            }
            self.count(Branch::Orphaned);
            let mut edges = addons::DependsOn::edges_of(&asset);
            edges.extend(record.into_iter().flat_map(|record| record.edges.clone()));
            self.edges.keep(&id, &edges);
            let orphaned = Orphaned {
                last: last.no(),
                at: now.wall,
                asset: asset.canonical().to_owned(),
                edges: self.edges.of(&id),
            };
            self.record(Record::Orphan(id, Some(orphaned)), out);
            let mut slot = Slot::new(kind, None, last.no());
            slot.set(flag::ORPHAN | flag::THERE, true);
            self.table.insert_elsewhere(slot, Elsewhere { last, asset });
        }
    }

    /// Restores the pin of an asset. An asset that the newest incarnation does not have is enforced where it is pinned.
    fn recover_pin(&mut self, id: AssetId, pin: Pin<Incarnation>) {
        let slot = self.table.find(id.as_str()).or_else(|| match &pin {
            Pin::At(last, _) => self.insert_from(last.asset(&id)?, last.clone()),
            _ => None,
        });
        match (slot, pin) {
            (_, Pin::Default) => {}
            (None, pin) => self.pins.put_early(id, pin),
            (Some(slot), Pin::NotYet) => self.table.set_pin(slot, None),
            (Some(slot), Pin::At(at, cause)) => self.table.set_pin(slot, Some((at, cause))),
        }
    }

    /// Adds a slot for an asset that is enforced at `last`, whatever the newest incarnation has of it.
    pub(super) fn insert_from(&mut self, asset: Asset, last: Incarnation) -> Option<SlotNo> {
        let at = self.insert_elsewhere(asset, last)?;
        if let Some(policy) = self.policy_of(at) {
            self.govern(at, &policy);
        }
        Some(at)
    }

    /// Adds such a slot without setting the policy that governs the asset.
    fn insert_elsewhere(&mut self, asset: Asset, last: Incarnation) -> Option<SlotNo> {
        let kind = self.kind_of(asset.type_str())?;
        let location = self.table.locate(asset.id_str());
        let slot = Slot::new(kind, location, last.no());
        let id = asset.id();
        let at = match location {
            Some(_) => self.table.insert(asset.id_str(), slot),
            None => self.table.insert_elsewhere(slot, Elsewhere { last, asset }),
        };
        self.followed.came(id.as_str(), at);
        Some(at)
    }

    /// Restores the heads of groups, and the policies of assets that only a head shows as governed. The cost is the
    /// changes from head to head, however many groups there are.
    fn recover_heads(&mut self, heads: Vec<(AssetId, GroupHead<Incarnation>)>) {
        let mut fixed = Vec::new();
        for (policy, head) in heads {
            fixed.extend(head.incarnation().cloned());
            self.table.set_head(&policy, head);
        }
        let latest = self.table.latest().clone();
        for (id, named) in named_since(&latest, fixed) {
            let newest = latest.asset(&id).as_ref().and_then(policy_in);
            let mut at_heads = self.at_heads(&id, newest, named);
            at_heads.sort_by_key(|(_, head, _)| std::cmp::Reverse(head.no()));
            let Some((policy, ..)) = at_heads.first().cloned() else {
                continue;
            };
            let known = self.table.find(id.as_str());
            let slot = known.or_else(|| {
                let mut there = at_heads.into_iter();
                there.find_map(|(_, head, asset)| self.insert_elsewhere(asset, head))
            });
            if let Some(slot) = slot.filter(|slot| !self.table.slot(*slot).has(flag::GOVERNED)) {
                self.govern(slot, &policy);
            }
        }
    }

    /// Returns the content of an asset at the heads of the groups that may govern it: at the head of the policy that
    /// the newest incarnation names for it, otherwise at the heads where it names the head's own policy.
    fn at_heads(
        &self,
        id: &AssetId,
        newest: Option<AssetId>,
        named: BTreeSet<AssetId>,
    ) -> Vec<(AssetId, Incarnation, Asset)> {
        let is_named = newest.is_some();
        let policies = match newest {
            Some(policy) => BTreeSet::from([policy]),
            None => named,
        };
        let at_head = |policy: AssetId| {
            let head = self.table.head(&policy)?.clone();
            let asset = head.asset(id)?;
            let governs = is_named || policy_in(&asset).as_ref() == Some(&policy);
            governs.then_some((policy, head, asset))
        };
        policies.into_iter().filter_map(at_head).collect()
    }

    pub(super) fn govern(&mut self, slot: SlotNo, policy: &AssetId) {
        self.table.slot_mut(slot).set(flag::GOVERNED, true);
        if !self.planted(Bug::FollowLatest) {
            let place = self.table.default_place(Some(policy));
            self.table.set_place(slot, place);
        }
    }

    /// Updates the orphan state: an asset with an intent is no orphan. An asset without one that production may have is
    /// an orphan.
    fn recover_left(&mut self, now: Now, kept: Vec<Asset>, out: &mut Effects) {
        for asset in kept {
            let Some(slot) = self.table.find(asset.id_str()) else {
                continue;
            };
            let intended = self.table.has_intent(slot);
            self.table
                .slot_mut(slot)
                .set(flag::ORPHAN | flag::THERE, true);
            if intended {
                self.table.slot_mut(slot).set(flag::ORPHAN, false);
                self.record(Record::Orphan(asset.id(), None), out);
            }
        }
        for slot in SlotNo::all(self.table.len()) {
            let entry = self.table.slot(slot);
            let left = !entry.pin.is_newest()
                && entry.has(flag::RECORDED)
                && entry.has(flag::THERE)
                && !entry.has(flag::ORPHAN)
                && !self.table.has_intent(slot);
            if let Some(asset) = self.table.known(slot).filter(|_| left) {
                let last = self.table.latest().no();
                self.table.slot_mut(slot).set(flag::ORPHAN, true);
                let orphaned = Orphaned {
                    last,
                    at: now.wall,
                    asset: asset.canonical().to_owned(),
                    edges: self.edges.of(&asset.id()),
                };
                self.record(Record::Orphan(asset.id(), Some(orphaned)), out);
            }
        }
    }

    /// R20: an asset recorded as in sync at its pin is in sync there; the others are diffed. R21: an asset that was
    /// pushed there and is recorded as unhealthy is unhealthy.
    fn recover_standings(&mut self, now: Now, records: &[(SlotNo, AssetId, AssetRecord)]) {
        let settled = |(slot, _, record): &(SlotNo, AssetId, AssetRecord)| {
            let settled = record.settled.as_ref()?;
            Some((*slot, (settled.incarnation, settled.at)))
        };
        let settled: BTreeMap<_, _> = records.iter().filter_map(settled).collect();
        let ill = |(slot, _, record): &(SlotNo, AssetId, AssetRecord)| {
            Some((*slot, record.unhealthy.clone()?))
        };
        let mut ill: BTreeMap<_, _> = records.iter().filter_map(ill).collect();
        for slot in SlotNo::all(self.table.len()) {
            if !self.table.is_pinned(slot) {
                continue;
            }
            let intent = self.table.intent(slot);
            let pinned = intent.as_ref().map(|(_, incarnation)| incarnation.no());
            let unhealthy = ill.remove(&slot);
            let unhealthy = unhealthy.filter(|ill| Some(ill.incarnation) == pinned);
            let confirmed = match intent {
                None => Some(now.wall),
                Some((_, incarnation)) => settled
                    .get(&slot)
                    .filter(|(there, _)| *there == incarnation.no())
                    .map(|(_, at)| *at),
            };
            let entry = self.table.slot(slot);
            let in_sync = !self.table.has_intent(slot) || entry.has(flag::IN_SYNC);
            let at = confirmed.filter(|_| in_sync);
            let unhealthy = unhealthy.map(|ill| ill.why);
            let state = match (unhealthy.clone(), at) {
                (Some(why), _) => SyncState::Unhealthy { why },
                (None, Some(since)) => SyncState::InSync { since },
                (None, None) => SyncState::out_of_sync(now.wall),
            };
            let stand = Stand {
                after: self.table.slot(slot).n,
                confirmed: at.is_some(),
                state,
                unhealthy,
            };
            self.pins.put(slot, stand);
            if self.awaits_look(slot) {
                self.trigger(now, slot, Trigger::PinMoved, Class::Intent);
            }
        }
    }

    /// Adds the assets of the newest incarnation. Returns the locations of those whose type has no plugin.
    fn recover_intent(&mut self) -> Vec<Location> {
        let mut bare = Vec::new();
        let latest = self.table.latest().clone();
        self.table.reserve(latest.snapshot().len());
        let empty = prodspec_model::Snapshot::empty();
        let places = empty.diff_locations(latest.snapshot());
        let places: Vec<Location> = places.into_iter().filter_map(|place| place.after).collect();
        for lot in places.chunks(AHEAD) {
            latest.snapshot().read_ahead(lot.iter().copied());
            for location in lot {
                if self.recover_asset(&latest, *location).is_none() {
                    bare.push(*location);
                }
            }
        }
        self.table.index_added();
        bare
    }

    /// Adds an asset of the newest incarnation, unless its type has no plugin.
    fn recover_asset(&mut self, latest: &Incarnation, location: Location) -> Option<()> {
        let asset = latest.snapshot().at(location)?;
        let kind = self.kind_of(asset.type_str())?;
        let slot = Slot::new(kind, Some(location), latest.no());
        let slot = self.table.insert_later(asset.id_str(), slot);
        if let Some(policy) = policy_in(&asset) {
            self.govern(slot, &policy);
        }
        Some(())
    }

    /// Marks each asset as in sync whose content is the one in `floor`: all assets without a record were in sync with
    /// that.
    fn recover_floor(&mut self, floor: &AtFloor) {
        self.ledger.set_floor(floor.incarnation.no());
        let was_enforced = |kind: &RegisteredType| floor.types.contains(&kind.config.name);
        let was_enforced: Vec<bool> = self.kinds.iter().map(was_enforced).collect();
        for at in SlotNo::all(self.table.len()) {
            let slot = self.table.slot_mut(at);
            let follows = slot.location.is_some() && slot.pin.is_newest();
            let follows = follows && was_enforced[slot.kind.index()];
            slot.set(flag::REACHED | flag::THERE, follows);
        }
        let latest = self.table.latest().snapshot().clone();
        for change in floor.incarnation.snapshot().diff(&latest) {
            let before = change.before.as_ref().filter(|asset| floor.knows(asset));
            let Some(at) = self.table.find(change.id().as_str()) else {
                continue;
            };
            let slot = self.table.slot_mut(at);
            slot.set(flag::REACHED, false);
            slot.set(flag::THERE, before.is_some() && slot.pin.is_newest());
            if before.is_some() && slot.pin.is_newest() && slot.location.is_some() {
                let floor = floor.incarnation.clone();
                self.table.last_settled_mut().keep(at, floor, None);
            }
            if let Some(before) = before {
                let (id, edges) = (before.id(), addons::DependsOn::edges_of(before));
                self.edges.keep(&id, &edges);
                self.edges.had(&id, &edges);
            }
        }
    }

    fn recover_record(&mut self, at: SlotNo, id: &AssetId, record: &AssetRecord) {
        let intent = self.table.intent(at);
        let content = intent.as_ref().map(|(asset, _)| asset.digest());
        let reached = record
            .settled
            .as_ref()
            .is_some_and(|settled| Some(settled.content) == content);
        let slot = self.table.slot_mut(at);
        slot.set(flag::RECORDED, true);
        slot.set(flag::REACHED, reached);
        slot.set(flag::THERE, may_be_there(record));
        self.moved
            .extend(record.moved.clone().map(|moved| (at, moved)));
        let slot = self.table.slot(at);
        let follows_latest = slot.pin.is_newest() && reached && record.open.is_none();
        if follows_latest {
            self.edges.settle(id, Vec::new());
        } else if !self.planted(Bug::ForgetVanishedEdge) {
            self.edges.keep(id, &record.edges);
            self.edges.had(id, &record.edges);
        }
    }

    /// R6: drift is repaired to the content with which an asset settled before its intent changed.
    fn recover_settled(
        &mut self,
        at: SlotNo,
        id: &AssetId,
        record: &AssetRecord,
        kept: &BTreeMap<IncarnationNo, Incarnation>,
    ) {
        self.table.last_settled_mut().forget(at);
        let Some(settled) = &record.settled else {
            return;
        };
        let pending = !self.table.slot(at).has(flag::REACHED) && self.table.has_intent(at);
        let before = kept.get(&settled.incarnation).filter(|_| pending);
        let content = |before: &&Incarnation| before.asset(id).map(|asset| asset.digest());
        if let Some(before) = before.filter(|it| content(it) == Some(settled.content)) {
            self.table.last_settled_mut().keep(at, before.clone(), None);
        }
    }

    /// Queues the unsettled assets, `drifted` ones included. The others count as settled until the drift scan diffs
    /// them.
    fn start(&mut self, now: Now, drifted: &BTreeSet<SlotNo>, out: &mut Effects) {
        for at in SlotNo::all(self.table.len()) {
            let slot = self.table.slot_mut(at);
            let (reached, idle) = (slot.has(flag::REACHED), slot.state == State::Idle);
            let settled = slot.attempt == AttemptNo::NONE && !drifted.contains(&at);
            slot.set(flag::IN_SYNC, reached && settled);
            self.note_turned_down(at);
            self.note_orphan(at);
            let counts = self.counts_as_unsettled(at);
            self.census.recount_one(false, counts);
            if self.table.slot(at).has(flag::GOVERNED) {
                self.count_behind(at, out);
            }
            if idle && !self.table.slot(at).has(flag::IN_SYNC) && self.table.has_intent(at) {
                self.enqueue(now, at, Trigger::IntentChanged, Class::Intent);
            }
        }
        out.settled_changed = true;
    }
}

#[cfg(test)]
thread_local! {
    /// Number of changes between heads that this thread examined.
    pub(super) static EXAMINED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns all assets that changed since the oldest of `heads`, with the policies that they named meanwhile.
fn named_since(
    latest: &Incarnation,
    heads: Vec<Incarnation>,
) -> BTreeMap<AssetId, BTreeSet<AssetId>> {
    let heads = heads.into_iter();
    let mut named: BTreeMap<AssetId, BTreeSet<AssetId>> = BTreeMap::new();
    for change in Incarnation::changes_step_by_step(heads.chain([latest.clone()])).flatten() {
        #[cfg(test)]
        EXAMINED.set(EXAMINED.get() + 1);
        for asset in change.before.into_iter().chain(change.after) {
            let policies = named.entry(asset.id()).or_default();
            policies.extend(policy_in(&asset));
        }
    }
    named
}
