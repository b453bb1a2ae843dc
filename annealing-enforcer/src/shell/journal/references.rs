//! Counts the incarnations that kept decisions refer to: all decisions are read once in an ownership, page by page, and
//! the counts are updated from then on.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::{
    Error, Key, KeyRange, Store,
    record::{self, Record as _},
    records::Decisions,
};
use prodspec_model::{AssetId, IncarnationNo, PartitionId};

/// Number of records read at a time.
const PAGE: usize = 1000;

/// The number of kept decisions that refer to each incarnation.
#[derive(Debug)]
pub(super) struct References {
    partition: PartitionId,
    decisions: BTreeMap<IncarnationNo, u64>,
    read: Read,
    /// Whether it was logged that a record cannot be decoded.
    told: bool,
}

/// How far the decisions are read and counted.
#[derive(Debug)]
enum Read {
    /// None is counted.
    Nothing,
    /// All are counted but those in this range of keys.
    AllBut(KeyRange),
    /// All are counted.
    All,
}

impl References {
    pub(super) fn new(partition: &PartitionId) -> Self {
        Self {
            partition: partition.clone(),
            decisions: BTreeMap::new(),
            read: Read::Nothing,
            told: false,
        }
    }

    /// Whether the decisions of all assets are counted.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.read, Read::All)
    }

    /// Those of `old` that some counted decision refers to.
    pub(super) fn among(&self, old: &BTreeSet<IncarnationNo>) -> BTreeSet<IncarnationNo> {
        let referenced = |no: &&IncarnationNo| self.decisions.contains_key(no);
        old.iter().filter(referenced).copied().collect()
    }

    /// Changes the kept decisions of an asset, and updates the counts if they are counted.
    pub(super) fn change(
        &mut self,
        asset: &AssetId,
        kept: &mut Decisions,
        change: impl FnOnce(&mut Decisions),
    ) {
        let counted = match &self.read {
            Read::Nothing => false,
            Read::AllBut(rest) => !rest.contains(&self.key(asset)),
            Read::All => true,
        };
        if !counted {
            return change(kept);
        }
        self.forget(kept);
        change(kept);
        self.count(kept);
    }

    /// Reads and counts one more page, and returns the assets whose decisions it has. Decisions in `at_hand` replace those
    /// read: they are as new, or newer. A record that cannot be decoded counts as empty: it refers to nothing that could
    /// be shown.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) async fn read_on(
        &mut self,
        store: &dyn Store,
        at_hand: &BTreeMap<AssetId, Decisions>,
    ) -> Result<Vec<AssetId>, Error> {
        let range = match &self.read {
            Read::Nothing => record::range(&self.partition, Decisions::KIND),
            Read::AllBut(rest) => rest.clone(),
            Read::All => return Ok(Vec::new()),
        };
        let page = store.scan(range.clone(), PAGE).await?;
        let left = |key: &Key| page.rest.as_ref().is_some_and(|rest| rest.contains(key));
        let newer = at_hand.iter().map(|(asset, kept)| (self.key(asset), kept));
        let newer: BTreeMap<Key, &Decisions> = newer
            .filter(|(key, _)| range.contains(key) && !left(key))
            .collect();
        for (key, row) in &page.rows {
            if newer.contains_key(key) {
                continue;
            }
            match record::decode::<Decisions>(key, row) {
                Ok(kept) => self.count(&kept.value),
                Err(error) if !std::mem::replace(&mut self.told, true) => {
                    tracing::warn!(%error, "cannot read the decisions of some assets; retention does not keep the incarnations that they name");
                }
                Err(_) => {}
            }
        }
        newer.into_values().for_each(|kept| self.count(kept));
        self.read = page.rest.map_or(Read::All, Read::AllBut);
        let assets = page.rows.iter().filter_map(|(key, _)| self.asset(key));
        Ok(assets.collect())
    }

    /// Removes the decisions from `at_hand` that are counted already.
    pub(super) fn keep_unread(&self, at_hand: &mut BTreeMap<AssetId, Decisions>) {
        match &self.read {
            Read::Nothing => {}
            Read::AllBut(rest) => at_hand.retain(|asset, _| rest.contains(&self.key(asset))),
            Read::All => at_hand.clear(),
        }
    }

    /// Returns the asset whose decisions have this key.
    fn asset(&self, key: &Key) -> Option<AssetId> {
        let prefix = record::range(&self.partition, Decisions::KIND).start;
        AssetId::new(key.as_str().strip_prefix(prefix.as_str())?).ok()
    }

    fn key(&self, asset: &AssetId) -> Key {
        record::key(&self.partition, Decisions::KIND, asset.as_str())
    }

    fn count(&mut self, kept: &Decisions) {
        for incarnation in kept.cites() {
            *self.decisions.entry(incarnation).or_default() += 1;
        }
    }

    fn forget(&mut self, kept: &Decisions) {
        for incarnation in kept.cites() {
            if let Some(count) = self.decisions.get_mut(&incarnation) {
                *count -= 1;
                if *count == 0 {
                    self.decisions.remove(&incarnation);
                }
            }
        }
    }
}
