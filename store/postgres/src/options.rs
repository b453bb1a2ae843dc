//! Options of a store: where the database is, which schema it uses, and its limits.

use std::{fmt, time::Duration};

use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use crate::{Error, PostgresStore};

/// Maximum length of the name of a schema, in bytes: PostgreSQL cuts longer names off.
const NAME: usize = 48;

/// Options of a [`PostgresStore`]. [`PostgresStore::connect`] uses the defaults.
///
/// ```no_run
/// use std::time::Duration;
/// use control_plane_store_postgres::Options;
///
/// # async fn connect() -> Result<(), control_plane_store_postgres::Error> {
/// let store = Options::new("postgres://plane@db.example.com/plane")
///     .schema("shop")
///     .connections(4)
///     .timeout(Duration::from_secs(5))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Options {
    url: String,
    pub(crate) schema: String,
    pub(crate) connections: usize,
    pub(crate) timeout: Duration,
}

impl Options {
    /// Creates options for the database at `url`, such as `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. The URL may
    /// have the parameters that libpq knows, such as `sslmode` and `host` for the directory of a socket.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: "control_plane".into(),
            connections: 8,
            timeout: Duration::from_secs(10),
        }
    }

    /// Sets the schema that holds the tables. Each schema is a store of its own. Default `control_plane`. A name has at
    /// most 48 lower-case letters, digits and underscores, and begins with a letter.
    #[must_use]
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// Sets the maximum number of connections for commits, and of those for reads. Default 8 each, at least 1. One more
    /// connection listens.
    #[must_use]
    pub fn connections(mut self, number: usize) -> Self {
        self.connections = number.max(1);
        self
    }

    /// Sets the time after which the server ends a statement, and after which connecting is given up. Default 10
    /// seconds. A statement that has no answer for twice this time counts as lost. While the server has no room for
    /// another connection ("too many clients"), a call waits for this time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Opens the store. Creates its schema and tables if they are missing; several processes may do so at once. Call it
    /// within a tokio runtime that has IO and time enabled: the store runs there.
    ///
    /// # Errors
    /// If the options cannot be used, the database cannot be reached, or its schema is not a store that this version
    /// can use. The error says where, and what to do.
    pub async fn connect(self) -> Result<PostgresStore, Error> {
        PostgresStore::open(self).await
    }

    /// What to connect with.
    pub(crate) fn server(&self) -> Result<Server, Error> {
        let letters = |byte: u8| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let starts = self.schema.starts_with(|c: char| c.is_ascii_lowercase());
        if !starts || self.schema.len() > NAME || !self.schema.bytes().all(letters) {
            return Err(Error::Schema {
                name: self.schema.clone(),
            });
        }
        let schemes = ["postgres://", "postgresql://"];
        let parsed = match schemes.iter().any(|scheme| self.url.starts_with(scheme)) {
            true => self.url.parse::<PgConnectOptions>(),
            false => Err(sqlx::Error::Configuration(
                "it is not one of PostgreSQL".into(),
            )),
        };
        let options = parsed.map_err(|source| Error::Url { source })?;
        let options = options.disable_statement_logging().options([
            ("search_path", &*self.schema),
            ("statement_timeout", &self.timeout.as_millis().to_string()),
        ]);
        // Rows are looked up by key only. Without statistics, a planner may prefer to read whole tables, and at
        // serializable isolation every commit would then conflict with every other one.
        let options = options.options([
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            // What is off counts as very expensive, and what is expensive would be compiled first.
            ("jit", "off"),
        ]);
        Ok(Server {
            options: match options.get_application_name() {
                None => options.application_name("control-plane"),
                Some(_) => options,
            },
            schema: self.schema.clone(),
            timeout: self.timeout,
        })
    }
}

/// Shows no URL, because it may contain a password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("schema", &self.schema)
            .field("connections", &self.connections)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// The database and the schema in it, as every connection needs them.
#[derive(Clone)]
pub(crate) struct Server {
    options: PgConnectOptions,
    pub(crate) schema: String,
    pub(crate) timeout: Duration,
}

impl Server {
    /// The options of a connection. [`set_up`](crate::schema::set_up) sets the isolation of its transactions, because a
    /// standby refuses every statement at serializable isolation, and would not say that it is one.
    pub(crate) fn options(&self) -> PgConnectOptions {
        let options = self.options.clone();
        options.options([("default_transaction_isolation", "read committed")])
    }

    /// The time after which an answer counts as lost. The server ends the statement before.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout * 2
    }

    /// The name of the channel of the store's notifications.
    pub(crate) fn channel(&self) -> String {
        format!("{}_topics", self.schema)
    }

    /// The schema, with the host or the directory of the socket, the port and the name of the database.
    pub(crate) fn place(&self) -> String {
        let options = &self.options;
        let database = options.get_database().unwrap_or(options.get_username());
        let schema = &self.schema;
        match options.get_socket() {
            Some(socket) => format!("{}/{database}, schema `{schema}`", socket.display()),
            None => {
                let (host, port) = (options.get_host(), options.get_port());
                format!("{host}:{port}/{database}, schema `{schema}`")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_names_host_database_and_schema_and_no_password() {
        let options = Options::new("postgres://plane:secret@db.example.com:6000/plane");
        assert!(!format!("{options:?}").contains("secret"));
        let place = options.schema("shop").server().unwrap().place();
        assert_eq!(place, "db.example.com:6000/plane, schema `shop`");
    }

    #[test]
    fn wrong_urls_and_names_are_refused_without_repeating_a_password() {
        for url in [
            "secret",
            "mysql://u:secret@host/db",
            "postgres://u:secret@h:port/db",
        ] {
            let error = Options::new(url).server().err().unwrap();
            let said = format!("{error} {error:?}");
            assert!(
                said.contains("postgres://USER") && !said.contains("secret"),
                "{said}"
            );
        }
        for name in [
            "",
            "Shop",
            "a b",
            "1a",
            "a\"; drop table rows",
            &"a".repeat(49),
        ] {
            let refused = Options::new("postgres://u@h/d").schema(name).server();
            assert!(matches!(refused, Err(Error::Schema { .. })), "{name}");
        }
    }
}
