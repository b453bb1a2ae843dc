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
    pub(super) permits: Permits,
    /// In front of diffs and observations.
    pub(super) breaker: Breaker,
    /// In front of pushes: reading may work where writing does not.
    pub(super) push_breaker: Breaker,
}

/// Iterations that wait for a push permit, with their generation: rollbacks before the others, each in order (S9).
#[derive(Debug, Default)]
pub(super) struct Permits {
    rollbacks: VecDeque<(u32, u32)>,
    others: VecDeque<(u32, u32)>,
}

impl Permits {
    pub(super) fn push(&mut self, waiting: (u32, u32), rolls_back: bool) {
        match rolls_back {
            true => self.rollbacks.push_back(waiting),
            false => self.others.push_back(waiting),
        }
    }

    /// The next one; of those that are `preferred`, if there is one.
    pub(super) fn pop(
        &mut self,
        preferred: Option<impl Fn(&(u32, u32)) -> bool>,
    ) -> Option<(u32, u32)> {
        if let Some(preferred) = preferred {
            for queue in [&mut self.rollbacks, &mut self.others] {
                if let Some(at) = queue.iter().position(&preferred) {
                    return queue.remove(at);
                }
            }
        }
        self.rollbacks
            .pop_front()
            .or_else(|| self.others.pop_front())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rollbacks.is_empty() && self.others.is_empty()
    }

    #[cfg(test)]
    pub(super) fn contains(&self, waiting: &(u32, u32)) -> bool {
        self.rollbacks.contains(waiting) || self.others.contains(waiting)
    }
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
            permits: Permits::default(),
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
