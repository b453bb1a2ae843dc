//! Tests of stored incarnations. Each file has one topic; the incarnations that all of them seal are here.

mod crashes;
mod reads;
mod retention;
mod seals;

use std::{sync::Arc, time::Duration};

use futures::executor::block_on;
use jiff::Timestamp;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationId, PartitionId, TypeName, incarnation::Header,
};
use serde_json::json;

use crate::{Batch, KeyRange, MemoryStore, Store, Versioned, incarnations::Incarnations};

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn partition() -> PartitionId {
    "shakespeare".parse().unwrap()
}

fn open(store: &MemoryStore) -> Incarnations<MemoryStore> {
    Incarnations::new(Arc::new(store.clone()), partition())
}

fn asset(at: u32, n: u32, bytes: usize) -> Asset {
    Asset::builder(AssetId::new(&format!("job/{at:04}")).unwrap())
        .payload_value(
            TypeName::new("test.v1.Job").unwrap(),
            &json!({"n": n, "pad": "x".repeat(bytes)}),
        )
        .unwrap()
        .build()
        .unwrap()
}

/// The successor of `before` with the assets `put`, sealed one minute later.
fn next(before: Option<&Incarnation>, put: Vec<Asset>) -> Incarnation {
    let parent = before.map(Incarnation::no);
    let no = parent.unwrap_or_default().next();
    let base = before.map(|before| before.snapshot().clone());
    let snapshot = base.unwrap_or_default().edit(no, put, &[]);
    let sealed_at = START + Duration::from_secs(60 * u64::from(no.0));
    let id = IncarnationId::new(partition(), no);
    let header = Header::new(id, parent, &snapshot, sealed_at);
    Incarnation::new(header, snapshot)
}

/// Seals `count` incarnations. Each changes one of 200 assets.
fn history(store: &MemoryStore, count: u32) -> Vec<Incarnation> {
    let incarnations = open(store);
    let mut head = None;
    let mut all = vec![next(None, (0..200).map(|at| asset(at, 0, 50)).collect())];
    for n in 1..count {
        all.push(next(all.last(), vec![asset(n * 7 % 200, n, 50)]));
    }
    for one in &all {
        head = Some(block_on(incarnations.seal(one, head.as_ref(), Batch::new())).unwrap());
    }
    all
}

fn same(read: &Incarnation, sealed: &Incarnation) -> bool {
    read.header() == sealed.header()
        && read.snapshot().digest() == sealed.snapshot().digest()
        && read.snapshot().iter().eq(sealed.snapshot().iter())
}

fn rows(store: &MemoryStore) -> Vec<(crate::Key, Versioned)> {
    let page = block_on(store.scan(KeyRange::all(), usize::MAX)).unwrap();
    assert!(page.rest.is_none());
    page.rows
}

fn count(store: &MemoryStore, prefix: &str) -> usize {
    let rows = rows(store);
    rows.iter()
        .filter(|(key, _)| key.as_str().starts_with(prefix))
        .count()
}
