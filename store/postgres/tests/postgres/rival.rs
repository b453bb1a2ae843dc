//! Another client of the database, which holds locks and ends sessions.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use testing_postgres::Database;

/// Number of looks after which something that was looked for counts as absent.
const LOOKS: usize = 20_000;

/// A client with a transaction of its own.
pub(crate) struct Rival(PgConnection);

impl Rival {
    pub(crate) async fn of(database: &Database) -> Self {
        let mut connection = PgConnection::connect(&database.url()).await.unwrap();
        let path = "set search_path = control_plane; set deadlock_timeout = '1h'";
        connection.execute(sqlx::raw_sql(path)).await.unwrap();
        Self(connection)
    }

    /// Runs statements.
    pub(crate) async fn run(&mut self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        self.0.execute(sqlx::raw_sql(sql)).await.unwrap();
    }

    /// Begins a transaction that writes `key`, so that commits that write it wait.
    pub(crate) async fn hold(&mut self, key: &str) {
        self.run("begin").await;
        self.write(key).await;
    }

    /// Writes `key` in the transaction that has begun.
    pub(crate) async fn write(&mut self, key: &str) {
        let write = format!(
            "insert into rows values ('{key}', 0, 'rival') on conflict (key) do update set value = 'rival'"
        );
        self.run(&write).await;
    }

    /// Looks until `number` sessions of the store wait for locks, and returns the processes that serve them.
    pub(crate) async fn waiting(&mut self, number: usize) -> Vec<i32> {
        for _ in 0..LOOKS {
            let waiting = self.processes("wait_event_type = 'Lock'").await;
            if waiting.len() == number {
                return waiting;
            }
        }
        panic!("{number} sessions never waited for locks at the same time");
    }

    /// Looks until a session of the store listens.
    pub(crate) async fn listening(&mut self) {
        for _ in 0..LOOKS {
            let listening = "query like 'LISTEN%' and state = 'idle'";
            if !self.processes(listening).await.is_empty() {
                return;
            }
        }
        panic!("no session listens");
    }

    /// Ends the sessions that the condition selects, and looks until they have ended.
    pub(crate) async fn end(&mut self, condition: &str) {
        let processes = self.processes(condition).await;
        for process in &processes {
            let end = sqlx::query("select pg_terminate_backend($1)").bind(process);
            self.0.execute(end).await.unwrap();
        }
        for _ in 0..LOOKS {
            let running = self.processes("true").await;
            if !running.iter().any(|process| processes.contains(process)) {
                return;
            }
        }
        panic!("sessions did not end");
    }

    async fn processes(&mut self, condition: &str) -> Vec<i32> {
        // In a transaction, the server would show what it has shown before.
        self.run("select pg_stat_clear_snapshot()").await;
        let select = format!(
            "select pid from pg_stat_activity where application_name = 'control-plane' \
             and datname = current_database() and {condition}"
        );
        let rows = self.0.fetch_all(sqlx::raw_sql(AssertSqlSafe(select))).await;
        rows.unwrap().iter().map(|row| row.get(0)).collect()
    }
}
