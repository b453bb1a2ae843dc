//! Policies that are checks, as assets: a verdict from before one of them changed admits nothing, and assets that wait for a changed
//! one are checked again.

use plugin_sdk::{Delay, Key, Now};
use prodspec_model::{Asset, AssetId, Incarnation, policy};

use super::{
    Kernel,
    refusal::CLAIM,
    state::{
        attempt::{Behind, Phase, Wait},
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
        let is_about = |delay: &Delay| suffixes.iter().any(|suffix| waits_for(delay, suffix));
        // An asset that sleeps is looked at for drift now and then: it still waits.
        let waiting = self.attempts.iter().filter(|it| {
            let parked = match &it.phase {
                Phase::Waiting(Wait::Parked {
                    behind: Behind::Claim(key),
                    ..
                }) => Some(key),
                _ => None,
            };
            let is_claim = |key: &Key| suffixes.iter().any(|suffix| is_claim_of(key, suffix));
            it.delays().into_iter().flatten().any(is_about) || parked.is_some_and(is_claim)
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

/// Whether a delay is by the policy whose id is `suffix`, with a slash before it.
fn waits_for(delay: &Delay, suffix: &str) -> bool {
    let claim = delay.evidence.get(CLAIM).and_then(|it| it.as_str());
    let is_claim = claim.is_some_and(|key| is_claim_of(&Key::from(key), suffix));
    is_claim || delay.check.as_str().ends_with(suffix)
}

/// Whether the policy with this suffix claims under a key. Its keys begin with its name and a slash.
fn is_claim_of(key: &Key, suffix: &str) -> bool {
    key.0.contains(&format!("{suffix}/"))
}
