//! Assets that production may have and whose type has no plugin in this program (R13, R15). They are left alone as orphans,
//! and keep edges, claims, open push and settled content until their type has a plugin again, or until an operator
//! acknowledges them.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::records::{AssetRecord, Floor, Orphaned, Settled};
use plugin_sdk::Now;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo, Message as _, TypeName, addons, snapshot::Location,
};

use super::{
    AtFloor, Kernel, Waiting,
    event::{Effects, Record},
    pin::policy_in,
    state::{
        numbers::{SlotNo, TypeNo},
        registered::RegisteredType,
        slot::{Slot, State, flag},
        table::Elsewhere,
    },
};

/// Why an asset of this type is left alone, and what an operator can do.
pub(super) fn why(type_name: &str) -> String {
    format!(
        "this program has no plugin for {type_name}; run one that has, or acknowledge the asset to leave its resource to \
         others"
    )
}

impl Kernel {
    /// Whether the type under which the asset is enforced, or was pushed last, has a plugin.
    pub(super) fn has_plugin(&self, slot: SlotNo) -> bool {
        self.kinds[self.table.slot(slot).kind.index()].has_plugin
    }

    /// Whether a plugin can compare this content of the asset with production, or an open push answers for it.
    pub(super) fn is_observable(&self, slot: SlotNo, asset: &Asset) -> bool {
        let entry = self.table.slot(slot);
        entry.in_flight() || self.kind_of(asset.type_str()).is_some()
    }

    /// The types that have a plugin in this program.
    pub(super) fn registered_types(&self) -> BTreeSet<TypeName> {
        let registered = self.kinds.iter().filter(|kind| kind.has_plugin);
        registered.map(|kind| kind.config.name.clone()).collect()
    }

    /// Why the asset waits for a plugin, if it does.
    pub(super) fn waits_for_plugin(&self, slot: SlotNo) -> Option<Waiting> {
        let kind = &self.kinds[self.table.slot(slot).kind.index()];
        (!kind.has_plugin).then(|| Waiting::Operator(why(kind.config.name.as_str())))
    }

    /// Returns the number of a type that a record names, whether it has a plugin or not. `None`: it is no type name.
    pub(super) fn stored_kind(&mut self, type_name: &str) -> Option<TypeNo> {
        let mut kinds = self.kinds.iter();
        let at = match kinds.position(|kind| kind.config.name.as_str() == type_name) {
            Some(at) => at,
            None => {
                let name = TypeName::new(type_name).ok()?;
                self.kinds.push(RegisteredType::without_plugin(name));
                self.kinds.len() - 1
            }
        };
        Some(TypeNo::from_index(at))
    }

    /// Gives slots to the assets of the newest incarnation, at `bare`, that production may have although their types have
    /// no plugin any more. Those of which only the floor knows get records of their own.
    pub(super) fn recover_without_plugin(
        &mut self,
        now: Now,
        bare: &[Location],
        floor: Option<&AtFloor>,
        records: &mut Vec<(AssetId, AssetRecord)>,
        out: &mut Effects,
    ) {
        let latest = self.table.latest().clone();
        let assets = bare.iter().filter_map(|at| latest.snapshot().at(*at));
        let mut bare: BTreeMap<AssetId, Asset> = assets.map(|asset| (asset.id(), asset)).collect();
        bare.retain(|id, _| self.table.find(id.as_str()).is_none());
        let recorded: BTreeSet<AssetId> = records.iter().map(|(id, _)| id.clone()).collect();
        for id in bare.keys().filter(|id| !recorded.contains(*id)) {
            let before = floor.and_then(|floor| Some((floor.asset(id)?, floor.incarnation.no())));
            if let Some((asset, no)) = before {
                let record = settled(now, &asset, no);
                self.record(Record::Asset(id.clone(), Some(record.clone())), out);
                records.push((id.clone(), record));
            }
        }
        for (id, record) in records.iter().filter(|(_, record)| may_be_there(record)) {
            if let Some(asset) = bare
                .remove(id)
                .filter(|asset| !is_turned_down(asset, record))
            {
                self.insert_without_plugin(asset, &latest, record);
            }
        }
        let Some(floor) = floor else { return };
        let types = self.registered_types();
        let types: BTreeSet<TypeName> = types.intersection(&floor.types).cloned().collect();
        if types != floor.types {
            let incarnation = floor.incarnation.no();
            self.record(Record::Floor(Floor { incarnation, types }), out);
        }
    }

    fn insert_without_plugin(&mut self, asset: Asset, last: &Incarnation, record: &AssetRecord) {
        let Some(kind) = self.stored_kind(asset.type_str()) else {
            return;
        };
        let (slot, policy) = (Slot::new(kind, None, last.no()), policy_in(&asset));
        let last = last.clone();
        let at = self.table.insert_elsewhere(slot, Elsewhere { asset, last });
        self.ledger.keep(at, record.clone());
        if let Some(policy) = policy {
            self.govern(at, &policy);
        }
    }

    /// R13: an open push is remembered whatever has happened to the intent of its asset: without a slot, the asset is an
    /// orphan with the content that was pushed.
    pub(super) fn recover_without_slot(
        &mut self,
        now: Now,
        records: &[(AssetId, AssetRecord)],
        named: &BTreeMap<IncarnationNo, Incarnation>,
        out: &mut Effects,
    ) {
        for (id, record) in records {
            let Some(open) = &record.open else { continue };
            if self.table.find(id.as_str()).is_some() {
                continue;
            }
            let pushed = named.get(&open.incarnation);
            let pushed = pushed.and_then(|last| Some((last.asset(id)?, last.clone())));
            let Some((asset, last)) = pushed else {
                continue;
            };
            let Some(kind) = self.stored_kind(asset.type_str()) else {
                continue;
            };
            let orphaned = Orphaned {
                last: last.no(),
                at: now.wall,
                asset: asset.canonical().to_owned(),
                edges: record.edges.clone(),
            };
            self.record(Record::Orphan(id.clone(), Some(orphaned)), out);
            let mut slot = Slot::new(kind, None, last.no());
            slot.set(flag::ORPHAN | flag::THERE, true);
            self.table.insert_elsewhere(slot, Elsewhere { asset, last });
        }
    }

    /// Makes the assets without a plugin orphans, except those that are pinned to content that has one.
    pub(super) fn mark_without_plugin(&mut self) {
        for slot in self.ledger.all_kept() {
            match self.table.has_intent(slot) {
                true => self.ledger.forget_kept(slot),
                false => self.table.slot_mut(slot).set(flag::ORPHAN, true),
            }
        }
    }

    /// Handles an asset without a plugin that changed in intent, or left it: then it is an orphan of its own (R15).
    pub(super) fn left_without_plugin(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        let Some(there) = self.table.elsewhere(slot).cloned() else {
            return;
        };
        if self.table.latest().asset(&there.asset.id()).is_none() {
            self.orphan(now, slot, &there.asset, there.last.no(), false, out);
        }
    }

    /// Takes the turn of an asset in the place of a diff. R13: an open push is over at its deadline, since no plugin shows
    /// its outcome. An asset that has an intent with a plugin goes on with that.
    pub(super) fn start_without_plugin(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        let entry = self.table.slot_mut(slot);
        entry.state = State::Running;
        let (at, in_flight) = (entry.attempt, entry.in_flight());
        if in_flight {
            let left = self.attempts.at(at).map(|it| it.call_until.since(now.mono));
            let left = left.unwrap_or_default();
            if !left.is_zero() {
                return self.wait_unknown(now, slot, left, out);
            }
            self.resolve(now, at, out);
        }
        if let Some((asset, _)) = self.table.intent(slot)
            && self.follow_type(now, slot, asset.type_str())
        {
            return;
        }
        self.finish(now, slot);
    }
}

/// The record of an asset of which only the floor knows that it was in sync.
fn settled(now: Now, asset: &Asset, incarnation: IncarnationNo) -> AssetRecord {
    AssetRecord {
        settled: Some(Settled {
            incarnation,
            content: asset.digest(),
            at: now.wall,
        }),
        edges: addons::DependsOn::edges_of(asset),
        ..AssetRecord::default()
    }
}

/// Whether the resource of the asset is gone from production, as its intent has it.
fn is_turned_down(asset: &Asset, record: &AssetRecord) -> bool {
    let content = record.settled.as_ref().map(|settled| settled.content);
    let done = record.open.is_none() && content == Some(asset.digest());
    done && asset.has_addon(addons::Turndown::TYPE)
}

/// Whether production may have the resource of an asset with this record.
pub(super) fn may_be_there(record: &AssetRecord) -> bool {
    // The edges of an asset that took over from its old id may be those of the resource under that id.
    let unpushed = record.moved.as_ref().is_some_and(|moved| !moved.pushed);
    let has_edges = !record.edges.is_empty() && !unpushed;
    record.settled.is_some() || record.open.is_some() || has_edges
}
