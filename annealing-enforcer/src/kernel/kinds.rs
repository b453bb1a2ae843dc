//! The registered types: each plugin's capacity, and the circuit breakers in front of it.

use std::collections::VecDeque;

use plugin_sdk::Mono;

use super::{breaker::Breaker, observe::Asked, schedule::Ready};
use crate::config::TypeConfig;

/// One registered type.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) config: TypeConfig,
    pub(super) ready: Ready,
    /// How many are in `ready`, stale ones included or not: zero means there is nothing to pop.
    pub(super) queued: u32,
    /// Observations of its assets that wait for capacity.
    pub(super) asked: VecDeque<Asked>,
    pub(super) diffs: u32,
    pub(super) pushes: u32,
    /// Iterations that wait for a push permit, with their generation.
    pub(super) permits: VecDeque<(u32, u32)>,
    /// In front of diffs and observations.
    pub(super) breaker: Breaker,
    /// In front of pushes: reading may work where writing does not.
    pub(super) push_breaker: Breaker,
}

impl Kind {
    pub(super) fn new(config: TypeConfig) -> Self {
        Self {
            config,
            ready: Ready::default(),
            queued: 0,
            asked: VecDeque::new(),
            diffs: 0,
            pushes: 0,
            permits: VecDeque::new(),
            breaker: Breaker::default(),
            push_breaker: Breaker::default(),
        }
    }

    /// Whether another push may be prepared.
    pub(super) fn may_push(&self, now: Mono) -> bool {
        self.pushes < self.config.pushes && self.push_breaker.allows(now)
    }

    /// When the next push may be prepared, if some wait for their breaker.
    pub(super) fn push_probe_at(&self) -> Option<Mono> {
        let waits = !self.permits.is_empty() && self.pushes < self.config.pushes;
        self.push_breaker.probe_at().filter(|_| waits)
    }
}
