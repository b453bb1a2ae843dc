//! The time of each asset's next diff: queues by class with aging, timers for assets in the loop, a cursor for the
//! others.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

use plugin_sdk::{Mono, Now};

use super::{numbers::AttemptNo, numbers::SlotNo, slot::Class};

/// Assets of one plugin that are ready for a diff.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Ready {
    queues: [VecDeque<Entry>; Class::ALL.len()],
}

/// An asset in a queue, in 8 bytes, as there may be a million.
#[derive(Debug, Clone, Copy)]
struct Entry {
    slot: SlotNo,
    /// Time at which it was queued, in units of 2^20 ns; wraps around after 52 days.
    since: u32,
}

fn units(time: Mono) -> u32 {
    (time.0 >> 20) as u32
}

impl Entry {
    fn waited(self, now: Mono) -> Duration {
        Duration::from_nanos(u64::from(units(now).wrapping_sub(self.since)) << 20)
    }
}

impl Ready {
    #[cfg(test)]
    pub(in crate::kernel) fn contains(&self, class: Class, slot: SlotNo) -> bool {
        self.queues[class as usize]
            .iter()
            .any(|entry| entry.slot == slot)
    }

    /// Returns all assets in the queues, outdated entries included.
    pub(in crate::kernel) fn slots(&self) -> impl Iterator<Item = SlotNo> {
        self.queues.iter().flatten().map(|entry| entry.slot)
    }

    /// Returns the first assets of the highest class that has any, `most` at most, outdated entries included.
    pub(in crate::kernel) fn first(&self, most: usize) -> impl Iterator<Item = SlotNo> {
        let queue = self.queues.iter().find(|queue| !queue.is_empty());
        let first = queue.into_iter().flatten().take(most);
        first.map(|entry| entry.slot)
    }

    pub(in crate::kernel) fn push(&mut self, class: Class, slot: SlotNo, now: Mono) {
        self.queues[class as usize].push_back(Entry {
            slot,
            since: units(now),
        });
    }

    /// Removes and returns the next asset: the one that has waited longest if that is longer than `patience`, otherwise
    /// the first of the highest class. Entries for which `stale` holds were queued again elsewhere and are dropped.
    pub(in crate::kernel) fn pop(
        &mut self,
        now: Mono,
        patience: Duration,
        stale: impl Fn(SlotNo, Class) -> bool,
    ) -> Option<SlotNo> {
        for class in Class::ALL {
            let queue = &mut self.queues[class as usize];
            while queue.front().is_some_and(|entry| stale(entry.slot, class)) {
                queue.pop_front();
            }
            if queue.is_empty() && queue.capacity() > 1024 {
                queue.shrink_to_fit();
            }
        }
        let waited = |queue: &VecDeque<Entry>| queue.front().map(|entry| entry.waited(now));
        let queues = self.queues.iter().enumerate();
        let aged = queues.filter_map(|(at, queue)| Some((waited(queue)?, at)));
        let longest = aged
            .filter(|(waited, _)| *waited > patience)
            .max_by_key(|(waited, _)| *waited);
        let first = || self.queues.iter().position(|queue| !queue.is_empty());
        let from = longest.map(|(_, at)| at).or_else(first)?;
        self.queues[from].pop_front().map(|entry| entry.slot)
    }
}

/// The time of each asset's next diff or deadline: timers for assets in the loop, the drift scan for the others.
#[derive(Debug)]
pub(in crate::kernel) struct Schedule {
    /// Time at which the last step ran.
    now: Now,
    timers: Timers,
    drift: Drift,
    /// State of the generator of random numbers.
    random: u64,
}

impl Schedule {
    /// Creates a schedule whose drift scan resumes where former owners stopped; `before` is the total time owned so far.
    pub(in crate::kernel) fn new(now: Now, period: Duration, before: Duration, seed: u64) -> Self {
        Self {
            now,
            timers: Timers::default(),
            drift: Drift::new(period, now.mono, before),
            random: seed,
        }
    }

    /// Notes that a step runs at `now`.
    pub(in crate::kernel) fn step(&mut self, now: Now) {
        self.now = now;
    }

    /// Returns the time at which the last step ran.
    pub(in crate::kernel) fn now(&self) -> Now {
        self.now
    }

    /// Sets a timer of an attempt. It is valid while the attempt has this generation.
    pub(in crate::kernel) fn set(&mut self, at: Mono, attempt: AttemptNo, generation: u32) {
        self.timers.set(at, attempt, generation);
    }

    /// Sets the deadline of a diff.
    pub(in crate::kernel) fn set_diff(&mut self, at: Mono, attempt: AttemptNo, generation: u32) {
        self.timers.set_diff(at, attempt, generation);
    }

    /// Drops invalid timers at the front: those for which `live` does not hold.
    pub(in crate::kernel) fn tidy(&mut self, live: impl Fn(AttemptNo, u32) -> bool) {
        self.timers.tidy(live);
    }

    /// Returns the time of the next timer.
    pub(in crate::kernel) fn next_timer(&self) -> Option<Mono> {
        self.timers.next()
    }

    /// Removes and returns the next timer that is due, with its time.
    pub(in crate::kernel) fn pop_timer(&mut self, now: Mono) -> Option<(Mono, AttemptNo, u32)> {
        self.timers.pop_due(now)
    }

    /// Returns the time at which the drift scan goes on.
    pub(in crate::kernel) fn next_drift(&self, slots: u32) -> Option<Mono> {
        self.drift.next(slots)
    }

    /// Returns the next slot that the drift scan reaches, if it is due.
    pub(in crate::kernel) fn pop_drift(&mut self, now: Mono, slots: u32) -> Option<SlotNo> {
        self.drift.pop_due(now, slots)
    }

    /// Returns a uniformly random number below `below`, from the seed (SplitMix64).
    pub(in crate::kernel) fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }

    #[cfg(test)]
    pub(in crate::kernel) fn contains(&self, attempt: AttemptNo, generation: u32) -> bool {
        self.timers.contains(attempt, generation)
    }
}

/// Timers of assets in the loop. An entry is valid while the asset's attempt has its generation.
#[derive(Debug, Default)]
struct Timers {
    heap: BinaryHeap<Reverse<(Mono, AttemptNo, u32)>>,
    /// Deadlines of diffs. They are set in about the order in which they fall due, so they need no heap.
    diffs: VecDeque<(Mono, AttemptNo, u32)>,
}

impl Timers {
    fn set(&mut self, at: Mono, attempt: AttemptNo, generation: u32) {
        self.heap.push(Reverse((at, attempt, generation)));
    }

    fn set_diff(&mut self, at: Mono, attempt: AttemptNo, generation: u32) {
        match self.diffs.back() {
            Some(&(last, ..)) if last > at => self.set(at, attempt, generation),
            _ => self.diffs.push_back((at, attempt, generation)),
        }
    }

    /// Drops invalid entries at the front: those for which `live` does not hold.
    fn tidy(&mut self, live: impl Fn(AttemptNo, u32) -> bool) {
        while self
            .diffs
            .front()
            .is_some_and(|&(_, attempt, generation)| !live(attempt, generation))
        {
            self.diffs.pop_front();
        }
        while self
            .heap
            .peek()
            .is_some_and(|Reverse((_, attempt, generation))| !live(*attempt, *generation))
        {
            self.heap.pop();
        }
    }

    #[cfg(test)]
    fn contains(&self, attempt: AttemptNo, generation: u32) -> bool {
        let set = |entry: &(Mono, AttemptNo, u32)| (entry.1, entry.2) == (attempt, generation);
        self.diffs.iter().any(set) || self.heap.iter().any(|Reverse(entry)| set(entry))
    }

    fn next(&self) -> Option<Mono> {
        let diff = self.diffs.front().map(|entry| entry.0);
        let other = self.heap.peek().map(|Reverse(entry)| entry.0);
        diff.into_iter().chain(other).min()
    }

    /// Removes and returns the next entry that is due, with its time.
    fn pop_due(&mut self, now: Mono) -> Option<(Mono, AttemptNo, u32)> {
        if self.heap.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            return self.heap.pop().map(|Reverse(entry)| entry);
        }
        self.diffs.pop_front_if(|entry| entry.0 <= now)
    }
}

/// The drift scan: visits all slots in a fixed permutation once per period, without a timer for each.
#[derive(Debug)]
struct Drift {
    period: Duration,
    started: Mono,
    /// The part of the present pass that former owners did before `started`.
    ahead: Duration,
    looked: Mono,
    done: u32,
    of: u32,
    stride: u32,
}

/// Minimum time between two batches of due slots. With a million idle assets the process wakes a hundred times a
/// second, not a hundred thousand times.
const LOT: Duration = Duration::from_millis(10);

impl Drift {
    /// Creates a scan that resumes where former owners stopped; `before` is the total time owned so far.
    fn new(period: Duration, now: Mono, before: Duration) -> Self {
        let before = before.as_nanos() % period.as_nanos().max(1);
        Self {
            period,
            started: now,
            ahead: Duration::from_nanos(u64::try_from(before).unwrap_or_default()),
            looked: now,
            done: 0,
            of: 0,
            stride: 1,
        }
    }

    /// Time at which the present pass ends.
    fn ends(&self) -> Mono {
        self.started + self.period.saturating_sub(self.ahead)
    }

    /// Number of slots of the present pass that are due at `now`.
    fn due(&self, now: Mono) -> u128 {
        let passed = (self.ahead + now.since(self.started)).as_nanos();
        passed * u128::from(self.of) / self.period.as_nanos().max(1)
    }

    /// Time at which the next batch is due.
    fn next(&self, slots: u32) -> Option<Mono> {
        if slots == 0 {
            return None;
        }
        if self.done >= self.of {
            return Some(self.ends().max(self.started + LOT));
        }
        let each = self.period.as_nanos() as u64 / u64::from(self.of);
        let due = Duration::from_nanos(each * u64::from(self.done + 1));
        let due = self.started + due.saturating_sub(self.ahead);
        Some(due.max(self.looked + LOT))
    }

    /// Returns the next slot if it is due.
    fn pop_due(&mut self, now: Mono, slots: u32) -> Option<SlotNo> {
        if self.done >= self.of {
            if slots == 0 || (self.of > 0 && now < self.ends()) {
                return None;
            }
            // A pass covers a fixed set of slots. Assets that were added during it were diffed when they were added.
            let first = self.of == 0;
            self.started = if first { now } else { now.max(self.ends()) };
            (self.done, self.of, self.stride) = (0, slots, stride(slots));
            if first {
                self.done = self.due(now) as u32;
            } else {
                self.ahead = Duration::ZERO;
            }
        }
        let turn = self.due(now);
        self.looked = now;
        if u128::from(self.done) >= turn {
            return None;
        }
        let at = (u64::from(self.done) * u64::from(self.stride)) % u64::from(self.of);
        self.done += 1;
        Some(SlotNo::from_index(at as usize))
    }
}

/// Returns a step that visits all of `0..of` and keeps neighbours far apart: near the golden section, coprime with
/// `of`.
fn stride(of: u32) -> u32 {
    let near = ((f64::from(of) * 0.618_033_988_75) as u32).max(1);
    (near..).find(|&step| gcd(step, of) == 1).unwrap_or(1)
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn slot(index: usize) -> SlotNo {
        SlotNo::from_index(index)
    }

    fn at(millis: u64) -> Mono {
        Mono(0) + Duration::from_millis(millis)
    }

    #[test]
    fn drift_visits_every_slot_once_a_period_and_evenly() {
        let mut drift = Drift::new(Duration::from_secs(60), at(0), Duration::ZERO);
        assert_eq!(
            drift.pop_due(at(0), 1000),
            None,
            "the first slot is not due at once"
        );
        let mut now = at(0);
        let mut seen = BTreeSet::new();
        let mut most = 0;
        while now < at(60_000) {
            now = drift.next(1000).unwrap();
            let lot: Vec<_> = std::iter::from_fn(|| drift.pop_due(now, 1000)).collect();
            most = most.max(lot.len());
            seen.extend(lot);
        }
        assert_eq!(seen.len(), 1000);
        assert!(most <= 2, "{most} at once");
    }

    /// Each owner lives for 13 s and a period is 60 s. Together they diff every slot within two periods.
    #[test]
    fn l2_the_scan_resumes_where_the_former_owner_stopped() {
        let (period, lifetime) = (Duration::from_secs(60), Duration::from_secs(13));
        let mut seen = BTreeSet::new();
        let mut owned = Duration::ZERO;
        while owned < period * 2 {
            let mut drift = Drift::new(period, at(5), owned);
            let end = at(5) + lifetime;
            let mut now = at(5);
            while now < end {
                seen.extend(std::iter::from_fn(|| drift.pop_due(now, 1000)));
                now = drift.next(1000).unwrap().max(now + LOT);
            }
            owned += lifetime;
        }
        assert_eq!(seen.len(), 1000);
    }

    #[test]
    fn a_million_idle_assets_wake_a_hundred_times_a_second() {
        let mut drift = Drift::new(Duration::from_secs(60), at(0), Duration::ZERO);
        drift.pop_due(at(0), 1_000_000);
        let (mut now, mut wakes) = (at(0), 0);
        while now < at(1_000) {
            now = drift.next(1_000_000).unwrap();
            while drift.pop_due(now, 1_000_000).is_some() {}
            wakes += 1;
        }
        assert!((50..=110).contains(&wakes), "{wakes}");
    }

    #[test]
    fn l2_an_asset_that_waits_too_long_goes_first() {
        let mut ready = Ready::default();
        let patience = Duration::from_secs(10);
        ready.push(Class::Drift, slot(7), at(0));
        for slot in (0..5).map(slot) {
            ready.push(Class::Intent, slot, at(9_000));
        }
        assert_eq!(ready.pop(at(9_000), patience, |_, _| false), Some(slot(0)));
        assert_eq!(ready.pop(at(10_001), patience, |_, _| false), Some(slot(7)));
        assert_eq!(
            ready.pop(at(10_001), patience, |entry, _| entry == slot(1)),
            Some(slot(2))
        );
    }
}
