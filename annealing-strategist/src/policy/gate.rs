//! The gate of a stage: it opens when all targets of the stage have settled, baked and been found healthy since.
//!
//! All stages use this one rule.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{SelectRequest, Tally, Until, Wait};

/// Whether a stage is over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Gate {
    /// The stage is over; the next one may start.
    Open,
    /// The stage is not over, for this reason.
    Shut(Wait),
}

/// Decides whether the stage of the targets at `places` is over.
///
/// The stage is over when every target has settled without drifting since, and one of these holds (R21):
/// - An operator promoted the rollout after the last target settled.
/// - `bake` has passed since the last target settled, and a verdict from evidence no older than the end of the bake
///   is healthy.
///
/// A stage without targets is over.
///
/// ```
/// use annealing_strategist::policy::{Gate, gate};
/// use plugin_sdk::{Health, Progress, testing::{NOW, select_request, target}};
/// use std::time::Duration;
///
/// let mut request = select_request([target("job/eu", &["eu"])]);
/// assert!(matches!(gate(&request, [0], Duration::ZERO), Gate::Shut(_)));
/// request.targets.set_progress(0, Progress::Updated { at: NOW });
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
    gate_of(tally, request, bake)
}

/// Decides whether the stage of all targets together is over. See [`gate`].
pub(crate) fn gate_of_all(request: &SelectRequest, bake: Duration) -> Gate {
    gate_of(request.targets.census().all(), request, bake)
}

/// Decides whether the stage of the targets counted in `tally` is over. See [`gate`].
pub(crate) fn gate_of(tally: Tally, request: &SelectRequest, bake: Duration) -> Gate {
    let Some(last) = tally.last.filter(|_| tally.is_settled()) else {
        return match tally.targets {
            0 => Gate::Open,
            targets => shut(
                format!("{} of {targets} have settled", tally.settled),
                Until::Settled,
            ),
        };
    };
    if request.promoted.is_some_and(|upto| upto >= tally.order) {
        return Gate::Open;
    }
    let since = last.checked_add(bake).unwrap_or(Timestamp::MAX);
    if request.now < since {
        return shut(format!("bakes until {since:.0}"), Until::Time(since));
    }
    match &request.health {
        Some(health) if health.is_healthy_since(since) => Gate::Open,
        _ => shut(
            format!("waits for a healthy verdict from evidence of {since:.0} or later"),
            Until::Healthy { since },
        ),
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

    use super::*;

    #[test]
    fn waits_show_whole_seconds() {
        let mut request = select_request([target("job/eu", &["eu"])]);
        let at = NOW + Duration::from_nanos(123_456_789);
        request.targets.set_progress(0, Progress::Updated { at });
        for bake in [Duration::from_secs(60), Duration::ZERO] {
            request.now = at;
            let Gate::Shut(wait) = gate(&request, [0], bake) else {
                panic!("open without a verdict");
            };
            assert!(!wait.why.contains('.'), "{}", wait.why);
        }
    }
}
