//! The effect of answers on a plugin's breakers, and the choice of the asset that probes an open breaker.

use plugin_sdk::{Now, plugin};

use super::{
    Kernel,
    branch::Branch,
    event::Effects,
    state::{
        numbers::SlotNo,
        numbers::TypeNo,
        slot::{State, Trigger},
    },
};

/// Whether a failure may be caused by the plugin rather than by the asset.
fn may_be_the_plugins(error: &plugin::Error) -> bool {
    matches!(
        error,
        plugin::Error::Transient { .. } | plugin::Error::Unknown { .. }
    )
}

impl Kernel {
    /// Probes a plugin behind an open breaker with an asset that succeeded recently, if any call waits for the plugin
    /// and there is such an asset. Returns whether it did.
    pub(super) fn start_probe(&mut self, now: Now, kind: TypeNo, out: &mut Effects) -> bool {
        let state = &self.kinds[kind.index()];
        let waits = state.queued > 0 || !state.asked.is_empty();
        if !waits || !self.may_diff(now, kind) {
            return false;
        }
        while let Some(slot) = self.kinds[kind.index()].breaker.last_well() {
            let entry = self.table.slot(slot);
            let rests = match entry.state {
                State::Running => false,
                State::Waiting => !self.must_wait(slot),
                State::Idle | State::Queued => true,
            };
            if entry.kind != kind || !rests || !self.table.has_intent(slot) {
                continue;
            }
            if entry.state == State::Queued {
                self.kinds[kind.index()].queued -= 1;
            }
            self.table.slot_mut(slot).trigger = Trigger::RetryDue;
            // An asset that waits is taken up without a queue.
            self.followed.touch(slot);
            self.start_diff(now, slot, out);
            return true;
        }
        false
    }

    /// Frees the plugin's capacity after a diff of `slot` and reports the answer to the breaker for diffs.
    pub(super) fn diff_ended(
        &mut self,
        now: Now,
        kind: TypeNo,
        slot: SlotNo,
        answer: Option<&plugin::Error>,
        is_late: bool,
        out: &mut Effects,
    ) {
        let known = self.is_known_to_fail(slot);
        let number = kind;
        let kind = &mut self.kinds[kind.index()];
        let was_open = kind.breaker.is_open();
        kind.diffs -= 1;
        match answer {
            // The deadline passed because this process stood still.
            Some(_) if is_late => kind.breaker.probe_withdrawn(),
            Some(error) if may_be_the_plugins(error) => {
                if kind.breaker.failed(now.mono, slot, known, &self.config) {
                    self.count(Branch::BreakerOpened);
                }
            }
            _ => {
                let span = kind.breaker.span(now.mono);
                let entry = self.table.slot_mut(slot);
                let first = std::mem::replace(&mut entry.counted, span) != span;
                kind.breaker.succeeded(slot, first);
            }
        }
        self.tell_breaker(number, "diff", was_open, out);
    }

    /// Reports the answer to a push of `slot` to the plugin's breaker for pushes.
    pub(super) fn push_call_ended(
        &mut self,
        now: Now,
        slot: SlotNo,
        error: Option<&plugin::Error>,
        is_late: bool,
        out: &mut Effects,
    ) {
        if let Some(error) = error {
            self.tell_failure(slot, error, out);
        }
        let known = self.is_known_to_fail(slot);
        let number = self.table.slot(slot).kind;
        let kind = &mut self.kinds[number.index()];
        let was_open = kind.push_breaker.is_open();
        match error {
            // The deadline passed because this process stood still.
            Some(_) if is_late => kind.push_breaker.probe_withdrawn(),
            Some(error) if may_be_the_plugins(error) => {
                if kind
                    .push_breaker
                    .failed(now.mono, slot, known, &self.config)
                {
                    self.count(Branch::BreakerOpened);
                }
            }
            _ => {
                kind.push_breaker.span(now.mono);
                kind.push_breaker.succeeded(slot, true);
            }
        }
        self.tell_breaker(number, "push", was_open, out);
    }

    /// Whether the previous call for an asset failed.
    pub(super) fn is_known_to_fail(&self, slot: SlotNo) -> bool {
        let it = self.attempts.at(self.table.slot(slot).attempt);
        it.is_some_and(|it| it.failures > 0)
    }
}
