//! A source of truth: a table in memory stands for a database that people and programs edit.
//!
//! A source returns all of its documents at one revision, and hints that it may have changed. The hint is enough: nothing
//! polls the table between two edits. A bad row is refused with its place, and the last good intent stays in force.
//!
//! Run it with `cargo run -p tour --bin source`.
#![allow(clippy::print_stdout, reason = "a program that prints its steps")]

use std::{collections::BTreeMap, time::Duration};

use control_plane::{
    model::SourceName,
    prelude::*,
    sdk::{document::Node, testing::InMemoryProduction, text::shown},
};
use futures::stream::{BoxStream, StreamExt, unfold};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Rows by key, and the number of the last edit.
type Rows = (u64, BTreeMap<&'static str, Value>);

/// A table with rows of JSON. Clones are handles to the same table.
#[derive(Clone)]
struct Table(watch::Sender<Rows>);

impl Table {
    fn new() -> Self {
        Self(watch::Sender::new((0, BTreeMap::new())))
    }

    /// Writes one row, as a program would do it beside the control plane.
    fn put(&self, key: &'static str, row: Value) {
        self.0.send_modify(|(revision, rows)| {
            *revision += 1;
            rows.insert(key, row);
        });
    }
}

#[async_trait]
impl SourceOfTruth for Table {
    fn name(&self) -> SourceName {
        SourceName("queues".into())
    }

    /// Each row is a document, so an edit of one row costs one call of the generator.
    async fn read(&self) -> Result<Reading, Problems> {
        let (revision, rows) = self.0.borrow().clone();
        let document = |(key, row)| Document::new("queues", key, 0, Node::from(row));
        let documents = rows.into_iter().map(document).collect();
        Ok(Reading::new(revision.to_string(), documents))
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let hints = unfold(self.0.subscribe(), |mut rows| async {
            rows.changed().await.ok().map(|()| ((), rows))
        });
        hints.boxed()
    }
}

/// A queue, as a row says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Queue {
    name: String,
    size: u32,
}

impl Message for Queue {
    const TYPE: &'static str = "queues.v1.Queue";
}

/// Makes one queue of each row.
struct Queues;

impl Generator for Queues {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("queues", "queues").makes::<Queue>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let queue: Queue = document.read()?;
            let id = AssetId::new(&format!("queue/{}", queue.name))?;
            out.asset(Asset::builder(id).payload(&queue)?, document.provenance())?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let table = Table::new();
    table.put("row 1", json!({"name": "mail", "size": 10}));
    let production = InMemoryProduction::new();
    let plane = ControlPlane::builder("queues")
        .store(MemoryStore::new())
        .source(table.clone())
        .generator(Queues)
        .validators(validators::standard())
        .asset_plugin::<Queue>(production.clone())
        .build()?;
    let handle = plane.handle();
    tokio::spawn(plane.run(std::future::pending()));
    let within = Duration::from_secs(30);

    println!("one row: {}", handle.settle(within).await?);
    for id in production.pushed() {
        println!("  {id}: {}", production.payload(&id).unwrap_or_default());
    }

    println!("a second row is written, and the control plane follows the hint:");
    table.put("row 2", json!({"name": "print", "size": 5}));
    handle
        .wait_settled(Settle::All(IncarnationNo(2)), within)
        .await?;
    for id in production.pushed() {
        println!("  {id}: {}", production.payload(&id).unwrap_or_default());
    }

    println!("a row is spoiled:");
    table.put("row 1", json!({"name": "mail", "size": "huge"}));
    if let Err(refused) = handle.settle(within).await {
        for line in refused.to_string().lines() {
            println!("  {}", shown(line));
        }
    }
    println!("  in force: {}", handle.latest().await?.id());
    Ok(())
}
