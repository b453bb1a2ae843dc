//! `store-postgres`, or `store --backend postgres`: incarnations in a PostgreSQL server of the scenario's own, which forces
//! its commits to the disk. Left out where PostgreSQL is not installed.
//!
//! The phases are those of `store`. `p50_us` is wall time, the server's included; `ns_each` is the processor time of this
//! process only. The peer `limit` inserts the assets as rows in one transaction, replaces a row of ten kilobytes in a
//! statement of its own instead of an incarnation, and reads the rows.

use std::sync::Arc;

use control_plane_store_postgres::PostgresStore;
use sqlx::{Connection, Executor, PgConnection};

use super::{
    OURS, Scenario, Sizes,
    store::{GETS, INCARNATIONS, read, sealed},
};
use crate::{
    Error,
    assets::{id, jobs, shuffled},
    measure::{Meter, Sample, now},
    peers::program,
};

/// The scenario `store-postgres` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "store-postgres",
    about: "PostgreSQL: the first incarnation, incarnations of ten changes, the newest one read, one asset",
    target: "first 1x the limit; ten changes 1.5x its commit in one round trip; one asset 10 us",
    sizes: Sizes {
        named: 100_000,
        all: 20_000,
        smoke: 1_000,
    },
    sides: &[(OURS, ours), ("limit", limit)],
};

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    if !program::postgres_is_installed() {
        return Ok(Vec::new());
    }
    let database = testing_postgres::Server::start().database();
    let size = || {
        let size = database.run("select pg_database_size(current_database())");
        Ok(size.trim().parse()?)
    };
    program::runtime()?.block_on(async {
        let store = PostgresStore::connect(&database.url()).await?;
        let mut samples = sealed(Arc::new(store), n, size).await?;
        let store = PostgresStore::connect(&database.url()).await?;
        samples.extend(read(Arc::new(store), n).await?);
        Ok(samples)
    })
}

fn limit(n: usize) -> Result<Vec<Sample>, Error> {
    if !program::postgres_is_installed() {
        return Ok(Vec::new());
    }
    let database = testing_postgres::Server::start().database();
    program::runtime()?.block_on(async {
        let mut connection = PgConnection::connect(&database.url()).await?;
        let tables = "create table asset (id text primary key, content text); create table head (id int primary key, content bytea)";
        connection.execute(sqlx::raw_sql(tables)).await?;
        let first = insert(&mut connection, n).await?;
        let changes = commits(&mut connection).await?;
        let [latest, get] = rows(&mut connection, n).await?;
        Ok(vec![first, changes, latest, get])
    })
}

/// Inserts the assets in one transaction, a thousand per statement.
async fn insert(connection: &mut PgConnection, n: usize) -> Result<Sample, Error> {
    let assets = jobs(n)?;
    let meter = Meter::start()?;
    let mut transaction = connection.begin().await?;
    for lot in assets.chunks(1_000) {
        let ids: Vec<&str> = lot.iter().map(|asset| asset.id_str()).collect();
        let contents: Vec<&str> = lot.iter().map(|asset| asset.canonical()).collect();
        let insert = "insert into asset select * from unnest($1::text[], $2::text[])";
        let insert = sqlx::query(insert).bind(ids).bind(contents);
        insert.execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(meter.stop("first", n)?.latencies(vec![meter.elapsed()]))
}

/// Replaces a row of ten kilobytes again and again, each time in one round trip.
async fn commits(connection: &mut PgConnection) -> Result<Sample, Error> {
    let content = vec![0_u8; 10 << 10];
    let (meter, mut latencies) = (Meter::start()?, Vec::new());
    for _ in 0..INCARNATIONS {
        let replace = "insert into head values (1, $1) on conflict (id) do update set content = $1";
        let start = now();
        sqlx::query(replace)
            .bind(&content)
            .execute(&mut *connection)
            .await?;
        latencies.push(start.elapsed());
    }
    Ok(meter.stop("changes", INCARNATIONS)?.latencies(latencies))
}

/// Reads all rows, then single ones by their key.
async fn rows(connection: &mut PgConnection, n: usize) -> Result<[Sample; 2], Error> {
    let meter = Meter::start()?;
    let all = sqlx::query("select id, content from asset order by id");
    let rows = all.fetch_all(&mut *connection).await?.len();
    let latest = meter.stop("latest", n)?.latencies(vec![meter.elapsed()]);
    if rows != n {
        return Err(format!("{rows} of {n} rows").into());
    }
    let ids: Vec<String> = (0..GETS).map(|turn| id(shuffled(turn, n))).collect();
    let (meter, mut latencies) = (Meter::start()?, Vec::with_capacity(GETS));
    for id in &ids {
        let start = now();
        let one = sqlx::query("select content from asset where id = $1").bind(id);
        one.fetch_one(&mut *connection).await?;
        latencies.push(start.elapsed());
    }
    let get = meter.stop("get", GETS)?.latencies(latencies);
    Ok([latest, get])
}
