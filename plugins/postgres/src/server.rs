//! The server: where it is, how to connect, and what its errors mean. Passwords never reach a message.

use std::fmt;

use plugin_sdk::Problem;
use sqlx::{
    ConnectOptions, PgConnection,
    error::DatabaseError,
    postgres::{PgConnectOptions, PgDatabaseError, PgErrorPosition},
};

/// The code of a statement that was ended by its timeout.
const CANCELED: &str = "57014";

/// A database that can be connected to.
#[derive(Clone)]
pub(crate) struct Server {
    /// `Err`: why the URL cannot be used.
    options: Result<PgConnectOptions, String>,
}

impl Server {
    pub(crate) fn at(url: &str) -> Self {
        let is_postgres = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme));
        let parsed = match is_postgres {
            true => url
                .parse::<PgConnectOptions>()
                .map_err(|error| said(&error)),
            false => Err("it is not one of PostgreSQL".to_owned()),
        };
        let options = parsed.map(|options| {
            let options = options.disable_statement_logging();
            match options.get_application_name() {
                None => options.application_name("prodspec"),
                Some(_) => options,
            }
        });
        Self { options }
    }

    pub(crate) fn with_password(self, password: &str) -> Self {
        let options = self.options.map(|options| options.password(password));
        Self { options }
    }

    /// The host, or the directory of the socket, with the port and the name of the database.
    pub(crate) fn place(&self) -> String {
        let Ok(options) = &self.options else {
            return "the database".into();
        };
        let database = options.get_database().unwrap_or(options.get_username());
        match options.get_socket() {
            Some(socket) => format!("{}/{database}", socket.display()),
            None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
        }
    }

    /// What to connect with.
    ///
    /// # Errors
    /// When the URL cannot be used.
    pub(crate) fn options(&self) -> Result<&PgConnectOptions, Problem> {
        self.options.as_ref().map_err(|why| {
            let form = "postgres://USER@HOST:PORT/DATABASE";
            Problem::new(format!(
                "the URL of the database cannot be used: {why}; write it as {form}"
            ))
        })
    }

    /// Opens a connection to the database.
    ///
    /// # Errors
    /// When the URL cannot be used, or the server refuses or cannot be reached.
    pub(crate) async fn connect(&self) -> Result<PgConnection, Problem> {
        let options = self.options()?;
        let connection = options.connect().await;
        connection.map_err(|error| {
            let user = options.get_username();
            let why = said(&error);
            self.problem(format!(
                "cannot connect as `{user}`: {why}; check the server, its `pg_hba.conf` and the URL; the next reading tries again"
            ))
        })
    }

    /// A problem of the database as a whole.
    pub(crate) fn problem(&self, message: impl fmt::Display) -> Problem {
        Problem::new(message).at(self.place(), 0, 0)
    }

    /// The problem for an error of a statement. `what` names the statement; `sql` is its text as the user wrote it, if
    /// positions are positions in it.
    pub(crate) fn refused(&self, what: &str, sql: Option<&str>, error: &sqlx::Error) -> Problem {
        let database = error.as_database_error();
        if database.and_then(DatabaseError::code).as_deref() == Some(CANCELED) {
            let message = "was ended at the deadline, or by an administrator; make it faster, or raise the deadline";
            return self.problem_of(what, message);
        }
        let message = match database {
            Some(_) => format!("the server refuses it: {}", said(error)),
            None => format!("failed: {}; the next reading tries again", said(error)),
        };
        let mut problem = self.problem_of(what, message);
        let postgres = database.and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
        let position = postgres.and_then(PgDatabaseError::position);
        if let (Some(PgErrorPosition::Original(at)), Some(sql)) = (position, sql) {
            (problem.line, problem.column) = line_and_column(sql, at);
        }
        problem
    }

    /// A problem of one query.
    pub(crate) fn problem_of(&self, what: &str, message: impl fmt::Display) -> Problem {
        Problem::new(message).at(format!("{what} at {}", self.place()), 0, 0)
    }
}

/// Hides everything, because a password can be in any of it.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.place()).finish()
    }
}

/// An error in the words of the server, with its details and hints.
fn said(error: &sqlx::Error) -> String {
    let database = error.as_database_error();
    match database.and_then(|error| error.try_downcast_ref::<PgDatabaseError>()) {
        None => error.to_string(),
        Some(error) => {
            let parts = [Some(error.message()), error.detail(), error.hint()];
            let said = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
            format!("{said} ({})", error.code())
        }
    }
}

/// The line and column of character `at`, all counted from 1.
fn line_and_column(text: &str, at: usize) -> (u32, u32) {
    let before = text.chars().take(at.saturating_sub(1));
    before.fold((1, 1), |(line, column), character| match character {
        '\n' => (line + 1, 1),
        _ => (line, column + 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_names_host_and_database_and_no_password() {
        let server = Server::at("postgres://reader:secret@db.example.com:6000/intent");
        let server = server.with_password("secret");
        assert_eq!(server.place(), "db.example.com:6000/intent");
        let shown = format!("{server:?}");
        assert!(
            shown.contains("db.example.com") && !shown.contains("secret"),
            "{shown}"
        );
    }

    #[test]
    fn wrong_urls_are_refused_without_being_repeated() {
        for url in [
            "secret",
            "postgres://u:secret@host:port/db",
            "mysql://u:secret@host/db",
        ] {
            let problem = Server::at(url).options().unwrap_err().to_string();
            assert!(
                problem.contains("write it as") && !problem.contains("secret"),
                "{problem}"
            );
        }
    }

    #[test]
    fn positions_are_lines_and_columns_of_characters() {
        assert_eq!(line_and_column("select\n é, x", 11), (2, 4));
        assert_eq!(line_and_column("select", 1), (1, 1));
    }
}
