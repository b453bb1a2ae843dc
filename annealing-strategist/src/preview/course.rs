//! Where a preview begins: a rollout at one moment.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use plugin_sdk::{SelectRequest, TargetSelection};

use super::{Error, Schedule, play};

/// A rollout at one moment, to be played from there on. See [`Handle::preview`](crate::Handle::preview).
#[derive(Clone)]
pub struct Course {
    pub(crate) request: SelectRequest,
    /// Returns the places of the targets that move if those at these places do.
    pub(crate) closed: Arc<dyn Fn(Vec<u32>) -> Vec<u32> + Send + Sync>,
    /// The places of targets that are settled once they have moved: nothing is pushed for them.
    pub(crate) at_once: BTreeSet<u32>,
}

impl Course {
    /// Plays the rollout as [`preview`](super::preview) does, with targets that move together. `policy` has to be the one that
    /// rolls it out.
    ///
    /// # Errors
    /// When the rollout would stall, does not end within the limits of a preview, or when the policy fails.
    pub fn play<P>(self, policy: &P, settles_after: Duration) -> Result<Schedule, Error>
    where
        P: TargetSelection + ?Sized,
    {
        play::bounded(policy, self, settles_after, play::ROUNDS)
    }
}

impl From<SelectRequest> for Course {
    fn from(request: SelectRequest) -> Self {
        Self {
            request,
            closed: Arc::new(|places| places),
            at_once: BTreeSet::new(),
        }
    }
}

impl fmt::Debug for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Course")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
