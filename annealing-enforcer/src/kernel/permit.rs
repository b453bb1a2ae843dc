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

    /// Whether the asset does not converge: the same change is found again after 3 successful pushes. It is reported
    /// and slowed down.
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
        let Some((digest, times)) = attempt.pushed else {
            return false;
        };
        if digest != change.digest || times < 3 {
            return self.slowed_down(now, at, out);
        }
        // After the wait, one more push is let through.
        attempt.pushed = Some((digest, times - 1));
        let (slot, period) = (attempt.slot, self.config.drift_period);
        self.count(Branch::NotConverging);
        let why = "not converging: the same change is found again after 3 successful pushes; check the plugin's diff";
        let why = why.to_owned();
        self.decide(now, slot, Outcome::Held(why.clone()), out);
        self.wait_for(now, slot, Wait::Backoff(why), period, out);
        true
    }

    /// Whether the asset is slowed down, because it still differs after many successful pushes: a flapping plugin is
    /// not pushed in a hot loop.
    pub(super) fn slowed_down(&mut self, now: Now, at: AttemptNo, out: &mut Effects) -> bool {
        let Some(attempt) = self.attempts.at_mut(at) else {
            return true;
        };
        let (slot, pushes) = (attempt.slot, attempt.pushes);
        if pushes < MANY_PUSHES || attempt.slowed == pushes {
            return false;
        }
        attempt.slowed = pushes;
        self.count(Branch::NotConverging);
        let why = "not converging: the asset still differs after many successful pushes; check the plugin's diff";
        let why = why.to_owned();
        self.decide(now, slot, Outcome::Held(why.clone()), out);
        let wait = self.backoff(pushes - MANY_PUSHES);
        self.wait_for(now, slot, Wait::Backoff(why), wait, out);
        true
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
