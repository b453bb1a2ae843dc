//! The server and its databases.

use std::{
    os::unix::fs::chown,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use tempfile::TempDir;

use crate::programs::Programs;

/// The role that owns the databases. It needs no password.
const OWNER: &str = "tester";
/// The settings of the server: no TCP. Commits are forced to the disk, because the store refuses a server without that.
const OPTIONS: &str = "-c listen_addresses='' -c full_page_writes=off \
                       -c max_connections=100 -c max_prepared_transactions=0";
/// Number of looks after which something that was looked for counts as absent.
const LOOKS: usize = 2_000;

/// A private server. It is stopped, and its data deleted, when this is dropped.
///
/// ```
/// testing_postgres::needs_postgresql!();
/// let server = testing_postgres::Server::shared();
/// let database = server.database();
/// database.run("create table jobs (name text); insert into jobs values ('web')");
/// assert_eq!(database.run("select name from jobs"), "web\n");
/// ```
#[derive(Debug)]
pub struct Server {
    programs: Programs,
    home: TempDir,
    databases: AtomicU32,
}

/// One database of a server, empty at first. It is there for as long as the server.
#[derive(Debug, Clone)]
pub struct Database {
    server: Arc<Server>,
    name: String,
}

impl Server {
    /// Starts a server of the caller's own, for tests that stop it.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start. The message says what to do.
    pub fn start() -> Arc<Self> {
        let server = Self::empty();
        server.initialize();
        server.resume();
        Arc::new(server)
    }

    /// Starts a standby of this server: a copy that receives its log, and answers reads from a state that may be older.
    /// Its databases are those of this server; see [`Database::on`].
    ///
    /// # Panics
    /// When the copy cannot be made, or does not start.
    pub fn standby(&self) -> Arc<Self> {
        let standby = Self::empty();
        let (data, home) = (standby.data(), self.home.path().to_string_lossy());
        let from = ["-D", &data, "-h", &home, "-U", OWNER];
        let how = ["-R", "-X", "stream", "-c", "fast", "--no-sync"];
        let copied = self
            .programs
            .run("pg_basebackup", from.into_iter().chain(how));
        copied.unwrap_or_else(|error| panic!("{error}"));
        standby.resume();
        Arc::new(standby)
    }

    /// Makes a standby the primary of its own.
    ///
    /// # Panics
    /// When it is no standby.
    pub fn promote(&self) {
        self.control(["promote"]).unwrap();
    }

    /// Waits until this standby has everything that `primary` has committed.
    ///
    /// # Panics
    /// When it does not receive it.
    pub fn catch_up(&self, primary: &Self) {
        let end = primary.run("postgres", "select pg_current_wal_flush_lsn()");
        let reached = format!("select pg_last_wal_replay_lsn() >= '{}'", end.trim());
        self.look(&reached, "the standby never caught up");
    }

    /// Makes this standby receive nothing more.
    ///
    /// # Panics
    /// When it goes on.
    pub fn cut_off(&self) {
        self.configure("primary_conninfo", "");
        let ended = "select count(*) = 0 from pg_stat_wal_receiver";
        self.look(ended, "the standby goes on receiving");
    }

    /// Changes a setting of the server, without a restart.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn configure(&self, name: &str, value: &str) {
        self.run("postgres", &format!("alter system set {name} = '{value}'"));
        self.run("postgres", "select pg_reload_conf()");
        // A new session, after the reload.
        let set = format!("select current_setting('{name}') = '{value}'");
        self.look(&set, "the setting does not change");
    }

    /// Looks until a condition holds.
    fn look(&self, condition: &str, or: &str) {
        let holds = || self.run("postgres", condition) == "t\n";
        assert!((0..LOOKS).any(|_| holds()), "{or}");
    }

    /// A server that is not initialized.
    fn empty() -> Self {
        let home = tempfile::tempdir().expect("a temporary directory can be made");
        let programs = Programs::find(home.path());
        if let Some((user, group)) = programs.owner() {
            chown(home.path(), Some(user), Some(group)).expect("root can give a directory away");
        }
        Self {
            programs,
            home,
            databases: AtomicU32::new(0),
        }
    }

    /// The server that all tests of a process share while they run at the same time. Each test takes a
    /// [`database`](Self::database) of its own.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Self::start();
        *shared = Arc::downgrade(&server);
        server
    }

    /// Creates a database.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn database(self: &Arc<Self>) -> Database {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test{number}");
        self.run("postgres", &format!("create database {name}"));
        Database {
            server: self.clone(),
            name,
        }
    }

    /// Stops the server at once, as if its processes were killed. What was committed is there after [`resume`](Self::resume).
    ///
    /// # Panics
    /// When it was not running.
    pub fn stop(&self) {
        self.control(["-m", "immediate", "stop"]).unwrap();
    }

    /// Starts the server again after [`stop`](Self::stop), with the data that it had.
    ///
    /// # Panics
    /// When it does not start.
    pub fn resume(&self) {
        let log = self.home.path().join("log");
        let options = format!("{OPTIONS} -k {}", self.home.path().display());
        let started = self.control(["-l", &log.to_string_lossy(), "-o", &options, "start"]);
        let log = || std::fs::read_to_string(&log).unwrap_or_default();
        started.unwrap_or_else(|error| panic!("{error}\n{}", log()));
    }

    /// Creates the files of a server, with a role `locked` that needs a password and others that need none.
    fn initialize(&self) {
        let data = self.data();
        let args = ["--no-sync", "--encoding=UTF8", "--locale=C", "-U", OWNER];
        let args = args.map(str::to_owned).into_iter();
        let made = self
            .programs
            .run("initdb", args.chain([format!("--pgdata={data}")]));
        made.unwrap_or_else(|error| panic!("{error}"));
        let access = "local all locked scram-sha-256\nlocal all all trust\n\
                      local replication all trust\n";
        std::fs::write(format!("{data}/pg_hba.conf"), access).expect("the file can be written");
    }

    fn control<const N: usize>(&self, args: [&str; N]) -> Result<String, String> {
        let data = self.data();
        let all = ["-D", &data, "-w", "-s", "-t", "60"].into_iter();
        self.programs.run("pg_ctl", all.chain(args))
    }

    fn data(&self) -> String {
        self.home.path().join("data").to_string_lossy().into_owned()
    }

    /// Runs statements in a database and returns what `psql` prints.
    fn run(&self, database: &str, sql: &str) -> String {
        let home = self.home.path().to_string_lossy();
        let settings = ["-v", "ON_ERROR_STOP=1", "-X", "-q", "-A", "-t"];
        let target = ["-h", &home, "-U", OWNER, "-d", database, "-c", sql];
        let output = self
            .programs
            .run("psql", settings.into_iter().chain(target));
        output.unwrap_or_else(|error| panic!("{error}\nin: {sql}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that a test has stopped is not running, which is no error.
        let _ = self.control(["-m", "immediate", "stop"]);
    }
}

impl Database {
    /// The URL of the database, for clients that can be told the directory of a socket.
    pub fn url(&self) -> String {
        self.url_of(OWNER)
    }

    /// The URL of the database for another role, which the test has created. A role named `locked` needs a password.
    pub fn url_of(&self, role: &str) -> String {
        format!(
            "postgres://{role}@localhost/{}?host={}",
            self.name,
            self.directory().display()
        )
    }

    /// The directory of the server's socket.
    pub fn directory(&self) -> PathBuf {
        self.server.home.path().to_owned()
    }

    /// The same database on another server, which is a standby or was one.
    pub fn on(&self, server: &Arc<Server>) -> Self {
        Self {
            server: server.clone(),
            name: self.name.clone(),
        }
    }

    /// The server of the database.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Runs statements, in one transaction, and returns their rows as text: a line per row, columns separated by `|`.
    ///
    /// # Panics
    /// When a statement fails. The message contains it.
    pub fn run(&self, sql: &str) -> String {
        self.server.run(&self.name, sql)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_survives_a_stop_and_the_files_are_deleted_in_the_end() {
        crate::needs_postgresql!();
        let server = Server::start();
        let database = server.database();
        database.run("create table t (n int); insert into t values (1)");
        server.stop();
        server.resume();
        assert_eq!(database.run("select n from t"), "1\n");
        let home = database.directory();
        drop((database, server));
        assert!(!home.exists());
    }

    #[test]
    fn standby_follows_until_it_is_cut_off_and_then_leads() {
        let primary = Server::start();
        let database = primary.database();
        database.run("create table t (n int)");
        let standby = primary.standby();
        let copy = database.on(&standby);
        database.run("insert into t values (1)");
        standby.catch_up(&primary);
        standby.cut_off();
        database.run("insert into t values (2)");
        assert_eq!(copy.run("select n from t"), "1\n");
        standby.promote();
        copy.run("insert into t values (3)");
        assert_eq!(copy.run("select n from t"), "1\n3\n");
    }

    #[test]
    fn tests_at_the_same_time_share_a_server_and_have_databases_of_their_own() {
        crate::needs_postgresql!();
        let one = Server::shared();
        let two = Server::shared();
        assert!(Arc::ptr_eq(&one, &two));
        assert_ne!(one.database().url(), two.database().url());
    }
}
