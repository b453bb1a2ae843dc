//! Rollouts while the partition is owned: the strategist moves pins through the enforcer, and the handle answers
//! questions about them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use annealing_enforcer::Handle as Enforcement;
use annealing_strategist::{
    AskError, Command, GroupOutcome, Handle as Rollouts, Rollout, View, preview::Schedule,
};
use control_plane_runtime::{Runtime, timeout_at};
use plugin_sdk::{Progress, Wait};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, addons::RolloutPolicyRef};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    By,
    handle::{Error, Handle, announced},
    in_intent::declared,
    port::Port,
    shared::Shared,
};

/// Wait before the strategist starts again after a step failed while the partition is still owned.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs rollouts until the caller drops the future, which happens when the ownership ends.
pub(crate) async fn while_owner<R: Runtime>(shared: Arc<Shared<R>>, enforcement: Enforcement<R>) {
    let _rolling = Rolling(&shared.rollouts);
    loop {
        let (attached, handle) = shared.strategist.attach(Arc::new(enforcement.clone()));
        let edits = Arc::new(Port::start(shared.clone(), enforcement.clone()));
        shared.rollouts.send_replace(Some(handle));
        attached.with_edits(edits).run().await;
        shared.runtime.sleep(AGAIN).await;
    }
}

/// Withdraws the handle to rollouts when it is dropped.
struct Rolling<'s, R>(&'s watch::Sender<Option<Rollouts<R>>>);

impl<R> Drop for Rolling<'_, R> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

/// The part that a rollout plays for one asset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InRollout {
    /// Id of the policy asset of the asset's group.
    pub policy: AssetId,
    /// The newest rollout of the group, in one line.
    pub rollout: String,
    /// Progress of the asset in it. `None` means that the asset is not a target.
    pub progress: Option<Progress>,
    /// Whether the rollout leaves the asset out, because its intended content failed before or it waits for such an
    /// asset. It stays where it is until its content changes or an operator commands a retry.
    pub left_out: bool,
    /// Reasons for which the rollout waits.
    pub waits: Vec<Wait>,
}

impl InRollout {
    /// Summary of the group in `view` for one of its assets, with the asset's progress.
    fn of(view: &View, asset: &AssetId, progress: Option<Progress>) -> Self {
        let rollout = match &view.rollout {
            Some(rollout) => {
                format!("{} {}", rollout.id, rollout.state)
            }
            None => "no rollout yet".to_owned(),
        };
        Self {
            rollout,
            progress,
            left_out: view.left_out.contains(asset),
            waits: view.waits.clone(),
            policy: view.policy.clone(),
        }
    }
}

/// All policy groups at one moment, indexed by asset.
pub(crate) struct Groups {
    /// Incarnation in force at that moment.
    pub(crate) latest: Incarnation,
    views: Vec<View>,
    /// All targets, each with the index of its group in `views` and its progress.
    targets: BTreeMap<AssetId, (usize, Progress)>,
}

impl Groups {
    fn new(latest: Incarnation, views: Vec<View>) -> Self {
        let targets = views.iter().enumerate().flat_map(|(at, view)| {
            let targets = view.targets.iter();
            targets.map(move |target| (target.asset.clone(), (at, target.progress)))
        });
        Self {
            targets: targets.collect(),
            latest,
            views,
        }
    }

    /// The events that the live rollout of a change waits for.
    pub(crate) fn waits_of(&self, key: &AssetId) -> impl Iterator<Item = String> {
        let own = self
            .views
            .iter()
            .filter(|view| view.policy == *key && view.live);
        own.flat_map(|view| &view.waits)
            .map(|wait| wait.why.clone())
    }

    /// The part that a rollout plays for `asset`. `None` means that no policy governs it.
    pub(crate) fn of(&self, asset: &AssetId) -> Option<InRollout> {
        if let Some((at, progress)) = self.targets.get(asset) {
            return Some(InRollout::of(&self.views[*at], asset, Some(*progress)));
        }
        let addon = self.latest.asset(asset)?.addon::<RolloutPolicyRef>();
        let policy = addon.ok().flatten()?.policy.id;
        let mut views = self.views.iter();
        let view = views.find(|view| view.policy == policy)?;
        Some(InRollout::of(view, asset, None))
    }
}

impl<R: Runtime> Handle<R> {
    pub(crate) async fn rolling(&self) -> Result<Rollouts<R>, Error> {
        self.generation().await?;
        // Without an incarnation there are no rollouts, and a question would not be answered.
        self.latest().await?;
        self.part(announced(&self.shared.rollouts)).await
    }

    /// Returns the current state of every policy group: its rollout, the progress of each target, and what it waits
    /// for.
    ///
    /// # Errors
    /// If this process does not own the partition, there is no incarnation yet, or records of rollouts cannot be read.
    pub async fn rollouts(&self) -> Result<Vec<View>, Error> {
        Ok(self.rolling().await?.views().await?)
    }

    /// Returns when each target of the live rollout of `policy` will move from now on if all goes well, and when the rollout
    /// will be over. `policy` may be the key of a change, too. Each target takes `settles_after` until production has it. Other
    /// rollouts, checks and pauses are not played.
    ///
    /// # Errors
    /// If no rollout is live there that goes forward by itself, its policy would never let it end, or this process does not
    /// own the partition.
    pub async fn preview_rollout(
        &self,
        policy: &AssetId,
        settles_after: Duration,
    ) -> Result<Schedule, Error> {
        Ok(self.rolling().await?.preview(policy, settles_after).await?)
    }

    /// Returns the recorded rollouts of the group of `policy`, oldest first.
    ///
    /// # Errors
    /// If this process does not own the partition, or the store cannot be read.
    pub async fn past_rollouts(&self, policy: &AssetId) -> Result<Vec<Rollout>, Error> {
        Ok(self.rolling().await?.history(policy).await?)
    }

    /// Waits until the rollout of incarnation `at`, or of a newer one, is over in the group of `policy`. Returns the
    /// state of the group then. A stopped rollout counts as over, although a command of an operator or newer intent may
    /// continue it.
    ///
    /// ```
    /// use control_plane::prelude::*;
    ///
    /// /// Whether the sources as they are now get rolled out everywhere, healthy and baked.
    /// async fn released(handle: &Handle, policy: &AssetId) -> Result<bool, BoxError> {
    ///     // The incarnation in force (`latest`) may be older than an edit that was not read yet.
    ///     let read = handle.generation().await?.next_run().await;
    ///     let newest = read.incarnation.ok_or("the sources were refused; `status` says why")?.id.no;
    ///     let group = handle.wait_rollout(policy, newest, Duration::from_secs(3600)).await?;
    ///     Ok(group.released)
    /// }
    /// # use std::time::Duration;
    /// # let _ = released;
    /// ```
    ///
    /// # Errors
    /// If it is not over within `within`, there is no such group, or this process does not own the partition.
    pub async fn wait_rollout(
        &self,
        policy: &AssetId,
        at: IncarnationNo,
        within: Duration,
    ) -> Result<GroupOutcome, Error> {
        let runtime = &self.shared.runtime;
        let deadline = runtime.now().mono + within;
        let rolling = self.rolling().await?;
        let over = async {
            loop {
                match rolling.rests(policy, at).await {
                    // The strategist reads the records again by itself.
                    Err(AskError::Unreadable { .. }) => runtime.sleep(AGAIN).await,
                    answer => return answer,
                }
            }
        };
        let over = timeout_at(runtime, deadline, over).await;
        let what = "the rollout was not over";
        Ok(over.ok_or(Error::TooLate { what, within })??)
    }

    /// Gives a command to the rollout of the group of `policy`: pause, resume, promote, abort, retry, roll back. It is
    /// durable when the call returns.
    ///
    /// [`Command::HandOver`] of a change that an asset declares hands it over to the values that the asset has now. For one that
    /// a call began, use [`hand_over`](Self::hand_over).
    ///
    /// # Errors
    /// If the command does not fit the state of the rollout, or this process does not own the partition.
    pub async fn tell_rollout(
        &self,
        policy: &AssetId,
        command: Command,
        by: By,
    ) -> Result<(), Error> {
        if command == Command::HandOver
            && let Some((_, change)) = self.latest().await?.asset(policy).and_then(declared)
        {
            return self.hand_over(&change, by).await.map(drop);
        }
        Ok(self.rolling().await?.tell(policy, command, by).await?)
    }

    /// Returns all policy groups as they are now.
    pub(crate) async fn groups(&self) -> Result<Groups, Error> {
        let views = self.rolling().await?.views().await?;
        Ok(Groups::new(self.latest().await?, views))
    }
}
