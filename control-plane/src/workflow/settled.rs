//! Waits until production has what an edit has changed, or until the rollout that carried it has gone back or stopped (R36).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use annealing_enforcer::Handle as Enforcer;
use annealing_strategist::State;
use annealing_workflow::intent::Settlement;
use control_plane_runtime::Runtime;
use futures::{Stream, StreamExt, stream};
use plugin_sdk::{Enforcement, Feed, FeedItem, Progress, Standing};
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo, addons::RolloutPolicyRef};

use crate::shared::Shared;

/// First wait before a policy group is looked at again that rests, or gives no answer. It doubles.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest such wait.
const SELDOM: Duration = Duration::from_secs(30);

/// Waits until each asset was found in sync at an incarnation of a run that starts now, or a newer one, or until one of
/// them does not get there. `None`: the ownership has ended.
pub(super) async fn settled<R: Runtime>(
    shared: &Arc<Shared<R>>,
    enforcer: &Enforcer<R>,
    assets: &[AssetId],
) -> Option<Settlement> {
    let no = sealed(shared).await?;
    let mut feed = enforcer.feed();
    let latest = taken(&mut feed, no).await?;
    let mut wanted: BTreeMap<AssetId, Option<Digest>> = assets
        .iter()
        .map(|id| (id.clone(), latest.asset(id).map(|asset| asset.digest())))
        .collect();
    feed.follow(wanted.keys().cloned());
    let policies: BTreeSet<AssetId> = assets.iter().filter_map(|id| policy(&latest, id)).collect();
    let groups = policies.into_iter();
    let groups = groups.map(|policy| left_behind(shared.clone(), policy, no).boxed());
    let mut left_behind = stream::select_all(groups);
    while !wanted.is_empty() {
        tokio::select! {
            // What enforcement has found before counts first.
            biased;
            fed = feed.next() => if let FeedItem::Standings(all) = fed? {
                wanted.retain(|id, content| {
                    !all.iter().any(|(asset, standing)| asset == id && was_in_sync(standing, *content, &latest))
                });
            },
            Some(Left { assets, why }) = left_behind.next() => {
                if let Some(asset) = assets.iter().find(|asset| wanted.contains_key(*asset)) {
                    return Some(Settlement::RolledBack(format!("{asset} was left behind: {why}")));
                }
            }
        }
    }
    Some(Settlement::Done)
}

/// The incarnation of the first run of generation that starts now and is not refused.
async fn sealed<R: Runtime>(shared: &Shared<R>) -> Option<IncarnationNo> {
    let generation = shared.owned.borrow().clone()?;
    let mut status = generation.next_run().await;
    let mut watch = generation.watch();
    while status.incarnation.is_none() || !status.problems.is_empty() {
        // A refused run seals nothing; the next one may.
        watch.changed().await.ok()?;
        status = watch.borrow_and_update().clone();
    }
    Some(status.incarnation?.id.no)
}

/// Waits until enforcement has taken an incarnation, or a newer one. Returns that one.
async fn taken(feed: &mut Feed, no: IncarnationNo) -> Option<Incarnation> {
    loop {
        if let FeedItem::Took(took) = feed.next().await?
            && took.no() >= no
        {
            return Some(took);
        }
    }
}

/// The policy that governs an asset, if one does.
fn policy(incarnation: &Incarnation, asset: &AssetId) -> Option<AssetId> {
    let addon = incarnation.asset(asset)?.addon::<RolloutPolicyRef>();
    Some(addon.ok().flatten()?.policy.id)
}

/// Whether production had the wanted content, or newer one. `content`: `None` if the edit has removed the asset.
fn was_in_sync(standing: &Standing, content: Option<Digest>, at: &Incarnation) -> bool {
    match standing {
        // What is removed from intent stays in production until it is turned down on its own.
        Standing::Absent { .. } | Standing::LeftAlone { .. } => content.is_none(),
        Standing::ModelledOnly { .. } => true,
        Standing::Enforced(enforced) => {
            let newer = enforced.in_sync_at.is_some_and(|no| no >= at.no());
            let same = Some(enforced.content) == content && enforced.in_sync_at.is_some();
            content.is_none() || newer || same
        }
        _ => false,
    }
}

/// Assets that a rollout which stopped, or went back, does not bring to their newest content. One that was in flight when the
/// rollout stopped may still get it.
struct Left {
    assets: BTreeSet<AssetId>,
    why: String,
}

/// The assets that a policy group leaves behind, each time it rests at an incarnation, or a newer one.
fn left_behind<R: Runtime>(
    shared: Arc<Shared<R>>,
    policy: AssetId,
    at: IncarnationNo,
) -> impl Stream<Item = Left> + Send {
    let begin = (shared, policy, AGAIN);
    stream::unfold(begin, move |(shared, policy, mut wait)| async move {
        loop {
            let left = at_rest(&shared, &policy, at).await;
            shared.runtime.sleep(wait).await;
            wait = (wait * 2).min(SELDOM);
            if let Some(left) = left {
                return Some((left, (shared, policy, wait)));
            }
        }
    })
}

/// Waits until the group of a policy rests. `None`: it has no answer, or leaves nothing behind.
async fn at_rest<R: Runtime>(
    shared: &Shared<R>,
    policy: &AssetId,
    at: IncarnationNo,
) -> Option<Left> {
    let rollouts = shared.rollouts.borrow().clone()?;
    let outcome = rollouts.rests(policy, at).await.ok()?;
    let rollout = outcome.rollout.filter(|_| !outcome.released)?;
    let mut assets: BTreeSet<AssetId> = outcome.left_out.into_iter().collect();
    let why = match &rollout.state {
        State::Stopped { why } => {
            let views = rollouts.views().await.ok()?;
            let view = views.into_iter().find(|view| view.policy == *policy)?;
            let targets = view.targets.into_iter();
            let behind = targets.filter(|target| {
                matches!(
                    target.progress,
                    Progress::Waiting | Progress::InFlight { .. }
                )
            });
            assets.extend(behind.map(|target| target.asset));
            format!("{} stopped: {why}", rollout.id)
        }
        State::RolledBack { why } => format!("{} went back: {why}", rollout.id),
        _ => format!("its content failed before {}", rollout.id),
    };
    Some(Left { assets, why })
}
