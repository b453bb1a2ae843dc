//! `enforce-burst`: an incarnation is published, and a diff finds every asset in sync.
//!
//! `ns_each` is the processor time per asset from the publication until all are settled.

use super::{OURS, Scenario, Sizes};
use crate::{
    ours,
    peers::{kube, limit},
};

/// The scenario `enforce-burst` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "enforce-burst",
    about: "publish; every asset goes pin -> diff, in sync at once",
    target: "1/10 of kube-runtime, 5x the limit",
    sizes: Sizes {
        named: 1_000_000,
        all: 200_000,
        smoke: 1_000,
    },
    sides: &[
        (OURS, ours::burst),
        ("kube-runtime", kube::burst),
        ("limit", limit::burst),
    ],
};
