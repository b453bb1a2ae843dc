use std::collections::BTreeSet;

use plugin_sdk::{SelectRequest, TargetSelection};
use std::time::Duration;

use super::{Error, Schedule, play};
use crate::kernel::Closure;

/// A rollout at one moment, to be played from there on. See
/// [`Handle::course`](crate::Handle::course).
#[derive(Debug, Clone)]
pub struct Course {
    pub(crate) request: SelectRequest,
    /// The targets that move together.
    pub(crate) closure: Closure,
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
            closure: Closure::default(),
            at_once: BTreeSet::new(),
        }
    }
}
