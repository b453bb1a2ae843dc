//! Tests that simulate many hours. They need an optimised build, so they are behind the feature `long-tests`:
//! `cargo test -p simulation --profile checked --features long-tests`.

mod away;
mod changes;
mod crashes;
mod cures;
mod invariants;
mod rollouts;
mod seeds;
mod workflows;
