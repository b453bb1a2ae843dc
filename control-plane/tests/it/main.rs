//! A whole control plane against a production in memory. All tests are one target, so that shared code is compiled
//! once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod answers;
mod bridges;
mod builder;
mod edits;
mod explained;
mod inbox;
mod intent;
mod lifecycle;
mod lost;
mod operations;
mod order;
mod people;
mod plan;
mod plan_rollouts;
mod postgres;
mod removal;
mod renames;
mod restored;
mod roll_out;
mod roll_out_apart;
mod roll_out_arrivals;
mod roll_out_chaos;
mod roll_out_corners;
mod rolled_back;
mod rollouts;
mod status;
mod stops;
mod succeeded;
mod trains;
mod waits;
mod watches;
mod workflows;
mod world;
