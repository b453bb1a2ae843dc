//! `idle`: the cost of an asset that is in sync while nothing changes.
//!
//! Phase `settled`: `bytes_each` is the memory beside the assets themselves. Phases `60s` and `1h`: one drift period in
//! virtual time; `cpu_s / secs` is the share of a core.

use super::{OURS, Scenario, Sizes};
use crate::{
    ours,
    peers::{kube, limit},
};

/// The scenario `idle` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "idle",
    about: "all in sync; memory per asset, and one drift scan per period",
    target: "40 B per idle asset; 0.02 core at 60 s",
    sizes: Sizes {
        named: 1_000_000,
        all: 200_000,
        smoke: 1_000,
    },
    sides: &[
        (OURS, ours::idle),
        ("kube-runtime", kube::idle),
        ("limit", limit::idle),
    ],
};
