//! The tables of the database, and how rows are read and written.
//!
//! SQLite protects its log with checksums but not its pages, so every row has a checksum of its own. Each commit also
//! records the sum of the checksums of all rows after it. So missing rows, and rows of another commit, are detected
//! when the store is opened.

use std::{path::Path, thread};

use bytes::Bytes;
use control_plane_store::{
    BatchId, Key, KeyRange, Page, Version, Versioned, Write, limit, records,
};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, config::DbConfig, params};

use crate::{
    Error,
    acked::State,
    damage::Damage,
    error::{damaged, open_error},
};

/// Number of log pages after which the log is copied into the database.
const LOG: i64 = 1000;

/// Version of the table format.
const FORMAT: i64 = 2;

/// The definitions exactly as SQLite stores them, so that a flipped byte in a definition is detected.
const TABLES: [(&str, &str); 3] = [
    (
        "aside",
        "CREATE TABLE aside (key ANY, version ANY, sum ANY, value ANY) STRICT",
    ),
    (
        "batches",
        "CREATE TABLE batches (slot INTEGER PRIMARY KEY, id BLOB NOT NULL, version INTEGER NOT NULL, content INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT",
    ),
    (
        "rows",
        "CREATE TABLE rows (key TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, sum INTEGER NOT NULL, value BLOB NOT NULL) STRICT",
    ),
];

/// Opens one more connection to the database at `path`.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    // Closing a connection must not copy the log: a refused log is evidence, and a log whose sync failed is not
    // retried.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.execute_batch(
        "PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; \
         PRAGMA cache_size = -16000; PRAGMA wal_autocheckpoint = 0;",
    )?;
    Ok(connection)
}

/// Decides whether later commits of this connection force the log to the medium before they become visible. By default
/// only checkpoints do, and the first commit after one that copied the whole log.
pub(crate) fn force_log(connection: &Connection, forced: bool) -> rusqlite::Result<()> {
    // SQLite changes the mode when it prepares the statement, so it must not be a cached one.
    connection.pragma_update(None, "synchronous", if forced { "FULL" } else { "NORMAL" })
}

/// Result of checking a usable database.
#[derive(Debug)]
pub(crate) struct Verified {
    /// Newest commit, and the sum of all row checksums after it.
    pub(crate) state: State,
    /// History records that cannot be read: their row ids and keys.
    pub(crate) unreadable: Vec<(i64, Key)>,
    /// Sum of the checksums of the readable rows.
    readable: i64,
}

/// Creates the tables if there are none, and checks format, definitions and all rows. Reads the whole database once.
pub(crate) fn prepare(connection: &mut Connection, path: &Path) -> Result<Verified, Error> {
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
    verify(connection, path).map_err(|damage| damaged(path, damage))
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for (_, sql) in TABLES {
        transaction.execute(sql, [])?;
    }
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

/// Checks the structure and the rows side by side, because each takes time for every row.
fn verify(connection: &Connection, path: &Path) -> Result<Verified, Damage> {
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
    let (structure, rows) = thread::scope(|scope| {
        let structure = scope.spawn(|| verify_structure(path));
        let rows = verify_rows(connection);
        (structure.join(), rows)
    });
    // Rows of a damaged structure can look damaged too.
    structure.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))?;
    rows
}

fn verify_structure(path: &Path) -> Result<(), Damage> {
    let found: String =
        connect(path)?.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    match &*found {
        "ok" => Ok(()),
        _ => Err(Damage::Structure(found)),
    }
}

fn verify_rows(connection: &Connection) -> Result<Verified, Damage> {
    let newest = batches(connection)?.pop();
    let state = newest.map_or(State::default(), |(_, state)| state);
    let mut unreadable = Vec::new();
    // In an unreadable row either the value or the stored checksum was damaged.
    let (mut readable, mut as_stored, mut as_read) = (0_i64, 0_i64, 0_i64);
    let mut select = connection.prepare("SELECT key, version, sum, value, rowid FROM rows")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let stored = row.get::<_, i64>(2)?;
        match read_row(row) {
            Ok((key, row)) if row.version > state.version => {
                return Err(Damage::Row(key.to_string()));
            }
            Ok(_) => readable = readable.wrapping_add(stored),
            Err(Damage::Row(key)) if records::is_history(&key) => {
                unreadable.push((row.get(4)?, Key::from(key)));
                as_stored = as_stored.wrapping_add(stored);
                as_read = as_read.wrapping_add(actual_sum(row)?);
            }
            Err(damage) => return Err(damage),
        }
    }
    if ![as_stored, as_read].contains(&state.content.wrapping_sub(readable)) {
        return Err(Damage::Content);
    }
    Ok(Verified {
        state,
        unreadable,
        readable,
    })
}

/// Moves unreadable history records into the table `aside`, in a commit of its own.
pub(crate) fn set_aside(connection: &mut Connection, found: &Verified) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for (row, _) in &found.unreadable {
        transaction.execute(
            "INSERT INTO aside SELECT key, version, sum, value FROM rows WHERE rowid = ?1",
            [row],
        )?;
        transaction.execute("DELETE FROM rows WHERE rowid = ?1", [row])?;
    }
    let after = State {
        version: Version(found.state.version.0 + 1),
        content: found.readable,
    };
    remember(&transaction, BatchId::fresh(), after)?;
    transaction.commit()
}

/// Copies the log into the database once [`LOG`] pages of it are not there yet. SQLite could do so by itself after
/// commits, but then reports no failed sync, and tries again.
pub(crate) fn checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    let (log, copied): (i64, i64) = connection
        .prepare_cached("PRAGMA wal_checkpoint(NOOP)")?
        .query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
    if log - copied < LOG {
        return Ok(());
    }
    connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
        .query_row([], |_| Ok(()))
}

/// Copies the whole log into the database and empties the log.
pub(crate) fn fold(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

/// Reads the remembered batches, oldest first, each with the state after it.
pub(crate) fn batches(connection: &Connection) -> Result<Vec<(BatchId, State)>, Damage> {
    let mut select = connection
        .prepare("SELECT slot, id, version, content, sum FROM batches ORDER BY version")?;
    let rows = select.query_map([], |row| {
        let version = Version(row.get::<_, i64>(2)?.cast_unsigned());
        let content = row.get(3)?;
        Ok((
            row.get(0)?,
            row.get(1)?,
            State { version, content },
            row.get(4)?,
        ))
    })?;
    let mut batches = Vec::new();
    for row in rows {
        let (slot, id, state, sum): (i64, [u8; 16], State, i64) = row?;
        if slot != slot_of(state.version)
            || sum != sum_of(&id, state.version, &state.content.to_le_bytes())
        {
            return Err(Damage::Batches);
        }
        batches.push((BatchId(u128::from_be_bytes(id)), state));
    }
    Ok(batches)
}

/// Remembers `id` with the state after it. Overwrites the batch that is now old enough to be forgotten.
pub(crate) fn remember(
    transaction: &Transaction<'_>,
    id: BatchId,
    after: State,
) -> rusqlite::Result<()> {
    let id = id.0.to_be_bytes();
    let State { version, content } = after;
    let sum = sum_of(&id, version, &content.to_le_bytes());
    transaction
        .prepare_cached("INSERT OR REPLACE INTO batches VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            slot_of(version),
            id,
            version.0.cast_signed(),
            content,
            sum
        ])?;
    Ok(())
}

fn slot_of(version: Version) -> i64 {
    (version.0 % limit::REMEMBERED_BATCHES).cast_signed()
}

/// Reads the version at which `key` was last written.
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

/// Applies `writes` as the batch `id` at `version`, and updates `state` accordingly.
pub(crate) fn apply(
    transaction: &Transaction<'_>,
    id: BatchId,
    version: Version,
    writes: &[Write],
    state: &mut State,
) -> rusqlite::Result<()> {
    state.version = version;
    for write in writes {
        let (gone, new) = match write {
            Write::Put(key, value) => put(transaction, key, version, value)?,
            Write::Delete(key) => (delete(transaction, key)?, 0),
            Write::DeleteRange(range) => (delete_range(transaction, range)?, 0),
        };
        state.content = state.content.wrapping_sub(gone).wrapping_add(new);
    }
    remember(transaction, id, *state)
}

/// Writes a row. Returns the checksum of the replaced row (0 if there was none) and of the new one.
fn put(
    transaction: &Transaction<'_>,
    key: &Key,
    version: Version,
    value: &[u8],
) -> rusqlite::Result<(i64, i64)> {
    let before = transaction
        .prepare_cached("SELECT sum FROM rows WHERE key = ?1")?
        .query_row([key.as_str()], |row| row.get(0))
        .optional()?;
    let sum = sum_of(key.as_str().as_bytes(), version, value);
    transaction
        .prepare_cached(
            "INSERT INTO rows VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) \
             DO UPDATE SET version = excluded.version, sum = excluded.sum, value = excluded.value",
        )?
        .execute(params![key.as_str(), version.0.cast_signed(), sum, value])?;
    Ok((before.unwrap_or(0), sum))
}

/// Removes a row. Returns its checksum, or 0 if there was none.
fn delete(transaction: &Transaction<'_>, key: &Key) -> rusqlite::Result<i64> {
    let sum = transaction
        .prepare_cached("DELETE FROM rows WHERE key = ?1 RETURNING sum")?
        .query_row([key.as_str()], |row| row.get(0))
        .optional()?;
    Ok(sum.unwrap_or(0))
}

/// Removes the rows of a range. Returns the sum of their checksums.
fn delete_range(transaction: &Transaction<'_>, range: &KeyRange) -> rusqlite::Result<i64> {
    const BOUNDED: &str = "DELETE FROM rows WHERE key >= ?1 AND key < ?2 RETURNING sum";
    const OPEN: &str = "DELETE FROM rows WHERE key >= ?1 RETURNING sum";
    let start = range.start.as_str();
    let mut delete =
        transaction.prepare_cached(if range.end.is_some() { BOUNDED } else { OPEN })?;
    let mut rows = match &range.end {
        Some(end) => delete.query([start, end.as_str()])?,
        None => delete.query([start])?,
    };
    let mut gone = 0_i64;
    while let Some(row) = rows.next()? {
        gone = gone.wrapping_add(row.get(0)?);
    }
    Ok(gone)
}

/// Reads the value of `key`.
pub(crate) fn get(transaction: &Transaction<'_>, key: &Key) -> Result<Option<Versioned>, Damage> {
    let mut select =
        transaction.prepare_cached("SELECT key, version, sum, value FROM rows WHERE key = ?1")?;
    let mut rows = select.query([key.as_str()])?;
    match rows.next()? {
        Some(row) => Ok(usable(read_row(row))?.map(|(_, row)| row)),
        None => Ok(None),
    }
}

/// Reads the first page of `range`.
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
        loop {
            let next = rows.next().map_err(Damage::from).transpose()?;
            match next.and_then(|row| usable(read_row(row))) {
                Ok(Some(row)) => return Some(row),
                Ok(None) => {}
                Err(error) => {
                    damage = Some(error);
                    return None;
                }
            }
        }
    });
    let page = Page::collect(range, limit, found);
    damage.map_or(Ok(page), Err)
}

/// Turns an unreadable history record into `None`. It is moved to the table `aside` at the next opening.
fn usable<T>(row: Result<T, Damage>) -> Result<Option<T>, Damage> {
    match row {
        Err(Damage::Row(key)) if records::is_history(&key) => {
            tracing::warn!(
                key,
                "a record of history cannot be read; treating it as absent"
            );
            Ok(None)
        }
        row => row.map(Some),
    }
}

/// Decodes a row of key, version, checksum and value, in this order, and verifies the checksum.
fn read_row(row: &Row<'_>) -> Result<(Key, Versioned), Damage> {
    let key = row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?;
    if row.get::<_, i64>(2)? != actual_sum(row)? {
        let key = String::from_utf8_lossy(key).into_owned();
        return Err(Damage::Row(key));
    }
    let key = std::str::from_utf8(key).map_err(|error| Damage::Row(error.to_string()))?;
    let version = Version(row.get::<_, i64>(1)?.cast_unsigned());
    let value = row.get_ref(3)?.as_bytes().map_err(rusqlite::Error::from)?;
    let value = Bytes::copy_from_slice(value);
    Ok((Key::from(key), Versioned { version, value }))
}

/// Computes the checksum of a row's key, version and value.
fn actual_sum(row: &Row<'_>) -> Result<i64, Damage> {
    let key = row.get_ref(0)?.as_bytes().map_err(rusqlite::Error::from)?;
    let version = Version(row.get::<_, i64>(1)?.cast_unsigned());
    let value = row.get_ref(3)?.as_bytes().map_err(rusqlite::Error::from)?;
    Ok(sum_of(key, version, value))
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
