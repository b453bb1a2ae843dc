//! The rule of targets on their way.

use plugin_sdk::{Progress, SelectRequest, Selection, Until, Wait};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::Rule;

/// How many targets may be on their way at once.
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
        let on_its_way = |progress| matches!(progress, Progress::InFlight { .. });
        let progress = request.targets.iter().map(|target| target.progress);
        let under_way = progress.filter(|progress| on_its_way(*progress)).count();
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
            until: Until::Settled,
        })
    }
}
