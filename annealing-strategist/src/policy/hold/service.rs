//! The rule of a hold.

use plugin_sdk::{Direction, SelectRequest, Selection, Target, Until};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::Rule;

/// The reason why no more targets are selected.
#[derive(Debug, Clone)]
pub struct Hold(pub(super) String);

impl Rule for Hold {
    fn of(policy: &RolloutPolicy) -> Option<Self> {
        policy.hold.clone().map(Self)
    }

    fn applies(request: &SelectRequest) -> bool {
        request.direction != Direction::Back
    }

    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        if !request.targets.iter().any(Target::is_waiting) {
            return beneath;
        }
        beneath
            .narrowed(|_| false)
            .waiting(format!("on hold: {}", self.0), Until::Person)
    }
}
