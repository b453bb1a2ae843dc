//! R6: while a change of intent is delayed, the asset is kept as it was: drift is repaired to the content that it
//! settled with last, for the cause [`Cause::Drift`]. A pending edit never turns drift repair into an intent change. One
//! that is an emergency, and is delayed all the same, is no different.
//!
//! The change of intent is looked at first, so that production which has it already is left alone. Only when its push
//! is refused, and at most once in a drift period, the same run goes on with a look at the content settled last.

use std::{collections::BTreeMap, sync::Arc};

use plugin_sdk::{Cause, Diff, Mono, Now};
use prodspec_model::{Asset, Incarnation, IncarnationNo, Message as _, addons::Turndown};

use super::{
    Kernel,
    branch::{Branch, Bug},
    event::Effects,
    slot::{Class, Trigger, flag},
};

/// The content that each asset settled with last, of those whose intent has changed since. Forgotten as soon as a push
/// of the changed intent is admitted, unless that never begins: from then on production may be either.
#[derive(Debug, Default)]
pub(super) struct LastSettled(BTreeMap<u32, Before>);

/// An asset as it was when it was last found in sync.
#[derive(Debug, Clone)]
pub(super) struct Before {
    /// The incarnation that has this content.
    at: Incarnation,
    /// When production was last found to have it; `None`: not under this ownership.
    looked: Option<Mono>,
}

impl LastSettled {
    /// The intent of `slot` changes: `at` has the content that it was in sync with until `looked`.
    pub(super) fn keep(&mut self, slot: u32, at: Incarnation, looked: Option<Mono>) {
        self.0.insert(slot, Before { at, looked });
    }

    /// Production may have become something else, or the asset has settled with its present intent.
    pub(super) fn forget(&mut self, slot: u32) {
        self.0.remove(&slot);
    }

    /// As [`LastSettled::forget`], and hands it out: a push that never begins changes nothing.
    pub(super) fn take(&mut self, slot: u32) -> Option<Before> {
        self.0.remove(&slot)
    }

    /// What was taken holds after all.
    pub(super) fn put_back(&mut self, slot: u32, before: Before) {
        self.0.insert(slot, before);
    }

    /// The incarnation whose content `slot` settled with last, if its intent has changed since.
    pub(super) fn of(&self, slot: u32) -> Option<&Incarnation> {
        self.0.get(&slot).map(|before| &before.at)
    }

    /// The incarnations that are needed for drift repair.
    pub(super) fn cited(&self) -> impl Iterator<Item = IncarnationNo> {
        self.0.values().map(|before| before.at.no())
    }

    /// Production is to be compared with each of them at the next occasion.
    pub(super) fn look_at_all(&mut self) {
        self.0.values_mut().for_each(|before| before.looked = None);
    }

    fn looked(&mut self, slot: u32, now: Mono) {
        if let Some(before) = self.0.get_mut(&slot) {
            before.looked = Some(now);
        }
    }
}

impl Kernel {
    /// Starts a look at the content settled last, if the push of the changed intent is refused and it is time for one.
    /// Says whether it did: then nothing is to be waited for yet.
    pub(super) fn look_for_drift(&mut self, now: Now, slot: u32, out: &mut Effects) -> bool {
        let at = self.table.slot(slot).iteration;
        let is_own = self.iterations.at(at).is_some_and(|it| !it.cures);
        if !is_own || !self.may_have_drifted(now, slot) {
            return false;
        }
        self.release_permit(now, slot, out);
        if let Some(it) = self.iterations.at_mut(at) {
            it.looks_for_drift = true;
        }
        self.enqueue(now, slot, Trigger::DriftScan, Class::Drift);
        true
    }

    fn may_have_drifted(&self, now: Now, slot: u32) -> bool {
        let due = |before: &Before| {
            let since = |looked: Mono| now.mono.since(looked) >= self.config.drift_period;
            before.looked.is_none_or(since)
        };
        self.last_settled.0.get(&slot).is_some_and(due)
            && self.may_wait(slot)
            && self.settled_last(slot).is_some()
            && !self.planted(Bug::NoCureUnderEdit)
    }

    /// Whether the push of an asset's intent is a change that may be delayed while drift is repaired.
    pub(super) fn may_wait(&self, slot: u32) -> bool {
        matches!(self.cause_of(slot), Some(Cause::Intent | Cause::Emergency))
    }

    /// What to compare production with in a look for drift. What was turned down, or was of another type, is not put
    /// back.
    pub(super) fn settled_last(&self, slot: u32) -> Option<(Asset, Incarnation)> {
        let at = self.last_settled.of(slot)?;
        let known = self.table.known(slot)?;
        let asset = at.snapshot().get(known.id_str())?;
        let kind = self.table.slot(slot).kind;
        let fits = self.kind_of(asset.type_str()) == Some(kind) && !asset.has_addon(Turndown::TYPE);
        fits.then(|| (asset, at.clone()))
    }

    /// What a look at the content settled last has found.
    pub(super) fn found_for_drift(&mut self, now: Now, slot: u32, diff: Diff, out: &mut Effects) {
        let at = self.table.slot(slot).iteration;
        match diff {
            Diff::Differs { change, observed } => {
                self.count(Branch::CuresUnderEdit);
                self.differs(now, slot, Arc::new(*change), observed, out);
            }
            Diff::InSync { .. } => {
                self.last_settled.looked(slot, now.mono);
                self.give_back_all(now, slot);
                if let Some(it) = self.iterations.at_mut(at) {
                    (it.failures, it.cures) = (0, false);
                    it.forget_pushes();
                }
                self.enqueue(now, slot, Trigger::RetryDue, Class::Retry);
            }
            other => self.cannot_push(now, slot, other, out),
        }
    }

    /// Whether the push in flight is of the content that `slot` has at an incarnation.
    fn is_pushing(&self, slot: u32, at: &Incarnation) -> bool {
        self.being_pushed(slot).is_some_and(|(pushed, _)| {
            let there = at.snapshot().get(pushed.id_str());
            there.is_some_and(|there| there.digest() == pushed.digest())
        })
    }

    /// The intent of `slot` is another one from now on; `before` is the incarnation that it had its content from.
    pub(super) fn remember_settled(&mut self, now: Now, slot: u32, before: Option<&Incarnation>) {
        let entry = self.table.slot(slot);
        if !self.table.has_intent(slot) {
            return self.last_settled.forget(slot);
        }
        // A push in flight may leave another content there, unless it repairs drift from this one.
        let stays = |before: &&Incarnation| !entry.in_flight() || self.is_pushing(slot, before);
        if let Some(before) = before.filter(|_| entry.has(flag::REACHED)).filter(stays) {
            let looked = Some(now.mono);
            self.last_settled.keep(slot, before.clone(), looked);
        }
    }
}
