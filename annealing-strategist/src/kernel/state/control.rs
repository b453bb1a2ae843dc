//! R105: the targets with which a rollout compares those that it has moved.

use std::hash::{DefaultHasher, Hash, Hasher};

use plugin_sdk::RolloutId;
use prodspec_model::AssetId;

use super::targets::Targets;

/// Maximum number of targets to compare with.
const MOST: usize = 256;
/// Number of targets below which others are drawn, if there are any.
const FEWEST: usize = 32;

/// Targets that had not moved when they were drawn, in an order that depends on nothing but their ids and the rollout.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Control(Vec<AssetId>);

impl Control {
    /// Returns those that have not moved. Draws anew if few are left.
    pub(in crate::kernel) fn waiting(
        &mut self,
        rollout: RolloutId,
        targets: &Targets,
    ) -> Vec<AssetId> {
        let left = self.left(targets);
        if left.len() >= FEWEST {
            return left;
        }
        let waiting = targets
            .all()
            .iter()
            .filter(|it| it.is_waiting() && !it.silent);
        let drawn = |id: &AssetId| {
            let mut hasher = DefaultHasher::new();
            (rollout, id).hash(&mut hasher);
            hasher.finish()
        };
        let mut all: Vec<(_, &AssetId)> = waiting.map(|it| (drawn(&it.asset), &it.asset)).collect();
        if all.len() == left.len() {
            return left;
        }
        if all.len() > MOST {
            all.select_nth_unstable(MOST);
            all.truncate(MOST);
        }
        all.sort_unstable();
        self.0 = all.into_iter().map(|(_, id)| id.clone()).collect();
        self.0.clone()
    }

    fn left(&self, targets: &Targets) -> Vec<AssetId> {
        let waits = |id: &&AssetId| {
            let target = targets.place(id).and_then(|place| targets.get(place));
            target.is_some_and(|it| it.is_waiting() && !it.silent)
        };
        self.0.iter().filter(waits).cloned().collect()
    }
}
