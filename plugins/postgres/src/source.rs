//! The source: which database and queries to read, and how a reading is made of them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use control_plane_runtime::{Runtime, TokioRuntime, blocking, timeout_at};
use futures::{
    lock::Mutex,
    stream::{BoxStream, StreamExt, pending},
};
use plugin_sdk::{Problem, Problems, Reading, SourceOfTruth, Update};
use prodspec_model::{Digest, Revision, SourceName};

use crate::{
    limits::Limits,
    listen,
    memory::{Documents, Memory},
    query::Query,
    rows::Reader,
    server::Server,
    snapshot::{Snapshot, Wanted},
};

/// Maximum length of a change token that is shown in a revision as it is, in characters.
const SHOWN: usize = 64;

/// SQL queries of a PostgreSQL database as a source of truth.
///
/// Each reading is one connection and one transaction (`repeatable read, read only`), so that the rows of all queries are
/// those of one moment. The role of the source needs the right to `select`, nothing else.
///
/// **Values.** Integers, texts, UUIDs, enums, booleans and null are what they are. `numeric` is a number if a 64-bit
/// integer or float denotes exactly this decimal number, otherwise a text. `json` and `jsonb` become trees, and a number
/// in them that does not fit exactly is refused. `timestamptz` becomes a text as in RFC 3339, in UTC; `date` a text;
/// `bytea` a text in base64. Arrays become lists. NaN, infinity and all other types are refused; cast them.
///
/// **Revision.** The digest of the content; or, with a [`change_token`](Self::change_token), that token.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use plugins_postgres::{Postgres, Query};
///
/// let intent = Postgres::new("intent", "postgres://reader@db.example.com/intent")
///     .query(Query::new("services", ["name"], "select name, replicas from services"))
///     .listen("intent_changed");
/// assert_eq!(intent.name().0.as_ref(), "intent");
/// ```
#[derive(Debug, Clone)]
pub struct Postgres {
    task: Arc<Task>,
    /// The states that were read last. Clones with the same settings share them.
    memory: Arc<Mutex<Memory>>,
}

/// The settings of a source.
#[derive(Debug, Clone)]
struct Task {
    name: Arc<str>,
    server: Server,
    wanted: Wanted,
    channel: Option<String>,
}

impl Postgres {
    /// A source named `name` that reads the database at `url`, such as `postgres://reader@db.example.com:5432/intent`.
    ///
    /// `?host=/run/postgresql` names the directory of a Unix socket. What the URL does not say is taken from the
    /// environment of the process (`PGHOST`, `PGUSER`, `PGPASSWORD` and so on) and from `~/.pgpass`, as `psql` does it.
    /// TLS needs the feature `tls`; with it, `?sslmode=verify-full` refuses a server without a valid certificate. A URL
    /// that cannot be used is a problem of each reading.
    pub fn new(name: &str, url: &str) -> Self {
        Self {
            task: Arc::new(Task {
                name: name.into(),
                server: Server::at(url),
                wanted: Wanted {
                    queries: Vec::new(),
                    token: None,
                    limits: Limits::default(),
                    deadline: Duration::from_secs(20),
                },
                channel: None,
            }),
            memory: Arc::default(),
        }
    }

    /// Changes a setting. What was read with other settings is forgotten.
    fn set(mut self, change: impl FnOnce(&mut Task)) -> Self {
        self.memory = Arc::default();
        change(Arc::make_mut(&mut self.task));
        self
    }

    /// Adds a query to those of the source.
    #[must_use]
    pub fn query(self, query: Query) -> Self {
        self.set(|task| task.wanted.queries.push(query))
    }

    /// Sets the password of the role, which then need not be in the URL. It never appears in a message.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        self.set(|task| task.server = task.server.clone().with_password(password))
    }

    /// Sets a query for a change token: one row with one value, that differs whenever anything that the queries read
    /// differs. While it is the same, rows are not read.
    ///
    /// The source relies on it. `select max(changed_at) from services` is not enough: it does not notice a deleted row,
    /// and not a transaction that commits after a later one. A counter that a trigger increases in each transaction that
    /// changes one of the tables is.
    #[must_use]
    pub fn change_token(self, sql: impl Into<String>) -> Self {
        self.set(|task| task.wanted.token = Some(sql.into()))
    }

    /// Gives a hint for each notification on `channel`, which a trigger sends with `notify`. Takes one more connection to
    /// the server. Never needed: without it, changes are noticed with the next reading.
    #[must_use]
    pub fn listen(self, channel: impl Into<String>) -> Self {
        self.set(|task| task.channel = Some(channel.into()))
    }

    /// Sets the time that a reading may take. 20 seconds by default. Keep it below the read deadline of the pipeline, which
    /// gives up the reading and says less about the reason. The server ends statements that outlive it.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.set(|task| task.wanted.deadline = deadline)
    }

    /// Sets the limits of a reading, for all queries together.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        self.set(|task| task.wanted.limits = limits)
    }

    /// Reads, and returns what has changed since `known`. Readings of one source wait for each other.
    async fn update(&self, known: Option<&Revision>) -> Result<Update, Problems> {
        let mut memory = self.memory.lock().await;
        let runtime = TokioRuntime::current();
        let end = runtime.now().mono + self.task.wanted.deadline;
        let read = timeout_at(&runtime, end, self.task.read(&runtime, &mut memory, known)).await;
        let update = read.unwrap_or_else(|| Err(self.task.late().into()));
        update.map_err(|problems| self.task.said(problems))
    }
}

impl Task {
    async fn read(
        &self,
        runtime: &TokioRuntime,
        memory: &mut Memory,
        known: Option<&Revision>,
    ) -> Result<Update, Problems> {
        self.check()?;
        let mut snapshot = Snapshot::begin(&self.server, &self.wanted).await?;
        let token = snapshot.token().await?;
        let at_token = token.map(|token| self.revision_at(&token));
        if let (Some(revision), Some(known)) = (&at_token, known)
            && (revision == known || memory.is_at(revision))
        {
            snapshot.end().await;
            return Ok(match revision == known {
                true => Update::Same,
                false => memory.update(&self.source(), Some(known)),
            });
        }
        let tables = snapshot.tables().await?;
        snapshot.end().await;
        let reader = Reader {
            source: self.name.clone(),
            limits: self.wanted.limits,
            before: memory.newest(),
        };
        // Parsing does not hold up the executor.
        let documents = blocking(runtime, move || reader.documents(&tables)).await;
        let stopped = || {
            self.server
                .problem("reading the rows panicked; report this error")
        };
        let documents = documents.ok_or_else(stopped)?.map_err(|mut problems| {
            problems.for_each_mut(|problem| {
                problem.document = format!("{} at {}", problem.document, self.server.place());
            });
            problems
        })?;
        let revision = at_token.unwrap_or_else(|| revision_of(&documents));
        memory.take(revision, documents);
        Ok(memory.update(&self.source(), known))
    }

    /// Checks the settings.
    fn check(&self) -> Result<(), Problems> {
        let queries = &self.wanted.queries;
        let mut names: Vec<&str> = queries.iter().map(|query| &*query.name).collect();
        names.sort_unstable();
        let twice = names.windows(2).filter(|pair| pair[0] == pair[1]);
        let twice =
            twice.map(|pair| format!("two queries have the name `{}`; rename one", pair[0]));
        let empty = names.iter().filter(|name| name.is_empty());
        let empty = empty.map(|_| "a query has an empty name; give it one".to_owned());
        let none = queries
            .is_empty()
            .then(|| "the source has no query; add one".to_owned());
        let wrong = twice.chain(empty).chain(none);
        let mut problems: Problems = wrong.map(|why| self.server.problem(why)).collect();
        if let Err(problem) = self.server.options() {
            problems.push(problem);
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems),
        }
    }

    /// The revision that a change token stands for. Other queries have other revisions.
    fn revision_at(&self, token: &str) -> Revision {
        let queries = Digest::of(format!("{:?}", self.wanted.queries).as_bytes());
        let shown = token.len() <= SHOWN
            && token
                .bytes()
                .all(|byte| byte.is_ascii_graphic() || byte == b' ');
        let token = match shown {
            true => token.to_owned(),
            false => Digest::of(token.as_bytes()).to_string(),
        };
        Revision(format!("{token}/{}", queries.short()).into())
    }

    fn source(&self) -> SourceName {
        SourceName(self.name.clone())
    }

    fn late(&self) -> Problem {
        let deadline = self.wanted.deadline;
        self.server.problem(format!(
            "was not read within {deadline:?}; check the server, make the queries faster, or raise the deadline"
        ))
    }

    /// All problems, each marked with the name of the source.
    fn said(&self, problems: Problems) -> Problems {
        let said = problems
            .into_iter()
            .map(|problem| problem.by(format!("source {}", self.name)));
        said.collect()
    }
}

/// The revision of a content.
fn revision_of(documents: &Documents) -> Revision {
    let mut bytes = Vec::new();
    for (name, kept) in documents {
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(kept.digest.0);
    }
    Revision(Digest::of(&bytes).to_string().into())
}

#[async_trait]
impl SourceOfTruth for Postgres {
    fn name(&self) -> SourceName {
        self.task.source()
    }

    async fn read(&self) -> Result<Reading, Problems> {
        match self.update(None).await? {
            Update::Whole(reading) => Ok(reading),
            _ => {
                let problem = self
                    .task
                    .server
                    .problem("gave no complete reading; report this error");
                Err(self.task.said(problem.into()))
            }
        }
    }

    async fn read_since(&self, known: &Revision) -> Result<Update, Problems> {
        self.update(Some(known)).await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        match &self.task.channel {
            Some(channel) => listen::hints(self.task.server.clone(), channel.clone()),
            None => pending().boxed(),
        }
    }
}
