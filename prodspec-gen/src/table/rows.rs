//! Reads the rows of a table, at one state of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::PoisonError,
};

use control_plane_store::{Batch, Error, Expect, Record, Version, record};
use plugin_sdk::{Delta, Document, Problem, Problems, Reading, Update, document::DocumentKey};
use prodspec_model::Revision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Head, Table};

/// Number of times that a table is read while it keeps changing.
const TRIES: u32 = 5;

/// One document of a table, recorded under the names of table and document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Row(Value);

impl Record for Row {
    const KIND: &'static str = "row";
}

/// The head of a table, and some of its rows, at one state.
pub(super) struct Rows {
    pub(super) head: Head,
    /// The head as it is stored. `None`: the table was never changed.
    stored: Option<record::Stored<Head>>,
    /// The rows that were asked for. `None`: there is none with this name.
    rows: BTreeMap<String, Option<Value>>,
}

impl Rows {
    /// Adds the change of rows to what they are `after`, and the head with the new revision, to a batch.
    pub(super) fn write(
        self,
        table: &Table,
        batch: Batch,
        after: &BTreeMap<String, Value>,
        revision: Revision,
    ) -> Result<Batch, Error> {
        let key = record::key(&table.partition, Head::KIND, &table.name.0);
        let mut batch = batch.expect(key, Expect::as_found(self.version()));
        let changed = self
            .rows
            .iter()
            .filter(|(name, before)| before.as_ref() != after.get(*name));
        let changed: Vec<&str> = changed.map(|(name, _)| &**name).collect();
        for name in &changed {
            let row = table.row_name(name);
            batch = batch.write(match after.get(*name) {
                Some(value) => record::put(&table.partition, &row, &Row(value.clone()))?,
                None => record::delete::<Row>(&table.partition, &row),
            });
        }
        let value = self.head.clone().after(revision, changed.into_iter());
        let (partition, name) = (&table.partition, &table.name.0);
        let head = match self.stored.clone() {
            Some(stored) => record::Stored { value, ..stored }.rewrite(partition, name)?,
            None => record::put(partition, name, &value)?,
        };
        Ok(batch.write(head))
    }

    /// The version of the head. `None`: the table was never changed.
    fn version(&self) -> Option<Version> {
        self.stored.as_ref().map(|head| head.version)
    }
}

impl Table {
    fn row_name(&self, document: &str) -> String {
        format!("{} {document}", self.name.0)
    }

    pub(super) async fn head(&self) -> Result<Option<record::Stored<Head>>, Problems> {
        let head = record::load::<Head>(&*self.store, &self.partition, &self.name.0).await;
        head.map_err(|error| self.failed(&error))
    }

    /// The head, and the rows of `documents`, in one snapshot.
    pub(super) async fn rows(&self, documents: &BTreeSet<&str>) -> Result<Rows, Problems> {
        let key = |kind, name: &str| record::key(&self.partition, kind, name);
        let mut keys = vec![key(Head::KIND, &self.name.0)];
        keys.extend(
            documents
                .iter()
                .map(|name| key(Row::KIND, &self.row_name(name))),
        );
        let found = self.store.get(&keys).await;
        let found = found.map_err(|error| self.failed(&error))?;
        let mut found = keys.iter().zip(found);
        let failed = |error: Error| self.failed(&error);
        let head = match found.next() {
            Some((key, Some(row))) => Some(record::decode::<Head>(key, &row).map_err(failed)?),
            _ => None,
        };
        let mut rows = BTreeMap::new();
        for (name, (key, row)) in documents.iter().zip(found) {
            let row = row.map(|row| record::decode::<Row>(key, &row)).transpose();
            let value = row.map_err(failed)?.map(|row| row.value.0);
            rows.insert((*name).to_owned(), value);
        }
        Ok(Rows {
            head: head
                .as_ref()
                .map(|head| head.value.clone())
                .unwrap_or_default(),
            stored: head,
            rows,
        })
    }

    /// All documents. Reads only those that have changed since the last time, if that is known.
    pub(super) async fn all(&self) -> Result<Reading, Problems> {
        let kept = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let reading = match kept {
            None => self.whole().await?,
            Some(kept) => match self.since(&kept.revision).await? {
                Update::Same => return Ok(kept),
                Update::Delta(delta) => patched(kept, delta),
                Update::Whole(reading) => reading,
                _ => self.whole().await?,
            },
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(reading.clone());
        Ok(reading)
    }

    /// All documents. Pages are snapshots of their own, so the head must be the same before and after them.
    async fn whole(&self) -> Result<Reading, Problems> {
        let prefix = self.row_name("");
        for _ in 0..TRIES {
            let before = self.head().await?;
            let rows = record::load_prefix::<Row>(&*self.store, &self.partition, &prefix).await;
            let rows = rows.map_err(|error| self.failed(&error))?;
            if before != self.head().await? {
                continue;
            }
            let head = before.map(|head| head.value).unwrap_or_default();
            let documents = rows.into_iter().map(|(name, row)| {
                let name = name.strip_prefix(&*prefix).unwrap_or(&name);
                self.document(name, row.value.0)
            });
            return Ok(Reading::new(head.revision.0, documents.collect()));
        }
        let message =
            "the table keeps changing while it is read; read it again when it no longer does";
        Err(self.said(Problem::new(message)).into())
    }

    /// What has changed since the revision `known`.
    pub(super) async fn since(&self, known: &Revision) -> Result<Update, Problems> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for _ in 0..TRIES {
            let wanted = names.iter().map(String::as_str).collect();
            let rows = self.rows(&wanted).await?;
            let Some(changed) = rows.head.since(known) else {
                return self.whole().await.map(Update::Whole);
            };
            if changed.is_empty() {
                return Ok(Update::Same);
            }
            if changed == wanted {
                return Ok(self.delta(&rows));
            }
            names = changed.into_iter().map(str::to_owned).collect();
        }
        self.whole().await.map(Update::Whole)
    }

    fn delta(&self, rows: &Rows) -> Update {
        let (mut put, mut gone): (Vec<Document>, Vec<DocumentKey>) = (Vec::new(), Vec::new());
        for (name, row) in &rows.rows {
            match row {
                Some(row) => put.push(self.document(name, row.clone())),
                None => gone.push(self.document(name, Value::Null).key().clone()),
            }
        }
        Update::Delta(Delta::new(rows.head.revision.0.clone(), put, gone))
    }
}

/// A reading, whose documents are sorted by key, after some of them have changed. Costs a search for each of these, and the
/// move of those behind one that comes or goes.
fn patched(mut reading: Reading, delta: Delta) -> Reading {
    reading.revision = delta.revision;
    let documents = &mut reading.documents;
    let position = |documents: &[Document], key: &DocumentKey| {
        documents.binary_search_by(|document| document.key().cmp(key))
    };
    for document in delta.put {
        match position(documents, document.key()) {
            Ok(at) => documents[at] = document,
            Err(at) => documents.insert(at, document),
        }
    }
    for key in &delta.gone {
        if let Ok(at) = position(documents, key) {
            documents.remove(at);
        }
    }
    reading
}
