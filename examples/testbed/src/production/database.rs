//! The database: a SQLite file that is migrated step by step. The fence and the journal of migrations are tables of the
//! same file, so that a call of an old owner is refused inside its own transaction.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use super::{api::Caller, clock};

/// The migrations: for each version, the statement up and the statement back. Migrating back loses data.
const STEPS: [(&str, &str); 4] = [
    (
        "CREATE TABLE works (id INTEGER PRIMARY KEY, title TEXT NOT NULL)",
        "DROP TABLE works",
    ),
    (
        "ALTER TABLE works ADD COLUMN year INTEGER",
        "ALTER TABLE works DROP COLUMN year",
    ),
    (
        "CREATE TABLE lines (work INTEGER NOT NULL, nth INTEGER NOT NULL, text TEXT NOT NULL)",
        "DROP TABLE lines",
    ),
    (
        "CREATE UNIQUE INDEX lines_by_place ON lines (work, nth)",
        "DROP INDEX lines_by_place",
    ),
];
/// Newest version of the schema; the oldest one is 1.
pub const SCHEMA_VERSIONS: u32 = STEPS.len() as u32;

const OWN_TABLES: &str = "CREATE TABLE IF NOT EXISTS fence (
        one INTEGER PRIMARY KEY CHECK (one = 1), token INTEGER NOT NULL, n INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS migrations (
        at_micros INTEGER NOT NULL, from_version INTEGER NOT NULL, to_version INTEGER NOT NULL,
        incarnation TEXT, token INTEGER);";

/// Why a call to the database failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite failed, for instance because the file is locked for long.
    #[error("cannot read or write the database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The fence refused the call: the database has seen this greater token, or a later call.
    #[error(
        "the database has seen a newer owner or a later call, with token {0}: check which process owns the partition"
    )]
    Fenced(u64),
    /// There are no migrations to this version of the schema.
    #[error("schema version {0} is unknown: this program supports 1 to {SCHEMA_VERSIONS}")]
    Unknown(u32),
}

/// Returns the version of the schema in the database at `path`, 0 if there is none. The call of an owner passes the
/// fence and is recorded there; a call without a token writes nothing.
///
/// # Errors
///
/// See [`Error`].
pub fn look(path: &Path, caller: &Caller) -> Result<u32, Error> {
    if caller.token.is_some() {
        let mut database = open(path)?;
        let transaction = begin(&mut database, caller)?;
        let there = version(&transaction)?;
        transaction.commit()?;
        return Ok(there);
    }
    if !path.exists() {
        return Ok(0);
    }
    version(&Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_ONLY,
    )?)
}

/// Migrates the database at `path` to the version `wanted`, step by step. Each step is a transaction of its own, so that
/// a crash leaves a complete version.
///
/// # Errors
///
/// See [`Error`].
pub fn migrate(path: &Path, wanted: u32, caller: &Caller) -> Result<(), Error> {
    let mut database = open(path)?;
    loop {
        let transaction = begin(&mut database, caller)?;
        let there = version(&transaction)?;
        let (step, next) = match there.cmp(&wanted) {
            std::cmp::Ordering::Equal => return Ok(transaction.commit()?),
            std::cmp::Ordering::Less => (there, there + 1),
            std::cmp::Ordering::Greater => (there - 1, there - 1),
        };
        let (up, down) = STEPS
            .get(step as usize)
            .ok_or(Error::Unknown(there.max(wanted)))?;
        transaction.execute_batch(if next > there { up } else { down })?;
        transaction.pragma_update(None, "user_version", next)?;
        transaction.execute(
            "INSERT INTO migrations VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                clock::now_micros() as i64,
                there,
                next,
                caller.incarnation,
                caller.token.map(|token| token as i64)
            ],
        )?;
        transaction.commit()?;
    }
}

/// Returns the times at which the schema was migrated to `version`, in microseconds since 1970.
///
/// # Errors
///
/// [`Error::Sqlite`] when there is no database yet, or it cannot be read.
pub fn migrations_to(path: &Path, version: u32) -> Result<Vec<u64>, Error> {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let query = "SELECT at_micros FROM migrations WHERE to_version = ?1";
    let mut query = database.prepare(query)?;
    let times = query.query_map([version], |row| row.get::<_, i64>(0))?;
    times.map(|at| Ok(at?.cast_unsigned())).collect()
}

fn open(path: &Path) -> Result<Connection, Error> {
    let database = Connection::open(path)?;
    database.busy_timeout(std::time::Duration::from_secs(5))?;
    database.execute_batch(OWN_TABLES)?;
    Ok(database)
}

fn version(database: &Connection) -> Result<u32, Error> {
    Ok(database.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Begins a transaction and passes the fence: a call below the greatest `(token, n)` seen is refused.
fn begin<'c>(database: &'c mut Connection, caller: &Caller) -> Result<Transaction<'c>, Error> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let call = (
        caller.token.unwrap_or(0) as i64,
        caller.n.unwrap_or(0) as i64,
    );
    let taken = transaction.execute(
        "INSERT INTO fence VALUES (1, ?1, ?2) ON CONFLICT DO UPDATE SET token = ?1, n = ?2
         WHERE (?1, ?2) >= (token, n)",
        call,
    )?;
    if taken == 0 {
        let seen =
            transaction.query_row("SELECT token FROM fence", [], |row| row.get::<_, i64>(0))?;
        return Err(Error::Fenced(seen.cast_unsigned()));
    }
    Ok(transaction)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(token: u64, n: u64) -> Caller {
        Caller {
            token: Some(token),
            n: Some(n),
            ..Caller::default()
        }
    }

    #[test]
    fn schema_migrates_up_and_down_and_refuses_older_owners() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("database.sqlite");
        assert_eq!(look(&path, &Caller::default()).unwrap(), 0);
        assert!(!path.exists(), "a plan writes nothing");
        migrate(&path, 3, &owner(2, 1)).unwrap();
        assert_eq!(look(&path, &Caller::default()).unwrap(), 3);
        assert!(matches!(
            migrate(&path, 4, &owner(1, 9)),
            Err(Error::Fenced(2))
        ));
        assert_eq!(look(&path, &owner(3, 0)).unwrap(), 3);
        assert!(matches!(
            migrate(&path, 4, &owner(2, 2)),
            Err(Error::Fenced(3))
        ));
        migrate(&path, 1, &owner(3, 1)).unwrap();
        migrate(&path, 1, &owner(3, 2)).unwrap();
        let database = Connection::open(&path).unwrap();
        let steps: i64 = database
            .query_row("SELECT count(*) FROM migrations", [], |row| row.get(0))
            .unwrap();
        assert_eq!((version(&database).unwrap(), steps), (1, 5));
    }

    #[test]
    fn unknown_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("database.sqlite");
        let newest = SCHEMA_VERSIONS;
        assert!(matches!(
            migrate(&path, newest + 1, &owner(1, 1)),
            Err(Error::Unknown(_))
        ));
        assert_eq!(look(&path, &owner(1, 2)).unwrap(), newest);
    }
}
