//! What the store knows of edits: the ledger, and the changes that were made or are under way.

use std::collections::BTreeMap;

use control_plane_store::{
    Batch, Store, record,
    records::{ChangeRecord, HeldField, Holder, Ledger},
};
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{ChangeId, SourceChange};
use prodspec_model::{PartitionId, Revision, SourceName};

/// Time for which a change is known after it was made.
const KNOWN_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Maximum number of records of old changes that one commit removes.
const FORGOTTEN_AT_ONCE: usize = 100;

/// A change of a source together with its holder.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) source: &'a SourceName,
    pub(super) change: &'a SourceChange,
    pub(super) holder: Option<&'a Holder>,
}

/// The records of edits, as they are in the store.
#[derive(Debug, Clone)]
pub(super) struct Books {
    pub(super) ledger: Ledger,
    changes: BTreeMap<ChangeId, ChangeRecord>,
}

/// A batch of the store with the books after it.
pub(super) struct Entry {
    pub(super) batch: Batch,
    pub(super) after: Books,
}

impl Books {
    pub(super) async fn load(
        store: &dyn Store,
        partition: &PartitionId,
    ) -> Result<Self, control_plane_store::Error> {
        let changes = record::load_all::<ChangeRecord>(store, partition).await?;
        let changes = changes.into_iter().map(|(_, change)| change.value);
        Ok(Self {
            ledger: Ledger::load(store, partition).await?,
            changes: changes.map(|it| (it.change.id.clone(), it)).collect(),
        })
    }

    /// The change that was recorded under an id.
    pub(super) fn change(&self, id: &ChangeId) -> Option<&ChangeRecord> {
        self.changes.get(id)
    }

    /// Whether the change that set a held field is made for sure.
    pub(super) fn is_made(&self, field: &HeldField) -> bool {
        let change = self.change(&field.change);
        change.is_none_or(|change| change.made.is_some())
    }

    /// Records that a change is made now, or is about to be (`made` is `None`), and that its holder has the fields.
    pub(super) fn record(
        &self,
        partition: &PartitionId,
        wanted: &Wanted<'_>,
        (before, after): (&Revision, &Revision),
        (now, made): (Timestamp, Option<Timestamp>),
    ) -> Result<Entry, control_plane_store::Error> {
        let record = ChangeRecord {
            source: wanted.source.clone(),
            change: wanted.change.clone(),
            holder: wanted.holder.cloned(),
            before: before.clone(),
            after: after.clone(),
            made,
        };
        let mut entry = Entry {
            batch: Batch::new(),
            after: self.clone(),
        };
        let id = &wanted.change.id;
        entry.put(record::put(partition, id.as_str(), &record)?);
        entry.after.changes.insert(id.clone(), record);
        if let Some(holder) = wanted.holder {
            for edit in &wanted.change.edits {
                let mut edit = edit.clone();
                // What the field was before this holder set it first.
                let before = self.ledger.get(wanted.source, &edit);
                if let Some(held) = before.filter(|held| held.holder == *holder) {
                    edit.was.clone_from(&held.edit.was);
                }
                let field = HeldField {
                    source: wanted.source.clone(),
                    edit,
                    holder: holder.clone(),
                    change: id.clone(),
                    at: now,
                    overwritten: None,
                };
                entry.put(record::put(partition, &field.name(), &field)?);
                entry.after.ledger.put(field);
            }
        }
        if made.is_some() {
            entry.forget_old(partition, now);
        }
        Ok(entry)
    }

    /// Takes back the record of a change that was not made: the ledger is again as it was `before`.
    pub(super) fn take_back(
        &self,
        partition: &PartitionId,
        wanted: &Wanted<'_>,
        before: &Ledger,
    ) -> Result<Entry, control_plane_store::Error> {
        let mut entry = Entry {
            batch: Batch::new(),
            after: self.clone(),
        };
        let id = &wanted.change.id;
        entry.put(record::delete::<ChangeRecord>(partition, id.as_str()));
        entry.after.changes.remove(id);
        for field in self.ledger.fields().filter(|field| field.change == *id) {
            let name = field.name();
            match before.get(wanted.source, &field.edit) {
                Some(earlier) if earlier.change != *id => {
                    entry.put(record::put(partition, &name, earlier)?);
                    entry.after.ledger.put(earlier.clone());
                }
                _ => {
                    entry.put(record::delete::<HeldField>(partition, &name));
                    entry.after.ledger.remove(&name);
                }
            }
        }
        Ok(entry)
    }

    /// Replaces some held fields. `None`: the field is not held any more.
    pub(super) fn with_fields(
        &self,
        partition: &PartitionId,
        fields: impl IntoIterator<Item = (String, Option<HeldField>)>,
    ) -> Result<Entry, control_plane_store::Error> {
        let mut entry = Entry {
            batch: Batch::new(),
            after: self.clone(),
        };
        for (name, field) in fields {
            match field {
                Some(field) => {
                    entry.put(record::put(partition, &name, &field)?);
                    entry.after.ledger.put(field);
                }
                None => {
                    entry.put(record::delete::<HeldField>(partition, &name));
                    entry.after.ledger.remove(&name);
                }
            }
        }
        Ok(entry)
    }
}

impl Entry {
    fn put(&mut self, write: control_plane_store::Write) {
        self.batch.writes.push(write);
    }

    /// Removes records of changes that were made long ago.
    fn forget_old(&mut self, partition: &PartitionId, now: Timestamp) {
        let old = |change: &&ChangeRecord| {
            change
                .made
                .is_some_and(|made| now.duration_since(made) > KNOWN_FOR)
        };
        let old = self.after.changes.values().filter(old);
        let old = old.map(|change| change.change.id.clone());
        for id in old.take(FORGOTTEN_AT_ONCE).collect::<Vec<_>>() {
            self.put(record::delete::<ChangeRecord>(partition, id.as_str()));
            self.after.changes.remove(&id);
        }
    }
}
