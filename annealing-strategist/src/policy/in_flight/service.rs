//! The rule of targets on their way.

use plugin_sdk::{Progress, SelectRequest, Selection, Wait};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::{Rule, room::Room};

/// How many targets may be on their way at once. On the way back, what has not got there within the
/// policy's patience counts no longer.
#[derive(Debug, Clone)]
pub struct MaxInFlight(pub(super) u32);

impl Rule for MaxInFlight {
    fn of(policy: &RolloutPolicy) -> Option<Self> {
        policy.max_in_flight.map(Self)
    }

    fn applies(_: &SelectRequest) -> bool {
        true
    }

    fn narrow(&self, request: &SelectRequest, mut beneath: Selection) -> Selection {
        let mut limit = Room::default();
        let under_way = request
            .targets
            .iter()
            .filter(|target| match target.progress {
                Progress::InFlight { since } => limit.takes(request, since),
                _ => false,
            });
        let under_way = under_way.count();
        let room = (self.0 as usize).saturating_sub(under_way);
        if beneath.now.len() <= room {
            return beneath;
        }
        beneath.now.truncate(room);
        beneath.waiting(Wait {
            why: format!(
                "{} are on their way, {} at most may be",
                under_way + room,
                self.0
            ),
            until: limit.until(),
        })
    }
}
