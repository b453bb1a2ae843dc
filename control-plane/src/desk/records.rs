//! What the store knows of edits: the ledger, and the changes that were made or are under way.

use std::collections::BTreeMap;

use control_plane_store::{
    Batch, Store,
    record::{self, Rewrites},
    records::{ChangeRecord, HeldField, Ledger},
};
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{ChangeId, FieldEdit, Holder, SourceChange};
use prodspec_model::{AssetId, PartitionId, Revision, SourceName};

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
    /// The assets that it changes, as far as they are known.
    pub(super) assets: &'a [AssetId],
}

/// The records of edits, as they are in the store.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) ledger: Ledger,
    /// What newer program versions wrote into these records.
    rewrites: Rewrites,
    changes: BTreeMap<ChangeId, ChangeRecord>,
}

/// What a commit of the store changes in the books. `None` removes a record.
#[derive(Default)]
pub(super) struct Entry {
    fields: Vec<(String, Option<HeldField>)>,
    changes: Vec<(ChangeId, Option<ChangeRecord>)>,
}

impl Books {
    pub(super) async fn load(
        store: &dyn Store,
        partition: &PartitionId,
    ) -> Result<Self, control_plane_store::Error> {
        let rewrites = Rewrites::default();
        let changes = record::load_all::<ChangeRecord>(store, partition).await?;
        for (name, change) in &changes {
            rewrites.note(partition, name, change);
        }
        let changes = changes.into_iter().map(|(_, change)| change.value);
        let fields = record::load_all::<HeldField>(store, partition).await?;
        let mut ledger = Ledger::default();
        for (name, field) in fields {
            rewrites.note(partition, &name, &field);
            ledger.put(field.value);
        }
        Ok(Self {
            ledger,
            rewrites,
            changes: changes.map(|it| (it.change.id.clone(), it)).collect(),
        })
    }

    /// What newer program versions wrote into these records.
    pub(super) fn rewrites(&self) -> &Rewrites {
        &self.rewrites
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
        wanted: &Wanted<'_>,
        (before, after): (&Revision, &Revision),
        (now, made): (Timestamp, Option<Timestamp>),
    ) -> Entry {
        let id = &wanted.change.id;
        let record = ChangeRecord {
            source: wanted.source.clone(),
            change: wanted.change.clone(),
            holder: wanted.holder.cloned(),
            assets: wanted.assets.to_vec(),
            before: before.clone(),
            after: after.clone(),
            made,
        };
        let edits = wanted.holder.iter().flat_map(|_| &wanted.change.edits);
        let held = edits.filter_map(|edit| self.held(wanted, edit.clone(), now));
        let mut entry = Entry {
            fields: held.map(|field| (field.name(), Some(field))).collect(),
            changes: vec![(id.clone(), Some(record))],
        };
        if made.is_some() {
            let old = self.old(now).filter(|old| *old != id);
            entry.changes.extend(old.map(|id| (id.clone(), None)));
        }
        entry
    }

    /// The entry of the ledger for an edited field. `None`: no program holds it.
    fn held(&self, wanted: &Wanted<'_>, edit: FieldEdit, now: Timestamp) -> Option<HeldField> {
        let holder = wanted.holder?;
        let mut edit = edit;
        // What the field was before this holder set it first.
        let before = self.ledger.get(wanted.source, &edit);
        if let Some(held) = before.filter(|held| held.holder == *holder) {
            edit.was.clone_from(&held.edit.was);
        }
        Some(HeldField {
            source: wanted.source.clone(),
            edit,
            holder: holder.clone(),
            change: wanted.change.id.clone(),
            at: now,
            overwritten: None,
        })
    }

    /// Some changes that were made long ago.
    fn old(&self, now: Timestamp) -> impl Iterator<Item = &ChangeId> {
        let old = move |change: &&ChangeRecord| {
            let age = change.made.map(|made| now.duration_since(made));
            age.is_some_and(|age| age > KNOWN_FOR)
        };
        let old = self.changes.values().filter(old);
        old.map(|change| &change.change.id).take(FORGOTTEN_AT_ONCE)
    }

    /// The entry that takes back the record of a change that was not made, which `recorded` wrote: the fields are held again
    /// as they were.
    pub(super) fn undoing(&self, recorded: &Entry, id: &ChangeId) -> Entry {
        let before = |(name, _): &(String, Option<HeldField>)| {
            let held = self.ledger.named(name).filter(|held| held.change != *id);
            (name.clone(), held.cloned())
        };
        Entry {
            fields: recorded.fields.iter().map(before).collect(),
            changes: vec![(id.clone(), None)],
        }
    }

    /// Takes in what was committed.
    pub(super) fn apply(&mut self, entry: Entry) {
        for (name, field) in entry.fields {
            match field {
                Some(field) => self.ledger.put(field),
                None => self.ledger.remove(&name),
            }
        }
        for (id, change) in entry.changes {
            match change {
                Some(change) => self.changes.insert(id, change),
                None => self.changes.remove(&id),
            };
        }
    }
}

impl Entry {
    /// The entry that replaces some held fields. `None`: the field is not held any more.
    pub(super) fn of_fields(fields: impl IntoIterator<Item = (String, Option<HeldField>)>) -> Self {
        Self {
            fields: fields.into_iter().collect(),
            changes: Vec::new(),
        }
    }

    /// The entry that forgets a change.
    pub(super) fn without(id: &ChangeId) -> Self {
        Self {
            fields: Vec::new(),
            changes: vec![(id.clone(), None)],
        }
    }

    /// Whether the entry changes the ledger.
    pub(super) fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Adds the entry to a batch.
    pub(super) fn write(
        &self,
        rewrites: &Rewrites,
        partition: &PartitionId,
        mut batch: Batch,
    ) -> Result<Batch, control_plane_store::Error> {
        for (name, field) in &self.fields {
            batch = batch.write(rewrites.put_or_delete(partition, name, field.as_ref())?);
        }
        for (id, change) in &self.changes {
            let write = rewrites.put_or_delete(partition, id.as_str(), change.as_ref())?;
            batch = batch.write(write);
        }
        Ok(batch)
    }
}
