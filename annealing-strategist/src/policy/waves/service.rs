//! The rule of waves.

use std::time::Duration;

use plugin_sdk::{SelectRequest, Selection};
use prodspec_model::rollout::{Amount, RolloutPolicy};

use crate::policy::{
    Rule,
    first::{Stage, first_of},
};

/// The waves: how many targets are updated when each one is over, and how long it bakes.
#[derive(Debug, Clone)]
pub struct Waves(pub(super) Vec<(Amount, Duration)>);

impl Rule for Waves {
    fn of(policy: &RolloutPolicy) -> Option<Self> {
        let waves = policy.waves.iter();
        let waves = waves.map(|wave| (wave.upto, Duration::from_secs(wave.bake_secs)));
        (!policy.waves.is_empty()).then(|| Self(waves.collect()))
    }

    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        let all = request.targets.census().first().targets;
        let stages = (1..).zip(&self.0).map(|(no, (upto, bake))| Stage {
            name: format!("wave {no} of {}", self.0.len()),
            upto: upto.of(all),
            bake: *bake,
        });
        first_of(stages, request, beneath)
    }
}
