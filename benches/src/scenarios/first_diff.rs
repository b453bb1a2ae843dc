//! `first-diff`: the time from the start of a new owner to its first diff.
//!
//! `ns_each` is the processor time per asset of the whole takeover; `p50_us` is the time to the first diff.

use super::{OURS, Scenario, Sizes};
use crate::ours;

/// The scenario `first-diff` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "first-diff",
    about: "takeover of settled assets: the owner starts -> diff of the one that changed meanwhile",
    target: "250 ms",
    sizes: Sizes {
        named: 1_000_000,
        all: 200_000,
        smoke: 1_000,
    },
    sides: &[(OURS, ours::takeover)],
};
