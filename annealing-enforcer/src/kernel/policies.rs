//! Policies that are checks, as assets: a verdict from before one of them changed admits nothing, and assets that wait for a changed
//! one are checked again.

use plugin_sdk::{Approved, By, Delay, Now};
use prodspec_model::{Asset, AssetId, Digest, Incarnation, policy};

use control_plane_store::records::Ended;

use super::{
    Kernel,
    event::Effects,
    state::{
        attempt::{Phase, Wait},
        numbers::AttemptNo,
        numbers::SlotNo,
    },
};

impl Kernel {
    /// Takes in that `changed` differ from `older` in the newest incarnation.
    pub(super) fn assets_without_slot_changed(
        &mut self,
        now: Now,
        older: &Incarnation,
        changed: &[Asset],
    ) {
        let is_policy = |asset: &Asset| policy::CHECKS.contains(&asset.type_str());
        let was_policy = |id: &AssetId| older.asset(id).as_ref().is_some_and(is_policy);
        let ids = changed
            .iter()
            .filter(|it| is_policy(it) || was_policy(&it.id()));
        let suffixes: Vec<String> = ids.map(|it| format!("/{}", it.id_str())).collect();
        if suffixes.is_empty() {
            return;
        }
        self.table.policies_changed();
        self.ahead.clear();
        let waits = |delay: &Delay| {
            let check = delay.check.as_str();
            suffixes.iter().any(|suffix| check.ends_with(suffix))
        };
        let waiting = self.attempts.iter().filter(|it| match &it.phase {
            Phase::Waiting(Wait::Delayed(delays, _)) => delays.iter().any(waits),
            _ => false,
        });
        let slots: Vec<SlotNo> = waiting.map(|it| it.slot).collect();
        for slot in slots {
            self.asked(now, slot);
        }
    }

    /// Whether the checks of an attempt have read the policies as they are now.
    pub(super) fn has_read_policies(&self, at: AttemptNo) -> bool {
        let it = self.attempts.at(at);
        it.is_some_and(|it| it.seen.newest >= self.table.policies_since())
    }

    /// The approvals of a change that count now (R110).
    pub(super) fn approvals(&self, now: Now, asset: &AssetId, change: Digest) -> Vec<Approved> {
        let given = self.people.approvals(asset, change, now.wall);
        let given = given.map(|it| Approved {
            by: it.by.who.as_str().into(),
            at: it.at,
        });
        given.collect()
    }

    /// R110: ends the approvals of an asset that has settled. A later change needs new ones, even if it is the same.
    pub(super) fn end_approvals(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        if self.people.has_no_approval() {
            return;
        }
        let Some(id) = self.table.id(slot) else {
            return;
        };
        let ended = Ended {
            by: By::new("the enforcer", format!("`{id}` has settled")),
            at: now.wall,
        };
        for approval in self.people.end_approvals(&id, &ended) {
            self.record_word(approval, out);
        }
    }

    /// Whether an asset waits for approvals, or a rollout waits for approvals of its push. An earlier approval of the change shows
    /// that it does: the checks run again after each.
    pub(super) fn awaits_approval(
        &self,
        now: Now,
        slot: SlotNo,
        asset: &AssetId,
        change: Digest,
    ) -> bool {
        let at = self.table.slot(slot).attempt;
        let phase = self.attempts.at(at).map(|it| &it.phase);
        let waits = match phase {
            Some(Phase::Waiting(Wait::Delayed(delays, _))) => {
                delays.iter().any(Delay::awaits_approval)
            }
            _ => false,
        };
        let is_first = || {
            self.people
                .approvals(asset, change, now.wall)
                .next()
                .is_none()
        };
        waits || !is_first() || self.is_ahead(now, asset, change, Delay::awaits_approval)
    }

    /// Whether a rollout tried a push with this change, and a delay is such.
    pub(super) fn is_ahead(
        &self,
        now: Now,
        asset: &AssetId,
        change: Digest,
        such: impl Fn(&Delay) -> bool,
    ) -> bool {
        let mut ahead = self.ahead.of(now.mono, asset);
        ahead.any(|push| push.change.digest == change && push.verdict.delays.iter().any(&such))
    }
}
