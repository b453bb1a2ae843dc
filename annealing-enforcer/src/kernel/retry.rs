//! Waits: how a timer, a failure, a hold or a delay decides when an asset is diffed again.

use std::time::Duration;

use control_plane_store::records::{Outcome, excerpt};
use jiff::Timestamp;
use plugin_sdk::{Mono, Now, Run, plugin};

use super::{
    Kernel,
    branch::Branch,
    clock::until,
    event::{Call, Effects},
    state::{
        attempt::{Attempt, Phase, Wait},
        numbers::AttemptNo,
        numbers::SlotNo,
        slot::{Class, State, Trigger, cuts, flag},
    },
};

/// A timer that fires later than this after its time shows that this process stood still.
pub(super) const STOOD_STILL: Duration = Duration::from_secs(1);

impl Kernel {
    /// Handles a timer of an attempt that was due at `due`.
    pub(super) fn timer_fired(
        &mut self,
        now: Now,
        due: Mono,
        (at, generation): (AttemptNo, u32),
        out: &mut Effects,
    ) {
        let late = now.mono.since(due);
        let Some(attempt) = self
            .attempts
            .at(at)
            .filter(|it| it.generation == generation)
        else {
            return;
        };
        let (slot, run) = (attempt.slot, run_of(attempt));
        if self.prolong(now, at, late) {
            return;
        }
        let Some(attempt) = self.attempts.at(at) else {
            return;
        };
        match &attempt.phase {
            Phase::Diffing => {
                self.count(Branch::DiffDeadline);
                out.calls.push(Call::Abandon(run));
                let error = plugin::Error::transient("the diff passed its deadline");
                let (kind, is_late) = (self.table.slot(slot).kind, late > STOOD_STILL);
                self.diff_ended(now, kind, slot, Some(&error), is_late, out);
                self.failed(now, slot, &error, out);
            }
            Phase::Checking => {
                self.count(Branch::CheckDeadline);
                out.calls.push(Call::Abandon(run));
                self.checked(now, at, Err("the checks passed their deadline".into()), out);
            }
            Phase::Pushing => {
                self.count(Branch::PushDeadline);
                out.calls.push(Call::Abandon(run));
                let error = plugin::Error::unknown("the push passed its deadline");
                self.push_ended(now, at, Err(error), late > STOOD_STILL, out);
            }
            Phase::Continuing => self.follow_up(now, at, out),
            Phase::Waiting(wait) => {
                let (trigger, class) = match wait {
                    Wait::LookAgain => (Trigger::LookAgain, Class::Drift),
                    _ => (Trigger::RetryDue, Class::Retry),
                };
                self.enqueue(now, slot, trigger, class);
            }
            Phase::Permit => self.enqueue(now, slot, Trigger::RetryDue, Class::Retry),
            Phase::Queued | Phase::Journaling(_) => {}
        }
    }

    /// Extends the deadline of a diff or a check once, by the time for which this process stood still. A push has no
    /// more time than its record says. Returns whether the deadline was extended.
    fn prolong(&mut self, now: Now, at: AttemptNo, late: Duration) -> bool {
        let deadline = match self.attempts.at(at) {
            Some(it) if late <= STOOD_STILL || it.prolonged => return false,
            Some(it) if matches!(it.phase, Phase::Diffing) => {
                let kind = self.table.slot(it.slot).kind;
                self.kinds[kind.index()].config.diff_deadline
            }
            Some(it) if matches!(it.phase, Phase::Checking) => self.config.check_deadline,
            _ => return false,
        };
        if let Some(it) = self.attempts.at_mut(at) {
            it.prolonged = true;
            let until = now.mono + late.min(deadline);
            self.schedule.set(until, at, it.generation);
        }
        true
    }

    /// Handles a failed diff, or a push that failed with a known outcome: waits as the class of the failure demands.
    pub(super) fn failed(
        &mut self,
        now: Now,
        slot: SlotNo,
        error: &plugin::Error,
        out: &mut Effects,
    ) {
        self.count(Branch::Failed);
        let at = self.table.slot(slot).attempt;
        let Some(attempt) = self.attempts.at_mut(at) else {
            return;
        };
        let failures = attempt.failures;
        attempt.failures = failures.saturating_add(1);
        attempt.unhealthy = matches!(error, plugin::Error::Unhealthy { .. });
        let diffing = matches!(attempt.phase, Phase::Diffing);
        let wait = match error {
            // Waits as the provider demands. After a throttled push, diffs go on; after a throttled diff, they wait
            // too.
            plugin::Error::Throttled { after, .. } => (*after).min(self.config.throttle_cap),
            plugin::Error::Permanent { .. } | plugin::Error::Unhealthy { .. } => {
                self.config.drift_period
            }
            _ => self.backoff(failures),
        };
        self.out_of_sync(now, slot, out);
        if let plugin::Error::Unhealthy { message } = error {
            self.report_unhealthy(now, slot, excerpt(message.clone()), out);
        }
        let why = excerpt(error.to_string());
        self.decide(now, slot, Outcome::Failed(why.clone()), out);
        let unknown = self.table.slot(slot).in_flight();
        if matches!(error, plugin::Error::Permanent { .. }) && !unknown {
            // R9: the asset failed permanently and gives its claims back.
            self.give_back_all(now, slot);
        }
        let throttled = matches!(error, plugin::Error::Throttled { .. });
        if let Some(attempt) = self.attempts.at_mut(at) {
            let told = (throttled && !diffing).then(|| (now.mono + wait, why.clone()));
            attempt.throttled = told.or(attempt.throttled.take());
        }
        let waits = match unknown {
            true => Wait::Unknown,
            false => Wait::Backoff(why),
        };
        if throttled && diffing {
            self.wait_out(now, slot, waits, wait, out)
        } else {
            self.wait_for(now, slot, waits, wait, out)
        }
    }

    /// Returns the wait after a failure: exponential with full jitter, at least a tenth of the base.
    pub(super) fn backoff(&mut self, failures: u32) -> Duration {
        let most = self
            .config
            .backoff_base
            .saturating_mul(1 << failures.min(20))
            .min(self.config.backoff_cap);
        let jitter = self.schedule.random(most.as_nanos() as u64);
        Duration::from_nanos(jitter).max(self.config.backoff_base / 10)
    }

    /// Waits for an operator or for changed intent, at most for a drift period.
    pub(super) fn held(&mut self, now: Now, slot: SlotNo, why: String, out: &mut Effects) {
        let period = self.config.drift_period;
        self.held_for(now, slot, why, period, out);
    }

    /// Waits like [`Kernel::held`], at most for `time` if that is shorter.
    pub(super) fn held_for(
        &mut self,
        now: Now,
        slot: SlotNo,
        why: String,
        time: Duration,
        out: &mut Effects,
    ) {
        self.decide(now, slot, Outcome::Held(why.clone()), out);
        self.report_held(slot, &why);
        self.wait_for(now, slot, Wait::Held(why), time, out);
    }

    /// Waits until the time that the checks named.
    pub(super) fn sleep(
        &mut self,
        now: Now,
        slot: SlotNo,
        delays: Vec<plugin_sdk::Delay>,
        then: Timestamp,
        out: &mut Effects,
    ) {
        let at = self.table.slot(slot).attempt;
        if let Some(attempt) = self.attempts.at_mut(at)
            && let Some(change) = &attempt.change
        {
            let change = change.digest;
            attempt.asleep = Some(super::state::attempt::Asleep {
                change,
                cause: attempt.cause,
                until: then,
                at_latest: now.mono + until(now, then),
                delays: delays.clone(),
            });
        }
        self.wait_for(
            now,
            slot,
            Wait::Delayed(delays, Some(then)),
            until(now, then),
            out,
        );
    }

    /// Lets an asset wait for `time`, at most for a drift period.
    pub(super) fn wait_for(
        &mut self,
        now: Now,
        slot: SlotNo,
        wait: Wait,
        time: Duration,
        out: &mut Effects,
    ) {
        // L2: each asset is diffed once per drift period, whatever checks or operators say.
        let time = time.min(self.config.drift_period);
        self.wait_out(now, slot, wait, time, out);
    }

    /// Lets an asset wait for `time`, even longer than a drift period.
    pub(super) fn wait_out(
        &mut self,
        now: Now,
        slot: SlotNo,
        wait: Wait,
        time: Duration,
        out: &mut Effects,
    ) {
        self.release_permit(now, slot, out);
        let entry = self.table.slot_mut(slot);
        entry.state = State::Waiting;
        let at = entry.attempt;
        let rerun = entry.has(flag::RERUN);
        entry.set(flag::RERUN, false);
        let (trigger, class, patient) = (entry.trigger, entry.class, wait.is_patient());
        let Some(attempt) = self.attempts.at_mut(at) else {
            return;
        };
        attempt.phase = Phase::Waiting(wait);
        attempt.advance();
        self.followed.touch(slot);
        let woken_for = attempt.woken_for.take();
        // A minimum wait prevents a hot loop, whatever the plugin or check asked for.
        let least = self.config.backoff_base / 10;
        let time = time.max(least);
        attempt.wakes = Some(now.mono + time);
        self.schedule.set(now.mono + time, at, attempt.generation);
        self.pass_on(now, woken_for);
        if rerun && (cuts(trigger) || !patient) && !self.must_wait(slot) {
            self.enqueue(now, slot, trigger, class);
        }
    }
}

fn run_of(attempt: &Attempt) -> Run {
    Run {
        slot: attempt.slot.bare(),
        n: attempt.run,
        incarnation: attempt.incarnation.no(),
    }
}
