//! The tables, and how rows are read from them and written to them.
//!
//! SQLite guards its log with checksums but not its pages, so every row carries a sum of its own.

use std::path::Path;

use bytes::Bytes;
use plane_store::{BatchId, Key, KeyRange, Page, Version, Versioned, limit};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use crate::{
    Error,
    error::{damaged, open_error},
};

/// The format of the tables.
const FORMAT: i64 = 1;

/// Exactly as SQLite keeps them, so that a flipped byte in a definition is noticed.
const TABLES: [(&str, &str); 2] = [
    (
        "batches",
        "CREATE TABLE batches (slot INTEGER PRIMARY KEY, id BLOB NOT NULL, version INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT",
    ),
    (
        "rows",
        "CREATE TABLE rows (key TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, sum INTEGER NOT NULL, value BLOB NOT NULL) STRICT",
    ),
];

/// What is wrong with a database.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("the row `{0}` does not match its checksum")]
    Row(String),
    #[error("the record of batches does not match its checksums")]
    Batches,
    #[error("the definition of its tables is not what was written")]
    Tables,
    #[error("{0}")]
    Structure(String),
    #[error("SQLite cannot read it")]
    Sqlite(#[source] rusqlite::Error),
}

impl From<rusqlite::Error> for Damage {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Opens one more connection. The first one creates the tables.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.execute_batch(
        "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -16000;",
    )?;
    Ok(connection)
}

/// Creates the tables if there are none, and makes sure that they are ours and undamaged: reads all of them once.
pub(crate) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), Error> {
    let wrap = |source| open_error(path, source);
    let format = |connection: &Connection| {
        connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))
    };
    let empty = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
            row.get::<_, i64>(0)
        })
        .map_err(wrap)?;
    let mut found = format(connection).map_err(wrap)?;
    if (empty, found) == (0, 0) {
        create(connection).map_err(wrap)?;
        found = format(connection).map_err(wrap)?;
    }
    if found != FORMAT {
        return Err(Error::Format {
            path: path.to_owned(),
            found,
            known: FORMAT,
        });
    }
    verify(connection).map_err(|damage| damaged(path, damage))
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for (_, sql) in TABLES {
        transaction.execute(sql, [])?;
    }
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

fn verify(connection: &Connection) -> Result<(), Damage> {
    for (name, sql) in TABLES {
        let found: String = connection.query_row(
            "SELECT sql FROM sqlite_schema WHERE name = ?1",
            [name],
            |row| row.get(0),
        )?;
        if found != sql {
            return Err(Damage::Tables);
        }
    }
    let structure: String =
        connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if structure != "ok" {
        return Err(Damage::Structure(structure));
    }
    let newest = batches(connection)?
        .last()
        .map_or(0, |(_, version)| version.0);
    let mut select = connection.prepare("SELECT key, version, sum, value FROM rows")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (key, row) = read_row(row)?;
        if row.version.0 > newest {
            return Err(Damage::Row(key.to_string()));
        }
    }
    Ok(())
}

/// The batches remembered, oldest first.
pub(crate) fn batches(connection: &Connection) -> Result<Vec<(BatchId, Version)>, Damage> {
    let mut select =
        connection.prepare("SELECT slot, id, version, sum FROM batches ORDER BY version")?;
    let rows = select.query_map([], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    let mut batches = Vec::new();
    for row in rows {
        let (slot, id, version, sum): (i64, [u8; 16], i64, i64) = row?;
        let version = Version(version.cast_unsigned());
        if slot != slot_of(version) || sum != sum_of(&id, version, &[]) {
            return Err(Damage::Batches);
        }
        batches.push((BatchId(u128::from_be_bytes(id)), version));
    }
    Ok(batches)
}

/// Remembers `id` in the place of one that is old enough to be forgotten.
pub(crate) fn remember(
    transaction: &Transaction<'_>,
    id: BatchId,
    version: Version,
) -> rusqlite::Result<()> {
    let id = id.0.to_be_bytes();
    let sum = sum_of(&id, version, &[]);
    transaction
        .prepare_cached("INSERT OR REPLACE INTO batches VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![slot_of(version), id, version.0.cast_signed(), sum])?;
    Ok(())
}

fn slot_of(version: Version) -> i64 {
    (version.0 % limit::REMEMBERED_BATCHES).cast_signed()
}

/// The version at which `key` was last written.
pub(crate) fn version_of(
    transaction: &Transaction<'_>,
    key: &Key,
) -> rusqlite::Result<Option<Version>> {
    transaction
        .prepare_cached("SELECT version FROM rows WHERE key = ?1")?
        .query_row([key.as_str()], |row| row.get::<_, i64>(0))
        .optional()
        .map(|version| version.map(|version| Version(version.cast_unsigned())))
}

pub(crate) fn put(
    transaction: &Transaction<'_>,
    key: &Key,
    version: Version,
    value: &[u8],
) -> rusqlite::Result<()> {
    let sum = sum_of(key.as_str().as_bytes(), version, value);
    transaction
        .prepare_cached(
            "INSERT INTO rows VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) \
             DO UPDATE SET version = excluded.version, sum = excluded.sum, value = excluded.value",
        )?
        .execute(params![key.as_str(), version.0.cast_signed(), sum, value])?;
    Ok(())
}

pub(crate) fn delete(transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM rows WHERE key = ?1")?
        .execute([key.as_str()])?;
    Ok(())
}

pub(crate) fn delete_range(
    transaction: &Transaction<'_>,
    range: &KeyRange,
) -> rusqlite::Result<()> {
    let start = range.start.as_str();
    match &range.end {
        Some(end) => transaction
            .prepare_cached("DELETE FROM rows WHERE key >= ?1 AND key < ?2")?
            .execute([start, end.as_str()])?,
        None => transaction
            .prepare_cached("DELETE FROM rows WHERE key >= ?1")?
            .execute([start])?,
    };
    Ok(())
}

/// The value of `key`.
pub(crate) fn get(transaction: &Transaction<'_>, key: &Key) -> Result<Option<Versioned>, Damage> {
    let mut select =
        transaction.prepare_cached("SELECT key, version, sum, value FROM rows WHERE key = ?1")?;
    let mut rows = select.query([key.as_str()])?;
    match rows.next()? {
        Some(row) => Ok(Some(read_row(row)?.1)),
        None => Ok(None),
    }
}

/// The first page of `range`.
pub(crate) fn scan(
    transaction: &Transaction<'_>,
    range: &KeyRange,
    limit: usize,
) -> Result<Page, Damage> {
    const BOUNDED: &str =
        "SELECT key, version, sum, value FROM rows WHERE key >= ?1 AND key < ?2 ORDER BY key";
    const OPEN: &str = "SELECT key, version, sum, value FROM rows WHERE key >= ?1 ORDER BY key";
    let start = range.start.as_str();
    let mut select =
        transaction.prepare_cached(if range.end.is_some() { BOUNDED } else { OPEN })?;
    let mut rows = match &range.end {
        Some(end) => select.query([start, end.as_str()])?,
        None => select.query([start])?,
    };
    let mut damage = None;
    let found = std::iter::from_fn(|| {
        let next = rows.next().map_err(Damage::from).transpose()?;
        next.and_then(read_row)
            .map_err(|error| damage = Some(error))
            .ok()
    });
    let page = Page::collect(range, limit, found);
    damage.map_or(Ok(page), Err)
}

/// Reads key, version, sum and value, in this order.
fn read_row(row: &Row<'_>) -> Result<(Key, Versioned), Damage> {
    let as_text = |error: std::str::Utf8Error| Damage::Row(error.to_string());
    let key = row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?;
    let key = std::str::from_utf8(key).map_err(as_text)?;
    let version = Version(row.get::<_, i64>(1)?.cast_unsigned());
    let value = row.get_ref(3)?.as_bytes().map_err(rusqlite::Error::from)?;
    if row.get::<_, i64>(2)? != sum_of(key.as_bytes(), version, value) {
        return Err(Damage::Row(key.escape_debug().to_string()));
    }
    let value = Bytes::copy_from_slice(value);
    Ok((Key::from(key), Versioned { version, value }))
}

fn sum_of(name: &[u8], version: Version, value: &[u8]) -> i64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&version.0.to_le_bytes());
    hasher.update(&(name.len() as u64).to_le_bytes());
    hasher.update(name).update(value);
    let mut sum = [0; 8];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    i64::from_le_bytes(sum)
}
