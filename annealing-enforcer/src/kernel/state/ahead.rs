//! Pushes that do not exist yet and would wait: rollouts let the checks judge them before they move pins.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use plugin_sdk::{Cause, Change, Delay, Mono, Now, Recheck, Verdict};
use prodspec_model::{Asset, AssetId, Digest, Incarnation};

/// Time after which the checks run again although their delay lasts longer: policies and contents may have
/// changed.
const LONGEST: Duration = Duration::from_secs(300);

/// Time after which checks run again that wait for another asset, or that only claim.
const SHORTEST: Duration = Duration::from_secs(5);

/// The assets whose pushes would wait, by the last verdicts.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Ahead(BTreeMap<AssetId, PushAhead>);

/// A push that would follow if the pin of its asset moved.
#[derive(Debug)]
pub(in crate::kernel) struct PushAhead {
    /// The content that the asset would get.
    content: Digest,
    pub cause: Cause,
    pub change: Arc<Change>,
    pub verdict: Verdict,
    /// The time of the verdict.
    noted: Mono,
    /// The time until which the verdict counts for selections.
    until: Mono,
}

impl Ahead {
    /// Whether there is a verdict on the push of an asset to its content at `at`.
    pub(in crate::kernel) fn knows(&self, asset: &AssetId, at: &Incarnation, cause: Cause) -> bool {
        let known = self.0.get(asset);
        known.is_some_and(|it| it.is_about(asset, at, cause))
    }

    /// Takes in a verdict.
    pub(in crate::kernel) fn note(
        &mut self,
        now: Now,
        asset: &Asset,
        cause: Cause,
        change: Arc<Change>,
        verdict: Verdict,
    ) {
        let push = PushAhead {
            content: asset.digest(),
            cause,
            change,
            noted: now.mono,
            until: now.mono + lasts(now, &verdict),
            verdict,
        };
        self.0.insert(asset.id(), push);
    }

    /// Forgets the verdicts that count no more.
    pub(in crate::kernel) fn expire(&mut self, now: Mono) {
        self.0.retain(|_, it| now < it.until);
    }

    pub(in crate::kernel) fn forget(&mut self, asset: &AssetId) {
        self.0.remove(asset);
    }

    /// The push of an asset that would wait, for people. A rollout that has ended asks no more, so it is not shown for long.
    pub(in crate::kernel) fn of(&self, now: Mono, asset: &AssetId) -> Option<&PushAhead> {
        self.0.get(asset).filter(|it| now < it.noted + LONGEST)
    }

    /// The pushes to the contents of an incarnation for a cause.
    pub(in crate::kernel) fn about(
        &self,
        at: &Incarnation,
        cause: Cause,
    ) -> impl Iterator<Item = (&AssetId, &PushAhead)> {
        let about = move |(id, it): &(&AssetId, &PushAhead)| it.is_about(id, at, cause);
        self.0.iter().filter(about)
    }
}

impl PushAhead {
    fn is_about(&self, id: &AssetId, at: &Incarnation, cause: Cause) -> bool {
        let there = || at.asset(id).map(|asset| asset.digest());
        self.cause == cause && there() == Some(self.content)
    }
}

/// The time for which a verdict counts for selections.
fn lasts(now: Now, verdict: &Verdict) -> Duration {
    let of = |delay: &Delay| match &delay.recheck {
        Recheck::At(time) => Duration::try_from(time.duration_since(now.wall)).unwrap_or_default(),
        Recheck::After(time) => *time,
        _ => SHORTEST,
    };
    let shortest = verdict.delays.iter().map(of).min();
    shortest.unwrap_or(SHORTEST).clamp(SHORTEST, LONGEST)
}
