//! Admission: the one place where a push is let through. All or nothing.
//!
//! [`Kernel::admit`] compares findings, evidence, claims, holds and ownership, and takes what the push needs. Nothing
//! else in this crate starts a push of its own accord.

use std::time::Duration;

use jiff::Timestamp;
use plane_store::records::Outcome;
use plugin_sdk::{Claim, Delay, Now, Recheck, Verdict};
use prodspec_model::AssetId;

use super::{
    Kernel,
    branch::{Branch, Bug},
    claims::Taken,
    event::Effects,
    iteration::{Behind, Phase, Wait},
    slot::{Class, Trigger, flag},
    waiting::{until, wall_at},
};

/// The name under which a check stack that failed delays.
const FAILED: &str = "checks";

/// Why a push is not let through now.
#[derive(Debug)]
pub(super) enum Refusal {
    /// No ownership that is sure to last.
    NoLease,
    /// The pin or the intent moved on (R8, R11).
    Moved,
    /// Evidence was overtaken by a push (R8).
    Stale,
    /// Evidence is too old (R10).
    Aged,
    /// Checks delay (R7).
    Delayed(Vec<Delay>),
    /// A push of this asset, or one that relies on it, is in flight (R8).
    InFlight(u32),
    /// A claim is taken (R9).
    Taken(Taken),
    /// A pause holds, until then if it ends by itself.
    Paused(String, Option<Timestamp>),
    /// A person has to act first (R12).
    Held(String),
}

impl Kernel {
    /// Lets the push of an iteration through, and takes its counter, holds and claims; or refuses and takes nothing.
    fn admit(&mut self, now: Now, at: u32, verdict: &Verdict) -> Result<(), Refusal> {
        let Some(it) = self.iterations.at(at) else {
            return Err(Refusal::Stale);
        };
        let (slot, own) = (it.slot, self.table.slot(it.slot));
        let (Some(change), Some(asset)) = (it.change.clone(), self.table.id(slot)) else {
            return Err(Refusal::Stale);
        };
        if !self.has_lease(now) {
            return Err(Refusal::NoLease);
        }
        self.intent_holds(at, verdict)?;
        let type_name = self.kinds[own.kind as usize].config.name.as_str();
        if let Some(pause) = self.people.pause(&asset, type_name, now.wall) {
            let why = format!("paused by {}: {}", pause.who, pause.why);
            return Err(Refusal::Paused(why, pause.until));
        }
        // R7: an override lifts one named check for this very change; everything else delays.
        let lifted = |delay: &&Delay| {
            let name = &*delay.check.0;
            // Of a stack that failed, nobody knows what the other checks would have said.
            name == FAILED || !self.people.overridden(&asset, change.digest, name)
        };
        let delays: Vec<Delay> = verdict.delays.iter().filter(lifted).cloned().collect();
        if !delays.is_empty() {
            return Err(Refusal::Delayed(delays));
        }
        self.evidence_holds(at, verdict)?;
        // R10: by the evidence's own birth; a clock that went back makes it too young to be true.
        let age = now.wall.duration_since(verdict.as_of);
        let limit = self.config.evidence_age;
        let young = !age.is_negative() && Duration::try_from(age).is_ok_and(|age| age < limit);
        if !young
            || now.mono.since(it.diff_started) >= limit
            || now.mono.since(it.check_started) >= limit
        {
            return Err(Refusal::Aged);
        }
        // R12: here, not in an optional layer.
        if (change.effects.destructive || it.turndown)
            && !self.people.approved(&asset, change.digest)
        {
            let digest = change.digest;
            return Err(Refusal::Held(format!(
                "it destroys; approve change {digest} of {asset} to let it through"
            )));
        }
        // R9, last: nothing after this line refuses.
        if !self.planted(Bug::SkipClaim) {
            self.claims
                .take(slot, &verdict.claims, now.mono)
                .map_err(Refusal::Taken)?;
        }
        self.take(now, at, verdict);
        Ok(())
    }

    /// R8 and R11: the pin is that of the diff, and intent has not moved on for the asset or for those it relies on.
    fn intent_holds(&self, at: u32, verdict: &Verdict) -> Result<(), Refusal> {
        let Some(it) = self.iterations.at(at) else {
            return Err(Refusal::Stale);
        };
        if self.planted(Bug::IgnoreMovedPin) {
            return Ok(());
        }
        let own = self.table.slot(it.slot);
        if own.pin != it.pin
            || (self.table.intent(it.slot).is_none() && !self.planted(Bug::RemoveOrphan))
        {
            return Err(Refusal::Stale);
        }
        let relied = verdict
            .relies_on
            .iter()
            .map(|stamp| stamp.slot)
            .filter(|&slot| slot < self.table.len());
        let moved = std::iter::once(it.slot)
            .chain(relied)
            .any(|s| self.table.slot(s).changed > it.latest);
        if moved && it.voids < 3 {
            Err(Refusal::Moved)
        } else {
            Ok(())
        }
    }

    /// R8: no push overtook a finding, none is in flight at either end.
    fn evidence_holds(&self, at: u32, verdict: &Verdict) -> Result<(), Refusal> {
        let Some(it) = self.iterations.at(at) else {
            return Err(Refusal::Stale);
        };
        let own = self.table.slot(it.slot);
        if own.in_flight() {
            return Err(Refusal::InFlight(it.slot));
        }
        if !self.planted(Bug::ReuseOldDiff) {
            if own.seq != it.seq {
                return Err(Refusal::Stale);
            }
            for stamp in &verdict.relies_on {
                let Some(now) =
                    (stamp.slot < self.table.len()).then(|| self.table.slot(stamp.slot))
                else {
                    return Err(Refusal::Stale);
                };
                if now.in_flight() {
                    return Err(Refusal::InFlight(stamp.slot));
                }
                if now.seq != stamp.seq {
                    return Err(Refusal::Stale);
                }
            }
        }
        if self.holds.contains_key(&it.slot) && !self.planted(Bug::SkipHold) {
            return Err(Refusal::InFlight(it.slot));
        }
        let touched = |slot: u32| {
            self.table
                .id(slot)
                .is_some_and(|id| self.edges.touched_since(&id, it.edges_seen))
        };
        let relied = verdict.relies_on.iter().map(|stamp| stamp.slot);
        if std::iter::once(it.slot).chain(relied).any(touched) {
            return Err(Refusal::Stale);
        }
        Ok(())
    }

    /// The push counter becomes odd; holds and claims are the iteration's until the outcome is known.
    fn take(&mut self, now: Now, at: u32, verdict: &Verdict) {
        let limit = self.config.evidence_age;
        let Some(it) = self.iterations.at_mut(at) else {
            return;
        };
        let age = now.wall.duration_since(verdict.as_of);
        let left = limit.saturating_sub(Duration::try_from(age).unwrap_or_default());
        it.good_until = (now.mono + left).min(it.diff_started + limit);
        it.held = it.claims.len();
        it.relies_on = verdict
            .relies_on
            .iter()
            .map(|stamp| stamp.slot)
            .filter(|&s| s != it.slot)
            .collect();
        it.relies_on.dedup();
        it.claims.extend(
            verdict
                .claims
                .iter()
                .filter(|claim| !matches!(claim, Claim::Rate(..)))
                .cloned(),
        );
        for &slot in &it.relies_on {
            *self.holds.entry(slot).or_default() += 1;
        }
        let entry = self.table.slot_mut(it.slot);
        entry.seq += 1;
        entry.set(flag::THERE, true);
        self.observations.forget(it.slot);
    }

    /// What follows from a verdict: a push, or a wait.
    pub(super) fn decide_admission(
        &mut self,
        now: Now,
        at: u32,
        verdict: &Verdict,
        out: &mut Effects,
    ) {
        match self.admit(now, at, verdict) {
            Ok(()) => {
                let slot = self.iterations.at(at).map(|it| it.slot);
                slot.into_iter()
                    .for_each(|slot| self.stands_waiting(slot, &[], out));
                self.admitted(now, at, out)
            }
            Err(refusal) => self.refused(now, at, refusal, out),
        }
    }

    fn refused(&mut self, now: Now, at: u32, refusal: Refusal, out: &mut Effects) {
        let Some(slot) = self.iterations.at(at).map(|it| it.slot) else {
            return;
        };
        if !matches!(refusal, Refusal::Taken(Taken::UsedUp(..))) {
            self.claims.rates.forget(slot);
        }
        match refusal {
            Refusal::NoLease => {
                self.count(Branch::NoLease);
                self.wait_for(now, slot, Wait::Lease, Duration::from_secs(1), out);
            }
            Refusal::Moved => {
                self.release_permit(now, slot, out);
                self.overtaken_by_neighbour(at);
                self.enqueue(now, slot, Trigger::IntentChanged, Class::Intent);
            }
            Refusal::Stale => self.look_again(now, at, Branch::StaleEvidence, out),
            Refusal::Aged => self.look_again(now, at, Branch::Aged, out),
            Refusal::Delayed(delays) => self.delayed(now, at, delays, out),
            Refusal::InFlight(other) => {
                self.count(Branch::HeldByOther);
                let name = self
                    .table
                    .id(other)
                    .map_or_else(String::new, |id| id.to_string());
                self.hold_waiters.entry(other).or_default().insert(slot);
                let why = format!("a push of {name}, or one that relies on it, is in flight");
                let behind = Behind::Push(other);
                let wait = Wait::Parked { why, behind };
                self.wait_for(now, slot, wait, self.config.drift_period, out);
            }
            Refusal::Taken(taken) => self.claim_taken(now, slot, taken, out),
            Refusal::Paused(why, ends) => {
                self.count(Branch::Paused);
                let wait = ends.map_or(self.config.drift_period, |then| until(now, then));
                self.held_for(now, slot, why, wait, out);
            }
            Refusal::Held(why) => {
                self.count(Branch::Unapproved);
                self.held(now, slot, why, out);
            }
        }
    }

    /// Waits for a claim: behind others, or for the time at which it is free.
    fn claim_taken(&mut self, now: Now, slot: u32, taken: Taken, out: &mut Effects) {
        self.count(Branch::ClaimTaken);
        match taken {
            Taken::Held(key) => {
                self.claims.park(slot, &key);
                let why = format!("`{}` is taken", key.0);
                let behind = Behind::Claim(key);
                let wait = Wait::Parked { why, behind };
                self.wait_for(now, slot, wait, self.config.drift_period, out);
            }
            Taken::UsedUp(key, quota) => {
                let turn = self.claims.rates.turn(slot, &key, &quota, now.mono);
                let then = wall_at(now, turn);
                let delay = Delay {
                    check: "rate".into(),
                    reason: format!("the rate of `{}` is used up", key.0),
                    evidence: serde_json::Value::Null,
                    recheck: Recheck::At(then),
                };
                self.sleep(now, slot, vec![delay], then, out);
            }
        }
    }

    /// R11 counts voids by a neighbour's content like those by the asset's own.
    fn overtaken_by_neighbour(&mut self, at: u32) {
        self.count(Branch::MovedIntent);
        if let Some(it) = self.iterations.at_mut(at) {
            it.voids = it.voids.saturating_add(1);
        }
    }

    /// Evidence was overtaken: once more from the diff, and not in a hot loop.
    fn look_again(&mut self, now: Now, at: u32, branch: Branch, out: &mut Effects) {
        self.count(branch);
        let Some(it) = self.iterations.at_mut(at) else {
            return;
        };
        it.stales = it.stales.saturating_add(1);
        let (slot, stales) = (it.slot, it.stales);
        self.release_permit(now, slot, out);
        if stales <= 3 {
            return self.enqueue(now, slot, Trigger::RetryDue, Class::Retry);
        }
        let most = self.config.backoff_base.as_nanos() as u64;
        let wait = Duration::from_nanos(self.random(most));
        let parked = Wait::Parked {
            why: "evidence was overtaken by other pushes".into(),
            behind: Behind::Many,
        };
        self.wait_for(now, slot, parked, wait, out);
    }

    /// Checks delay: sleep until the time they know of, or until what they wait for settles.
    fn delayed(&mut self, now: Now, at: u32, delays: Vec<Delay>, out: &mut Effects) {
        self.count(Branch::Delayed);
        let Some(it) = self.iterations.at(at) else {
            return;
        };
        let (slot, settles_seen) = (it.slot, it.settles_seen);
        self.stands_waiting(slot, &delays, out);
        self.decide(now, slot, Outcome::Delayed(delays.clone()), out);
        let known = |delay: &Delay| match delay.recheck {
            Recheck::At(then) => Some(then),
            _ => None,
        };
        if let Some(then) = delays
            .iter()
            .filter_map(known)
            .max()
            .filter(|then| *then > now.wall)
        {
            return self.sleep(now, slot, delays, then, out);
        }
        let mut soonest = self.config.drift_period;
        let mut settled_meanwhile = false;
        for delay in &delays {
            match &delay.recheck {
                Recheck::At(then) => soonest = soonest.min(until(now, *then)),
                Recheck::After(wait) => soonest = soonest.min(*wait),
                Recheck::WhenSettled(other) => {
                    settled_meanwhile |= self.wake_when_settled(slot, other, settles_seen)
                }
                _ => {}
            }
        }
        self.wait_for(
            now,
            slot,
            Wait::Delayed(delays, None),
            soonest.max(Duration::from_millis(100)),
            out,
        );
        if settled_meanwhile {
            self.count(Branch::WokenBySettling);
            self.trigger(now, slot, Trigger::DependencySettled, Class::Retry);
        }
    }

    /// Wakes `slot` once `other` is found in sync. Says whether it was since the check started, which saw `seen` before.
    fn wake_when_settled(&mut self, slot: u32, other: &AssetId, seen: u64) -> bool {
        let Some(other) = self.table.find(other.as_str()) else {
            return false;
        };
        if self.settle_log.get(&other).is_some_and(|&at| at > seen) {
            return true;
        }
        self.settle_waiters.entry(other).or_default().insert(slot);
        false
    }

    /// Wakes the next asset that waits for a claim, when the one woken for it did not take it.
    pub(super) fn pass_on(&mut self, now: Now, key: Option<plugin_sdk::Key>) {
        let Some((key, next)) = key.and_then(|key| self.claims.next_waiting(&key)) else {
            return;
        };
        self.wake_for(now, next, key);
    }

    pub(super) fn wake_for(&mut self, now: Now, slot: u32, key: plugin_sdk::Key) {
        let at = self.table.slot(slot).iteration;
        let waits = |it: &&mut super::iteration::Iteration| {
            matches!(it.phase, Phase::Waiting(Wait::Parked { .. }))
        };
        match self.iterations.at_mut(at).filter(waits) {
            Some(it) => {
                it.woken_for = Some(key);
                self.trigger(now, slot, Trigger::DependencySettled, Class::Retry);
            }
            None => self.pass_on(now, Some(key)),
        }
    }
}

/// A check stack that failed or timed out is a delay.
pub(super) fn failed_check(now: Now, why: String) -> Verdict {
    let recheck = Recheck::After(Duration::from_secs(10));
    Verdict::delay(
        now.wall,
        Delay {
            check: FAILED.into(),
            reason: why,
            evidence: serde_json::Value::Null,
            recheck,
        },
    )
}
