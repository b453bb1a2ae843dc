//! From what the last owner remembered to a kernel that goes on where it stopped.

use plane_store::records::{AssetRecord, Orphaned};
use plugin_sdk::{FencingToken, Now};
use prodspec_model::{Asset, AssetId, Incarnation, Message as _, addons};

use super::{
    Kernel,
    branch::{Branch, Bug},
    edges,
    event::{Effects, Pin, Record},
    people::Command,
    slot::{Class, NONE, Slot, State, Trigger, flag},
    table::Elsewhere,
    waiting::until,
};
use crate::config::{Config, TypeConfig};

/// Everything that is remembered of a partition.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The newest incarnation sealed.
    pub latest: Incarnation,
    /// Every asset of this one without a record of its own was in sync with it.
    pub floor: Option<Incarnation>,
    /// What is known of single assets.
    pub assets: Vec<(AssetId, AssetRecord)>,
    /// Assets that left intent, with the incarnation that had them last, if it is kept.
    pub orphans: Vec<(Orphaned, Option<Incarnation>)>,
    /// Assets that left intent while nobody enforced it, each with the last incarnation that had it.
    pub gone: Vec<(Asset, Incarnation)>,
    /// Moved pins.
    pub pins: Vec<(AssetId, Pin)>,
    /// What people said.
    pub people: Vec<Command>,
}

impl Recovered {
    /// A partition that was never enforced.
    pub fn nothing(latest: Incarnation) -> Self {
        Self {
            latest,
            floor: None,
            assets: Vec::new(),
            orphans: Vec::new(),
            gone: Vec::new(),
            pins: Vec::new(),
            people: Vec::new(),
        }
    }
}

impl Kernel {
    /// A kernel that takes over. Unsettled assets come first, the rest are looked at over a drift period.
    pub fn recover(
        now: Now,
        config: Config,
        kinds: Vec<TypeConfig>,
        token: FencingToken,
        recovered: Recovered,
        out: &mut Effects,
    ) -> Self {
        let mut kernel = Self::new(now, config, kinds, token, recovered.latest);
        for command in &recovered.people {
            kernel.people.hear(command);
        }
        kernel.recover_orphans(recovered.orphans);
        kernel.recover_gone(now, recovered.gone, &recovered.assets, out);
        kernel.recover_intent();
        for (id, pin) in recovered.pins {
            match kernel.pinned_slot(&id, &pin) {
                Some(slot) => kernel.table.set_pin(slot, pin),
                None => drop(kernel.early_pins.insert(id, pin)),
            }
        }
        if let Some(floor) = &recovered.floor {
            kernel.recover_floor(floor);
        }
        let records: Vec<_> = recovered
            .assets
            .into_iter()
            .filter_map(|(id, record)| Some((kernel.table.find(id.as_str())?, id, record)))
            .collect();
        for (slot, id, record) in &records {
            kernel.recover_record(*slot, id, record);
        }
        for (slot, _, record) in &records {
            kernel.recover_push(now, *slot, record, out);
        }
        kernel.start(now, out);
        kernel
    }

    fn recover_orphans(&mut self, orphans: Vec<(Orphaned, Option<Incarnation>)>) {
        for (orphaned, last) in orphans {
            let Ok(asset) = Asset::try_from(orphaned.asset.as_str()) else {
                continue;
            };
            let Some(kind) = self.kind_of(asset.type_str()) else {
                continue;
            };
            if self.table.latest().asset(&asset.id()).is_some() {
                continue;
            }
            let mut slot = Slot::new(kind, None, orphaned.last);
            slot.set(flag::ORPHAN, true);
            self.edges.keep(&asset.id(), &orphaned.edges);
            let at = self.table.insert_elsewhere(
                slot,
                Elsewhere {
                    last: last.unwrap_or_else(|| self.table.latest().clone()),
                    asset,
                },
            );
            debug_assert!(self.table.slot(at).location.is_none());
        }
    }

    /// R15 holds for what left intent unseen too: unless it was turned down before, it is an orphan, and its edges count.
    fn recover_gone(
        &mut self,
        now: Now,
        gone: Vec<(Asset, Incarnation)>,
        records: &[(AssetId, AssetRecord)],
        out: &mut Effects,
    ) {
        for (asset, last) in gone {
            let (id, kind) = (asset.id(), self.kind_of(asset.type_str()));
            let Some(kind) = kind.filter(|_| self.table.find(id.as_str()).is_none()) else {
                continue;
            };
            let record = records.iter().find(|(other, _)| *other == id);
            let record = record.map(|(_, record)| record);
            let settled = |record: &AssetRecord| {
                let content = record.settled.as_ref().map(|settled| settled.content);
                record.open.is_none() && content == Some(asset.digest())
            };
            if asset.has_addon(addons::Turndown::TYPE) && record.is_none_or(settled) {
                self.record(Record::Asset(id, None), out);
                continue;
            }
            self.count(Branch::Orphaned);
            let mut edges = edges::declared(&asset);
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
            slot.set(flag::ORPHAN, true);
            self.table.insert_elsewhere(slot, Elsewhere { last, asset });
        }
    }

    /// The slot of a pinned asset. One that is in no newer incarnation is enforced where it is pinned.
    fn pinned_slot(&mut self, id: &AssetId, pin: &Pin) -> Option<u32> {
        if let Some(slot) = self.table.find(id.as_str()) {
            return Some(slot);
        }
        let Pin::At(last, _) = pin else {
            return None;
        };
        let asset = last.asset(id)?;
        let mut slot = Slot::new(self.kind_of(asset.type_str())?, None, last.no());
        slot.set(flag::ORPHAN, true);
        let last = last.clone();
        Some(self.table.insert_elsewhere(slot, Elsewhere { last, asset }))
    }

    fn recover_intent(&mut self) {
        let latest = self.table.latest().clone();
        self.table.reserve(latest.snapshot().len());
        let empty = prodspec_model::Snapshot::empty();
        for place in empty.diff_locations(latest.snapshot()) {
            let Some((at, asset)) = place
                .after
                .and_then(|at| Some((at, latest.snapshot().at(at)?)))
            else {
                continue;
            };
            if let Some(kind) = self.kind_of(asset.type_str()) {
                self.table
                    .insert(asset.id_str(), Slot::new(kind, Some(at), latest.no()));
            }
        }
    }

    /// Whoever has the content that it had when everything was in sync, was in sync with it.
    fn recover_floor(&mut self, floor: &Incarnation) {
        self.floor = Some(floor.no());
        for at in 0..self.table.len() {
            let slot = self.table.slot_mut(at);
            slot.set(flag::REACHED, slot.location.is_some());
        }
        for change in floor
            .snapshot()
            .diff(&self.table.latest().snapshot().clone())
        {
            let Some(at) = self.table.find(change.id().as_str()) else {
                continue;
            };
            self.table.slot_mut(at).set(flag::REACHED, false);
            if let Some(before) = &change.before {
                self.edges.keep(&before.id(), &edges::declared(before));
            }
        }
    }

    fn recover_record(&mut self, at: u32, id: &AssetId, record: &AssetRecord) {
        let intent = self.table.intent(at);
        let content = intent.as_ref().map(|(asset, _)| asset.digest());
        let reached = record
            .settled
            .as_ref()
            .is_some_and(|settled| Some(settled.content) == content);
        let slot = self.table.slot_mut(at);
        slot.set(flag::RECORDED, true);
        slot.set(flag::REACHED, reached);
        let follows_latest = slot.pin == 0 && reached && record.open.is_none();
        if follows_latest {
            self.edges.settle(id, Vec::new());
        } else if !self.planted(Bug::ForgetVanishedEdge) {
            self.edges.keep(id, &record.edges);
        }
    }

    /// R13: an open push is in flight until a diff under the new token, or until its deadline.
    fn recover_push(&mut self, now: Now, at: u32, record: &AssetRecord, out: &mut Effects) {
        let held = !record.claims.is_empty() && self.table.has_intent(at);
        let open = record
            .open
            .as_ref()
            .filter(|_| !self.planted(Bug::LoseOpenPush));
        if open.is_none() && !held {
            return;
        }
        let incarnation = match self.table.intent(at) {
            Some((_, incarnation)) => incarnation,
            None => {
                let there = self.table.elsewhere(at).map(|there| there.last.clone());
                there.unwrap_or_else(|| self.table.latest().clone())
            }
        };
        let number = self
            .iterations
            .insert(at, incarnation, plugin_sdk::Cause::Intent);
        self.table.slot_mut(at).iteration = number;
        let Some(iteration) = self.iterations.at_mut(number) else {
            return;
        };
        iteration.claims = record.claims.clone();
        self.claims.restore(at, &record.claims);
        let Some(open) = open else { return };
        let relied_on = open
            .relies_on
            .iter()
            .filter_map(|id| self.table.find(id.as_str()));
        iteration.relies_on = relied_on.collect();
        for &relied in &iteration.relies_on {
            *self.holds.entry(relied).or_default() += 1;
        }
        let wait = until(now, open.until);
        (iteration.push_until, iteration.call_until) = (now.mono + wait, now.mono + wait);
        self.table.slot_mut(at).seq = 1;
        if self.is_guarded(at) {
            self.enqueue(now, at, Trigger::RetryDue, Class::Retry);
        } else {
            // A clock that jumped must not keep the asset for ever.
            let most = self.kinds[self.table.slot(at).kind as usize]
                .config
                .push_total;
            self.wait_unknown(now, at, wait.min(most), out);
        }
    }

    /// Unsettled assets first; the others count as settled until the drift scan says otherwise.
    fn start(&mut self, now: Now, out: &mut Effects) {
        for at in 0..self.table.len() {
            let slot = self.table.slot_mut(at);
            let (reached, idle) = (slot.has(flag::REACHED), slot.state == State::Idle);
            slot.set(flag::IN_SYNC, reached && slot.iteration == NONE);
            self.unsettled += u32::from(self.counts_as_unsettled(at));
            if idle && !self.table.slot(at).has(flag::IN_SYNC) && self.table.has_intent(at) {
                self.enqueue(now, at, Trigger::IntentChanged, Class::Intent);
            }
        }
        out.settled_changed = true;
    }
}
