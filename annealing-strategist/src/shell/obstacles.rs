//! The obstacles that keep rollouts from bringing assets to new content, read from the store. Plans use them, because
//! they ask no owner.

use std::collections::BTreeMap;

use control_plane_runtime::Runtime;
use plugin_sdk::BoxError;
use prodspec_model::{Asset, AssetId, Incarnation};

use super::{
    Strategist,
    recover::{failed_by_group, kept, newest_by_group},
};
use crate::record::{Quarantined, Rollout, State};

/// Rollouts that need an operator to go on, and quarantined contents.
#[derive(Debug)]
pub struct Obstacles {
    /// The newest rollout of each group, with its incarnation if that is kept.
    newest: BTreeMap<AssetId, (Rollout, Option<Incarnation>)>,
    failed: BTreeMap<AssetId, Vec<(AssetId, Quarantined)>>,
}

impl<R: Runtime> Strategist<R> {
    /// Reads from the store the obstacles that keep the partition's rollouts from going on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn obstacles(&self) -> Result<Obstacles, BoxError> {
        let mut newest = BTreeMap::new();
        for (policy, rollout) in newest_by_group(self).await? {
            let to = kept(&self.incarnations, rollout.to).await?;
            newest.insert(policy, (rollout, to));
        }
        let failed = failed_by_group(self).await?;
        Ok(Obstacles { newest, failed })
    }
}

impl Obstacles {
    /// Returns the reason why the group of `policy` does not bring an asset to the content of `new`. `None`: no
    /// obstacle needs an operator.
    pub fn of(&self, policy: &AssetId, new: &Asset) -> Option<String> {
        let (id, content) = (new.id(), new.digest());
        let failed = self.failed.get(policy).into_iter().flatten();
        let mut failed = failed.filter(|(asset, _)| *asset == id);
        if let Some(failed) = failed.find_map(|(_, failed)| failed.find(content, None)) {
            return Some(match failed.reached {
                true => format!(
                    "this content failed in a rollout of `{policy}`; change it, or tell the rollout to retry"
                ),
                false => format!(
                    "this content was part of a rollout of `{policy}` that failed; fix what failed, or tell the rollout to retry"
                ),
            });
        }
        let (rollout, to) = self.newest.get(policy)?;
        let is_newer = || {
            let rolled = to.as_ref().and_then(|to| to.asset(&id));
            rolled.is_none_or(|rolled| rolled.digest() != content)
        };
        match &rollout.state {
            State::Paused => Some(format!("rollout {} is paused", rollout.id)),
            // Newer intent for the failed content takes over by itself.
            State::Stopped { why } if !is_newer() => {
                Some(format!("rollout {} stopped: {why}", rollout.id))
            }
            _ => None,
        }
    }
}
