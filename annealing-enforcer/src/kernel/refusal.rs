//! The consequences of a refused push: the event or time that its asset waits for.

use std::time::Duration;

use control_plane_runtime::claims::Taken;
use control_plane_store::records::Outcome;
use plugin_sdk::{Delay, Now, Recheck};
use prodspec_model::AssetId;
use serde_json::json;

use super::{
    Kernel,
    admission::Refusal,
    branch::Branch,
    clock::{until, wall_at},
    event::Effects,
    state::{
        attempt::{Behind, Phase, Wait},
        numbers::AttemptNo,
        numbers::SlotNo,
        slot::{Class, Trigger},
    },
};

/// The field of a delay's evidence with the key of the claim that is not free.
pub(super) const CLAIM: &str = "claim";

impl Kernel {
    pub(super) fn refused(&mut self, now: Now, at: AttemptNo, refusal: Refusal, out: &mut Effects) {
        let Some(slot) = self.attempts.at(at).map(|it| it.slot) else {
            return;
        };
        if !matches!(refusal, Refusal::Taken(Taken::UsedUp(..))) {
            self.claims.rates.forget(&slot);
        }
        let delays = matches!(
            refusal,
            Refusal::Delayed(_) | Refusal::Taken(_) | Refusal::Held(_)
        );
        if delays && self.look_for_drift(now, slot, out) {
            return;
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
                self.holds.wait(slot, other);
                let why = format!("a push of {name}, or a push that relies on it, is in flight");
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

    /// Waits for a claim: until another asset gives it back, or until the turn of this asset at a rate.
    pub(super) fn claim_taken(&mut self, now: Now, slot: SlotNo, taken: Taken, out: &mut Effects) {
        self.count(Branch::ClaimTaken);
        match taken {
            Taken::Held(key) => {
                // R9: the asset keeps its place in the queue and is woken when the key is given back again.
                let at = self.table.slot(slot).attempt;
                let woken_for = self.attempts.at_mut(at).map(|it| &mut it.woken_for);
                let was_first =
                    woken_for.is_some_and(|woken| woken.take_if(|it| *it == key).is_some());
                self.claims.park(&slot, &key, was_first);
                let why = format!("the claim `{}` is taken", key.0);
                let behind = Behind::Claim(key);
                let wait = Wait::Parked { why, behind };
                self.wait_for(now, slot, wait, self.config.drift_period, out);
            }
            Taken::UsedUp(key, quota) => {
                let turn = self.claims.rates.turn(&slot, &key, &quota, now.mono);
                let then = wall_at(now, turn);
                let delay = Delay::new(
                    format!("the rate of `{}` is used up", key.0),
                    Recheck::At(then),
                )
                .check("rate")
                .because(json!({CLAIM: key}));
                self.sleep(now, slot, vec![delay], then, out);
            }
        }
    }

    /// R11: a void by a neighbour's content counts like one by the asset's own.
    pub(super) fn overtaken_by_neighbour(&mut self, at: AttemptNo) {
        self.count(Branch::MovedIntent);
        if let Some(it) = self.attempts.at_mut(at) {
            it.voids = it.voids.saturating_add(1);
        }
    }

    /// The evidence is outdated: starts again from the diff, after a short wait if that happened often.
    pub(super) fn look_again(
        &mut self,
        now: Now,
        at: AttemptNo,
        branch: Branch,
        out: &mut Effects,
    ) {
        self.count(branch);
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        it.stales = it.stales.saturating_add(1);
        let (slot, stales) = (it.slot, it.stales);
        self.release_permit(now, slot, out);
        if stales <= 3 {
            return self.enqueue(now, slot, Trigger::RetryDue, Class::Retry);
        }
        let most = self.config.backoff_base.as_nanos() as u64;
        let wait = Duration::from_nanos(self.schedule.random(most));
        let parked = Wait::Parked {
            why: "other pushes made its evidence outdated; it is diffed again".into(),
            behind: Behind::Many,
        };
        self.wait_for(now, slot, parked, wait, out);
    }

    /// Waits as the checks demand: until the time that they named, or until the assets that they named settle.
    pub(super) fn delayed(
        &mut self,
        now: Now,
        at: AttemptNo,
        delays: Vec<Delay>,
        out: &mut Effects,
    ) {
        self.count(Branch::Delayed);
        let Some(it) = self.attempts.at(at) else {
            return;
        };
        let (slot, settles_seen) = (it.slot, it.seen.settles);
        self.report_waiting(slot, &delays);
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
                // The floor falls with time, too.
                Recheck::WhenFree(key) => {
                    soonest = soonest.min(self.config.evidence_age);
                    self.claims.park(&slot, key, false);
                }
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

    /// Wakes `slot` once `other` is found in sync. Returns `true` if `other` already was since the check started;
    /// `seen` is the count of settled assets at that time.
    pub(super) fn wake_when_settled(&mut self, slot: SlotNo, other: &AssetId, seen: u64) -> bool {
        let Some(other) = self.table.find(other.as_str()) else {
            return false;
        };
        self.settle_waits.wait(slot, other, seen)
    }

    /// Wakes the next asset that waits for a claim, after the asset woken for it did not take it.
    pub(super) fn pass_on(&mut self, now: Now, key: Option<plugin_sdk::Key>) {
        let Some((key, next)) = key.and_then(|key| self.claims.next_waiting(&key)) else {
            return;
        };
        self.wake_for(now, next, key);
    }

    pub(super) fn wake_for(&mut self, now: Now, slot: SlotNo, key: plugin_sdk::Key) {
        let at = self.table.slot(slot).attempt;
        let waits = |it: &&mut super::state::attempt::Attempt| {
            matches!(it.phase, Phase::Waiting(Wait::Parked { .. }))
        };
        match self.attempts.at_mut(at).filter(waits) {
            Some(it) => {
                it.woken_for = Some(key);
                self.trigger(now, slot, Trigger::DependencySettled, Class::Retry);
            }
            None => self.pass_on(now, Some(key)),
        }
    }
}
