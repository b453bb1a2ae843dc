//! Tests with real repositories. They need the program `git`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

mod editing;
mod histories;
mod origin;
mod reading;
mod trouble;
