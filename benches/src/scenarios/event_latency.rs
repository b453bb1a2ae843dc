//! `event-latency`: the time from a change of one asset's intent, while all others are idle, to the start of its diff.

use super::{OURS, Scenario, Sizes};
use crate::{
    ours,
    peers::{kube, limit},
};

/// Number of measured events, one after the other.
const EVENTS: usize = 1_000;

/// The scenario `event-latency` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "event-latency",
    about: "one asset changes while all are idle: sealed -> diff starts",
    target: "p50 20 us, p99 80 us, 8x the limit",
    sizes: Sizes {
        named: 100_000,
        all: 100_000,
        smoke: 1_000,
    },
    sides: &[
        (OURS, |n| ours::latency(n, EVENTS)),
        ("kube-runtime", |n| kube::latency(n, EVENTS)),
        ("limit", |_| limit::latency(EVENTS)),
    ],
};
