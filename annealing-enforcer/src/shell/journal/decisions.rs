//! The history of decisions: the last decisions of each asset are one record, which is read before it is written.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::{
    Error, Key, Store, Versioned, Write,
    record::{self, Record as _, Rewrites},
    records::{Decision, Decisions},
};
use prodspec_model::{AssetId, IncarnationNo, PartitionId};

use super::references::References;

/// Number of assets whose decisions are kept in memory.
const AT_HAND: usize = 4096;

/// The decisions on record, as far as an ownership has read them.
pub(super) struct History {
    partition: PartitionId,
    /// What is unknown in the decisions at hand.
    rewrites: Rewrites,
    /// The decisions of the assets decided on lately.
    at_hand: BTreeMap<AssetId, Decisions>,
    /// Assets whose decisions cannot be read: their records are not written again.
    unreadable: BTreeSet<AssetId>,
    /// Whether it was logged that a newer version wrote some decisions.
    told_unread: bool,
    references: References,
}

impl History {
    pub(super) fn new(partition: &PartitionId) -> Self {
        Self {
            partition: partition.clone(),
            rewrites: Rewrites::default(),
            at_hand: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            told_unread: false,
            references: References::new(partition),
        }
    }

    /// Drops decisions from memory if there are many. `counts`: those that are not counted yet are kept, because they
    /// are newer than the records that [`History::read_on`] has yet to read.
    pub(super) fn make_room(&mut self, counts: bool) {
        if self.at_hand.len() <= AT_HAND {
            return;
        }
        match counts {
            true => self.references.keep_unread(&mut self.at_hand),
            false => self.at_hand.clear(),
        }
        let kept: BTreeSet<Key> = self.at_hand.keys().map(|asset| self.key(asset)).collect();
        self.rewrites.retain(|key| kept.contains(key));
    }

    /// Those of `assets` whose decisions have to be read before more are added.
    pub(super) fn missing<'a>(
        &self,
        assets: impl Iterator<Item = &'a AssetId>,
    ) -> BTreeSet<AssetId> {
        let known =
            |asset: &AssetId| self.at_hand.contains_key(asset) || self.unreadable.contains(asset);
        assets.filter(|asset| !known(asset)).cloned().collect()
    }

    /// The key of an asset's decisions.
    pub(super) fn key(&self, asset: &AssetId) -> Key {
        record::key(&self.partition, Decisions::KIND, asset.as_str())
    }

    /// Takes in the decisions of an asset as read from the store. Decisions that cannot be read are left unchanged.
    pub(super) fn take(&mut self, asset: AssetId, row: Option<Versioned>) {
        let key = self.key(&asset);
        let known = row.map(|row| record::decode::<Decisions>(&key, &row));
        match known.transpose() {
            Ok(known) => {
                if let Some(stored) = &known {
                    self.rewrites.note(&self.partition, asset.as_str(), stored);
                }
                let known = known.map(|stored| stored.value).unwrap_or_default();
                self.tell_unread(&asset, &known);
                self.at_hand.insert(asset, known);
            }
            Err(error) => {
                tracing::warn!(%asset, %error, "cannot read the decisions of the asset; leaving them unchanged and recording no new ones");
                self.unreadable.insert(asset);
            }
        }
    }

    /// Logs once in an ownership that a newer version wrote some decisions of `asset`.
    fn tell_unread(&mut self, asset: &AssetId, known: &Decisions) {
        let unread = known.unread();
        if unread > 0 && !std::mem::replace(&mut self.told_unread, true) {
            tracing::warn!(%asset, unread, "a newer version wrote decisions that this version cannot read; keeping them unchanged");
        }
    }

    /// Adds a decision about `asset`. Returns whether its record has to be written.
    pub(super) fn add(&mut self, asset: &AssetId, decision: Decision) -> bool {
        if self.unreadable.contains(asset) {
            return false;
        }
        self.change(asset, |kept| kept.push(decision));
        true
    }

    /// Moves the decisions about `from` to `to`, the same asset under a new id. Returns whether their records have to be
    /// written.
    pub(super) fn rename(&mut self, from: &AssetId, to: &AssetId) -> bool {
        if self.unreadable.contains(from) || self.unreadable.contains(to) {
            return false;
        }
        let older = self.at_hand.get(from).cloned().unwrap_or_default();
        self.change(to, |kept| kept.put_before(older));
        self.forget(from);
        true
    }

    /// Removes all decisions about `asset`, which is gone.
    pub(super) fn forget(&mut self, asset: &AssetId) {
        self.unreadable.remove(asset);
        self.change(asset, |kept| *kept = Decisions::default());
    }

    fn change(&mut self, asset: &AssetId, change: impl FnOnce(&mut Decisions)) {
        let kept = self.at_hand.entry(asset.clone()).or_default();
        self.references.change(asset, kept, change);
    }

    /// The write of an asset's decisions as they are now.
    ///
    /// # Errors
    /// When they are too large.
    pub(super) fn write(&self, asset: &AssetId) -> Result<Write, Error> {
        let kept = self.at_hand.get(asset);
        let kept = kept.filter(|decisions| !decisions.is_empty());
        self.rewrites
            .put_or_delete(&self.partition, asset.as_str(), kept)
    }

    /// Reads and counts one more page of decisions, and returns the assets on it. To be called while everything written
    /// is durable.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) async fn read_on(&mut self, store: &dyn Store) -> Result<Vec<AssetId>, Error> {
        self.references.read_on(store, &self.at_hand).await
    }

    /// Whether the decisions of all assets are counted.
    pub(super) fn is_counted(&self) -> bool {
        self.references.is_complete()
    }

    /// Those of `old` that some counted decision refers to.
    pub(super) fn referenced(&self, old: &BTreeSet<IncarnationNo>) -> BTreeSet<IncarnationNo> {
        self.references.among(old)
    }
}
