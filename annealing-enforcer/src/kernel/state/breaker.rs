//! The circuit breaker in front of a plugin's calls: it holds calls back from a plugin that fails for most of its
//! assets, and probes the plugin with one call at a time.
//!
//! It counts the share of *distinct assets* whose calls fail. An asset whose previous call failed too is known to fail:
//! it does not open the breaker, and it is used for a probe only if there is no other asset.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::Mono;

use crate::config::Config;

use super::numbers::SlotNo;

/// Length of a time span. Answers count in the span in which they arrive and in the next one.
const SPAN: Duration = Duration::from_secs(30);

/// Number of recently successful assets that are kept for probes.
const WELL: usize = 8;

/// One circuit breaker; see the module.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Breaker {
    now: Span,
    before: Span,
    began: Mono,
    /// Number of the present span. Assets that were counted in it carry it.
    span: u8,
    well: [Option<SlotNo>; WELL],
    next: usize,
    open: Option<Open>,
}

/// The distinct assets whose calls ended in one span.
#[derive(Debug, Default)]
struct Span {
    succeeded: u32,
    failed: BTreeSet<SlotNo>,
}

#[derive(Debug)]
struct Open {
    probe_at: Mono,
    probing: bool,
    wait: Duration,
}

impl Breaker {
    /// Whether a call may be made.
    pub(in crate::kernel) fn allows(&self, now: Mono) -> bool {
        let allows = |open: &Open| now >= open.probe_at && !open.probing;
        self.open.as_ref().is_none_or(allows)
    }

    /// Notes that a call is made: with an open breaker, it is the probe.
    pub(in crate::kernel) fn called(&mut self) {
        if let Some(open) = &mut self.open {
            open.probing = true;
        }
    }

    /// Notes that the call chosen as the probe is not made: another call may be the probe.
    pub(in crate::kernel) fn probe_withdrawn(&mut self) {
        if let Some(open) = &mut self.open {
            open.probing = false;
        }
    }

    /// Returns the time from which a probe may be made, if the breaker is open and no probe is under way.
    pub(in crate::kernel) fn probe_at(&self) -> Option<Mono> {
        let waits = self.open.as_ref().filter(|open| !open.probing);
        waits.map(|open| open.probe_at)
    }

    pub(in crate::kernel) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the asset whose call succeeded last, for a probe. Each asset is returned once, until it succeeds again.
    pub(in crate::kernel) fn last_well(&mut self) -> Option<SlotNo> {
        for back in 1..=WELL {
            let at = (self.next + WELL - back) % WELL;
            if let Some(slot) = self.well[at].take() {
                return Some(slot);
            }
        }
        None
    }

    /// Returns the number of the present span, which the caller of [`Breaker::succeeded`] needs.
    pub(in crate::kernel) fn span(&mut self, now: Mono) -> u8 {
        let passed = now.since(self.began);
        if passed >= SPAN {
            let before = std::mem::take(&mut self.now);
            self.before = if passed < SPAN * 2 {
                before
            } else {
                Span::default()
            };
            self.began = now;
            self.span = self.span.wrapping_add(1);
        }
        self.span
    }

    /// Notes that a call for `slot` succeeded; `first`: for the first time in this span.
    pub(in crate::kernel) fn succeeded(&mut self, slot: SlotNo, first: bool) {
        if self.open.take().is_some() {
            (self.now, self.before) = Default::default();
        }
        self.now.succeeded += u32::from(first);
        if !self.now.failed.is_empty() {
            self.now.failed.remove(&slot);
        }
        self.well[self.next] = Some(slot);
        self.next = (self.next + 1) % WELL;
    }

    /// Notes that a call for `slot` failed in a way that may be the plugin's fault. `known`: the asset's previous call
    /// failed too. Returns whether the breaker opened now.
    pub(in crate::kernel) fn failed(
        &mut self,
        now: Mono,
        slot: SlotNo,
        known: bool,
        config: &Config,
    ) -> bool {
        if let Some(open) = &mut self.open {
            // Without a probe under way, the failure is of a call from before the breaker opened.
            if open.probing {
                open.wait = (open.wait * 2).min(config.backoff_cap);
                (open.probe_at, open.probing) = (now + open.wait, false);
            }
            return false;
        }
        self.span(now);
        if known {
            return false;
        }
        self.now.failed.insert(slot);
        let failed = self.now.failed.union(&self.before.failed).count();
        let succeeded = self.now.succeeded + self.before.succeeded;
        if failed < config.breaker_failures as usize || failed < succeeded as usize {
            return false;
        }
        self.open = Some(Open {
            probe_at: now + config.breaker_wait,
            probing: false,
            wait: config.breaker_wait,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: usize) -> SlotNo {
        SlotNo::from_index(index)
    }

    fn config() -> Config {
        Config::default()
            .breaker_failures(2)
            .breaker_wait(Duration::from_secs(5))
            .backoff_cap(Duration::from_secs(60))
    }

    fn at(seconds: u64) -> Mono {
        Mono(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn s9_a_breaker_opens_probes_once_and_closes() {
        let (mut breaker, config) = (Breaker::default(), config());
        assert!(!breaker.failed(at(0), slot(1), false, &config));
        assert!(breaker.allows(at(0)));
        assert!(breaker.failed(at(0), slot(2), false, &config));
        assert!(!breaker.allows(at(4)));
        assert!(breaker.allows(at(5)));
        breaker.called();
        assert!(!breaker.allows(at(5)), "one probe at a time");
        breaker.failed(at(6), slot(2), true, &config);
        assert!(
            !breaker.allows(at(15)) && breaker.allows(at(16)),
            "the wait doubles"
        );
        breaker.called();
        breaker.probe_withdrawn();
        assert!(breaker.allows(at(16)), "another call may be the probe");
        breaker.called();
        breaker.succeeded(slot(3), true);
        assert!(breaker.allows(at(16)));
    }

    #[test]
    fn s9_the_share_of_distinct_assets_opens_a_breaker() {
        let (mut breaker, config) = (Breaker::default(), config());
        for slot in (0..10).map(slot) {
            breaker.succeeded(slot, true);
        }
        for slot in (10..19).map(slot) {
            assert!(!breaker.failed(at(1), slot, false, &config), "{slot:?}");
            assert!(
                !breaker.failed(at(1), slot, false, &config),
                "the same asset again"
            );
        }
        assert!(
            !breaker.failed(at(1), slot(30), true, &config),
            "an asset known to fail does not count"
        );
        assert!(
            breaker.failed(at(1), slot(19), false, &config),
            "half of the assets fail"
        );
    }

    #[test]
    fn s9_old_successes_do_not_keep_a_breaker_closed() {
        let (mut breaker, config) = (Breaker::default(), config());
        for slot in (0..10).map(slot) {
            breaker.succeeded(slot, true);
        }
        assert!(!breaker.failed(at(100), slot(1), false, &config));
        assert!(breaker.failed(at(101), slot(2), false, &config));
    }

    #[test]
    fn s9_a_breaker_is_probed_with_the_asset_that_succeeded_last() {
        let mut breaker = Breaker::default();
        for slot in (0..20).map(slot) {
            breaker.succeeded(slot, true);
        }
        assert_eq!(breaker.last_well(), Some(slot(19)));
        assert_eq!(breaker.last_well(), Some(slot(18)));
        breaker.succeeded(slot(7), true);
        assert_eq!(breaker.last_well(), Some(slot(7)));
        let rest: Vec<_> = std::iter::from_fn(|| breaker.last_well()).collect();
        assert_eq!(rest, [17, 16, 15, 14, 13].map(slot));
    }
}
