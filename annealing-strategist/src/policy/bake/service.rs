//! The rule of the last bake.

use std::time::Duration;

use plugin_sdk::{SelectRequest, Selection};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::{Gate, Rule, gate::gate_of_all};

/// The time for which all targets together have to stay settled and healthy.
#[derive(Debug, Clone)]
pub struct Bake(pub(super) Duration);

impl Rule for Bake {
    fn of(policy: &RolloutPolicy) -> Option<Self> {
        Some(Self(Duration::from_secs(policy.bake_secs)))
    }

    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        if !request.targets.census().waiting().is_empty() {
            return beneath;
        }
        match gate_of_all(request, self.0) {
            Gate::Open => beneath,
            Gate::Shut(wait) => beneath
                .waiting(format!("the whole: {}", wait.why), wait.until)
                .at_stage("bake"),
        }
    }
}
