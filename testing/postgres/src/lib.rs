//! A private PostgreSQL server for tests: in a temporary directory, reached through a Unix socket there, without TCP.
//!
//! The programs are those of Debian's package `postgresql`, which only has to be installed. PostgreSQL refuses to run as
//! root, so tests that run as root start it as the user `postgres`, which the package creates.
//!
//! A crate of its own, without a client, so that every crate that talks to PostgreSQL can use it in its tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests use it, and a test fails where it panics"
)]

mod programs;
mod server;

pub use programs::is_installed;
pub use server::{Database, Server};

/// Ends the calling test as skipped if PostgreSQL is not installed. The test has to return `()`.
///
/// ```
/// fn test_that_reads_a_database() {
///     testing_postgres::needs_postgresql!();
///     let database = testing_postgres::Server::shared().database();
/// }
/// test_that_reads_a_database();
/// ```
#[macro_export]
macro_rules! needs_postgresql {
    () => {
        if !$crate::is_installed() {
            return $crate::skip();
        }
    };
}

/// Prints that the calling test is skipped because PostgreSQL is missing.
///
/// # Panics
/// As [`testing_programs::skip`].
pub fn skip() {
    testing_programs::skip("PostgreSQL", Some("postgresql"));
}
