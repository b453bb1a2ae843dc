//! Invariants of the kernel's structure after every step: counters equal a recount, and every asset that is not idle
//! has an event or a timer that will wake it.

use std::collections::BTreeMap;

use plugin_sdk::{Claim, Now};

use crate::kernel::{
    Kernel,
    state::{
        attempt::{Attempt, Phase},
        numbers::AttemptNo,
        numbers::SlotNo,
        numbers::TypeNo,
        pin_entry::PinNo,
        slot::{Slot, State, flag},
    },
};

impl Kernel {
    /// Panics when the kernel's structure is broken. May be called after any step, with the time of that step.
    pub(super) fn check_invariants(&self, now: Now) {
        let unsettled = self
            .table
            .slots()
            .filter(|(at, _)| self.counts_as_unsettled(*at));
        assert_eq!(
            self.census.unsettled(),
            unsettled.count() as u32,
            "unsettled"
        );
        for (at, slot) in self.table.slots() {
            self.check_slot(at, slot);
        }
        for it in self.attempts.iter() {
            let at = self.table.slot(it.slot).attempt;
            assert!(
                self.attempts
                    .at(at)
                    .is_some_and(|own| std::ptr::eq(own, it)),
                "an attempt that its slot does not refer to"
            );
            self.check_iteration(at, it);
        }
        self.check_counts();
        self.check_followed(now);
        self.check_status(now);
        let left = |kind: TypeNo| self.kinds[kind.index()].queued > 0 && self.may_diff(now, kind);
        assert!(
            !TypeNo::all(self.kinds.len()).any(left),
            "a diff is queued though one may start"
        );
        self.check_holdings();
        let wake = self.next_wake(now);
        assert!(
            wake.is_none_or(|wake| wake > now.mono),
            "a hot loop: {wake:?}"
        );
    }

    fn check_slot(&self, at: SlotNo, slot: &Slot) {
        let policy = self.policy_of(at);
        assert_eq!(policy.is_some(), slot.has(flag::GOVERNED), "governed");
        let pinned = self.table.is_pinned(at);
        assert_eq!(pinned, self.pins.of(at).is_some(), "pinned");
        if !pinned {
            let place = match &policy {
                Some(policy) => self.table.place_of(policy),
                None => Some(PinNo::NEWEST),
            };
            assert_eq!(place, Some(slot.pin), "default");
        }
        let there = |place| self.table.intent_by(at, place).map(|it| it.0.digest());
        let behind = policy.is_some() && there(slot.pin) != there(PinNo::NEWEST);
        assert_eq!(behind, self.census.is_behind(at), "behind");
        let intended = self.table.has_intent(at);
        assert!(
            !(slot.has(flag::ORPHAN) && intended),
            "an orphan with an intent"
        );
        let it = self.attempts.at(slot.attempt);
        assert_eq!(it.is_some(), slot.attempt != AttemptNo::NONE);
        let phase = it.map(|it| &it.phase);
        let fits = match slot.state {
            State::Idle => phase.is_none() && !slot.in_flight() && !slot.has(flag::RERUN),
            State::Queued => {
                let ready = &self.kinds[slot.kind.index()].ready;
                matches!(phase, None | Some(Phase::Queued)) && ready.contains(slot.class, at)
            }
            State::Waiting => matches!(phase, Some(Phase::Waiting(_))),
            State::Running => !matches!(phase, None | Some(Phase::Queued | Phase::Waiting(_))),
        };
        assert!(fits, "{at:?}: {slot:?} in {phase:?}");
        let odd = matches!(
            phase,
            Some(Phase::Journaling(_) | Phase::Pushing | Phase::Continuing)
        );
        let even = matches!(phase, Some(Phase::Permit | Phase::Checking));
        assert!(!odd || slot.in_flight(), "a push without its counter");
        assert!(!even || !slot.in_flight(), "a check of a push in flight");
    }

    /// An attempt has a way to wake, and holds only permits and claims of its phase.
    fn check_iteration(&self, at: AttemptNo, it: &Attempt) {
        let kind = &self.kinds[self.table.slot(it.slot).kind.index()];
        let wakes = match it.phase {
            Phase::Queued => true,
            Phase::Permit => kind.permits.contains(&(at, it.generation)),
            Phase::Journaling(number) => self.ledger.awaits(number, at),
            _ => self.schedule.contains(at, it.generation),
        };
        assert!(wakes, "nothing wakes {:?}", it.phase);
        let working = matches!(
            it.phase,
            Phase::Checking | Phase::Journaling(_) | Phase::Pushing | Phase::Continuing
        );
        assert_eq!(it.permit, working, "a permit in {:?}", it.phase);
        if !self.table.slot(it.slot).in_flight() {
            assert!(it.relies_on.is_empty(), "a hold without a push");
            let kept = |claim: &Claim| matches!(claim, Claim::AtMost(..));
            assert!(it.claims.iter().all(kept), "a claim without a push");
        }
    }

    /// What was told of each followed asset is its present standing.
    fn check_followed(&self, now: Now) {
        for (id, told) in self.followed.all() {
            let standing = self.standing(now, id);
            let same = told.is_some_and(|told| told.same_as(&standing));
            assert!(same, "{id}: told {told:?}, is {standing:?}");
        }
    }

    fn check_counts(&self) {
        let running = |kind: TypeNo, phase: fn(&Attempt) -> bool| {
            let of = |it: &&Attempt| self.table.slot(it.slot).kind == kind && phase(it);
            self.attempts.iter().filter(of).count() as u32
        };
        for (at, kind) in TypeNo::all(self.kinds.len()).zip(&self.kinds) {
            let queued = |slot: &&Slot| slot.kind == at && slot.state == State::Queued;
            let queued = self
                .table
                .slots()
                .map(|(_, slot)| slot)
                .filter(queued)
                .count();
            assert_eq!(kind.queued, queued as u32, "queued");
            let diffs = running(at, |it| matches!(it.phase, Phase::Diffing));
            assert_eq!(
                kind.diffs,
                diffs + self.observations.running_of(at),
                "diffs"
            );
            assert_eq!(kind.pushes, running(at, |it| it.permit), "permits");
            assert!(kind.pushes <= kind.config.pushes && kind.diffs <= kind.config.diffs);
            let waits = running(at, |it| matches!(it.phase, Phase::Permit));
            assert!(
                waits == 0 || kind.pushes == kind.config.pushes || kind.push_breaker.is_open(),
                "a permit is free"
            );
        }
        let checking = self.attempts.iter();
        let checking = checking
            .filter(|it| matches!(it.phase, Phase::Checking))
            .count();
        assert_eq!(self.settle_waits.checking(), checking as u32, "checking");
    }

    /// The claimed amounts are those of the pushes in flight, and the sums kept by key equal a recount.
    fn check_amounts(&self) {
        let mut claimed: BTreeMap<_, BTreeMap<SlotNo, u64>> = BTreeMap::new();
        for it in self.attempts.iter() {
            for claim in &it.claims {
                if let Claim::Amount { key, units, .. } = claim
                    && *units > 0
                {
                    let of = claimed.entry(key.clone()).or_default();
                    let most = of.entry(it.slot).or_default();
                    *most = (*most).max(*units);
                }
            }
        }
        assert_eq!(self.claims.amounts.recounted(), Ok(claimed), "amounts");
    }

    fn check_holdings(&self) {
        let mut holds: BTreeMap<SlotNo, u32> = BTreeMap::new();
        let mut claims: BTreeMap<_, BTreeMap<SlotNo, u32>> = BTreeMap::new();
        for it in self.attempts.iter() {
            for &relied in &it.relies_on {
                *holds.entry(relied).or_default() += 1;
            }
            for claim in &it.claims {
                let key = match claim {
                    Claim::Exclusive(key) | Claim::AtMost(key, _) => key,
                    Claim::Amount { .. } => continue,
                    _ => panic!("{claim:?} is not held"),
                };
                *claims
                    .entry(key.clone())
                    .or_default()
                    .entry(it.slot)
                    .or_default() += 1;
            }
        }
        assert_eq!(*self.holds.pushes(), holds, "holds");
        assert_eq!(*self.claims.held(), claims, "claims");
        self.check_amounts();
    }
}
