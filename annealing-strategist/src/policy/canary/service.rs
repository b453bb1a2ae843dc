//! The rule of a canary.

use std::time::Duration;

use plugin_sdk::{SelectRequest, Selection};
use prodspec_model::rollout::RolloutPolicy;

use crate::policy::{
    Rule,
    first::{Stage, first_of},
};

/// The number of targets that go before the others, and the time for which they bake.
#[derive(Debug, Clone)]
pub struct Canary {
    pub(super) count: u32,
    pub(super) bake: Duration,
}

impl Rule for Canary {
    fn of(policy: &RolloutPolicy) -> Option<Self> {
        policy.canary.as_ref().map(|canary| Self {
            count: canary.count,
            bake: Duration::from_secs(canary.bake_secs),
        })
    }

    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        let stage = Stage {
            name: "canary".into(),
            upto: self.count as usize,
            bake: self.bake,
        };
        first_of([stage], request, beneath)
    }
}
