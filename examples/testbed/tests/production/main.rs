//! Tests of production on real processes, without a control plane: the properties on which a control plane relies.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are outside their functions, where clippy does not see that they are tests"
)]

mod balancers;
mod cells;
mod metrics;
mod tasks;
mod town;
