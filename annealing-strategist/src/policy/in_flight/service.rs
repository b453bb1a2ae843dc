//! The rule that limits targets in flight.

use plugin_sdk::{Progress, SelectRequest, Selection};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::{Rule, room::Room};

/// Maximum number of targets in flight. During a rollback, a target that has not got back within the policy's
/// patience no longer counts.
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
        let in_flight = |place: u32| {
            let target = request.targets.get(place as usize);
            target.is_some_and(|it| matches!(it.progress, Progress::InFlight { .. }))
        };
        let under_way = request.targets.census().under_way().iter();
        let under_way = under_way
            .filter(|(since, place)| in_flight(*place) && limit.takes(request, *since))
            .count();
        let room = (self.0 as usize).saturating_sub(under_way);
        if beneath.now.len() <= room {
            return beneath;
        }
        beneath.now.truncate(room);
        beneath.waiting(
            format!(
                "{} targets are in flight, and the limit is {}",
                under_way + room,
                self.0
            ),
            limit.until(),
        )
    }
}
