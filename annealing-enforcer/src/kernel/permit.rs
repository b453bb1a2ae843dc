//! The steps between a difference and its checks: reasons not to push whatever the checks say, and the queue for push
//! capacity.

use std::time::Duration;

use control_plane_store::records::Outcome;
use plugin_sdk::{Change, Now};

use super::{
    Kernel,
    branch::Branch,
    event::Effects,
    state::{
        attempt::{Phase, Wait},
        numbers::AttemptNo,
        numbers::TypeNo,
        slot::{Class, Trigger},
    },
};

/// Maximum age of a finding when its checks start. An older one would be too old when they answer, so the asset is
/// diffed again.
const FRESH: Duration = Duration::from_secs(25);

/// Number of successful pushes without being in sync from which each further push waits longer.
const MANY_PUSHES: u32 = 10;

impl Kernel {
    /// Whether the asset still sleeps, because checks named a time before which they will not let this change pass for
    /// this cause.
    pub(super) fn sleeps_on(
        &mut self,
        now: Now,
        at: AttemptNo,
        change: &Change,
        out: &mut Effects,
    ) -> bool {
        let it = self.attempts.at_mut(at);
        let asleep = it.and_then(|it| Some((it.slot, it.cause, it.asleep.take()?)));
        let Some((slot, cause, mut asleep)) = asleep else {
            return false;
        };
        let turn = self.claims.rates.moved_up(&slot, now.mono);
        let is_same = asleep.change == change.digest && asleep.cause == cause;
        if !is_same || !asleep.lasts(now, turn) {
            return false;
        }
        self.count(Branch::Asleep);
        if let Some(it) = self.attempts.at_mut(at) {
            it.asleep = Some(asleep.clone());
        }
        if !self.look_for_drift(now, slot, out) {
            self.sleep(now, slot, asleep.delays, asleep.until, out);
        }
        true
    }

    /// Whether the asset still waits, because its provider throttled pushes.
    pub(super) fn throttled(&mut self, now: Now, at: AttemptNo, out: &mut Effects) -> bool {
        let it = self.attempts.at(at);
        let told = it.and_then(|it| Some((it.slot, it.throttled.clone()?)));
        let Some((slot, (then, why))) = told.filter(|(_, (then, _))| now.mono < *then) else {
            return false;
        };
        self.wait_for(now, slot, Wait::Backoff(why), then.since(now.mono), out);
        true
    }

    /// Returns why assets of a type are never pushed, or never turned down.
    pub(super) fn may_not_push(&mut self, kind: TypeNo, turndown: bool) -> Option<String> {
        let config = &self.kinds[kind.index()].config;
        if turndown && !config.turndown {
            let why = format!(
                "no plugin turns {} down; register one with Turndown",
                config.name
            );
            self.count(Branch::NoTurndown);
            return Some(why);
        }
        if self.config.observe_only || config.observe_only {
            self.count(Branch::ObserveOnly);
            return Some("observe-only: the asset is diffed and never pushed".into());
        }
        None
    }

    /// Whether the asset waits because it does not converge: a diff finds the same change again after successful pushes.
    /// After the first ones it waits a little, since production may show the effect late; after 3 it is reported and
    /// slowed down.
    pub(super) fn not_converging(
        &mut self,
        now: Now,
        at: AttemptNo,
        change: &Change,
        out: &mut Effects,
    ) -> bool {
        let Some(attempt) = self.attempts.at_mut(at) else {
            return true;
        };
        let same = attempt.pushed.filter(|(last, _)| *last == change.digest);
        match (same, attempt.pushed.is_some()) {
            (Some((digest, times)), _) if times >= 3 => {
                // After the wait, one more push is let through.
                attempt.pushed = Some((digest, times - 1));
                attempt.slowed = attempt.pushes;
                let pushes = attempt.pushes;
                let why = format!(
                    "not converging: the same change is found again after {pushes} successful pushes; check the plugin's diff"
                );
                self.does_not_converge(now, at, why, self.config.drift_period, out);
                true
            }
            (Some((_, times)), _) => self.awaits_effect(now, at, times, out),
            (None, pushed) => pushed && self.slowed_down(now, at, out),
        }
    }

    /// Whether the asset waits for its last push to show: the push succeeded, and the same change is found again. It
    /// waits once per push, and is diffed again before the next one.
    fn awaits_effect(&mut self, now: Now, at: AttemptNo, times: u32, out: &mut Effects) -> bool {
        let Some(attempt) = self.attempts.at_mut(at) else {
            return true;
        };
        if attempt.slowed == attempt.pushes {
            return false;
        }
        attempt.slowed = attempt.pushes;
        let slot = attempt.slot;
        let why = format!(
            "the same change is found again after a successful push (number {times}); looking again before the next one"
        );
        let wait = self.backoff(times).max(self.config.backoff_base);
        self.decide(now, slot, Outcome::Held(why.clone()), out);
        self.wait_for(now, slot, Wait::NotConverging(why), wait, out);
        true
    }

    /// Whether the asset is slowed down, because it still differs after many successful pushes: a flapping plugin is
    /// not pushed in a hot loop.
    fn slowed_down(&mut self, now: Now, at: AttemptNo, out: &mut Effects) -> bool {
        let Some(attempt) = self.attempts.at_mut(at) else {
            return true;
        };
        let pushes = attempt.pushes;
        if pushes < MANY_PUSHES || attempt.slowed == pushes {
            return false;
        }
        attempt.slowed = pushes;
        let why = format!(
            "not converging: the asset still differs after {pushes} successful pushes; check the plugin's diff"
        );
        let wait = self.backoff(pushes - MANY_PUSHES);
        self.does_not_converge(now, at, why, wait, out);
        true
    }

    /// Lets an asset wait that does not converge, and reports it.
    fn does_not_converge(
        &mut self,
        now: Now,
        at: AttemptNo,
        why: String,
        wait: Duration,
        out: &mut Effects,
    ) {
        let Some(slot) = self.attempts.at(at).map(|it| it.slot) else {
            return;
        };
        self.count(Branch::NotConverging);
        self.tell_not_converging(slot, &why, out);
        self.decide(now, slot, Outcome::Held(why.clone()), out);
        self.wait_for(now, slot, Wait::NotConverging(why), wait, out);
    }

    /// Gives push permits to the assets that wait for them, in order, and starts their checks.
    pub(super) fn grant_permits(&mut self, now: Now, kind: TypeNo, out: &mut Effects) {
        loop {
            let state = &mut self.kinds[kind.index()];
            if self.ownership.is_draining() || !state.may_push(now.mono) {
                return;
            }
            let well = |(at, _): &(AttemptNo, u32)| {
                let it = self.attempts.at(*at);
                it.is_some_and(|it| it.failures == 0)
            };
            // An open breaker is probed with an asset that is not known to fail, if there is one.
            let is_open = state.push_breaker.is_open();
            let Some((at, generation)) = state.permits.pop(is_open.then_some(well)) else {
                return;
            };
            let Some(attempt) = self
                .attempts
                .at_mut(at)
                .filter(|it| it.generation == generation)
            else {
                continue;
            };
            if !matches!(attempt.phase, Phase::Permit) {
                continue;
            }
            if now.mono.since(attempt.diff_started) > FRESH {
                let slot = attempt.slot;
                self.enqueue(now, slot, Trigger::RetryDue, Class::Retry);
                continue;
            }
            attempt.permit = true;
            attempt.probes = state.push_breaker.is_open();
            state.push_breaker.called();
            state.pushes += 1;
            self.start_check(now, at, out);
        }
    }
}
