//! `solver --consumers N`: consumers of one provider with room for all grow at once.
//!
//! Two phases: all come at once (`come`), then all grow at once (`grow`).
//!
//! `ns_each` is the processor time per consumer from the seal to settled, `diffs_each` how often each was compared.

use super::{Scenario, Sizes};
use crate::{report::OURS, shared};

pub(super) static SCENARIO: Scenario = Scenario {
    name: "solver",
    about: "consumers of one provider with ample capacity grow at once",
    sizes: Sizes {
        named: 400,
        all: 400,
        smoke: 50,
    },
    sides: &[(OURS, shared::grow)],
};
