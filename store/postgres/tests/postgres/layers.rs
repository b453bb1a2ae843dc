//! The layers above the trait, with two processes on one database.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use control_plane_store::{
    Batch, Store, Write,
    incarnations::Incarnations,
    journal::{Journal, Outcome},
    owner::{self, Acquire, Process},
};
use control_plane_store_postgres::PostgresStore;
use jiff::Timestamp;
use plugin_sdk::Mono;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationId, IncarnationNo, PartitionId, Snapshot, TypeName,
    incarnation::Header,
};
use testing_postgres::{Database, Server};

const TERM: Duration = Duration::from_secs(15);

async fn store(database: &Database) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect(&database.url()).await.unwrap())
}

#[tokio::test]
async fn r50_second_process_takes_a_partition_over_from_one_that_is_silent() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let (one, two) = (store(&database).await, store(&database).await);
    let partition: PartitionId = "shop".parse().unwrap();
    let now = Arc::new(AtomicU64::new(0));
    let clock = || -> owner::Clock {
        let now = now.clone();
        Arc::new(move || Mono(now.load(Ordering::Relaxed)))
    };
    let mut first = Process::new(one.clone(), "one".into(), TERM, clock());
    let mut second = Process::new(two.clone(), "two".into(), TERM, clock());
    first.beat().await.unwrap();
    second.beat().await.unwrap();
    let Acquire::Acquired { token } = first.acquire(&partition).await.unwrap() else {
        panic!("the partition is free");
    };
    let mut journal = Journal::new(owner::key(&partition), token);
    journal.record(vec![Write::Put("step/shop/1".into(), "1".into())]);
    let batch = journal.next_batch().unwrap();
    let durable = journal.committed(one.commit(batch).await);
    assert!(matches!(durable, Outcome::Durable(_)), "{durable:?}");

    // The first process falls silent: its heartbeat does not move for a term of the second one's clock.
    let held = second.acquire(&partition).await.unwrap();
    assert!(matches!(held, Acquire::Held { .. }), "{held:?}");
    now.fetch_add(TERM.as_nanos() as u64 + 1, Ordering::Relaxed);
    second.beat().await.unwrap();
    let taken = second.acquire(&partition).await.unwrap();
    let Acquire::Acquired { token: newer } = taken else {
        panic!("{taken:?}");
    };
    assert!(newer > token);

    journal.record(vec![Write::Put("step/shop/2".into(), "late".into())]);
    let late = one.commit(journal.next_batch().unwrap()).await;
    let late = journal.committed(late);
    assert!(matches!(late, Outcome::LostOwnership), "{late:?}");
    let rows = two
        .get(&["step/shop/1".into(), "step/shop/2".into()])
        .await
        .unwrap();
    assert_eq!(
        rows.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false]
    );
    let beat = first.beat().await.unwrap();
    assert!(
        matches!(&beat, owner::Beat::DeclaredDead { lost } if *lost == [partition]),
        "{beat:?}"
    );
}

/// An incarnation of 100 assets of 100 kB each, of which one changes from one incarnation to the next.
fn incarnation(no: IncarnationNo, before: Option<&Incarnation>) -> Incarnation {
    let asset = |at: u32| {
        let payload = serde_json::json!({"n": no.0, "pad": "x".repeat(100_000)});
        let builder = Asset::builder(AssetId::new(&format!("job/{at}")).unwrap());
        let name = TypeName::new("test.v1.Job").unwrap();
        let asset = builder.payload_value(name, &payload).unwrap();
        asset.build().unwrap()
    };
    let changed = if before.is_none() {
        0..100
    } else {
        no.0..no.0 + 1
    };
    let base = before.map_or_else(Snapshot::empty, |before| before.snapshot().clone());
    let snapshot = base.edit(no, changed.map(asset).collect::<Vec<_>>(), &[]);
    let id = IncarnationId::new("shop".parse().unwrap(), no);
    let header = Header::new(
        id,
        before.map(Incarnation::no),
        &snapshot,
        Timestamp::UNIX_EPOCH,
    );
    Incarnation::new(header, snapshot)
}

#[tokio::test]
async fn incarnations_that_one_process_seals_are_those_that_another_one_reads() {
    testing_postgres::needs_postgresql!();
    let database = Server::shared().database();
    let partition: PartitionId = "shop".parse().unwrap();
    let sealer = Incarnations::new(store(&database).await, partition.clone());
    let (mut head, mut sealed) = (None, Vec::<Incarnation>::new());
    for no in 1..=3 {
        let one = incarnation(IncarnationNo(no), sealed.last());
        head = Some(
            sealer
                .seal(&one, head.as_ref(), Batch::new())
                .await
                .unwrap(),
        );
        sealed.push(one);
    }
    let reader = Incarnations::new(store(&database).await, partition);
    assert_eq!(reader.head().await.unwrap(), head);
    for sealed in sealed {
        let read = reader.load(sealed.no()).await.unwrap();
        assert_eq!(read.header(), sealed.header());
        assert!(read.snapshot().iter().eq(sealed.snapshot().iter()));
    }
}
