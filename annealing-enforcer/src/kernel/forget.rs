//! Forgetting: the kernel keeps state for the assets that exist, not for all that ever existed.

use plugin_sdk::Now;

use super::{
    Kernel,
    event::{Effects, Record},
    state::{
        attempt::{AttemptNo, Phase},
        slot::{Class, SlotNo, State, Trigger, flag},
    },
};

/// Number of entries below which none are dropped while checks are under way.
const FEW_SEEN: usize = 1024;

impl Kernel {
    /// Gives up the slot of an asset that no incarnation in use has and whose resource is not in production.
    pub(super) fn give_up(&mut self, now: Now, slot: SlotNo) {
        let entry = self.table.slot(slot);
        let busy =
            entry.state != State::Idle || entry.attempt != AttemptNo::NONE || entry.in_flight();
        let there = entry.has(flag::ORPHAN | flag::THERE) || entry.location.is_some();
        if busy || there || self.table.is_pinned(slot) || self.table.has_intent(slot) {
            return;
        }
        let asked = |kind: &super::state::registered::RegisteredType| {
            kind.asked.iter().any(|asked| asked.is_of(slot))
        };
        if self.holds.contains_key(&slot) || self.kinds.iter().any(asked) {
            return;
        }
        let Some(id) = self.table.id(slot) else {
            return;
        };
        self.edges.settle(&id, Vec::new());
        self.claims.amounts.set_consumed(slot, std::iter::empty());
        self.claims.amounts.next_round();
        self.behind.remove(&slot);
        self.turned_down.remove(&slot);
        self.last_settled.forget(slot);
        self.observations.forget(slot);
        self.hold_waiters.remove(&slot);
        let waiters = self.settle_waiters.remove(&slot);
        self.table.give_up(slot);
        self.gone.push(id);
        for waiter in waiters.unwrap_or_default() {
            self.trigger(now, waiter, Trigger::DependencySettled, Class::Retry);
        }
    }

    /// Deletes the decisions about assets that are gone, so that retention may remove the incarnations that they name.
    pub(super) fn forget_gone(&mut self, out: &mut Effects) {
        for id in std::mem::take(&mut self.gone) {
            self.record(Record::Gone(id), out);
        }
    }

    /// Drops entries that are older than every check under way.
    pub(super) fn forget_seen(&mut self) {
        if self.checking == 0 {
            self.settle_log.clear();
            self.edges.forget_touched(u64::MAX);
            return;
        }
        let noted = self.settle_log.len() + self.edges.touched();
        if noted <= self.many_seen.max(FEW_SEEN) {
            return;
        }
        let checks = self.attempts.iter();
        let checks = checks.filter(|it| matches!(it.phase, Phase::Checking));
        let seen = checks.map(|it| (it.edges_seen, it.settles_seen));
        let oldest = |(edges, settles): (u64, u64), (e, s)| (edges.min(e), settles.min(s));
        let (edges, settles) = seen.fold((u64::MAX, u64::MAX), oldest);
        self.settle_log.retain(|_, at| *at > settles);
        self.edges.forget_touched(edges);
        self.many_seen = 2 * (self.settle_log.len() + self.edges.touched());
    }
}
