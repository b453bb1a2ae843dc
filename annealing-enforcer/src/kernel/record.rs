//! Records: the settled state, the records of assets, and decisions.

use control_plane_store::records::{
    AssetRecord, Decision, Floor, OpenPush, Outcome, ReliedOn, Settled, Unhealthy, excerpt,
};
use plugin_sdk::{Delay, Now};
use prodspec_model::{AssetId, Digest, addons::DependsOn};

use super::{
    Kernel,
    event::{Effects, Record},
    notice::Notice,
    state::{attempt::Attempt, numbers::SlotNo, people::Waiver, slot::flag},
};

impl Kernel {
    /// Notes that the last diff did not find the asset in sync.
    pub(super) fn out_of_sync(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        self.report_out_of_sync(now, slot);
        self.has_looked(slot, out);
        if self.table.slot(slot).has(flag::IN_SYNC) {
            self.mark(slot, out, |entry| entry.set(flag::IN_SYNC, false));
        }
    }

    /// Notes that a diff found the asset different from its content that was in sync before. R20: the next owner knows
    /// it, too.
    pub(super) fn drifted(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        let was_in_sync = self.table.slot(slot).has(flag::IN_SYNC);
        self.out_of_sync(now, slot, out);
        if was_in_sync {
            self.remember(now, slot, out);
        }
    }

    /// Notes that a diff has found something. It is the one that a command requires, unless it began before.
    pub(super) fn has_looked(&mut self, slot: SlotNo, out: &mut Effects) {
        let entry = self.table.slot(slot);
        if entry.has(flag::REQUIRED) && !entry.has(flag::RERUN) {
            self.mark(slot, out, |entry| entry.set(flag::REQUIRED, false));
        }
    }

    /// Changes a slot and updates the count of unsettled assets.
    pub(super) fn mark(
        &mut self,
        slot: SlotNo,
        out: &mut Effects,
        change: impl FnOnce(&mut super::state::slot::Slot),
    ) {
        let before = self.counts_as_unsettled(slot);
        change(self.table.slot_mut(slot));
        let after = self.counts_as_unsettled(slot);
        self.census.recount_one(before, after);
        self.note_orphan(slot);
        self.followed.touch(slot);
        out.settled_changed = true;
    }

    pub(super) fn counts_as_unsettled(&self, slot: SlotNo) -> bool {
        let entry = self.table.slot(slot);
        let found = entry.has(flag::IN_SYNC) && !entry.has(flag::REQUIRED);
        !entry.has(flag::ORPHAN) && !found && self.table.has_intent(slot)
    }

    /// Asks the shell to store a record. Returns its number.
    pub(super) fn record(&mut self, record: Record, out: &mut Effects) -> u64 {
        out.records.push(record);
        self.ledger.recorded()
    }

    /// Records the state of an asset: its settled content, open push, edges and claims. Returns the record's number.
    pub(super) fn remember(&mut self, now: Now, slot: SlotNo, out: &mut Effects) -> u64 {
        let Some(id) = self.table.id(slot) else {
            return self.ledger.last();
        };
        self.table.slot_mut(slot).set(flag::RECORDED, true);
        self.table.slot_mut(slot).set(flag::UNRECORDED, false);
        let record = self.asset_record(now, slot, &id);
        if record.open.is_some() {
            self.note_with_push(now, out);
        }
        self.record(Record::Asset(id, Some(record)), out)
    }

    /// Records assets that were found in sync without a push: all with one record when no asset is unsettled, otherwise
    /// in batches.
    pub(super) fn remember_quiet(&mut self, now: Now, out: &mut Effects) {
        if self.census.unsettled() == 0 {
            for slot in self.ledger.take_quiet() {
                self.table.slot_mut(slot).set(flag::UNRECORDED, false);
            }
            let no = self.table.latest().no();
            self.ledger.set_floor(no);
            let types = self.registered_types();
            self.record(
                Record::Floor(Floor {
                    incarnation: no,
                    types,
                }),
                out,
            );
            return;
        }
        for slot in self.ledger.take_quiet_batch(now.mono) {
            if self.table.slot(slot).has(flag::UNRECORDED) {
                self.remember(now, slot, out);
            }
        }
    }

    fn asset_record(&self, now: Now, slot: SlotNo, id: &AssetId) -> AssetRecord {
        let entry = self.table.slot(slot);
        let intent = self.table.intent(slot);
        let settled = intent
            .as_ref()
            .filter(|_| entry.has(flag::REACHED))
            .map(|(asset, incarnation)| (asset.digest(), incarnation.no()))
            .or_else(|| {
                let before = self.table.last_settled().of(slot)?;
                let asset = before.snapshot().get(id.as_str())?;
                Some((asset.digest(), before.no()))
            })
            .map(|(content, incarnation)| Settled {
                incarnation,
                content,
                at: now.wall,
            });
        // R20: a finding from before the pin moved is not one at the new pin, so the next owner diffs the asset first. R6:
        // it knows the content, so what it finds different is drift.
        let there = entry.has(flag::IN_SYNC) && self.pins.is_confirmed(slot).unwrap_or(true);
        let drifted = settled.is_some() && entry.has(flag::REACHED) && !there;
        let unhealthy = intent.as_ref().zip(self.unhealthy(slot));
        let unhealthy = unhealthy.map(|((_, incarnation), why)| Unhealthy {
            incarnation: incarnation.no(),
            why: why.clone(),
        });
        let mut edges = self.edges.of(id);
        if edges.is_empty() && settled.is_some() {
            edges = intent
                .map(|(asset, _)| DependsOn::edges_of(&asset))
                .unwrap_or_default();
        }
        let it = self.attempts.at(entry.attempt);
        let open = it.filter(|_| entry.in_flight());
        let open = open.map(|it| self.open_push(now, it));
        if let Some(kept) = self.ledger.kept(slot) {
            return AssetRecord {
                open,
                edges: self.edges.of(id),
                claims: it.map(|it| it.claims.clone()).unwrap_or_default(),
                ..kept.clone()
            };
        }
        AssetRecord {
            settled,
            drifted,
            open,
            edges,
            claims: it.map(|it| it.claims.clone()).unwrap_or_default(),
            unhealthy,
            moved: self.moved.get(&slot).cloned(),
        }
    }

    fn open_push(&self, now: Now, it: &Attempt) -> OpenPush {
        let config = &self.kinds[self.table.slot(it.slot).kind.index()].config;
        let change = it.change.as_ref();
        let relied_on = it.relies_on.iter();
        OpenPush {
            incarnation: it.pushed_at.as_ref().unwrap_or(&it.incarnation).no(),
            change: change.map_or(Digest([0; 32]), |change| change.digest),
            token: self.ownership.token(),
            at: now.wall,
            type_name: config.name.clone(),
            guard: it.pushed_guard.unwrap_or(config.guard),
            until: self.ownership.total(now.mono) + it.call_until.since(now.mono),
            relies_on: ReliedOn::new(relied_on.filter_map(|&relied| self.table.id(relied))),
        }
    }

    /// Records a decision, unless it is the same wait as in the last one.
    pub(super) fn decide(&mut self, now: Now, slot: SlotNo, outcome: Outcome, out: &mut Effects) {
        let entry = self.table.slot(slot);
        let (at, trigger) = (entry.attempt, entry.trigger);
        let (Some(it), Some(id)) = (self.attempts.at_mut(at), self.table.id(slot)) else {
            return;
        };
        let reasons = match &outcome {
            Outcome::Delayed(delays) => {
                let reason = |delay: &Delay| format!("{}: {}", delay.check, delay.reason);
                let reasons: Vec<_> = delays.iter().map(reason).collect();
                Some(reasons.join("\n"))
            }
            Outcome::Held(why) | Outcome::Failed(why) => Some(why.clone()),
            _ => None,
        };
        let said = reasons
            .as_ref()
            .map(|reasons| Digest::of(reasons.as_bytes()));
        if said.is_some() && said == it.said {
            return;
        }
        it.said = said;
        if let (Outcome::Delayed(_) | Outcome::Held(_), Some(why)) = (&outcome, reasons) {
            let (asset, why) = (id.clone(), excerpt(why));
            out.notices.push(Notice::Delayed { asset, why });
        }
        let decision = Decision {
            at: now.wall,
            trigger,
            cause: it.cause,
            incarnation: it.incarnation.no(),
            token: self.ownership.token(),
            change: it.change.as_ref().map(|change| change.digest),
            summary: it
                .change
                .as_ref()
                .map(|change| change.summary.clone())
                .unwrap_or_default(),
            allowed_by: match &outcome {
                Outcome::Admitted => it.waivers.iter().map(Waiver::allowed_by).collect(),
                _ => Vec::new(),
            },
            outcome,
        };
        self.record(Record::Decision(id, decision), out);
    }
}
