//! Tests of the shell with a toy enforcer and a real store, in tokio's paused time.

#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

mod groups;
mod log;
mod ownership;
mod toy;
mod user_code;
mod world;
