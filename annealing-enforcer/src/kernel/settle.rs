//! Settle: an asset that was found in sync gives back what it holds, is recorded, and wakes the assets that wait for it.

use plugin_sdk::Now;
use prodspec_model::addons::DependsOn;

use super::{
    Kernel,
    branch::Branch,
    event::Effects,
    state::{
        numbers::SlotNo,
        slot::{Class, Trigger, flag},
    },
};

impl Kernel {
    /// Handles an asset that was found in sync with its present intent.
    pub(super) fn settle(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        self.has_looked(slot, out);
        let entry = self.table.slot(slot);
        let (news, pinned) = (
            !entry.has(flag::IN_SYNC) || !entry.has(flag::REACHED),
            !entry.pin.is_newest(),
        );
        let at = entry.attempt;
        self.table.last_settled_mut().forget(slot);
        self.moved.remove(&slot);
        self.give_back_all(now, slot);
        if let Some(it) = self.attempts.at_mut(at) {
            (it.failures, it.voids, it.stales) = (0, 0, 0);
            it.told = 0;
            (it.asleep, it.throttled, it.said) = (None, None, None);
        }
        let confirmed = self.report_in_sync(now, slot);
        if !news {
            if confirmed {
                self.remember(now, slot, out);
            }
            // The asset may have drifted and recovered between two diffs, and a check may have seen the drift.
            return self.wake_settle_waiters(now, slot);
        }
        let pushed = self.attempts.at(at).is_some_and(|it| it.pushed.is_some());
        self.mark(slot, out, |entry| {
            entry.set(flag::IN_SYNC | flag::REACHED | flag::THERE, true)
        });
        self.end_approvals(now, slot, out);
        self.note_turned_down(slot);
        if pinned || pushed || !self.edges.is_empty() {
            let production = pinned.then(|| self.table.intent(slot)).flatten();
            let kept = production
                .map(|(asset, _)| DependsOn::edges_of(&asset))
                .unwrap_or_default();
            if let Some(id) = self.table.id(slot) {
                self.edges.settle(&id, kept);
                self.edges_changed(slot);
            }
        }
        if pushed || pinned || self.table.slot(slot).has(flag::RECORDED) {
            self.remember(now, slot, out);
        } else {
            self.table.slot_mut(slot).set(flag::UNRECORDED, true);
            self.ledger.settled_quietly(slot);
        }
        if let Some(it) = self.attempts.at_mut(at) {
            it.forget_pushes();
        }
        self.wake_settle_waiters(now, slot);
    }

    /// Wakes the assets that wait for this one to settle, and notes the settling for checks under way, which may name
    /// it.
    fn wake_settle_waiters(&mut self, now: Now, slot: SlotNo) {
        for waiter in self.settle_waits.settled(slot) {
            self.count(Branch::WokenBySettling);
            self.trigger(now, waiter, Trigger::DependencySettled, Class::Retry);
        }
    }
}
