//! The registered types: the capacity of each plugin and the circuit breakers in front of it.

use std::collections::VecDeque;

use plugin_sdk::Mono;

use super::{attempt::AttemptNo, breaker::Breaker, observe::Queued, schedule::Ready};
use crate::config::TypeConfig;

/// Number of a registered type, in the order of registration. It is valid for one kernel only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TypeNo(u16);

impl TypeNo {
    pub(crate) fn from_index(index: usize) -> Self {
        Self(index as u16)
    }

    /// Returns the numbers of the first `many` types.
    pub(crate) fn all(many: usize) -> impl Iterator<Item = Self> {
        (0..many as u16).map(Self)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One registered type.
#[derive(Debug)]
pub(super) struct RegisteredType {
    pub(super) config: TypeConfig,
    pub(super) ready: Ready,
    /// Number of queued assets; `ready` may hold outdated entries besides. Zero: there is nothing to pop.
    pub(super) queued: u32,
    /// Observations of its assets that wait for capacity of the plugin.
    pub(super) asked: VecDeque<Queued>,
    pub(super) diffs: u32,
    pub(super) pushes: u32,
    pub(super) permits: Permits,
    /// The breaker in front of diffs and observations.
    pub(super) breaker: Breaker,
    /// The breaker in front of pushes: reading may work while writing does not.
    pub(super) push_breaker: Breaker,
}

/// Attempts that wait for a push permit, each with its generation: rollbacks before the others, each group in order
/// (S9).
#[derive(Debug, Default)]
pub(super) struct Permits {
    rollbacks: VecDeque<(AttemptNo, u32)>,
    others: VecDeque<(AttemptNo, u32)>,
}

impl Permits {
    pub(super) fn push(&mut self, waiting: (AttemptNo, u32), rolls_back: bool) {
        match rolls_back {
            true => self.rollbacks.push_back(waiting),
            false => self.others.push_back(waiting),
        }
    }

    /// Removes and returns the next attempt: the first `preferred` one if there is any.
    pub(super) fn pop(
        &mut self,
        preferred: Option<impl Fn(&(AttemptNo, u32)) -> bool>,
    ) -> Option<(AttemptNo, u32)> {
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
    pub(super) fn contains(&self, waiting: &(AttemptNo, u32)) -> bool {
        self.rollbacks.contains(waiting) || self.others.contains(waiting)
    }
}

impl RegisteredType {
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

    /// Whether a push permit may be given now.
    pub(super) fn may_push(&self, now: Mono) -> bool {
        self.pushes < self.config.pushes && self.push_breaker.allows(now)
    }

    /// Time at which the breaker allows a probe, if pushes wait for it and there is capacity.
    pub(super) fn push_probe_at(&self) -> Option<Mono> {
        let waits = !self.permits.is_empty() && self.pushes < self.config.pushes;
        self.push_breaker.probe_at().filter(|_| waits)
    }
}
