//! What the waits ask of generation and of the strategist.

use std::{collections::BTreeSet, sync::Arc};

use annealing_strategist::State;
use control_plane_runtime::Runtime;
use plugin_sdk::Progress;
use prodspec_model::{AssetId, IncarnationNo};

use crate::shared::Shared;

/// Assets that a rollout which stopped, or went back, does not bring to their newest content. One that was in flight when the
/// rollout stopped may still get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) assets: BTreeSet<AssetId>,
    pub(super) why: String,
}

/// The incarnation that the first good run of generation has brought into force, or has found unchanged, after `begun` runs.
/// `None`: generation has ended.
pub(super) async fn sealed<R: Runtime>(
    shared: Arc<Shared<R>>,
    begun: u64,
) -> Option<IncarnationNo> {
    let mut owned = shared.owned.subscribe();
    let generation = owned.wait_for(Option::is_some).await.ok()?.clone()?;
    let status = generation.in_force_after(begun).await?;
    Some(status.incarnation?.id.no)
}

/// Waits until a policy group rests at an incarnation, or a newer one. Returns what it leaves behind then. `None`: nothing, or
/// there is no answer.
pub(super) async fn left_behind<R: Runtime>(
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
