//! Pushes that a former owner left open: they count as in flight, with the holds and claims that they took (R13).

use std::collections::BTreeMap;

use control_plane_store::records::{AssetRecord, OpenPush, ReliedOn};
use plugin_sdk::Now;
use prodspec_model::{Incarnation, IncarnationNo};

use super::{
    Kernel,
    event::Effects,
    state::numbers::SlotNo,
    state::slot::{Class, Trigger},
};
use crate::bug::Bug;

impl Kernel {
    /// R13: restores an open push, which is in flight until a diff under the new token or until its deadline. Claims of
    /// a push that is over are held until the asset settles.
    pub(super) fn recover_push(
        &mut self,
        now: Now,
        at: SlotNo,
        record: &AssetRecord,
        named: &BTreeMap<IncarnationNo, Incarnation>,
        out: &mut Effects,
    ) {
        let held = !record.claims.is_empty() && self.table.has_intent(at);
        let open = record
            .open
            .as_ref()
            .filter(|_| !self.planted(Bug::LoseOpenPush));
        if open.is_none() && !held {
            return;
        }
        let pushed = open.and_then(|open| named.get(&open.incarnation).cloned());
        let incarnation = pushed.clone().unwrap_or_else(|| self.intended(at));
        let number = self
            .attempts
            .insert(at, incarnation, plugin_sdk::Cause::Intent);
        self.table.slot_mut(at).attempt = number;
        if let Some(attempt) = self.attempts.at_mut(number) {
            attempt.claims = record.claims.clone();
            attempt.pushed_at = pushed;
        }
        self.claims.restore(&at, &record.claims);
        if let Some(open) = open {
            self.recover_open(now, at, open, out);
        }
    }

    /// Returns the incarnation of the asset's intent, or of its last intent.
    pub(super) fn intended(&self, at: SlotNo) -> Incarnation {
        if let Some((_, incarnation)) = self.table.intent(at) {
            return incarnation;
        }
        let there = self.table.elsewhere(at).map(|there| there.last.clone());
        there.unwrap_or_else(|| self.table.latest().clone())
    }

    pub(super) fn recover_open(
        &mut self,
        now: Now,
        at: SlotNo,
        open: &OpenPush,
        out: &mut Effects,
    ) {
        let relies_on = self.relied_on(&open.relies_on);
        for &relied in &relies_on {
            self.holds.take(relied);
        }
        // The plugin that made the push also finds its outcome, whatever type the asset has now. Without that plugin,
        // the push is over at its deadline.
        let kind = self.stored_kind(open.type_name.as_str());
        self.table.slot_mut(at).kind = kind.unwrap_or(self.table.slot(at).kind);
        let number = self.table.slot(at).attempt;
        let left = open.until.saturating_sub(self.ownership.total(now.mono));
        let kind = self.table.slot(at).kind;
        let wait = left.min(self.kinds[kind.index()].config.push_total);
        if let Some(attempt) = self.attempts.at_mut(number) {
            attempt.relies_on = relies_on;
            attempt.pushed_guard = Some(open.guard);
            (attempt.push_until, attempt.call_until) = (now.mono + wait, now.mono + wait);
        }
        self.table.slot_mut(at).seq = 1;
        if self.is_guarded(at) {
            self.enqueue(now, at, Trigger::RetryDue, Class::Retry);
        } else {
            self.wait_unknown(now, at, wait, out);
        }
    }

    pub(super) fn relied_on(&self, recorded: &ReliedOn) -> Vec<SlotNo> {
        if let Some(ids) = recorded.named() {
            let known = ids.iter().filter_map(|id| self.table.find(id.as_str()));
            return known.collect();
        }
        let relied = |at: &SlotNo| {
            let asset = self.table.known(*at);
            asset.is_some_and(|asset| recorded.contains(asset.id_str()))
        };
        SlotNo::all(self.table.len()).filter(relied).collect()
    }
}
