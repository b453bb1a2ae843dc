//! The registered types: each plugin's capacity, and the circuit breaker in front of it.

use std::{collections::VecDeque, time::Duration};

use plugin_sdk::Mono;

use super::{observe::Asked, schedule::Ready};
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

/// Keeps calls from a plugin that only fails, and probes it with one call at a time.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    /// While open: when the next probe may go.
    probe_at: Option<Mono>,
    probing: bool,
    wait: Duration,
}

impl Breaker {
    /// Whether a call may go.
    pub(super) fn allows(&self, now: Mono) -> bool {
        self.probe_at.is_none_or(|at| now >= at && !self.probing)
    }

    /// A call goes.
    pub(super) fn called(&mut self) {
        self.probing = self.probe_at.is_some();
    }

    /// What was to be the probe does not go: another call may.
    pub(super) fn spared(&mut self) {
        self.probing = false;
    }

    /// When a probe may go, if the breaker is open and none is under way.
    pub(super) fn probe_at(&self) -> Option<Mono> {
        self.probe_at.filter(|_| !self.probing)
    }

    pub(super) fn is_open(&self) -> bool {
        self.probe_at.is_some()
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// A call failed in a way that may be the plugin's, not the asset's. Says whether the breaker opened now.
    pub(super) fn failed(&mut self, now: Mono, limit: u32, first: Duration, cap: Duration) -> bool {
        self.failures = self.failures.saturating_add(1);
        if self.probe_at.is_some() && !self.probing {
            // It was under way when the breaker opened.
            return false;
        }
        if self.probe_at.is_some() {
            self.wait = (self.wait * 2).min(cap);
            self.probe_at = Some(now + self.wait);
            self.probing = false;
            return false;
        }
        if self.failures < limit {
            return false;
        }
        self.wait = first;
        self.probe_at = Some(now + first);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s9_a_breaker_opens_probes_once_and_closes() {
        let (first, cap) = (Duration::from_secs(5), Duration::from_secs(60));
        let at = |seconds| Mono(0) + Duration::from_secs(seconds);
        let mut breaker = Breaker::default();
        assert!(!breaker.failed(at(0), 2, first, cap));
        assert!(breaker.allows(at(0)));
        assert!(breaker.failed(at(0), 2, first, cap));
        assert!(!breaker.allows(at(4)));
        assert!(breaker.allows(at(5)));
        breaker.called();
        assert!(!breaker.allows(at(5)), "one probe at a time");
        breaker.failed(at(6), 2, first, cap);
        assert!(
            !breaker.allows(at(15)) && breaker.allows(at(16)),
            "the wait doubles"
        );
        breaker.called();
        breaker.spared();
        assert!(breaker.allows(at(16)), "another one may be the probe");
        breaker.called();
        breaker.succeeded();
        assert!(breaker.allows(at(16)));
    }
}
