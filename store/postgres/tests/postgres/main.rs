//! The PostgreSQL backend against a private server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod clients;
mod concurrent;
mod conformance;
mod layers;
mod lost;
mod opening;
mod proxy;
mod rival;
mod roles;
mod round_trip;
mod watching;
