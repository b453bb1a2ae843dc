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

pub use server::{Database, Server};
