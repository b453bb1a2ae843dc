//! `store`: incarnations in a directory with SQLite.
//!
//! Phases: `first`, an incarnation of `n` assets; `changes`, incarnations of ten changes each, one after the other;
//! `latest`, the newest one read by a new process; `get`, one asset of it. `ns_each` of `first` and `latest` is per asset,
//! of `changes` per incarnation, of `get` per asset; `p50_us` is the wall time of an incarnation, a reading or a get;
//! `bytes_each` what the directory grew by. The peer `limit` inserts the assets as rows of a table in one transaction,
//! forces ten kilobytes to the disk instead of an incarnation, and reads the rows.

use std::{fs, io::Write as _, path::Path, sync::Arc};

use control_plane::{
    store::{Batch, Store, incarnations::Incarnations},
    store_sqlite::SqliteStore,
};
use prodspec_model::{Incarnation, IncarnationNo, PartitionId, Snapshot};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    assets::{id, job, jobs, shuffled},
    measure::{Meter, Sample, now},
    ours::{incarnation, runtime},
};

/// The scenario `store` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "store",
    about: "SQLite: the first incarnation, incarnations of ten changes, the newest one read, one asset",
    target: "first 1x the limit; ten changes 2 forced writes; one asset 10 us",
    sizes: Sizes {
        named: 100_000,
        all: 20_000,
        smoke: 1_000,
    },
    sides: &[(OURS, ours), ("limit", limit)],
};

/// Number of incarnations after the first one.
pub(super) const INCARNATIONS: usize = 100;
/// Number of changes in each of them.
const CHANGES: usize = 10;
/// Number of assets that are read one by one.
pub(super) const GETS: usize = 1_000;

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let dir = tempfile::tempdir()?;
    runtime()?.block_on(async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(dir.path())?);
        let mut samples = sealed(store, n, || size(dir.path())).await?;
        samples.extend(read(Arc::new(SqliteStore::open(dir.path())?), n).await?);
        Ok(samples)
    })
}

/// Seals incarnations in an empty store, whose size `size` says in bytes.
pub(super) async fn sealed(
    store: Arc<dyn Store>,
    n: usize,
    size: impl Fn() -> Result<u64, Error>,
) -> Result<Vec<Sample>, Error> {
    let snapshot = Snapshot::empty().edit(IncarnationNo(1), jobs(n)?, &[]);
    let first = incarnation(None, snapshot)?;
    let incarnations = Incarnations::new(store, PartitionId::new("benches")?);
    let (empty, meter) = (size()?, Meter::start()?);
    let mut head = incarnations.seal(&first, None, Batch::new()).await?;
    let sample = meter.stop("first", n)?;
    let written = size()?.saturating_sub(empty);
    let mut samples = vec![sample.latencies(vec![meter.elapsed()]).bytes(written)];

    let mut latest = first;
    let (mut latencies, before) = (Vec::new(), size()?);
    let meter = Meter::start()?;
    for turn in 0..INCARNATIONS {
        latest = edited(&latest, turn, n)?;
        let start = now();
        head = incarnations
            .seal(&latest, Some(&head), Batch::new())
            .await?;
        latencies.push(start.elapsed());
    }
    let sample = meter.stop("changes", INCARNATIONS)?;
    let grown = size()?.saturating_sub(before);
    samples.push(sample.latencies(latencies).bytes(grown));
    Ok(samples)
}

/// The incarnation after `latest` with ten changes.
fn edited(latest: &Incarnation, turn: usize, n: usize) -> Result<Incarnation, Error> {
    let changed = (0..CHANGES).map(|nth| {
        let no = shuffled(turn * CHANGES + nth, n);
        job(no, turn as u64 + 2)
    });
    let changed = changed.collect::<Result<Vec<_>, _>>()?;
    let snapshot = latest.snapshot().edit(latest.no().next(), changed, &[]);
    incarnation(Some(latest), snapshot)
}

/// Reads the newest incarnation as a new process does, then single assets of it.
pub(super) async fn read(store: Arc<dyn Store>, n: usize) -> Result<[Sample; 2], Error> {
    let incarnations = Incarnations::new(store, PartitionId::new("benches")?);
    let meter = Meter::start()?;
    let latest = incarnations.latest().await?.ok_or("there is none")?;
    let assets = latest.snapshot().iter().count();
    let sample = meter.stop("latest", n)?.latencies(vec![meter.elapsed()]);
    if assets != n {
        return Err(format!("{assets} of {n} assets").into());
    }
    let ids: Vec<String> = (0..GETS).map(|turn| id(shuffled(turn, n))).collect();
    let meter = Meter::start()?;
    let mut latencies = Vec::with_capacity(ids.len());
    for id in &ids {
        let start = now();
        latest.snapshot().get(id).ok_or("an asset is missing")?;
        latencies.push(start.elapsed());
    }
    let gets = meter.stop("get", ids.len())?.latencies(latencies);
    Ok([sample, gets])
}

/// Bytes of all files in a directory.
fn size(dir: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

fn limit(n: usize) -> Result<Vec<Sample>, Error> {
    let dir = tempfile::tempdir()?;
    let assets = jobs(n)?;
    let mut database = rusqlite::Connection::open(dir.path().join("assets"))?;
    database.pragma_update(None, "journal_mode", "wal")?;
    database.pragma_update(None, "synchronous", "full")?;
    database.execute("create table asset (id text primary key, content text)", [])?;
    let meter = Meter::start()?;
    let transaction = database.transaction()?;
    {
        let mut insert = transaction.prepare("insert into asset values (?1, ?2)")?;
        for asset in &assets {
            insert.execute((asset.id_str(), asset.canonical()))?;
        }
    }
    transaction.commit()?;
    let first = meter.stop("first", n)?.latencies(vec![meter.elapsed()]);
    let first = first.bytes(size(dir.path())?);
    let mut file = fs::File::create(dir.path().join("file"))?;
    let (meter, mut latencies) = (Meter::start()?, Vec::new());
    for _ in 0..INCARNATIONS {
        let start = now();
        file.write_all(&[0; 10 << 10])?;
        file.sync_data()?;
        latencies.push(start.elapsed());
    }
    let changes = meter.stop("changes", INCARNATIONS)?.latencies(latencies);
    let [latest, get] = read_rows(&database, n)?;
    Ok(vec![first, changes, latest, get])
}

/// Reads all rows, then single ones by their key.
fn read_rows(database: &rusqlite::Connection, n: usize) -> Result<[Sample; 2], Error> {
    let meter = Meter::start()?;
    let mut all = database.prepare("select id, content from asset order by id")?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let rows = all.query_map([], row)?.count();
    let latest = meter.stop("latest", n)?.latencies(vec![meter.elapsed()]);
    if rows != n {
        return Err(format!("{rows} of {n} rows").into());
    }
    let mut one = database.prepare("select content from asset where id = ?1")?;
    let ids: Vec<String> = (0..GETS).map(|turn| id(shuffled(turn, n))).collect();
    let (meter, mut latencies) = (Meter::start()?, Vec::with_capacity(GETS));
    for id in &ids {
        let start = now();
        one.query_row([id], |row| row.get::<_, String>(0))?;
        latencies.push(start.elapsed());
    }
    let get = meter.stop("get", GETS)?.latencies(latencies);
    Ok([latest, get])
}
