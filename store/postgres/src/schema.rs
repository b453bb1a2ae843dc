//! The tables: created if they are missing, and checked on every connection.

use control_plane_store::BatchId;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::{
    Error,
    failure::{Unfit, code},
    options::Server,
};

/// Version of the format of the tables.
const FORMAT: i64 = 2;

/// The isolation of commits.
pub(crate) const SERIALIZABLE: &str = "serializable";

/// The isolation of reads: each is one statement, and sees one snapshot under any isolation.
pub(crate) const READ_COMMITTED: &str = "read committed";

/// The tables and the function that commits.
const TABLES: &str = include_str!("schema.sql");

/// Number of times that tables are looked for and created before they count as those of another program.
const ATTEMPTS: usize = 5;

/// What the tables say about the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) format: i64,
    pub(crate) identity: String,
}

impl About {
    pub(crate) fn is_readable(&self) -> bool {
        self.format == FORMAT
    }
}

/// Sets the isolation of the session's transactions, and makes commits durable when they are acknowledged, whatever the
/// server's configuration says now or after a reload. Returns why the server cannot hold a store, if it cannot.
pub(crate) async fn set_up(
    connection: &mut PgConnection,
    isolation: &str,
) -> sqlx::Result<Option<Unfit>> {
    const SET_UP: &str = "\
        select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean, \
        current_setting('fsync')::boolean, \
        set_config('synchronous_commit', case current_setting('synchronous_commit') \
        when 'remote_apply' then 'remote_apply' else 'on' end, false), \
        set_config('default_transaction_isolation', $1, false)";
    let row = sqlx::query(SET_UP).bind(isolation).fetch_one(connection);
    let row = row.await?;
    Ok(match (row.try_get(0)?, row.try_get(1)?) {
        (true, _) => Some(Unfit::Standby),
        (_, false) => Some(Unfit::Volatile),
        (false, true) => None,
    })
}

/// Reads what the tables say about the store.
pub(crate) async fn about(connection: &mut PgConnection) -> sqlx::Result<About> {
    const ABOUT: &str = "select format, identity from about where only_row";
    let row = sqlx::query(ABOUT).fetch_one(connection).await?;
    Ok(About {
        format: row.try_get(0)?,
        identity: row.try_get(1)?,
    })
}

/// Creates the tables if they are missing, and returns the identity of the store. Several processes may do so at once:
/// one of them creates, and the others find what it has created.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    server: &Server,
) -> Result<String, Error> {
    let place = server.place();
    match set_up(connection, SERIALIZABLE).await {
        Ok(None) => settings(connection, server).await?,
        Ok(Some(Unfit::Standby)) => return Err(Error::Standby { place }),
        Ok(Some(Unfit::Volatile)) => return Err(Error::Volatile { place }),
        Err(source) => return Err(Error::Unreachable { place, source }),
    }
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match about(connection).await {
            Ok(about) if about.is_readable() => return Ok(about.identity),
            Ok(about) => {
                return Err(Error::Format {
                    place: server.place(),
                    found: about.format,
                    known: FORMAT,
                });
            }
            // There are no such tables, or no such schema.
            Err(error) if ["42P01", "3F000"].contains(&&*code(&error)) => {}
            Err(source) => return Err(refused(server, source)),
        }
        match create(connection, server).await {
            Ok(()) => {}
            Err(source) if concurrent(&source) => last = Some(source),
            Err(source) => return Err(refused(server, source)),
        }
    }
    Err(Error::Foreign {
        place: server.place(),
        source: last.unwrap_or(sqlx::Error::RowNotFound),
    })
}

/// Checks that the session has the settings that it was opened with.
async fn settings(connection: &mut PgConnection, server: &Server) -> Result<(), Error> {
    let place = server.place();
    let row = sqlx::query(
        "select current_setting('transaction_isolation'), current_setting('search_path')",
    )
    .fetch_one(connection)
    .await;
    let read = row.and_then(|row| Ok([row.try_get::<String, _>(0)?, row.try_get(1)?]));
    match read {
        Ok([isolation, path]) if isolation == SERIALIZABLE && path == server.schema => Ok(()),
        Ok(_) => Err(Error::Settings { place }),
        Err(source) => Err(Error::Unreachable { place, source }),
    }
}

async fn create(connection: &mut PgConnection, server: &Server) -> sqlx::Result<()> {
    let mut transaction = connection.begin().await?;
    let found = sqlx::query("select 1 from pg_namespace where nspname = $1")
        .bind(&server.schema)
        .fetch_optional(&mut *transaction)
        .await?;
    if found.is_none() {
        // The name has letters, digits and underscores only.
        let create = AssertSqlSafe(format!("create schema \"{}\"", server.schema));
        sqlx::query(create).execute(&mut *transaction).await?;
    }
    sqlx::raw_sql(TABLES).execute(&mut *transaction).await?;
    sqlx::query("insert into about values (true, $1, $2, 0, 0)")
        .bind(FORMAT)
        .bind(format!("{:032x}", BatchId::fresh().0))
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}

/// Whether creating failed because something was there already, which another process may have created meanwhile.
fn concurrent(error: &sqlx::Error) -> bool {
    let codes = [
        "23505", "42P06", "42P07", "42710", "42723", "40001", "40P01",
    ];
    codes.contains(&&*code(error))
}

fn refused(server: &Server, source: sqlx::Error) -> Error {
    let place = server.place();
    match &*code(&source) {
        "" => Error::Unreachable { place, source },
        // Tables of these names have other columns.
        "42703" | "42804" => Error::Foreign { place, source },
        _ => Error::Refused { place, source },
    }
}
