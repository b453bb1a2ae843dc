//! Floors of serving capacity: the kernel counts the capacity that production has, and a push that would take it below the floor
//! waits until more is there (R109).

use plugin_sdk::{Delay, Diff, Key, Mono, Now, Recheck, Served, Serving, Usage};
use prodspec_model::AssetId;

use super::{
    Kernel,
    state::{
        attempt::{Phase, Wait},
        numbers::SlotNo,
        slot::{Class, Trigger},
    },
};

impl Kernel {
    /// Counts the assets of `serving` from now on. Returns the capacity that they have in production, without `but`.
    pub(super) fn served(&mut self, now: Now, serving: &Serving, but: &AssetId) -> Served {
        // An asset without a slot is not enforced: no push changes its capacity, and no diff sees it.
        let find = |id: &AssetId| self.table.find(id.as_str());
        let members = || serving.assets.iter().filter_map(find).collect();
        let slot = find(but).unwrap_or(SlotNo::NONE);
        let (floors, key) = (&mut self.claims.floors, &serving.key);
        floors.watch(key, serving, members, now.mono);
        let kept = floors.served(key, &slot);
        let ids = |all: Vec<SlotNo>| all.into_iter().filter_map(|slot| self.table.id(slot));
        Served {
            units: u64::try_from(kept.units).unwrap_or(u64::MAX),
            unknown: ids(kept.unknown).collect(),
            growing: ids(kept.growing).take(Usage::NAMED).collect(),
        }
    }

    /// Notes the capacity that a diff of `slot` found, with no push under way. Wakes an asset that waits for more.
    pub(super) fn floors_seen(&mut self, now: Now, slot: SlotNo, diff: &Diff, started: Mono) {
        let capacity = |unit: &str| diff.capacity(unit);
        let rose = self.claims.floors.observed(&slot, capacity, started);
        for key in rose {
            self.wake_for_floor(now, &key);
        }
    }

    /// Notes that the outcome of a push of `slot` is known. Another one may be admitted beside the capacity that it has left.
    pub(super) fn floors_after_push(&mut self, now: Now, slot: SlotNo) {
        for key in self.claims.floors.ended(&slot) {
            self.wake_for_floor(now, &key);
        }
    }

    /// Wakes the asset that has waited longest for capacity under `key`. One that finds too little waits behind the others then.
    fn wake_for_floor(&mut self, now: Now, key: &Key) {
        while let Some((_, next)) = self.claims.next_waiting(key) {
            let at = self.table.slot(next).attempt;
            let waits =
                |delay: &Delay| matches!(&delay.recheck, Recheck::WhenFree(of) if of == key);
            let phase = self.attempts.at(at).map(|it| &it.phase);
            let is_next = match phase {
                Some(Phase::Waiting(Wait::Delayed(delays, _))) => delays.iter().any(waits),
                Some(Phase::Waiting(Wait::Parked { .. })) => true,
                _ => false,
            };
            if is_next {
                self.trigger(now, next, Trigger::DependencySettled, Class::Retry);
                return;
            }
        }
    }
}
