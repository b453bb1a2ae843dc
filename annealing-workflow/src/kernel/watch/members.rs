//! The assets that a watch on status follows, and what their standings say.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{Relation, Standing, SyncState, standing::Reason};
use prodspec_model::{AssetId, Filter, Snapshot, operation::StatusIs, snapshot::Change};

use crate::watch::StatusWatch;

/// The assets of a watch on status.
#[derive(Debug, Default)]
pub(super) struct Members {
    all: BTreeSet<AssetId>,
    /// Those whose standing was not told to this owner.
    untold: BTreeSet<AssetId>,
    /// Those among them whose condition starts nothing if it holds: it was there before the watch, or before an edit of it.
    fresh: BTreeSet<AssetId>,
    /// Whether the watch is new or edited, and not all standings that were there then were told.
    is_fresh: bool,
    freshness_changed: bool,
    is_listed: bool,
    /// Those that came, and those that left, since the last call of [`moved`](Self::moved).
    came: BTreeSet<AssetId>,
    left: BTreeSet<AssetId>,
}

impl Members {
    pub(super) fn new(is_fresh: bool) -> Self {
        Self {
            is_fresh,
            ..Self::default()
        }
    }

    /// The selection was edited: what holds now starts nothing.
    pub(super) fn list_anew(&mut self) {
        self.freshness_changed |= !self.is_fresh;
        (self.is_fresh, self.is_listed) = (true, false);
    }

    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Whether [`is_fresh`](Self::is_fresh) has changed since the last call.
    pub(super) fn freshness_changed(&mut self) -> bool {
        std::mem::take(&mut self.freshness_changed)
    }

    /// Lists all assets that `filter` matches.
    pub(super) fn list(&mut self, snapshot: &Snapshot, filter: &Filter) {
        let all: BTreeSet<AssetId> = filter.find(snapshot).map(|asset| asset.id()).collect();
        self.left.extend(self.all.difference(&all).cloned());
        self.came = all.clone();
        self.untold = all.clone();
        if self.is_fresh {
            self.fresh = all.clone();
        }
        self.all = all;
        self.is_listed = true;
        self.refresh();
    }

    pub(super) fn contains(&self, asset: &AssetId) -> bool {
        self.all.contains(asset)
    }

    /// Takes the changes of a newer incarnation.
    pub(super) fn changed(&mut self, changed: &[(AssetId, Change)], filter: &Filter) {
        for (id, change) in changed {
            let is = change.after.as_ref().is_some_and(|it| filter.matches(it));
            match is {
                true if self.all.insert(id.clone()) => {
                    self.left.remove(id);
                    self.untold.insert(id.clone());
                    self.came.insert(id.clone());
                }
                false if self.all.remove(id) => {
                    self.untold.remove(id);
                    self.fresh.remove(id);
                    self.came.remove(id);
                    self.left.insert(id.clone());
                }
                _ => {}
            }
        }
        self.refresh();
    }

    fn refresh(&mut self) {
        if self.is_fresh && self.fresh.is_empty() {
            (self.is_fresh, self.freshness_changed) = (false, true);
        }
    }

    /// Those that have left since the last call of [`moved`](Self::moved).
    pub(super) fn gone(&self) -> Vec<AssetId> {
        self.left.iter().cloned().collect()
    }

    /// Those that came and those that left since the last call.
    pub(super) fn moved(&mut self) -> (BTreeSet<AssetId>, BTreeSet<AssetId>) {
        (
            std::mem::take(&mut self.came),
            std::mem::take(&mut self.left),
        )
    }

    /// Takes the standing of an asset. `since`: since when one of the conditions holds.
    pub(super) fn stands(
        &mut self,
        watch: &mut StatusWatch,
        is: &[StatusIs],
        asset: &AssetId,
        standing: &Standing,
        since: Option<Timestamp>,
    ) {
        if !self.all.contains(asset) {
            return;
        }
        if self.untold.contains(asset) && is_unknown(standing) {
            let fails = !is_queued(standing);
            let holds = since.is_some() && !self.fresh.contains(asset);
            // What cannot be looked at is out of sync, and in no condition that it was in before.
            if !(fails && holds) {
                return;
            }
        }
        if says_no_health(is, standing) {
            return;
        }
        self.untold.remove(asset);
        let was_there = self.fresh.remove(asset);
        self.refresh();
        match since {
            Some(_) if was_there => watch.had_its_run(asset),
            // Told again, it has the same age, unless a clock was set meanwhile.
            Some(_) if watch.is_holding(asset) => {}
            Some(since) => watch.holds(asset, since),
            None => watch.is_over(asset),
        }
    }
}

/// Whether enforcement has yet to look at the asset: after a takeover nothing follows from that.
fn is_unknown(standing: &Standing) -> bool {
    // Its first look may be held up, or fail.
    let held_up = [Reason::Looking, Reason::Failed, Reason::Ownership];
    let held_up = standing.reason.is_some_and(|why| held_up.contains(&why));
    held_up && !standing.state.is_in_sync()
}

/// Whether a look at the asset is to come or under way, and has not failed.
fn is_queued(standing: &Standing) -> bool {
    standing.relation == Relation::Enforced && standing.reason != Some(Reason::Failed)
}

/// Whether the standing says nothing about the only condition that counts. An asset that is unhealthy is looked at and pushed
/// again from time to time, and is unhealthy still when that fails.
fn says_no_health(is: &[StatusIs], standing: &Standing) -> bool {
    let out = matches!(standing.state, SyncState::OutOfSync { .. });
    let busy = [Reason::Looking, Reason::UnderWay, Reason::UnknownPush];
    let busy = standing.reason.is_some_and(|reason| busy.contains(&reason));
    is.contains(&StatusIs::Unhealthy) && !is.contains(&StatusIs::OutOfSync) && out && busy
}

/// For how long one of the conditions has held. `None`: none does.
pub(super) fn age(is: &[StatusIs], standing: &Standing, now: Timestamp) -> Option<SignedDuration> {
    if standing.relation != Relation::Enforced {
        return None;
    }
    let (condition, since) = match &standing.state {
        SyncState::InSync { since } => (StatusIs::InSync, *since),
        SyncState::OutOfSync { since, .. } => (StatusIs::OutOfSync, *since),
        SyncState::Unhealthy { .. } => (StatusIs::Unhealthy, now),
        _ => return None,
    };
    is.contains(&condition)
        .then(|| now.duration_since(since).max(SignedDuration::ZERO))
}
