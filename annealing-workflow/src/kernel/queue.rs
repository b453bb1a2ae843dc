//! Steps that wait for their turn, by class and age.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::{Class, Mono};

use super::state::StepId;

/// Time after which a waiting step rises by one class.
const RISES: Duration = Duration::from_secs(60);

/// Waiting steps. The first one is of the best class, and the oldest of its class; each step rises one class per minute,
/// so after three minutes nothing that came later is before it.
#[derive(Debug, Default)]
pub(super) struct Queue([BTreeSet<(Mono, StepId)>; 4]);

/// The place of a class among the four, the best one first.
fn place(class: Class) -> usize {
    match class {
        Class::Urgent => 0,
        Class::UnderWay => 1,
        Class::New => 2,
        Class::Background => 3,
    }
}

impl Queue {
    pub(super) fn insert(&mut self, class: Class, since: Mono, step: StepId) {
        self.0[place(class)].insert((since, step));
    }

    /// Removes a step; it may be absent.
    pub(super) fn remove(&mut self, class: Class, since: Mono, step: StepId) -> bool {
        self.0[place(class)].remove(&(since, step))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(BTreeSet::is_empty)
    }

    /// Removes and returns the first step at `now`. A time before all others leaves the steps in their classes.
    pub(super) fn pop(&mut self, now: Mono) -> Option<StepId> {
        // Within a class the oldest has risen highest, so only the first of each class can be the first of all.
        let heads = self.0.iter().enumerate().filter_map(|(place, steps)| {
            let &(since, step) = steps.first()?;
            let risen = now.since(since).as_nanos() / RISES.as_nanos();
            let place_now = place.saturating_sub(usize::try_from(risen).unwrap_or(usize::MAX));
            Some((place_now, since, step, place))
        });
        let (_, since, step, place) = heads.min()?;
        self.0[place].remove(&(since, step));
        Some(step)
    }
}
