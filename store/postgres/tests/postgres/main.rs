//! The PostgreSQL backend against a private server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod conformance;
