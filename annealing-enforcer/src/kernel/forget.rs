//! Forgetting: the kernel keeps state for the assets that exist, not for all that ever existed.

use plugin_sdk::Now;

use super::{
    Kernel,
    event::{Effects, Record},
    state::{
        attempt::Phase,
        numbers::AttemptNo,
        numbers::SlotNo,
        slot::{Class, State, Trigger, flag},
    },
};

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
            kind.asked.iter().any(|asked| asked.slot == slot)
        };
        if self.holds.is_held(slot) || self.kinds.iter().any(asked) {
            return;
        }
        let Some(id) = self.table.id(slot) else {
            return;
        };
        self.edges.settle(&id, Vec::new());
        self.claims.amounts.set_consumed(&slot, std::iter::empty());
        self.claims.amounts.next_round();
        self.claims.floors.gone(&slot);
        self.census.forget(slot);
        self.ledger.forget_kept(slot);
        self.moved.remove(&slot);
        self.observations.forget(slot);
        self.holds.take_waiters(slot);
        let waiters = self.settle_waits.give_up(slot);
        self.table.give_up(slot);
        self.followed.left(slot);
        self.ledger.gave_up(id);
        for waiter in waiters {
            self.trigger(now, waiter, Trigger::DependencySettled, Class::Retry);
        }
    }

    /// Deletes the decisions about assets that are gone, so that retention may remove the incarnations that they name.
    pub(super) fn forget_gone(&mut self, out: &mut Effects) {
        for id in self.ledger.take_gone() {
            self.record(Record::Gone(id), out);
        }
    }

    /// Drops entries that are older than every check under way.
    pub(super) fn forget_seen(&mut self) {
        if !self.settle_waits.is_checking() {
            self.settle_waits.drop_before(u64::MAX);
            self.edges.forget_touched(u64::MAX);
            return;
        }
        if !self.settle_waits.has_many(self.edges.touched()) {
            return;
        }
        let checks = self.attempts.iter();
        let checks = checks.filter(|it| matches!(it.phase, Phase::Checking));
        let seen = checks.map(|it| (it.seen.edges, it.seen.settles));
        let oldest = |(edges, settles): (u64, u64), (e, s)| (edges.min(e), settles.min(s));
        let (edges, settles) = seen.fold((u64::MAX, u64::MAX), oldest);
        self.settle_waits.drop_before(settles);
        self.edges.forget_touched(edges);
        self.settle_waits.keep_at_most_twice(self.edges.touched());
    }
}
