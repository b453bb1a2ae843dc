//! Explain: why an asset is, or is not, being pushed, followed to the root causes. Every asset has an answer.

use std::collections::BTreeMap;

use annealing_checks::solver::wait_cycles;
use annealing_enforcer::{AskError, kernel::Waiting};
use control_plane_runtime::Runtime;
use plugin_sdk::Recheck;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo, Message, addons::Moved, goal::Goal,
    rollout::RollOut, train::Train,
};
use serde::{Deserialize, Serialize};

use crate::{
    GoalView, TrainView,
    goals::goal,
    handle::{Error, Handle},
    rollout::{Groups, InRollout},
};

/// The explanation of an asset: its state, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Explained {
    /// The asset is enforced, or was enforced until it left intent.
    Enforced {
        /// Explanation of the asset by the enforcer.
        #[serde(flatten)]
        enforced: Box<annealing_enforcer::Explained>,
        /// The part that rollouts play for each asset of the chain that a policy governs.
        rollouts: BTreeMap<AssetId, InRollout>,
    },
    /// The asset is not pushed; other assets refer to it.
    ModelledOnly {
        /// Id of the explained asset.
        asset: AssetId,
        /// Name of the asset's type.
        type_name: String,
        /// Number of the incarnation in force.
        incarnation: IncarnationNo,
        /// Assets that refer to it.
        referred_to_by: Vec<AssetId>,
        /// The part that a rollout plays for it. `None` means that no policy governs it.
        rollout: Option<Box<InRollout>>,
        /// How far the goal, the train or the change is. `None`: the asset is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asks: Option<Box<Asks>>,
    },
}

/// The state of a goal, a train or a change in intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Asks {
    /// A goal, with the assets that are missing.
    Goal(GoalView),
    /// A train, with its versions and stages.
    Train(TrainView),
    /// A change that begins by itself.
    Change {
        /// The newest rollout of the change, in one line. `None`: none has begun.
        rollout: Option<String>,
        /// The reasons why it does not begin, or the events that its rollout waits for.
        waits: Vec<String>,
    },
}

impl Explained {
    /// Id of the explained asset.
    pub fn asset(&self) -> Option<&AssetId> {
        match self {
            Self::Enforced { enforced, .. } => enforced.chain.first().map(|first| &first.asset),
            Self::ModelledOnly { asset, .. } => Some(asset),
        }
    }

    /// How far the goal, the train or the change is. `None`: the asset is none.
    pub fn asks(&self) -> Option<&Asks> {
        match self {
            Self::ModelledOnly { asks, .. } => asks.as_deref(),
            Self::Enforced { .. } => None,
        }
    }

    /// Explanation by the enforcer. `None` for an asset that is modelled only.
    pub fn enforced(&self) -> Option<&annealing_enforcer::Explained> {
        match self {
            Self::Enforced { enforced, .. } => Some(enforced),
            Self::ModelledOnly { .. } => None,
        }
    }
}

impl<R: Runtime> Handle<R> {
    /// Explains why `asset` is, or is not, being pushed.
    ///
    /// # Errors
    /// If there is no such asset, or this process does not own the partition.
    pub async fn explain(&self, asset: &AssetId) -> Result<Explained, Error> {
        self.generation().await?;
        self.explained(asset, &self.groups().await?).await
    }

    async fn explained(&self, asset: &AssetId, groups: &Groups) -> Result<Explained, Error> {
        match self.enforcer.explain(asset).await {
            Ok(mut enforced) => {
                // Of several cycles always the same one, whichever of its assets was asked about.
                let circles = cycles(&enforced).into_iter();
                enforced.cycle = circles.min().unwrap_or_default();
                let links = enforced.chain.iter().map(|link| &link.asset);
                let rollouts = links.filter_map(|id| Some((id.clone(), groups.of(id)?)));
                Ok(Explained::Enforced {
                    rollouts: rollouts.collect(),
                    enforced: Box::new(enforced),
                })
            }
            Err(AskError::UnknownAsset { .. }) => self.modelled_only(asset, groups).await,
            Err(error) => Err(error.into()),
        }
    }

    async fn modelled_only(&self, id: &AssetId, groups: &Groups) -> Result<Explained, Error> {
        let latest = &groups.latest;
        let asset = latest.asset(id).ok_or_else(|| self.unknown(id, latest))?;
        Ok(Explained::ModelledOnly {
            asset: id.clone(),
            type_name: asset.type_str().to_owned(),
            incarnation: latest.no(),
            referred_to_by: latest.snapshot().referrers(id.as_str()),
            rollout: groups.of(id).map(Box::new),
            asks: asks(self, asset, groups).await?.map(Box::new),
        })
    }

    fn unknown(&self, id: &AssetId, latest: &Incarnation) -> Error {
        let partition = self.shared.partition.clone();
        let asset = id.clone();
        match Moved::successor(latest.snapshot(), id.as_str()) {
            Some(renamed) => Error::Renamed {
                partition,
                asset,
                now: renamed.id(),
            },
            None => Error::UnknownAsset { partition, asset },
        }
    }

    /// Explains every asset, ordered by id: those of the incarnation in force, and the orphans. Asks one question per
    /// asset, so it is meant for small partitions.
    ///
    /// # Errors
    /// As for [`Handle::explain`].
    pub async fn explain_all(&self) -> Result<Vec<Explained>, Error> {
        self.generation().await?;
        let groups = self.groups().await?;
        let mut ids = self.enforcer.assets().await?;
        ids.extend(groups.latest.snapshot().iter().map(|asset| asset.id()));
        ids.sort();
        ids.dedup();
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            match self.explained(&id, &groups).await {
                Ok(explained) => all.push(explained),
                // The asset disappeared while the others were being explained.
                Err(Error::UnknownAsset { .. } | Error::Renamed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }
}

async fn asks<R: Runtime>(
    handle: &Handle<R>,
    asset: Asset,
    groups: &Groups,
) -> Result<Option<Asks>, Error> {
    let id = asset.id();
    Ok(match asset.type_str() {
        Goal::TYPE => goal(handle, &groups.latest, asset).await?.map(Asks::Goal),
        Train::TYPE => handle.trains().of(asset).await?.map(Asks::Train),
        RollOut::TYPE => {
            let past = handle.past_rollouts(&id).await?;
            let rollout = past.last().map(|it| format!("{} {}", it.id, it.state));
            let undone = handle.shared.undone.borrow().get(&id).cloned();
            let waits = undone.into_iter().chain(groups.waits_of(&id)).collect();
            Some(Asks::Change { rollout, waits })
        }
        _ => None,
    })
}

/// Returns the cycles of assets that wait for each other.
fn cycles(explained: &annealing_enforcer::Explained) -> Vec<Vec<AssetId>> {
    let mut waits = Vec::new();
    for link in &explained.chain {
        let Some(Waiting::Checks(delays)) = &link.waiting else {
            continue;
        };
        waits.extend(delays.iter().filter_map(|delay| match &delay.recheck {
            Recheck::WhenSettled(other) => Some((link.asset.clone(), other.clone())),
            _ => None,
        }));
    }
    wait_cycles(&waits)
}
