//! The ledger of records: what is to be stored, what is durable, and which pushes wait for that (R13).

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use control_plane_store::records::AssetRecord;
use plugin_sdk::Mono;
use prodspec_model::{AssetId, IncarnationNo};

use super::{numbers::AttemptNo, numbers::SlotNo};
use crate::kernel::branch::Branch;

/// While any asset is unsettled, assets that were found in sync without a push are recorded in batches of at most
/// `QUIET_BATCH`, one batch per `QUIET_EVERY`.
const QUIET_EVERY: Duration = Duration::from_secs(1);
const QUIET_BATCH: usize = 500;

/// The records asked for so far, and what is not recorded yet.
#[derive(Debug)]
pub(in crate::kernel) struct Ledger {
    /// Number of records asked for.
    recorded: u64,
    /// Attempts whose pushes or follow-ups wait until the record with this number is durable, oldest first.
    awaiting: VecDeque<(u64, AttemptNo)>,
    /// Every asset of this incarnation without a record of its own was in sync with it.
    floor: Option<IncarnationNo>,
    /// Assets that settled without a push and are not recorded yet.
    quiet: VecDeque<SlotNo>,
    /// Time of the next batch of these.
    quiet_at: Mono,
    /// Assets whose slots were given up in this step.
    gone: Vec<AssetId>,
    /// The records of assets of intent without a plugin, as the last owner with their plugin left them.
    kept: BTreeMap<SlotNo, AssetRecord>,
    /// Number of times that each branch of the kernel was taken.
    branches: BTreeMap<Branch, u64>,
}

impl Ledger {
    pub(in crate::kernel) fn new(now: Mono) -> Self {
        Self {
            recorded: 0,
            awaiting: VecDeque::new(),
            floor: None,
            quiet: VecDeque::new(),
            quiet_at: now + QUIET_EVERY,
            gone: Vec::new(),
            kept: BTreeMap::new(),
            branches: BTreeMap::new(),
        }
    }

    /// Notes that the shell is asked to store one more record. Returns its number.
    pub(in crate::kernel) fn recorded(&mut self) -> u64 {
        self.recorded += 1;
        self.recorded
    }

    /// Number of the last record.
    pub(in crate::kernel) fn last(&self) -> u64 {
        self.recorded
    }

    /// Notes that a call of the attempt waits until the record with this number is durable.
    pub(in crate::kernel) fn await_durable(&mut self, number: u64, attempt: AttemptNo) {
        self.awaiting.push_back((number, attempt));
    }

    /// Removes and returns the next attempt whose record is durable; all records up to `upto` are.
    pub(in crate::kernel) fn next_durable(&mut self, upto: u64) -> Option<(u64, AttemptNo)> {
        self.awaiting.pop_front_if(|entry| entry.0 <= upto)
    }

    pub(in crate::kernel) fn floor(&self) -> Option<IncarnationNo> {
        self.floor
    }

    pub(in crate::kernel) fn set_floor(&mut self, no: IncarnationNo) {
        self.floor = Some(no);
    }

    /// Notes that an asset settled without a push, and is recorded later.
    pub(in crate::kernel) fn settled_quietly(&mut self, slot: SlotNo) {
        self.quiet.push_back(slot);
    }

    /// Whether any asset settled without a push and is not recorded yet.
    pub(in crate::kernel) fn has_quiet(&self) -> bool {
        !self.quiet.is_empty()
    }

    /// Time of the next batch of assets that settled without a push, if there are any.
    pub(in crate::kernel) fn quiet_at(&self) -> Option<Mono> {
        self.has_quiet().then_some(self.quiet_at)
    }

    /// Removes and returns all assets that settled without a push.
    pub(in crate::kernel) fn take_quiet(&mut self) -> VecDeque<SlotNo> {
        std::mem::take(&mut self.quiet)
    }

    /// Removes and returns the batch of these assets that is due at `now`; empty if none is due.
    pub(in crate::kernel) fn take_quiet_batch(&mut self, now: Mono) -> Vec<SlotNo> {
        if now < self.quiet_at {
            return Vec::new();
        }
        self.quiet_at = now + QUIET_EVERY;
        let batch = self.quiet.len().min(QUIET_BATCH);
        self.quiet.drain(..batch).collect()
    }

    /// Notes that the slot of an asset was given up.
    pub(in crate::kernel) fn gave_up(&mut self, asset: AssetId) {
        self.gone.push(asset);
    }

    /// Removes and returns the assets whose slots were given up.
    pub(in crate::kernel) fn take_gone(&mut self) -> Vec<AssetId> {
        std::mem::take(&mut self.gone)
    }

    /// Keeps the record of an asset of intent without a plugin.
    pub(in crate::kernel) fn keep(&mut self, slot: SlotNo, record: AssetRecord) {
        self.kept.insert(slot, record);
    }

    /// Returns the kept record of an asset of intent without a plugin.
    pub(in crate::kernel) fn kept(&self, slot: SlotNo) -> Option<&AssetRecord> {
        self.kept.get(&slot)
    }

    /// Returns the slots of all assets with kept records.
    pub(in crate::kernel) fn all_kept(&self) -> Vec<SlotNo> {
        self.kept.keys().copied().collect()
    }

    /// Returns the incarnations that kept records name.
    pub(in crate::kernel) fn named_by_kept(&self) -> impl Iterator<Item = IncarnationNo> {
        let settled = self.kept.values().filter_map(|kept| kept.settled.as_ref());
        settled.map(|settled| settled.incarnation)
    }

    /// Forgets the kept record of an asset: it has left intent, or has an intent with a plugin again.
    pub(in crate::kernel) fn forget_kept(&mut self, slot: SlotNo) {
        self.kept.remove(&slot);
    }

    /// Counts a branch that was taken.
    pub(in crate::kernel) fn count(&mut self, branch: Branch) {
        *self.branches.entry(branch).or_default() += 1;
    }

    pub(in crate::kernel) fn branches(&self) -> &BTreeMap<Branch, u64> {
        &self.branches
    }

    #[cfg(test)]
    pub(in crate::kernel) fn awaits(&self, number: u64, attempt: AttemptNo) -> bool {
        self.awaiting.contains(&(number, attempt))
    }

    #[cfg(test)]
    pub(in crate::kernel) fn quiet(&self) -> usize {
        self.quiet.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r13_attempts_are_returned_when_their_records_are_durable_in_order() {
        let mut ledger = Ledger::new(Mono(0));
        let (first, second) = (ledger.recorded(), ledger.recorded());
        assert_eq!((first, second), (1, 2));
        ledger.await_durable(first, AttemptNo::NONE);
        ledger.await_durable(second, AttemptNo::NONE);
        assert_eq!(ledger.next_durable(0), None);
        assert_eq!(ledger.next_durable(1), Some((1, AttemptNo::NONE)));
        assert_eq!(ledger.next_durable(1), None);
        assert_eq!(ledger.next_durable(9), Some((2, AttemptNo::NONE)));
    }

    #[test]
    fn assets_that_settled_quietly_come_in_batches() {
        let mut ledger = Ledger::new(Mono(0));
        (0..QUIET_BATCH + 1).for_each(|n| ledger.settled_quietly(SlotNo::from_index(n)));
        assert_eq!(ledger.take_quiet_batch(Mono(0)), Vec::new());
        let due = Mono(0) + QUIET_EVERY;
        assert_eq!(ledger.quiet_at(), Some(due));
        assert_eq!(ledger.take_quiet_batch(due).len(), QUIET_BATCH);
        assert_eq!(ledger.take_quiet_batch(due), Vec::new());
        assert_eq!(ledger.take_quiet_batch(due + QUIET_EVERY).len(), 1);
        assert_eq!(ledger.quiet_at(), None);
    }
}
