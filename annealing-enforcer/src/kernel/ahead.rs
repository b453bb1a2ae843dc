//! Answers questions of rollouts about pushes that would follow if pins moved. No push depends on them.

use std::{sync::Arc, time::Duration};

use plugin_sdk::{Cause, Change, Claim, Delay, Mono, Now, Observed, Recheck, Run, Verdict};
use prodspec_model::{Asset, AssetId, Incarnation, IncarnationNo, addons::Moved};

use super::{
    Kernel,
    event::{CheckCall, Target},
    state::{ahead::PushAhead, numbers::SlotNo, slot::flag},
};

/// Name of the check in a delay by claims that are not free.
const CLAIMS: &str = "claims";

/// Time after which claims that are not free are compared again.
const AGAIN: Duration = Duration::from_secs(5);

impl Kernel {
    /// Begins a question about pushes. Returns those of `assets` that must be compared and checked anew.
    pub(crate) fn ask_ahead(
        &mut self,
        now: Mono,
        (at, cause): (&Incarnation, Cause),
        mut assets: Vec<AssetId>,
    ) -> Vec<AssetId> {
        self.ahead.expire(now);
        assets.retain(|asset| !self.ahead.knows(asset, at, cause));
        for asset in &assets {
            self.ahead.forget(asset, at, cause);
        }
        assets
    }

    /// Takes in the verdict of the checks on a push that does not exist. `newest`: the incarnation whose policies they read.
    pub(crate) fn checked_ahead(
        &mut self,
        now: Now,
        asset: &Asset,
        cause: Cause,
        (change, verdict): (Arc<Change>, Verdict),
        newest: IncarnationNo,
    ) {
        self.ahead.note(now, asset, cause, change, verdict);
        // It is shown, and the next selection asks again.
        if newest < self.table.policies_since() {
            self.ahead.check_again(now.mono, &asset.id());
        }
    }

    /// The asset at `at` as the object of a diff, if a plugin enforces it, no push of it runs, and it was
    /// not renamed.
    pub(crate) fn target_ahead(&self, at: &Incarnation, id: &AssetId) -> Option<Target> {
        let asset = at.asset(id)?;
        let plugin = self.kind_of(asset.type_str())?;
        let slot = self.table.find(id.as_str());
        let in_flight = slot.is_some_and(|slot| self.table.slot(slot).in_flight());
        // R49: its resource still has the old id, so nothing can be compared with it.
        let old = Moved::source_of(&asset).and_then(|from| self.table.find(from.as_str()));
        if in_flight || old.is_some_and(|old| self.stands_for_resource(old)) {
            return None;
        }
        Some(Target {
            run: Run {
                slot: 0,
                n: 0,
                incarnation: at.no(),
            },
            fence: 0,
            plugin,
            asset,
            incarnation: at.clone(),
        })
    }

    /// The checks of a push that does not exist: its asset is not pinned there yet.
    pub(crate) fn check_ahead(
        &self,
        now: Now,
        target: Target,
        (change, cause): (Arc<Change>, Cause),
        observed: Observed,
    ) -> CheckCall {
        let slot = self.table.find(target.asset.id_str());
        let reached = slot.is_some_and(|slot| self.table.slot(slot).has(flag::REACHED));
        CheckCall {
            ahead: true,
            ..self.check_call(now, target, (change, cause), observed, reached)
        }
    }

    /// The parameters of one run of the checks. `reached`: no edge of the asset is new to production.
    pub(super) fn check_call(
        &self,
        now: Now,
        target: Target,
        (change, cause): (Arc<Change>, Cause),
        observed: Observed,
        reached: bool,
    ) -> CheckCall {
        let asset: &Asset = &target.asset;
        let brought = match reached {
            true => Vec::new(),
            false => self.edges.brought(asset),
        };
        CheckCall {
            approvals: self.approvals(now, &asset.id(), change.digest),
            change,
            observed,
            cause,
            ahead: false,
            edges: self.edges.shared(),
            latest: self.table.latest().clone(),
            brought,
            renamed: self.renamed_ids(asset),
            target,
        }
    }

    /// Maximum time of one run of the checks.
    pub(crate) fn check_deadline(&self) -> Duration {
        self.config.check_deadline
    }

    /// The assets whose pushes to `at` for `cause` would wait, with their delays: without those that an override skips, and
    /// with claims that are not free. Those before it take theirs first. The others are forgotten.
    pub(crate) fn would_wait(
        &mut self,
        now: Now,
        (at, cause): (&Incarnation, Cause),
    ) -> Vec<(AssetId, Vec<Delay>)> {
        let mut first: Vec<(SlotNo, &[Claim])> = Vec::new();
        let mut all = Vec::new();
        for (asset, push) in self.ahead.about(at, cause) {
            let delays = self.delays_ahead(now, asset, push, &first);
            if delays.is_empty() {
                first.push((self.slot_ahead(asset), &push.verdict.claims));
            }
            all.push((asset.clone(), delays));
        }
        let (wait, free): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, delays)| !delays.is_empty());
        for (asset, _) in &free {
            self.ahead.forget(asset, at, cause);
        }
        wait
    }

    /// The delays of a push that does not exist, if the pushes in `first` take their claims before it.
    pub(super) fn delays_ahead(
        &self,
        now: Now,
        asset: &AssetId,
        push: &PushAhead,
        first: &[(SlotNo, &[Claim])],
    ) -> Vec<Delay> {
        let (_, delays) = self.overridden(now, asset, push.change.digest, &push.verdict);
        if !delays.is_empty() {
            return delays;
        }
        let (slot, claims) = (self.slot_ahead(asset), &push.verdict.claims);
        let fits = self.claims.fits(&slot, claims, first, now.mono);
        let taken = fits.err().into_iter();
        let taken = taken.map(|it| Delay::new(it.to_string(), Recheck::After(AGAIN)).check(CLAIMS));
        taken.collect()
    }

    fn slot_ahead(&self, asset: &AssetId) -> SlotNo {
        self.table.find(asset.as_str()).unwrap_or(SlotNo::NONE)
    }
}
