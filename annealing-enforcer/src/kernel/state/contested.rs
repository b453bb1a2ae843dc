//! Contested assets: each time that enforcement repairs one, something else changes it again. Another control plane, a
//! program or a person works on the same resource, and at the moment of a diff each of them finds what it wants.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use plugin_sdk::Mono;

use super::numbers::SlotNo;

/// Number of repairs in a row from which an asset is contested.
const REPAIRS: u32 = 5;

/// Maximum number of drift periods between two repairs that count as in a row. The other program may look as rarely as
/// this one.
const PERIODS: u32 = 3;

/// Repairs of one asset in a row.
#[derive(Debug, Clone, Copy)]
struct Streak {
    repairs: u32,
    last: Mono,
}

/// The repairs of assets that drifted after they were in sync.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Contested {
    streaks: BTreeMap<SlotNo, Streak>,
    /// Assets whose streak is long enough. They may have come to rest since.
    long: BTreeSet<SlotNo>,
}

impl Contested {
    /// Notes that drift of an asset was repaired. Returns the number of repairs in a row if it has just become contested.
    pub(in crate::kernel) fn repaired(
        &mut self,
        now: Mono,
        slot: SlotNo,
        drift_period: Duration,
    ) -> Option<u32> {
        let begun = Streak {
            repairs: 0,
            last: now,
        };
        let streak = self.streaks.entry(slot).or_insert(begun);
        if rests(streak, now, drift_period) {
            *streak = begun;
            self.long.remove(&slot);
        }
        (streak.repairs, streak.last) = (streak.repairs.saturating_add(1), now);
        let becomes = streak.repairs >= REPAIRS && self.long.insert(slot);
        becomes.then_some(streak.repairs)
    }

    /// The assets that are contested now.
    pub(in crate::kernel) fn now(
        &self,
        now: Mono,
        drift_period: Duration,
    ) -> impl Iterator<Item = SlotNo> {
        let fought = move |slot: &SlotNo| {
            let streak = self.streaks.get(slot);
            streak.is_some_and(|streak| !rests(streak, now, drift_period))
        };
        self.long.iter().copied().filter(fought)
    }

    /// Forgets an asset: its intent has changed, or its slot is given up.
    pub(in crate::kernel) fn forget(&mut self, slot: SlotNo) {
        self.streaks.remove(&slot);
        self.long.remove(&slot);
    }
}

/// Whether nothing has changed the asset for so long that the streak is over.
fn rests(streak: &Streak, now: Mono, drift_period: Duration) -> bool {
    now.since(streak.last) > drift_period.saturating_mul(PERIODS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(300);
    const SLOT: SlotNo = SlotNo::FIRST;

    fn count(contested: &Contested, now: Mono) -> usize {
        contested.now(now, PERIOD).count()
    }

    #[test]
    fn asset_is_contested_after_repairs_in_a_row_until_it_rests() {
        let (mut contested, mut now) = (Contested::default(), Mono(0));
        for nth in 1..=7 {
            now = now + PERIOD * 2;
            let news = contested.repaired(now, SLOT, PERIOD);
            assert_eq!(news, (nth == 5).then_some(5), "told once");
            assert_eq!(count(&contested, now), usize::from(nth >= 5));
        }
        assert_eq!(count(&contested, now + PERIOD * 3), 1);
        now = now + PERIOD * 4;
        assert_eq!(count(&contested, now), 0);
        assert_eq!(contested.repaired(now, SLOT, PERIOD), None, "a new streak");
        assert_eq!(count(&contested, now), 0);
    }

    #[test]
    fn rare_repairs_are_no_fight() {
        let (mut contested, mut now) = (Contested::default(), Mono(0));
        for _ in 0..100 {
            now = now + PERIOD * 4;
            assert_eq!(contested.repaired(now, SLOT, PERIOD), None);
        }
        contested.forget(SLOT);
        assert_eq!(count(&contested, now), 0);
    }
}
