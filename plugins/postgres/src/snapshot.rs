//! One snapshot of the database: the change token and the rows of all queries, as the server writes them.

use std::{fmt::Write, time::Duration};

use futures::TryStreamExt;
use plugin_sdk::{Problem, Problems};
use sqlx::{
    AssertSqlSafe, Column as _, Connection, Executor, PgConnection, Row, SqlSafeStr, Statement,
    postgres::{PgColumn, PgRow},
};

use crate::{
    columns::{self, Column},
    limits::Limits,
    query::Query,
    server::Server,
};

/// What to read.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) queries: Vec<Query>,
    /// The query for the change token.
    pub(crate) token: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) deadline: Duration,
}

/// The rows of one query, sorted by its key.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) query: Query,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Option<Box<str>>>>,
}

/// An open transaction, which sees one state of the database.
pub(crate) struct Snapshot<'s> {
    server: &'s Server,
    wanted: &'s Wanted,
    connection: PgConnection,
}

impl<'s> Snapshot<'s> {
    /// Connects and begins the transaction. The server ends a statement that outlives the deadline, and what a client
    /// that has gone has left.
    pub(crate) async fn begin(server: &'s Server, wanted: &'s Wanted) -> Result<Self, Problem> {
        let mut connection = server.connect().await?;
        let millis = wanted.deadline.as_millis().clamp(1, i32::MAX as u128);
        let mut begin = String::from("begin isolation level repeatable read, read only");
        let settings = [
            ("statement_timeout", &*millis.to_string()),
            ("idle_in_transaction_session_timeout", &*millis.to_string()),
            ("timezone", "UTC"),
            ("datestyle", "ISO, YMD"),
            ("extra_float_digits", "1"),
            ("bytea_output", "hex"),
        ];
        for (name, value) in settings {
            // Writing to a text cannot fail.
            let _ = write!(begin, "; set local {name} = '{value}'");
        }
        // Servers before version 14 and on some systems refuse this. They notice later that the client has gone.
        let noticed = "set client_connection_check_interval = '1s'";
        let _ = run(&mut connection, noticed.into()).await;
        let begun = run(&mut connection, begin).await;
        begun.map_err(|error| server.refused("the transaction", None, &error))?;
        Ok(Self {
            server,
            wanted,
            connection,
        })
    }

    /// The change token of the snapshot. `None`: the source has no query for it.
    pub(crate) async fn token(&mut self) -> Result<Option<String>, Problem> {
        let Some(sql) = &self.wanted.token else {
            return Ok(None);
        };
        let what = "the query for the change token";
        let refused = |error| self.server.refused(what, None, &error);
        let columns = describe(&mut self.connection, sql).await;
        let columns = columns.map_err(|error| self.server.refused(what, Some(sql), &error))?;
        let text = match &columns[..] {
            [one] => columns::as_text(sql, one.name()),
            _ => {
                let message = format!("gives {} columns; let it give one", columns.len());
                return Err(self.server.problem_of(what, message));
            }
        };
        let query = sqlx::query(AssertSqlSafe(text)).persistent(false);
        let rows = query
            .fetch_all(&mut self.connection)
            .await
            .map_err(refused)?;
        match &rows[..] {
            [row] => row
                .try_get::<Option<String>, _>(0)
                .map(|token| Some(token.unwrap_or_default()))
                .map_err(refused),
            _ => Err(self
                .server
                .problem_of(what, "gives no row or several; let it give one")),
        }
    }

    /// The rows of all queries.
    ///
    /// # Errors
    /// All problems of all queries.
    pub(crate) async fn tables(&mut self) -> Result<Vec<Table>, Problems> {
        let (mut tables, mut problems) = (Vec::new(), Problems::none());
        let mut left = self.wanted.limits;
        for query in &self.wanted.queries {
            let what = format!("query `{}`", query.name);
            // An error ends the transaction but for what was before the savepoint, so that all problems are found.
            self.control("savepoint query").await?;
            match self.table(query, &what, &mut left).await {
                Ok(table) => tables.push(table),
                Err(found) => {
                    problems.extend(found);
                    if self.control("rollback to savepoint query").await.is_err() {
                        // The connection is lost, which is said already.
                        break;
                    }
                }
            }
        }
        match problems.is_empty() {
            true => Ok(tables),
            false => Err(problems),
        }
    }

    /// Ends the transaction and the connection.
    pub(crate) async fn end(mut self) {
        // Nothing was written. If this fails, the server ends them when it notices that the client is gone.
        let _ = run(&mut self.connection, "rollback".into()).await;
        let _ = self.connection.close().await;
    }

    async fn control(&mut self, statement: &str) -> Result<(), Problem> {
        let done = run(&mut self.connection, statement.into()).await;
        done.map_err(|error| self.server.refused("the transaction", None, &error))
    }

    async fn table(
        &mut self,
        query: &Query,
        what: &str,
        left: &mut Limits,
    ) -> Result<Table, Problems> {
        let described = describe(&mut self.connection, &query.sql).await;
        let described =
            described.map_err(|error| self.server.refused(what, Some(&query.sql), &error))?;
        let columns = columns::check(query, &described).map_err(|wrong| {
            let problem =
                |(column, why): (String, String)| self.server.problem_of(what, why).field(column);
            wrong.into_iter().map(problem).collect::<Problems>()
        })?;
        let statement = columns::statement(query, &columns, left.rows.saturating_add(1));
        let statement = sqlx::query(AssertSqlSafe(statement)).persistent(false);
        let mut stream = statement.fetch(&mut self.connection);
        let mut rows = Vec::new();
        loop {
            let row = stream.try_next().await;
            let row = row.map_err(|error| self.server.refused(what, None, &error))?;
            let Some(row) = row else { break };
            let values = values(&row).map_err(|error| self.server.refused(what, None, &error))?;
            let bytes: usize = values.iter().flatten().map(|value| value.len()).sum();
            let limits = self.wanted.limits;
            let exceeded = match (left.rows, left.bytes.checked_sub(bytes as u64)) {
                (0, _) => format!("{} rows", limits.rows),
                (_, None) => format!("{} bytes", limits.bytes),
                (_, Some(bytes)) => {
                    (left.rows, left.bytes) = (left.rows - 1, bytes);
                    rows.push(values);
                    continue;
                }
            };
            let message = format!(
                "the source gives more than {exceeded}; select less, or raise the limits of the source"
            );
            return Err(self.server.problem_of(what, message).into());
        }
        Ok(Table {
            query: query.clone(),
            columns,
            rows,
        })
    }
}

/// Runs statements without rows.
async fn run(connection: &mut PgConnection, statements: String) -> Result<(), sqlx::Error> {
    let run = sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(connection)
        .await;
    run.map(drop)
}

/// The columns that a query gives. It is not run.
async fn describe(connection: &mut PgConnection, sql: &str) -> Result<Vec<PgColumn>, sqlx::Error> {
    let text = AssertSqlSafe(sql.to_owned()).into_sql_str();
    let statement = connection.prepare(text).await?;
    Ok(statement.columns().to_vec())
}

/// The values of a row, each a JSON text.
fn values(row: &PgRow) -> Result<Vec<Option<Box<str>>>, sqlx::Error> {
    let indices = 0..row.columns().len();
    let value = |at| {
        row.try_get::<Option<&str>, _>(at)
            .map(|text| text.map(Box::from))
    };
    indices.map(value).collect()
}
