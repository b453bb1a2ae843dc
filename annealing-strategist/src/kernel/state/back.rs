//! The way back of a rollout: the targets that moved, in the order in which they go back (R22).

use plugin_sdk::{Progress, Target, TargetList};

use super::tally::Tally;

/// The targets that go back. A target has two places: one here, one among all targets of the rollout.
#[derive(Debug)]
pub(super) struct Back {
    targets: TargetList,
    /// The place here of each target, by its place among all targets.
    places: Vec<Option<usize>>,
    tally: Tally,
}

impl Back {
    /// Creates the way back of `targets`. `all` are the targets of the rollout, sorted by id.
    pub(super) fn new(targets: Vec<Target>, all: &[Target]) -> Self {
        let mut places = vec![None; all.len()];
        for (at, target) in targets.iter().enumerate() {
            if let Ok(place) = all.binary_search_by(|other| other.asset.cmp(&target.asset)) {
                places[place] = Some(at);
            }
        }
        Self {
            tally: Tally::of(&targets),
            targets: targets.into(),
            places,
        }
    }

    pub(super) fn targets(&self) -> &TargetList {
        &self.targets
    }

    /// Returns the place here of the target at the place `forward` among all targets. `None`: it does not go back.
    pub(super) fn place(&self, forward: usize) -> Option<usize> {
        *self.places.get(forward)?
    }

    /// Sets the progress of a target. Returns whether there is one at this place.
    pub(super) fn set_progress(&mut self, place: usize, progress: Progress) -> bool {
        let Some(before) = self.targets.set_progress(place, progress) else {
            return false;
        };
        self.tally.change(before, progress);
        true
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }
}
