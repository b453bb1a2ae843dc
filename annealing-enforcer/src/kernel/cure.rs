//! R6: while a change of intent is delayed, drift is repaired to the content that the asset settled with last, for the
//! cause [`Cause::Drift`]. A pending edit never turns drift repair into a change of intent. A delayed change with the
//! cause `Emergency` is treated the same.
//!
//! The changed intent is diffed first: if production has it already, no repair is needed. Only when its push is
//! refused, and at most once per drift period, the same run goes on with a diff of the content settled last.

use std::sync::Arc;

use plugin_sdk::{Cause, Diff, Now};
use prodspec_model::{Asset, Incarnation, Message as _, addons::Turndown};

use super::{
    Kernel,
    branch::Branch,
    event::Effects,
    state::numbers::SlotNo,
    state::slot::{Class, Trigger, flag},
};
use crate::bug::Bug;

impl Kernel {
    /// Starts a diff of the content settled last if it is due, after the push of the changed intent was refused.
    /// Returns whether it did; then the caller must not start a wait.
    pub(super) fn look_for_drift(&mut self, now: Now, slot: SlotNo, out: &mut Effects) -> bool {
        let at = self.table.slot(slot).attempt;
        let is_own = self.attempts.at(at).is_some_and(|it| !it.cures);
        if !is_own || !self.may_have_drifted(now, slot) {
            return false;
        }
        self.release_permit(now, slot, out);
        if let Some(it) = self.attempts.at_mut(at) {
            it.looks_for_drift = true;
        }
        self.enqueue(now, slot, Trigger::DriftScan, Class::Drift);
        true
    }

    fn may_have_drifted(&self, now: Now, slot: SlotNo) -> bool {
        let last = self.table.last_settled();
        last.is_due(slot, now.mono, self.config.drift_period)
            && self.may_wait(slot)
            && self.settled_last(slot).is_some()
            && !self.planted(Bug::NoCureUnderEdit)
    }

    /// Whether the push of the asset's intent is a change that may be delayed while drift is repaired.
    pub(super) fn may_wait(&self, slot: SlotNo) -> bool {
        matches!(self.cause_of(slot), Some(Cause::Intent | Cause::Emergency))
    }

    /// Returns the content and incarnation to diff for drift. `None` for a content with a turndown or of another type:
    /// it is not restored.
    pub(super) fn settled_last(&self, slot: SlotNo) -> Option<(Asset, Incarnation)> {
        let at = self.table.last_settled().of(slot)?;
        let known = self.table.known(slot)?;
        let asset = at.snapshot().get(known.id_str())?;
        let kind = self.table.slot(slot).kind;
        let fits = self.kind_of(asset.type_str()) == Some(kind) && !asset.has_addon(Turndown::TYPE);
        fits.then(|| (asset, at.clone()))
    }

    /// Handles the finding of a diff of the content settled last.
    pub(super) fn found_for_drift(
        &mut self,
        now: Now,
        slot: SlotNo,
        diff: Diff,
        out: &mut Effects,
    ) {
        let at = self.table.slot(slot).attempt;
        match diff {
            Diff::Differs { change, observed } => {
                self.count(Branch::CuresUnderEdit);
                self.differs(now, slot, Arc::new(*change), observed, out);
            }
            Diff::InSync { .. } => {
                self.table.last_settled_mut().looked(slot, now.mono);
                self.give_back_all(now, slot);
                if let Some(it) = self.attempts.at_mut(at) {
                    (it.failures, it.cures) = (0, false);
                    it.forget_pushes();
                }
                self.enqueue(now, slot, Trigger::RetryDue, Class::Retry);
            }
            other => self.cannot_push(now, slot, other, out),
        }
    }

    /// Whether the push in flight has the content of `slot` at this incarnation.
    fn is_pushing(&self, slot: SlotNo, at: &Incarnation) -> bool {
        self.being_pushed(slot).is_some_and(|(pushed, _)| {
            let there = at.snapshot().get(pushed.id_str());
            there.is_some_and(|there| there.digest() == pushed.digest())
        })
    }

    /// Keeps the settled content of `slot`, whose intent changes; `before` is the incarnation of its former intent.
    pub(super) fn remember_settled(
        &mut self,
        now: Now,
        slot: SlotNo,
        before: Option<&Incarnation>,
    ) {
        let entry = self.table.slot(slot);
        if !self.table.has_intent(slot) {
            return self.table.last_settled_mut().forget(slot);
        }
        // A push in flight may leave another content in production, unless it repairs drift to this one.
        let stays = |before: &&Incarnation| !entry.in_flight() || self.is_pushing(slot, before);
        if let Some(before) = before.filter(|_| entry.has(flag::REACHED)).filter(stays) {
            let looked = Some(now.mono);
            self.table
                .last_settled_mut()
                .keep(slot, before.clone(), looked);
        }
    }
}
