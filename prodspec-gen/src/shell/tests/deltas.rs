//! R43: a run asks each source for what has changed since the revision that was accepted last.

use std::{collections::BTreeMap, mem};

use plugin_sdk::{AssetType, Delta, Update, document::DocumentKey};
use prodspec_model::{PartitionId, Revision};

use super::*;

/// A source of one document per key that tells only what has changed.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<Rows>>);

#[derive(Default)]
struct Rows {
    now: BTreeMap<&'static str, Json>,
    /// The rows at each revision that was read.
    past: BTreeMap<Revision, BTreeMap<&'static str, Json>>,
    /// The revisions that the source was asked about; `None`: it was asked for all.
    asked: Vec<Option<Revision>>,
}

impl Rows {
    fn reading(&mut self) -> Reading {
        let documents = self.now.iter();
        let documents = documents.map(|(key, row)| testing::document("docs", key, 1, row.clone()));
        let reading = testing::reading(documents.collect());
        self.past.insert(reading.revision.clone(), self.now.clone());
        reading
    }
}

#[async_trait::async_trait]
impl SourceOfTruth for Table {
    fn name(&self) -> SourceName {
        SourceName("docs".into())
    }
    async fn read(&self) -> Result<Reading, Problems> {
        let mut rows = self.0.lock().unwrap();
        rows.asked.push(None);
        Ok(rows.reading())
    }
    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        let mut rows = self.0.lock().unwrap();
        rows.asked.push(Some(known.clone()));
        let Reading {
            revision,
            mut documents,
            ..
        } = rows.reading();
        if revision == *known {
            return Ok(Update::Same);
        }
        let before = &rows.past[known];
        let same = |key: &str| before.get(key) == rows.now.get(key);
        documents.retain(|it| !same(it.name().trim_end_matches("#0")));
        let gone = before.keys().filter(|key| !rows.now.contains_key(*key));
        let gone = gone.map(|key| DocumentKey::at(&self.name().0, *key, 0));
        Ok(Update::Delta(Delta::new(
            revision.0,
            documents,
            gone.collect(),
        )))
    }
}

impl Table {
    fn edit(&self, key: &'static str, row: Option<Json>) {
        let rows = &mut self.0.lock().unwrap().now;
        match row {
            Some(row) => drop(rows.insert(key, row)),
            None => drop(rows.remove(key)),
        }
    }

    fn asked(&self) -> Vec<Option<Revision>> {
        mem::take(&mut self.0.lock().unwrap().asked)
    }
}

#[tokio::test(start_paused = true)]
async fn r43_run_asks_what_has_changed_since_the_accepted_revision() {
    let table = Table::default();
    for (key, row) in [("a", json!({"a": {"n": 1}})), ("b", json!({"b": {"n": 1}}))] {
        table.edit(key, Some(row));
    }
    let pipeline = Pipeline::builder(PartitionId::new("test").unwrap())
        .source(table.clone())
        .generator(testing::Items)
        .asset_type(AssetType::<testing::Item>::new())
        .build()
        .unwrap();
    let seals = Arc::new(InMemory::new());
    let (regeneration, handle) =
        Regeneration::new(TokioRuntime::current(), pipeline, seals.clone());
    tokio::spawn(regeneration.run());
    let run = async || {
        let status = handle.next_run().await;
        let sealed = status.incarnation.as_ref().unwrap();
        let at = status.seen[&table.name()].clone();
        (sealed.id.no.0, sealed.assets, at, status.is_good())
    };
    // The first run may have begun before it was asked for.
    let (no, assets, first, _) = run().await;
    assert_eq!((no, assets), (1, 2));
    assert_eq!(table.asked()[0], None);

    let same = run().await;
    assert_eq!(same, (1, 2, first.clone(), true));
    assert_eq!(table.asked(), [Some(first.clone())]);

    table.edit("c", Some(json!({"c": {"n": 1}})));
    let (no, assets, second, _) = run().await;
    assert_eq!((no, assets), (2, 3), "a and b are remembered");
    assert_eq!(table.asked(), [Some(first)]);

    table.edit("b", None);
    table.edit("c", Some(json!({"c": {"n": 13}})));
    let refused = run().await;
    assert_eq!(refused, (2, 3, second.clone(), false));
    table.edit("c", Some(json!({"c": {"n": 2}})));
    let (no, assets, ..) = run().await;
    assert_eq!((no, assets), (3, 2), "b is gone, although it was so before");
    assert_eq!(table.asked(), [Some(second.clone()), Some(second)]);
}
