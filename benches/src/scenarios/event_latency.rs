//! `event-latency`: one asset's intent changes while all others are idle; from there until its diff starts.

use super::{Scenario, Sizes};
use crate::{
    ours,
    peers::{kube, limit},
    report::OURS,
};

/// How many events, one after the other.
pub(crate) const EVENTS: usize = 1_000;

pub(super) static SCENARIO: Scenario = Scenario {
    name: "event-latency",
    about: "one asset changes while all are idle: sealed -> diff starts",
    sizes: Sizes {
        named: 100_000,
        all: 100_000,
        smoke: 1_000,
    },
    sides: &[
        (OURS, ours::latency),
        ("kube-runtime", kube::latency),
        ("limit", limit::latency),
    ],
};
