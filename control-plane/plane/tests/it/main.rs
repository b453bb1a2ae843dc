//! A whole control plane against a production in memory: one target, so that its world is compiled once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod answers;
mod builder;
mod intent;
mod lifecycle;
mod lost;
mod people;
mod plan;
mod removal;
mod rollouts;
mod status;
mod world;
