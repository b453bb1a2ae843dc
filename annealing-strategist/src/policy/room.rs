//! Who takes room under a limit.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{Direction, SelectRequest, Until};

/// What has not got back for so long may never, unless the policy says otherwise: it keeps nobody else from going back.
const PATIENCE: Duration = Duration::from_secs(600);

/// Counts those that take room, and says when the next of them does no longer.
#[derive(Debug, Default)]
pub(super) struct Room {
    until: Option<Timestamp>,
}

impl Room {
    /// Whether what is away since `since` takes room.
    pub(super) fn takes(&mut self, request: &SelectRequest, since: Timestamp) -> bool {
        if request.direction == Direction::Forward {
            return true;
        }
        let said = request.policy.patience_secs.map(Duration::from_secs);
        let until = since.checked_add(said.unwrap_or(PATIENCE));
        let until = until.unwrap_or(Timestamp::MAX);
        if until <= request.now {
            return false;
        }
        self.until = Some(self.until.map_or(until, |earliest| earliest.min(until)));
        true
    }

    /// When there may be more of it.
    pub(super) fn until(&self) -> Until {
        self.until.map_or(Until::Settled, Until::Time)
    }
}
