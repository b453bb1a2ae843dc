//! Decides which targets count against a limit.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{Direction, SelectRequest, Until};

/// Default time after which a target that is rolled back no longer counts against limits. It may never get back, and
/// must not keep other targets from going back.
const PATIENCE: Duration = Duration::from_secs(600);

/// Counts the targets that use up a limit, and remembers when the next of them stops counting.
#[derive(Debug, Default)]
pub(super) struct Room {
    until: Option<Timestamp>,
}

impl Room {
    /// Whether a target that is in flight or drifted since `since` counts against the limit.
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

    /// When the limit may allow more targets.
    pub(super) fn until(&self) -> Until {
        self.until.map_or(Until::Settled, Until::Time)
    }
}
