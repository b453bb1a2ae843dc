//! The registered types: the capacity of each plugin and the circuit breakers in front of it.

use std::{collections::VecDeque, time::Duration};

use plugin_sdk::Mono;
use prodspec_model::TypeName;

use super::{breaker::Breaker, numbers::AttemptNo, observations::Queued, schedule::Ready};
use crate::config::TypeConfig;

/// One registered type.
#[derive(Debug)]
pub(in crate::kernel) struct RegisteredType {
    pub(in crate::kernel) config: TypeConfig,
    /// `false`: only records of earlier programs name the type. No call is made for its assets.
    pub(in crate::kernel) has_plugin: bool,
    pub(in crate::kernel) ready: Ready,
    /// Number of queued assets; `ready` may hold outdated entries besides. Zero: there is nothing to pop.
    pub(in crate::kernel) queued: u32,
    /// Observations of its assets that wait for capacity of the plugin.
    pub(in crate::kernel) asked: VecDeque<Queued>,
    pub(in crate::kernel) diffs: u32,
    pub(in crate::kernel) pushes: u32,
    pub(in crate::kernel) permits: Permits,
    /// The breaker in front of diffs and observations.
    pub(in crate::kernel) breaker: Breaker,
    /// The breaker in front of pushes: reading may work while writing does not.
    pub(in crate::kernel) push_breaker: Breaker,
}

/// Attempts that wait for a push permit, each with its generation: rollbacks before the others, each group in order
/// (S9).
#[derive(Debug, Default)]
pub(in crate::kernel) struct Permits {
    rollbacks: VecDeque<(AttemptNo, u32)>,
    others: VecDeque<(AttemptNo, u32)>,
}

impl Permits {
    pub(in crate::kernel) fn push(&mut self, waiting: (AttemptNo, u32), rolls_back: bool) {
        match rolls_back {
            true => self.rollbacks.push_back(waiting),
            false => self.others.push_back(waiting),
        }
    }

    /// Removes and returns the next attempt: the first `preferred` one if there is any.
    pub(in crate::kernel) fn pop(
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

    pub(in crate::kernel) fn is_empty(&self) -> bool {
        self.rollbacks.is_empty() && self.others.is_empty()
    }

    #[cfg(test)]
    pub(in crate::kernel) fn contains(&self, waiting: &(AttemptNo, u32)) -> bool {
        self.rollbacks.contains(waiting) || self.others.contains(waiting)
    }
}

impl RegisteredType {
    pub(in crate::kernel) fn new(config: TypeConfig) -> Self {
        Self {
            config,
            has_plugin: true,
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

    /// A type that only records of earlier programs name. Its open pushes end at their recorded deadlines.
    pub(in crate::kernel) fn without_plugin(name: TypeName) -> Self {
        let forever = Duration::from_secs(u32::MAX.into());
        Self {
            has_plugin: false,
            ..Self::new(TypeConfig::new(name).push_total(forever))
        }
    }

    /// Whether a push permit may be given now.
    pub(in crate::kernel) fn may_push(&self, now: Mono) -> bool {
        self.pushes < self.config.pushes && self.push_breaker.allows(now)
    }

    /// Time at which the breaker allows a probe, if pushes wait for it and there is capacity.
    pub(in crate::kernel) fn push_probe_at(&self) -> Option<Mono> {
        let waits = !self.permits.is_empty() && self.pushes < self.config.pushes;
        self.push_breaker.probe_at().filter(|_| waits)
    }
}
