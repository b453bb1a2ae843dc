//! The slots that started: they never start again.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::super::slots::Slots;

/// Maximum number of stretches remembered.
const STRETCHES: usize = 1500;

/// When an edited expression makes stretches useless, the slots of this time before the end of each stay remembered.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(25);

/// The slots that started, in order; consecutive ones are one stretch. At least the newest 1,500 are remembered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StartedSlots {
    /// Stretches of slots that all started.
    #[serde(default)]
    stretches: Vec<Stretch>,
    /// The latest slot that started and is not in the list any more. `None`: none has been forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) forgotten: Option<Timestamp>,
}

/// One slot, or the first and last one of consecutive slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Stretch {
    One(Timestamp),
    Several(Timestamp, Timestamp),
}

impl StartedSlots {
    /// Whether `slot` has started, as far as it is remembered.
    pub fn contains(&self, slot: Timestamp) -> bool {
        let at = self.from(slot);
        self.stretches.get(at).is_some_and(|it| it.first() <= slot)
    }

    /// Index of the first stretch that ends at or after `slot`.
    fn from(&self, slot: Timestamp) -> usize {
        self.stretches.partition_point(|it| it.last() < slot)
    }

    /// Adds a slot. Returns whether it is new.
    pub(super) fn insert(&mut self, slot: Timestamp, slots: &Slots) -> bool {
        if self.contains(slot) {
            return false;
        }
        let mut at = self.from(slot);
        let mut stretch = Stretch::One(slot);
        let follows = |one: Timestamp, other: Timestamp| slots.next(one) == Some(other);
        if let Some(before) = at.checked_sub(1).and_then(|at| self.stretches.get(at))
            && follows(before.last(), slot)
        {
            stretch = Stretch::Several(before.first(), slot);
            at -= 1;
            self.stretches.remove(at);
        }
        if let Some(after) = self.stretches.get(at)
            && follows(slot, after.first())
        {
            stretch = Stretch::Several(stretch.first(), after.last());
            self.stretches.remove(at);
        }
        self.stretches.insert(at, stretch);
        self.limit();
        true
    }

    /// The number of slots after `after` and not after `until` that started.
    pub(super) fn count(&self, slots: &Slots, after: Timestamp, until: Timestamp) -> u64 {
        let within = self.stretches[self.from(after)..].iter();
        within
            .take_while(|stretch| stretch.first() <= until)
            .map(|stretch| match stretch {
                Stretch::One(slot) => u64::from(*slot > after),
                Stretch::Several(first, last) => {
                    let before = after.max(*first - super::SECOND);
                    slots.count(before, until.min(*last))
                }
            })
            .sum()
    }

    /// Makes single slots of the stretches, because `slots` are about to be replaced by others.
    pub(super) fn separate(&mut self, slots: &Slots) {
        let stretches = std::mem::take(&mut self.stretches);
        for stretch in stretches {
            let (first, last) = (stretch.first(), stretch.last());
            self.stretches.push(Stretch::One(first));
            let mut slot = first.max(last - REMEMBERED);
            while let Some(next) = slots.next(slot).filter(|next| *next <= last) {
                self.stretches.push(Stretch::One(next));
                slot = next;
            }
        }
        self.limit();
    }

    fn limit(&mut self) {
        let over = self.stretches.len().saturating_sub(STRETCHES);
        let latest = self.stretches.drain(..over).map(|it| it.last()).max();
        self.forgotten = self.forgotten.max(latest);
    }
}

impl Stretch {
    fn first(&self) -> Timestamp {
        match self {
            Self::One(slot) | Self::Several(slot, _) => *slot,
        }
    }

    fn last(&self) -> Timestamp {
        match self {
            Self::One(slot) | Self::Several(_, slot) => *slot,
        }
    }
}
