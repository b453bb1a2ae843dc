//! Held fields that were set by hand: a person does not ask the ledger, so each reading is compared with it. The person
//! wins, and the holder is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use control_plane_runtime::Runtime;
use control_plane_store::{
    Batch,
    records::{HeldField, Ledger, Overwritten},
};
use plugin_sdk::{Holder, with_causes};
use prodspec_model::{Revision, SourceName};
use tokio::sync::watch;

use super::{
    Desk, EditRefused,
    records::{Books, Entry},
    value,
};

impl<R: Runtime> Desk<R> {
    /// Compares the held fields of each source with every revision of it from which intent was made, until generation ends.
    pub(crate) async fn compare_held_fields(&self) {
        let mut status = self.generation.watch();
        let mut compared: BTreeMap<SourceName, Revision> = BTreeMap::new();
        loop {
            let seen = status.borrow_and_update().seen.clone();
            for (source, revision) in seen {
                if compared.get(&source) == Some(&revision) {
                    continue;
                }
                match self.compare(&source).await {
                    Ok(()) => drop(compared.insert(source, revision)),
                    Err(error) => tracing::warn!(
                        source = %source.0, error = %with_causes(&error),
                        "cannot compare the held fields of a source; trying again after the next run"
                    ),
                }
            }
            if status.changed().await.is_err() {
                return;
            }
        }
    }

    /// Marks the held fields of a source that have another value than their holder gave them.
    pub(super) async fn compare(&self, source: &SourceName) -> Result<(), EditRefused> {
        let Some(editable) = self.pipeline.editable(source) else {
            return Ok(());
        };
        // While this is held, no edit is under way.
        let mut guard = self.books.lock().await;
        let books = self.open(&mut guard).await?;
        if watched(books, source).next().is_none() {
            return Ok(());
        }
        let reading = self.read(editable).await.map_err(EditRefused::Failed)?;
        let now = self.runtime.now().wall;
        let overwritten = watched(books, source).filter_map(|field| {
            let found = value(&reading, &field.edit);
            let holds = found.as_ref().is_ok_and(|it| *it == field.edit.to);
            (!holds).then(|| {
                let overwritten = Some(Overwritten {
                    found: found.unwrap_or_default(),
                    at: now,
                    revision: reading.revision.clone(),
                });
                HeldField {
                    overwritten,
                    ..field.clone()
                }
            })
        });
        let overwritten: Vec<HeldField> = overwritten.collect();
        if overwritten.is_empty() {
            return Ok(());
        }
        for field in &overwritten {
            tracing::warn!(
                partition = %self.partition, source = %source.0, document = %field.edit.document,
                field = %field.edit.path, holder = %field.holder, "a held field was set by hand; its holder lets go of it"
            );
        }
        let fields = overwritten
            .into_iter()
            .map(|field| (field.name(), Some(field)));
        let entry = Entry::of_fields(fields);
        let written = self.write(&mut guard, Batch::new(), entry).await;
        written.map_err(|error| EditRefused::Store(error.into()))
    }

    /// A receiver that follows the ledger.
    pub(crate) fn published(&self) -> watch::Receiver<Arc<Ledger>> {
        self.published.subscribe()
    }

    /// Waits until `holder` has overwritten fields that are not `known`. `None`: the ownership has ended.
    pub(crate) async fn overwritten(
        &self,
        holder: &Holder,
        known: &BTreeSet<String>,
    ) -> Option<Vec<HeldField>> {
        let fields = |ledger: &Ledger| -> Vec<HeldField> {
            let all = ledger.of_holder(holder);
            all.filter(|field| field.overwritten.is_some())
                .cloned()
                .collect()
        };
        let is_new = |ledger: &Ledger| fields(ledger).iter().any(|it| !known.contains(&it.name()));
        let mut published = self.published.subscribe();
        let mut generation = self.generation.watch();
        tokio::select! {
            ledger = published.wait_for(|ledger| is_new(ledger)) => ledger.ok().map(|ledger| fields(&ledger)),
            _ = async { while generation.changed().await.is_ok() {} } => None,
        }
    }
}

/// The fields of a source that are held, and were set for sure.
fn watched<'b>(books: &'b Books, source: &'b SourceName) -> impl Iterator<Item = &'b HeldField> {
    let held = books.ledger.of_source(source);
    held.filter(|field| field.overwritten.is_none() && books.is_made(field))
}
