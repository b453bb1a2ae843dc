//! Policies that are checks, as assets: a verdict from before one of them changed admits nothing, and assets that wait for a changed
//! one are checked again.

use plugin_sdk::{Delay, Now};
use prodspec_model::{Asset, AssetId, Incarnation, policy};

use super::{
    Kernel,
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
}
