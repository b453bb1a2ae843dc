//! The medium of the memory store, without faults: written and synced state, and how to undo commits.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use crate::{Batch, BatchId, CommitError, Key, KeyRange, Page, Version, Versioned, Write, limit};

/// Maximum number of versions by which a stale read may lag.
pub(super) const HISTORY: u64 = 5;

/// All rows as last written, with the data needed to read or restore the state of a few commits ago.
#[derive(Debug, Default)]
pub(super) struct Log {
    rows: BTreeMap<Key, Versioned>,
    written: u64,
    synced: u64,
    undo: VecDeque<Undo>,
    remembered: BTreeMap<BatchId, u64>,
    in_order: VecDeque<BatchId>,
}

/// The rows that one commit replaced, in the order of its writes.
#[derive(Debug)]
struct Undo {
    version: u64,
    batch: BatchId,
    replaced: Vec<(Key, Option<Versioned>)>,
}

impl Log {
    /// Writes `batch` without syncing it. A batch whose id is remembered is not written again.
    pub(super) fn write(&mut self, batch: &Batch) -> Result<Version, CommitError> {
        if let Some(version) = self.remembered.get(&batch.id) {
            return Ok(Version(*version));
        }
        for (key, expect) in &batch.expect {
            let found = self.rows.get(key).map(|row| row.version);
            if !expect.holds(found) {
                let key = key.clone();
                return Err(CommitError::Conflict { key, found });
            }
        }
        self.written = batch.version_after(Version(self.written)).0;
        let mut undo = Undo {
            version: self.written,
            batch: batch.id,
            replaced: Vec::with_capacity(batch.writes.len()),
        };
        for write in &batch.writes {
            self.apply(write, &mut undo);
        }
        self.undo.push_back(undo);
        self.remember(batch.id);
        Ok(Version(self.written))
    }

    fn apply(&mut self, write: &Write, undo: &mut Undo) {
        match write {
            Write::Put(key, value) => {
                let row = Versioned {
                    version: Version(undo.version),
                    value: value.clone(),
                };
                let old = self.rows.insert(key.clone(), row);
                undo.replaced.push((key.clone(), old));
            }
            Write::Delete(key) => {
                if let Some((key, old)) = self.rows.remove_entry(key) {
                    undo.replaced.push((key, Some(old)));
                }
            }
            Write::DeleteRange(range) => {
                let gone: Vec<Key> = self.range(range).map(|(key, _)| key.clone()).collect();
                for key in gone {
                    let old = self.rows.remove(&key);
                    undo.replaced.push((key, old));
                }
            }
        }
    }

    fn remember(&mut self, batch: BatchId) {
        self.remembered.insert(batch, self.written);
        self.in_order.push_back(batch);
        if self.in_order.len() as u64 > limit::REMEMBERED_BATCHES
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.remembered.remove(&oldest);
        }
    }

    /// Makes everything written up to `version` durable, and therefore visible.
    pub(super) fn sync(&mut self, version: Version) {
        self.synced = self.synced.max(version.0);
    }

    /// Forgets how to undo the commits up to [`HISTORY`] versions ago, and up to `behind`.
    pub(super) fn trim(&mut self, behind: Option<Version>) {
        let oldest = self.synced.saturating_sub(HISTORY);
        let oldest = behind.map_or(oldest, |behind| behind.0.min(oldest));
        while self.undo.front().is_some_and(|undo| undo.version <= oldest) {
            self.undo.pop_front();
        }
    }

    /// Drops all unsynced commits. Returns their number.
    pub(super) fn roll_back(&mut self) -> u64 {
        let mut lost = 0;
        while let Some(undo) = self.undo.pop_back_if(|undo| undo.version > self.synced) {
            for (key, old) in undo.replaced.into_iter().rev() {
                match old {
                    Some(row) => self.rows.insert(key, row),
                    None => self.rows.remove(&key),
                };
            }
            self.remembered.remove(&undo.batch);
            self.in_order.pop_back();
            lost += 1;
        }
        self.written = self.synced;
        lost
    }

    /// The newest durable version.
    pub(super) fn newest(&self) -> Version {
        Version(self.synced)
    }

    /// The version `behind` commits before `version`; at most [`HISTORY`] before the newest one.
    pub(super) fn before(&self, version: Version, behind: u64) -> Version {
        let oldest = self.synced.saturating_sub(HISTORY);
        Version(version.0.saturating_sub(behind).max(oldest).min(version.0))
    }

    /// The durable state as of `version`.
    pub(super) fn snapshot(&self, version: Version) -> Snapshot<'_> {
        Snapshot {
            log: self,
            version: version.0.min(self.synced),
        }
    }

    fn range(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &Versioned)> {
        // A range that ends before it starts is empty, but `BTreeMap::range` would panic on it.
        let end = range.end.as_ref().map(|end| end.max(&range.start));
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        self.rows
            .range::<Key, _>((Bound::Included(&range.start), end))
    }
}

/// The rows as of one version.
pub(super) struct Snapshot<'a> {
    log: &'a Log,
    version: u64,
}

impl Snapshot<'_> {
    /// Reads the value of `key` at this version.
    pub(super) fn get(&self, key: &Key) -> Option<Versioned> {
        let replaced = self.undone().flat_map(|undo| &undo.replaced);
        match replaced.into_iter().find(|(replaced, _)| replaced == key) {
            Some((_, old)) => old.clone(),
            None => self.log.rows.get(key).cloned(),
        }
    }

    /// Reads the first page of `range` at this version.
    pub(super) fn scan(&self, range: &KeyRange, limit: usize) -> Page {
        let mut replaced: BTreeMap<&Key, Option<&Versioned>> = BTreeMap::new();
        for (key, old) in self.undone().flat_map(|undo| &undo.replaced) {
            if range.contains(key) {
                replaced.entry(key).or_insert(old.as_ref());
            }
        }
        if replaced.is_empty() {
            return Page::collect(range, limit, self.log.range(range));
        }
        // Each replaced row hides at most one present row, so this many rows are enough.
        let enough = limit.max(1).saturating_add(replaced.len());
        let mut rows: BTreeMap<&Key, &Versioned> = self.log.range(range).take(enough).collect();
        for (key, old) in replaced {
            match old {
                Some(row) => rows.insert(key, row),
                None => rows.remove(key),
            };
        }
        Page::collect(range, limit, rows)
    }

    /// The commits that are newer than this snapshot, oldest first.
    fn undone(&self) -> impl Iterator<Item = &Undo> {
        let first = self
            .log
            .undo
            .partition_point(|undo| undo.version <= self.version);
        self.log.undo.range(first..)
    }
}
