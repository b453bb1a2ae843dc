//! The check of [`BlastRadiusLayer`](super::BlastRadiusLayer). It only declares claims; the enforcer's kernel counts them.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, Cause, Causes, CheckInfo, CheckName, CheckPlugin, CheckRequest, Claim, Verdict,
};

use crate::{Scope, members::Members};

/// Limits the assets within each part of a scope that are pushed and have not settled. Applies to intent and drift: nothing
/// waits behind it on the way back, or in an emergency.
#[derive(Debug, Clone)]
pub struct BlastRadius {
    name: CheckName,
    scope: Scope,
    most: Most,
    members: Arc<Mutex<Members>>,
}

/// Maximum number of assets at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Most {
    /// At most this many assets at once.
    Assets(u32),
    /// A share of the assets that are in intent, between 0 and 1. It allows at least one.
    Share(f64),
}

impl From<u32> for Most {
    fn from(assets: u32) -> Self {
        Self::Assets(assets)
    }
}

impl BlastRadius {
    /// Makes a check named `name` that allows `most` assets at once in each part of `scope`.
    pub fn new(name: &str, scope: Scope, most: impl Into<Most>) -> Self {
        Self {
            name: name.into(),
            scope,
            most: most.into(),
            members: Arc::default(),
        }
    }

    /// Maximum number of assets in one part of the scope. All assets of the newest incarnation count, whatever is pushed.
    fn most(&self, part: &str, request: &CheckRequest) -> u32 {
        let share = match self.most {
            Most::Assets(most) => return most,
            Most::Share(share) => share,
        };
        let reader = request.newest.bound_to();
        let Some(incarnation) = reader.or_else(|| request.reader().bound_to()) else {
            return 1;
        };
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.follow(&self.scope, incarnation.snapshot());
        let all = members.of(part).len();
        ((all as f64 * share) as u32).max(1)
    }
}

#[async_trait]
impl CheckPlugin for BlastRadius {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.name.clone()).only_for(Causes::of(&[Cause::Intent, Cause::Drift]))
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let parts = self.scope.values(&request)?;
        let claim = |part: &String| {
            let key = Scope::key(&self.name, part);
            Claim::AtMost(key, self.most(part, &request))
        };
        Ok(parts
            .iter()
            .map(claim)
            .fold(request.proceed(), Verdict::claim))
    }
}
