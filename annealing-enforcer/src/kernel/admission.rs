//! Admission: the one place where a push is admitted, all or nothing.
//!
//! [`Kernel::admit`] compares findings, evidence, claims, holds and ownership, and takes what the push needs. No other
//! code in this crate admits a push.

use std::time::Duration;

use control_plane_runtime::claims::Taken;
use control_plane_store::records::{ReliedOn, Used};
use jiff::Timestamp;
use plugin_sdk::{CheckName, Claim, Delay, Key, Now, Recheck, Verdict};
use prodspec_model::{AssetId, Digest};

use super::{
    Kernel,
    event::{Effects, Record},
    state::{
        attempt::Attempt, edges::Touch, numbers::AttemptNo, numbers::SlotNo, people::Waiver,
        slot::flag,
    },
};
use crate::bug::Bug;

/// The check name in the delay of a check stack that failed as a whole.
pub(super) const FAILED: &str = CheckName::STACK;

/// Maximum number of keys that one push may claim, and the maximum of their total length in bytes.
const MOST_CLAIMS: usize = 1_000;
const MOST_CLAIM_BYTES: usize = 128 << 10;

/// The reason why a push is not admitted now.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is not certain that this process still holds the lease.
    NoLease,
    /// The pin or the intent changed (R8, R11).
    Moved,
    /// A push made the evidence outdated (R8).
    Stale,
    /// The evidence is too old (R10).
    Aged,
    /// Checks delay the push (R7).
    Delayed(Vec<Delay>),
    /// A push of this asset, or one that relies on it, is in flight (R8).
    InFlight(SlotNo),
    /// A claim is not free (R9).
    Taken(Taken),
    /// A pause is in force; the time is its end, if it ends by itself.
    Paused(String, Option<Timestamp>),
    /// An operator has to act first (R12).
    Held(String),
}

impl Kernel {
    /// Admits the push of an attempt and takes its counter, holds, claims and the commands that it needs; or refuses
    /// it and takes nothing.
    fn admit(
        &mut self,
        now: Now,
        at: AttemptNo,
        verdict: &Verdict,
        out: &mut Effects,
    ) -> Result<(), Refusal> {
        let Some(it) = self.attempts.at(at) else {
            return Err(Refusal::Stale);
        };
        let (slot, own) = (it.slot, self.table.slot(it.slot));
        let (Some(change), Some(asset)) = (it.change.clone(), self.table.id(slot)) else {
            return Err(Refusal::Stale);
        };
        if !self.may_start(now) {
            return Err(Refusal::NoLease);
        }
        can_be_remembered(verdict)?;
        self.has_one_id(slot)?;
        self.intent_holds(at, verdict)?;
        let type_name = self.kinds[own.kind.index()].config.name.as_str();
        if let Some(pause) = self.people.pause(&asset, type_name, now.wall) {
            let why = format!("paused by {}", pause.by);
            return Err(Refusal::Paused(why, pause.until));
        }
        // Before its delays: they may be those of a policy that is gone.
        if !self.has_read_policies(at) {
            return Err(Refusal::Stale);
        }
        let (mut words, delays) = self.overridden(now, &asset, change.digest, verdict);
        if !delays.is_empty() {
            return Err(Refusal::Delayed(delays));
        }
        self.evidence_holds(at, verdict)?;
        if !self.is_young(now, it, verdict) {
            return Err(Refusal::Aged);
        }
        let destroys = change.effects.destructive || it.turndown;
        if !self.amounts_are_known(now, slot, verdict) {
            return Err(Refusal::Stale);
        }
        // R12: the approval is checked here, not in an optional layer.
        if destroys {
            // First, because a decision keeps only the first ones.
            words.splice(0..0, self.approved(now, &asset, change.digest)?);
        }
        // R9: claims come last, since nothing after this line refuses.
        if !self.planted(Bug::SkipClaim) {
            self.claims
                .take(&slot, &verdict.claims, now.mono)
                .map_err(Refusal::Taken)?;
        }
        self.take(now, at, verdict);
        self.spend(now, at, words, out);
        Ok(())
    }

    /// R12: the approvals of a destructive push. It needs one and spends all, since each lets one push through.
    fn approved(&self, now: Now, asset: &AssetId, change: Digest) -> Result<Vec<Waiver>, Refusal> {
        let given = self.people.approvals(asset, change, now.wall).cloned();
        let given: Vec<Waiver> = given.map(Waiver::Approval).collect();
        if given.is_empty() {
            return Err(Refusal::Held(format!(
                "the push is destructive; approve change {change} of {asset} to let it through once"
            )));
        }
        Ok(given)
    }

    /// R49: whether nothing of the asset's resource happens under another id.
    fn has_one_id(&self, slot: SlotNo) -> Result<(), Refusal> {
        if self.old_id_of(slot).is_some() {
            return Err(Refusal::Stale);
        }
        match self.pushed_under_new_id(slot) {
            Some(new) => Err(Refusal::InFlight(new)),
            None => Ok(()),
        }
    }

    /// R10: whether the evidence is young enough by its own birth. Evidence from the future, after a clock was set
    /// back, is not.
    fn is_young(&self, now: Now, it: &Attempt, verdict: &Verdict) -> bool {
        let age = now.wall.duration_since(verdict.as_of);
        let limit = self.config.evidence_age;
        let young = !age.is_negative() && Duration::try_from(age).is_ok_and(|age| age < limit);
        young && now.mono.since(it.diff_started) < limit && now.mono.since(it.check_started) < limit
    }

    /// R7: splits the delays of a verdict into those that an override skips and those that remain. An override skips
    /// one named check for exactly this change.
    pub(super) fn overridden(
        &self,
        now: Now,
        asset: &AssetId,
        change: Digest,
        verdict: &Verdict,
    ) -> (Vec<Waiver>, Vec<Delay>) {
        let (mut words, mut delays) = (Vec::new(), Vec::new());
        for delay in &verdict.delays {
            let people = &self.people;
            // If the stack failed, it is not known what its other checks would have answered.
            let word = (delay.check.as_str() != FAILED)
                .then(|| people.overridden(asset, change, &delay.check, now.wall));
            match word.flatten() {
                Some(word) => words.push(Waiver::Override(word.clone())),
                None => delays.push(delay.clone()),
            }
        }
        (words, delays)
    }

    /// R8, R11: checks that the pin is that of the diff, and that the intent of the asset and of those it relies on is
    /// unchanged.
    fn intent_holds(&self, at: AttemptNo, verdict: &Verdict) -> Result<(), Refusal> {
        let Some(it) = self.attempts.at(at) else {
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
            .map(SlotNo::of_stamp)
            .filter(|slot| slot.is_below(self.table.len()));
        let moved = std::iter::once(it.slot)
            .chain(relied)
            .any(|s| self.table.slot(s).changed > it.latest);
        if moved && it.voids < 3 {
            Err(Refusal::Moved)
        } else {
            Ok(())
        }
    }

    /// R8: checks that no push made a finding outdated, and that none is in flight at either end.
    fn evidence_holds(&self, at: AttemptNo, verdict: &Verdict) -> Result<(), Refusal> {
        let Some(it) = self.attempts.at(at) else {
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
                let slot = SlotNo::of_stamp(stamp);
                if !slot.is_below(self.table.len()) {
                    return Err(Refusal::Stale);
                }
                let now = self.table.slot(slot);
                if now.in_flight() || self.old_id_of(slot).is_some() {
                    return Err(Refusal::InFlight(slot));
                }
                if now.seq != stamp.seq {
                    return Err(Refusal::Stale);
                }
            }
        }
        if self.holds.is_held(it.slot) && !self.planted(Bug::SkipHold) {
            return Err(Refusal::InFlight(it.slot));
        }
        let touched = |slot: SlotNo| {
            let id = self.table.id(slot)?;
            let since = self.edges.touched_since(&id, it.seen.edges)?;
            // The amount of a counted claim is compared with the use of all consumers now.
            let counted = || {
                verdict
                    .claims
                    .iter()
                    .any(|claim| is_of_capacity(claim, &id))
            };
            let is_void = match since {
                // The asset's own pin was compared in `intent_holds`.
                Touch::Pinned => slot != it.slot,
                Touch::Consumer => slot == it.slot || !counted(),
            };
            is_void.then_some(())
        };
        let relied = verdict.relies_on.iter().map(SlotNo::of_stamp);
        let mut all = std::iter::once(it.slot).chain(relied);
        match all.find_map(touched) {
            Some(()) => Err(Refusal::Stale),
            None => Ok(()),
        }
    }

    /// Makes the push counter odd. Holds and claims belong to the attempt until the outcome is known.
    fn take(&mut self, now: Now, at: AttemptNo, verdict: &Verdict) {
        let limit = self.config.evidence_age;
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let age = now.wall.duration_since(verdict.as_of);
        let left = limit.saturating_sub(Duration::try_from(age).unwrap_or_default());
        it.good_until = (now.mono + left).min(it.diff_started + limit);
        it.held = it.claims.len();
        it.relies_on = verdict
            .relies_on
            .iter()
            .map(SlotNo::of_stamp)
            .filter(|&s| s != it.slot)
            .collect();
        it.relies_on.dedup();
        it.pushed_at = Some(it.incarnation.clone());
        it.claims.extend(
            verdict
                .claims
                .iter()
                .filter(|claim| claim.is_held())
                .cloned(),
        );
        for &slot in &it.relies_on {
            self.holds.take(slot);
        }
        let entry = self.table.slot_mut(it.slot);
        entry.seq += 1;
        entry.set(flag::THERE, true);
        self.observations.forget(it.slot);
        let slot = it.slot;
        if !it.cures {
            it.before = self.table.last_settled_mut().take(slot);
        }
        self.followed.touch(slot);
        self.is_pushed_as_moved(slot);
    }

    /// R12: spends the approval and overrides in the step, and so in the commit, that opens the push.
    fn spend(&mut self, now: Now, at: AttemptNo, mut words: Vec<Waiver>, out: &mut Effects) {
        let Some(it) = self.attempts.at_mut(at) else {
            return;
        };
        let used = Used {
            at: now.wall,
            incarnation: it.incarnation.no(),
            token: self.ownership.token(),
        };
        for word in &mut words {
            self.people.spend(word);
            word.mark(Some(used.clone()));
        }
        it.waivers = words.clone();
        for word in words {
            self.record_word(word, out);
        }
    }

    /// Gives back the approval and overrides of a push that never began.
    pub(super) fn give_back_waivers(&mut self, at: AttemptNo, out: &mut Effects) {
        let words = self.attempts.at_mut(at);
        let words = words.map(|it| std::mem::take(&mut it.waivers));
        for word in words.unwrap_or_default() {
            let word = self.people.take_back(word);
            self.record_word(word, out);
        }
    }

    pub(super) fn record_word(&mut self, word: Waiver, out: &mut Effects) {
        let record = match word {
            Waiver::Approval(word) => Record::Approval(word),
            Waiver::Override(word) => Record::Override(word),
        };
        self.record(record, out);
    }

    /// Admits the push or handles its refusal.
    pub(super) fn decide_admission(
        &mut self,
        now: Now,
        at: AttemptNo,
        verdict: &Verdict,
        out: &mut Effects,
    ) {
        match self.admit(now, at, verdict, out) {
            Ok(()) => {
                let slot = self.attempts.at(at).map(|it| it.slot);
                slot.into_iter()
                    .for_each(|slot| self.report_waiting(slot, &[]));
                self.admitted(now, at, out)
            }
            Err(refusal) => self.refused(now, at, refusal, out),
        }
    }
}

/// R13: checks that the assets that a push relies on, and its claims, fit into its record.
fn can_be_remembered(verdict: &Verdict) -> Result<(), Refusal> {
    let (relied, most) = (verdict.relies_on.len(), ReliedOn::MOST);
    if relied > most {
        return Err(Refusal::Held(format!(
            "the push relies on {relied} other assets, the limit is {most}; reduce the number of assets that \
             depend on each other"
        )));
    }
    let claims = verdict.claims.iter().map(|claim| claim.key().0.len());
    let (count, bytes) = (verdict.claims.len(), claims.sum::<usize>());
    if count > MOST_CLAIMS || bytes > MOST_CLAIM_BYTES {
        return Err(Refusal::Held(format!(
            "its checks claim {count} keys with {bytes} bytes, the limit is {MOST_CLAIMS} keys with {MOST_CLAIM_BYTES} \
             bytes; claim fewer or shorter keys"
        )));
    }
    Ok(())
}

/// Whether `claim` is an amount of a capacity of `provider`, in any unit.
fn is_of_capacity(claim: &Claim, provider: &AssetId) -> bool {
    let of_any = Key::capacity(provider, "");
    matches!(claim, Claim::Amount { key, .. } if key.0.starts_with(&*of_any.0))
}

/// Returns the delay for a check stack that failed or timed out.
pub(crate) fn failed_check(now: Now, why: String) -> Verdict {
    let recheck = Recheck::After(Duration::from_secs(10));
    Verdict::delay(now.wall, Delay::new(why, recheck).check(FAILED))
}
