//! Pushes that do not exist yet and would wait: rollouts let the checks judge them before they move pins.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use plugin_sdk::{Cause, Change, Delay, Mono, Now, Recheck, Verdict};
use prodspec_model::{Asset, AssetId, Digest, Incarnation};

/// Time after which the checks run again although their delay lasts longer: policies and contents may have
/// changed.
const LONGEST: Duration = Duration::from_secs(300);

/// Time after which checks run again that wait for another asset, or that only claim.
const SHORTEST: Duration = Duration::from_secs(5);

/// The content that an asset would get, and why.
type Of = (Digest, Cause);

/// The pushes that would wait, by the last verdicts. Several rollouts and changes may ask about other contents of one asset.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Ahead(BTreeMap<AssetId, BTreeMap<Of, PushAhead>>);

/// A push that would follow if the pin of its asset moved.
#[derive(Debug)]
pub(in crate::kernel) struct PushAhead {
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
        known.is_some_and(|pushes| find(pushes, asset, at, cause).is_some())
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
            change,
            noted: now.mono,
            until: now.mono + lasts(now, &verdict),
            verdict,
        };
        let pushes = self.0.entry(asset.id()).or_default();
        pushes.insert((asset.digest(), cause), push);
    }

    /// Ends the verdicts on the pushes of an asset: selections need new ones.
    pub(in crate::kernel) fn check_again(&mut self, now: Mono, asset: &AssetId) {
        for push in self
            .0
            .get_mut(asset)
            .into_iter()
            .flat_map(BTreeMap::values_mut)
        {
            push.until = push.until.min(now);
        }
    }

    /// All pushes that would wait, as [`of`](Self::of) shows them.
    pub(in crate::kernel) fn all(&self, now: Mono) -> impl Iterator<Item = (&AssetId, &PushAhead)> {
        let all = self
            .0
            .iter()
            .flat_map(|(id, pushes)| pushes.values().map(move |it| (id, it)));
        all.filter(move |(_, it)| now < it.noted + LONGEST)
    }

    /// Forgets all verdicts.
    pub(in crate::kernel) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets the verdicts that count no more.
    pub(in crate::kernel) fn expire(&mut self, now: Mono) {
        self.0.retain(|_, pushes| {
            pushes.retain(|_, it| now < it.until);
            !pushes.is_empty()
        });
    }

    /// Forgets the verdict on the push of an asset to its content at `at`.
    pub(in crate::kernel) fn forget(&mut self, asset: &AssetId, at: &Incarnation, cause: Cause) {
        let content = at.asset(asset).map(|asset| asset.digest());
        if let Some((content, pushes)) = content.zip(self.0.get_mut(asset)) {
            pushes.remove(&(content, cause));
        }
    }

    /// The pushes of an asset that would wait, for people. A rollout that has ended asks no more, so they are not shown for
    /// long.
    pub(in crate::kernel) fn of(
        &self,
        now: Mono,
        asset: &AssetId,
    ) -> impl Iterator<Item = &PushAhead> {
        let pushes = self.0.get(asset).into_iter().flat_map(BTreeMap::values);
        pushes.filter(move |it| now < it.noted + LONGEST)
    }

    /// The last of them.
    pub(in crate::kernel) fn newest(&self, now: Mono, asset: &AssetId) -> Option<&PushAhead> {
        self.of(now, asset).max_by_key(|it| it.noted)
    }

    /// The pushes to the contents of an incarnation for a cause.
    pub(in crate::kernel) fn about(
        &self,
        at: &Incarnation,
        cause: Cause,
    ) -> impl Iterator<Item = (&AssetId, &PushAhead)> {
        let about = move |(id, pushes)| Some((id, find(pushes, id, at, cause)?));
        self.0.iter().filter_map(about)
    }
}

/// The push of an asset to its content at `at` for a cause.
fn find<'a>(
    pushes: &'a BTreeMap<Of, PushAhead>,
    asset: &AssetId,
    at: &Incarnation,
    cause: Cause,
) -> Option<&'a PushAhead> {
    pushes.get(&(at.asset(asset)?.digest(), cause))
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
