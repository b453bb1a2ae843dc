//! When a stage is over: everything in it settled, baked and found healthy since. One rule for all stages.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{SelectRequest, Target, Until, Wait};

/// Whether a stage is over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Gate {
    /// It is: what comes next may start.
    Open,
    /// It is not, and waits for this.
    Shut(Wait),
}

/// Whether the stage of the targets at `places` is over.
///
/// It is when every target has settled and none has drifted since, and then either a person promoted it after the last
/// one settled, or `bake` has passed since and a verdict from evidence of the end of the bake, or later, says healthy
/// (R21). A stage without targets is over.
///
/// ```
/// use annealing_strategist::policy::{Gate, gate};
/// use plugin_sdk::{Health, Progress, testing::{NOW, select_request, target}};
/// use std::{sync::Arc, time::Duration};
///
/// let mut request = select_request([target("job/eu", &["eu"])]);
/// assert!(matches!(gate(&request, [0], Duration::ZERO), Gate::Shut(_)));
/// Arc::make_mut(&mut request.targets)[0].progress = Progress::Updated { at: NOW };
/// request.health = Some(Health::healthy(NOW));
/// assert_eq!(gate(&request, [0], Duration::ZERO), Gate::Open);
/// ```
pub fn gate(
    request: &SelectRequest,
    places: impl IntoIterator<Item = u32>,
    bake: Duration,
) -> Gate {
    let mut tally = Tally::default();
    for place in places {
        if let Some(target) = request.targets.get(place as usize) {
            tally.add(target);
        }
    }
    tally.gate(request, bake)
}

/// What a gate has to know of its targets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    targets: usize,
    settled: usize,
    last: Option<Timestamp>,
    /// The greatest order of those that have settled.
    order: u64,
}

impl Tally {
    /// One target more.
    pub(super) fn add(&mut self, target: &Target) {
        self.targets += 1;
        if let Some(at) = target.settled() {
            self.settled += 1;
            self.last = self.last.max(Some(at));
            self.order = self.order.max(target.order);
        }
    }

    /// Whether it has no targets.
    pub(super) fn is_empty(&self) -> bool {
        self.targets == 0
    }

    /// Targets that are to come, and wait.
    pub(super) fn add_waiting(&mut self, targets: usize) {
        self.targets += targets;
    }

    /// See [`gate`].
    pub(super) fn gate(&self, request: &SelectRequest, bake: Duration) -> Gate {
        let Some(last) = self.last.filter(|_| self.settled == self.targets) else {
            return match self.targets {
                0 => Gate::Open,
                targets => shut(
                    format!("{} of {targets} have settled", self.settled),
                    Until::Settled,
                ),
            };
        };
        if request.promoted.is_some_and(|upto| upto >= self.order) {
            return Gate::Open;
        }
        let since = last.checked_add(bake).unwrap_or(Timestamp::MAX);
        if request.now < since {
            return shut(format!("bakes until {since:.0}"), Until::Time(since));
        }
        match &request.health {
            Some(health) if health.is_healthy_since(since) => Gate::Open,
            _ => shut(
                format!("has to be found healthy, from evidence of {since:.0} or later"),
                Until::Healthy { since },
            ),
        }
    }
}

fn shut(why: String, until: Until) -> Gate {
    Gate::Shut(Wait { why, until })
}

#[cfg(test)]
mod tests {
    use plugin_sdk::{
        Progress,
        testing::{NOW, select_request, target},
    };
    use std::sync::Arc;

    use super::*;

    #[test]
    fn people_are_told_whole_seconds() {
        let mut request = select_request([target("job/eu", &["eu"])]);
        let at = NOW + Duration::from_nanos(123_456_789);
        Arc::make_mut(&mut request.targets)[0].progress = Progress::Updated { at };
        for bake in [Duration::from_secs(60), Duration::ZERO] {
            request.now = at;
            let Gate::Shut(wait) = gate(&request, [0], bake) else {
                panic!("open without a verdict");
            };
            assert!(!wait.why.contains('.'), "{}", wait.why);
        }
    }
}
