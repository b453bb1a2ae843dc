//! Check: running the check stack for a push, and passing its verdict to admission.

use std::collections::BTreeMap;

use plugin_sdk::{Now, Run, Verdict};
use prodspec_model::{
    Asset, AssetId,
    addons::{DependsOn, Moved},
};

use super::{
    Kernel,
    branch::Branch,
    event::{Call, Effects, Target},
    state::{
        attempt::{Phase, Seen},
        numbers::AttemptNo,
        slot::flag,
    },
};
use crate::bug::Bug;

impl Kernel {
    pub(super) fn start_check(&mut self, now: Now, at: AttemptNo, out: &mut Effects) {
        let (edges, newest) = (self.edges.count(), self.table.latest().no());
        let Some(attempt) = self.attempts.at_mut(at) else {
            return;
        };
        let slot = attempt.slot;
        let (Some(change), Some(known)) = (attempt.change.clone(), self.table.known(slot)) else {
            return;
        };
        let Some(asset) = attempt.incarnation.snapshot().get(known.id_str()) else {
            return;
        };
        let reached = self.table.slot(slot).has(flag::REACHED);
        let Some(attempt) = self.attempts.at_mut(at) else {
            return;
        };
        let entry = self.table.slot_mut(slot);
        // Observations of the asset raise its call number meanwhile; the answer of this check is recognised by this
        // number.
        entry.n += 1;
        attempt.run = entry.n;
        let run = Run {
            slot: slot.bare(),
            n: entry.n,
            incarnation: attempt.incarnation.no(),
        };
        attempt.phase = Phase::Checking;
        attempt.advance();
        (attempt.check_started, attempt.prolonged) = (now.mono, false);
        let settles = self.settle_waits.check_started();
        attempt.seen = Seen {
            newest,
            edges,
            settles,
        };
        self.schedule.set(
            now.mono + self.config.check_deadline,
            at,
            attempt.generation,
        );
        let target = Target {
            run,
            fence: run.n,
            plugin: entry.kind,
            asset,
            incarnation: attempt.incarnation.clone(),
        };
        let (observed, cause) = (attempt.observed.clone(), attempt.cause);
        let call = self.check_call(now, target, (change, cause), observed, reached);
        out.calls.push(Call::Check(call));
    }

    /// Returns the present ids of the providers that an asset names by old ids, and its own id if it was renamed, each by
    /// the old one.
    pub(super) fn renamed_ids(&self, asset: &Asset) -> BTreeMap<AssetId, AssetId> {
        let id = asset.id();
        let kept = self.edges.of(&id);
        let edges = DependsOn::edges_of(asset).into_iter().chain(kept);
        let providers = edges.map(|edge| edge.provider.id);
        let newest = self.table.latest().asset(&id);
        let own = newest.as_ref().and_then(Moved::source_of);
        let present = providers
            .chain(own)
            .map(|named| (named.clone(), self.present_id(named)));
        present
            .filter(|(named, present)| named != present)
            .collect()
    }

    pub(super) fn check_done(
        &mut self,
        now: Now,
        run: Run,
        answer: Result<Verdict, String>,
        out: &mut Effects,
    ) {
        match self.awaiting(run, |phase| matches!(phase, Phase::Checking)) {
            Some(at) => self.checked(now, at, answer, out),
            None => self.count(Branch::Late),
        }
    }

    /// Handles the end of an attempt's checks, or their passed deadline.
    pub(super) fn checked(
        &mut self,
        now: Now,
        at: AttemptNo,
        answer: Result<Verdict, String>,
        out: &mut Effects,
    ) {
        self.settle_waits.check_ended();
        let verdict = match answer {
            Ok(verdict) => verdict,
            Err(_) if self.planted(Bug::PushOnTimedOutCheck) => Verdict::proceed(now.wall),
            Err(why) => super::admission::failed_check(now, why),
        };
        self.decide_admission(now, at, &verdict, out);
    }
}
