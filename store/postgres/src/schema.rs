//! The tables: created if they are missing, and checked on every connection.

use control_plane_store::BatchId;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::{Error, failure::code, options::Server};

/// Version of the format of the tables.
const FORMAT: i64 = 1;

/// The tables and the function that commits.
const TABLES: &str = include_str!("schema.sql");

/// Number of times that tables are looked for and created before they count as those of another program.
const ATTEMPTS: usize = 5;

/// What the tables say about the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) format: i64,
    pub(crate) identity: String,
    /// No commit has a greater version.
    pub(crate) newest: u64,
}

impl About {
    pub(crate) fn is_readable(&self) -> bool {
        self.format == FORMAT
    }
}

/// Reads what the tables say about the store, and makes acknowledged commits of this connection durable where the
/// server's default is to acknowledge earlier.
pub(crate) async fn about(connection: &mut PgConnection) -> sqlx::Result<About> {
    const ABOUT: &str = "\
        select format, identity, raised + (select last_value from versions) as newest, \
        case when current_setting('synchronous_commit') = 'off' \
        then set_config('synchronous_commit', 'on', false) end \
        from about where only_row";
    let row = sqlx::query(ABOUT).fetch_one(connection).await?;
    Ok(About {
        format: row.try_get(0)?,
        identity: row.try_get(1)?,
        newest: row.try_get::<i64, _>(2)?.cast_unsigned(),
    })
}

/// Creates the tables if they are missing, and returns the identity of the store. Several processes may do so at once:
/// one of them creates, and the others find what it has created.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    server: &Server,
) -> Result<String, Error> {
    settings(connection, server).await?;
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
        Ok([isolation, path]) if isolation == "serializable" && path == server.schema => Ok(()),
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
    sqlx::query("insert into about values (true, $1, $2, 0)")
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
