//! Rollouts beside an ownership: the strategist moves pins through the enforcer, and people ask about it here.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use annealing_enforcer::{FeedItem, Handle as Enforcement, kernel::Pin};
use annealing_strategist::{
    Actuation, Actuator, AskError, Command, Feed, Handle as Rollouts, PinTo, Rested, Rollout, View,
};
use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use plane_runtime::{Runtime, timeout_at};
use plugin_sdk::{BoxError, Progress, Wait};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, addons::RolloutPolicyRef};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    By,
    handle::{Error, Handle},
    plane::Shared,
};

/// The wait before the strategist starts over, when a step of it failed and the ownership goes on.
const AGAIN: Duration = Duration::from_secs(1);

/// Moves pins through the enforcer of one ownership, and hears from it what became of them.
pub struct ThroughEnforcer<R>(Enforcement<R>);

impl<R: Runtime> ThroughEnforcer<R> {
    /// Through this one.
    pub fn new(enforcement: Enforcement<R>) -> Self {
        Self(enforcement)
    }
}

#[async_trait]
impl<R: Runtime> Actuator for ThroughEnforcer<R> {
    async fn actuate(&self, step: Actuation) -> Result<(), BoxError> {
        let pin = |to| match to {
            PinTo::At(incarnation, cause) => Pin::At(incarnation, cause),
            PinTo::NotYet => Pin::NotYet,
            PinTo::Default => Pin::Default,
        };
        let moves = step.moves.into_iter().map(|(asset, to)| (asset, pin(to)));
        let heads: Vec<(AssetId, Incarnation)> = step.head.into_iter().collect();
        let done = self.0.actuate(step.writes, heads, moves.collect());
        Ok(done.await?)
    }

    fn feed(&self) -> BoxStream<'static, Feed> {
        let items = self.0.feed().filter_map(|item| async {
            match item {
                FeedItem::Took(incarnation) => Some(Feed::Took(incarnation)),
                FeedItem::Stands(standings) => Some(Feed::Stands(standings)),
                _ => None,
            }
        });
        items.boxed()
    }
}

/// Rolls out for as long as the partition is owned.
pub(crate) async fn while_owner<R: Runtime>(shared: Arc<Shared<R>>, enforcement: Enforcement<R>) {
    let _rolling = Rolling(&shared.rollouts);
    loop {
        let actuator = Arc::new(ThroughEnforcer::new(enforcement.clone()));
        let (attached, handle) = shared.strategist.attach(actuator);
        shared.rollouts.send_replace(Some(handle));
        attached.run().await;
        shared.runtime.sleep(AGAIN).await;
    }
}

/// Says that this process rolls out, until it is dropped.
struct Rolling<'s, R>(&'s watch::Sender<Option<Rollouts<R>>>);

impl<R> Drop for Rolling<'_, R> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

/// What a rollout has to do with one asset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InRollout {
    /// The policy asset of its group.
    pub policy: AssetId,
    /// The group's newest rollout, in one line.
    pub rollout: String,
    /// How far the asset is in it. `None`: it is no target.
    pub progress: Option<Progress>,
    /// What is intended failed before, or it waits for an asset of which that holds: it stays where it is until that
    /// changes or a person says `retry`.
    pub left_out: bool,
    /// What the rollout waits for.
    pub waits: Vec<Wait>,
}

impl InRollout {
    /// What a group says of one of its assets, and how far that is.
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

/// Every policy group at one moment: what rollouts have to do with any asset.
pub(crate) struct Groups {
    /// The incarnation in force.
    pub(crate) latest: Incarnation,
    views: Vec<View>,
    /// Every target: the place of its view, and how far it is.
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

    /// What the rollout of its group has to do with `asset`. `None`: no policy governs it.
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
    async fn rolling(&self) -> Result<Rollouts<R>, Error> {
        self.generation().await?;
        // Before there is anything to roll out, nobody would answer.
        self.latest().await?;
        let rollouts = self.shared.rollouts.borrow().clone();
        match rollouts {
            Some(rollouts) => Ok(rollouts),
            None => Err(Error::NotOwner {
                partition: self.shared.partition.clone(),
                owner: None,
            }),
        }
    }

    /// Every policy group as it is now: its rollout, how far each target is, what it waits for.
    ///
    /// # Errors
    /// When this process does not own the partition, there is no incarnation yet, or what is remembered cannot be read.
    pub async fn rollouts(&self) -> Result<Vec<View>, Error> {
        Ok(self.rolling().await?.views().await?)
    }

    /// The remembered rollouts of the group of `policy`, oldest first.
    ///
    /// # Errors
    /// When this process does not own the partition, or the store cannot be read.
    pub async fn past_rollouts(&self, policy: &AssetId) -> Result<Vec<Rollout>, Error> {
        Ok(self.rolling().await?.history(policy).await?)
    }

    /// Waits until the rollout of incarnation `at`, or of a newer one, is over in the group of `policy`, and says how the
    /// group is then. One that stopped is over too: it stays so until a person says something or newer intent is there.
    ///
    /// ```
    /// use control_plane::prelude::*;
    ///
    /// /// Whether what is in force is everywhere, well and baked.
    /// async fn released(handle: &Handle, policy: &AssetId) -> Result<bool, control_plane::Error> {
    ///     let newest = handle.latest().await?.no();
    ///     let group = handle.wait_rollout(policy, newest, Duration::from_secs(3600)).await?;
    ///     Ok(group.released)
    /// }
    /// # use std::time::Duration;
    /// # let _ = released;
    /// ```
    ///
    /// # Errors
    /// When it is not over within `within`, there is no such group, or this process does not own the partition.
    pub async fn wait_rollout(
        &self,
        policy: &AssetId,
        at: IncarnationNo,
        within: Duration,
    ) -> Result<Rested, Error> {
        let runtime = &self.shared.runtime;
        let deadline = runtime.now().mono + within;
        let rolling = self.rolling().await?;
        let over = async {
            loop {
                match rolling.rests(policy, at).await {
                    // It is read again by itself.
                    Err(AskError::Unreadable { .. }) => runtime.sleep(AGAIN).await,
                    answer => return answer,
                }
            }
        };
        let over = timeout_at(runtime, deadline, over).await;
        let what = "the rollout was not over";
        Ok(over.ok_or(Error::TooLate { what, within })??)
    }

    /// Says something to the rollout of the group of `policy`: pause, resume, promote, abort, retry, roll back. Durable
    /// when the call returns.
    ///
    /// # Errors
    /// When it does not fit how the rollout is, or this process does not own the partition.
    pub async fn tell_rollout(
        &self,
        policy: &AssetId,
        command: Command,
        by: By,
    ) -> Result<(), Error> {
        Ok(self.rolling().await?.tell(policy, command, by).await?)
    }

    /// Every policy group now.
    pub(crate) async fn groups(&self) -> Result<Groups, Error> {
        let views = self.rolling().await?.views().await?;
        Ok(Groups::new(self.latest().await?, views))
    }
}
