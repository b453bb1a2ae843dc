//! `solver --consumers N`: N consumers of one provider with capacity for all.
//!
//! Two phases: all consumers appear at once (`come`), then all grow at once (`grow`).
//!
//! `ns_each` is the processor time per consumer from the seal until all are settled; `diffs_each` is the number of
//! diffs per consumer.

use super::{OURS, Scenario, Sizes};
use crate::shared;

/// The scenario `solver` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "solver",
    about: "consumers of one provider with ample capacity grow at once",
    target: "3 diffs and 20 us per consumer",
    sizes: Sizes {
        named: 400,
        all: 400,
        smoke: 50,
    },
    sides: &[(OURS, shared::grow)],
};
