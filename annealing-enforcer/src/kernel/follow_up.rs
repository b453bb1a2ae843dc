//! Follow-ups of pushes in progress: the plugin is called again and asked for the state of the work (R14).

use std::time::Duration;

use plugin_sdk::Now;

use super::{
    Kernel, branch::Branch, event::Effects, state::attempt::Phase, state::numbers::AttemptNo,
};
use crate::bug::Bug;

impl Kernel {
    /// R14: follows a push up. Ownership, pin and intent are compared again, the checks are not run again.
    pub(super) fn follow_up(&mut self, now: Now, at: AttemptNo, out: &mut Effects) {
        if !self.may_follow_up(now, at, out) {
            return;
        }
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let slot = it.slot;
        let config = &self.kinds[self.table.slot(slot).kind.index()].config;
        it.call_until = (now.mono + config.push_deadline).min(it.push_until);
        if self.is_guarded(slot) {
            self.count(Branch::Continued);
            return self.call_push(now, at, true, out);
        }
        // R13: before the call starts, its deadline has to be durable, so that a new owner knows it.
        let number = self.remember(now, slot, out);
        if let Some(it) = self.attempts.at_mut(at) {
            (it.follows, it.phase) = (true, Phase::Journaling(number));
            it.advance();
        }
        self.ledger.await_durable(number, at);
        if self.planted(Bug::PushBeforeDurable) {
            self.durable(now, number, out);
        }
    }

    /// Starts a follow-up after its deadline has become durable.
    pub(super) fn start_follow_up(&mut self, now: Now, at: AttemptNo, out: &mut Effects) {
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let late = now.mono >= it.call_until;
        let until = std::mem::replace(&mut it.call_until, now.mono);
        if !self.may_follow_up(now, at, out) {
            return;
        }
        if late {
            return self.follow_up(now, at, out);
        }
        if let Some(it) = self.attempts.at_mut(at) {
            it.call_until = until;
        }
        self.count(Branch::Continued);
        self.call_push(now, at, true, out);
    }

    /// Whether a push in progress may be followed up now. If not, it is tried again later for lack of the lease, or
    /// given up.
    fn may_follow_up(&mut self, now: Now, at: AttemptNo, out: &mut Effects) -> bool {
        if !self.has_lease(now) {
            self.follow_up_soon(now, at);
            return false;
        }
        let over = self
            .attempts
            .at(at)
            .is_none_or(|it| now.mono >= it.push_until);
        if over || !self.may_go_on(now, at) {
            self.count(Branch::ContinuationEnded);
            self.count_void(at);
            let why = "the push was given up while in progress".into();
            self.outcome_unknown(now, at, why, out);
            return false;
        }
        true
    }

    /// Schedules another attempt to follow up in one second.
    pub(super) fn follow_up_soon(&mut self, now: Now, at: AttemptNo) {
        if let Some(it) = self.attempts.at_mut(at) {
            it.phase = Phase::Continuing;
            it.advance();
            let soon = now.mono + Duration::from_secs(1);
            self.schedule.set(soon, at, it.generation);
        }
    }
}
