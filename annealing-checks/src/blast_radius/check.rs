//! The check of [`BlastRadiusLayer`](super::BlastRadiusLayer). It only declares claims; the enforcer's kernel counts them.

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, Cause, Causes, CheckInfo, CheckName, CheckPlugin, CheckRequest, Claim, Verdict,
};

use crate::Scope;

/// Limits the assets within each part of a scope that are pushed and have not settled. Applies to intent and drift: nothing
/// waits behind it on the way back, or in an emergency.
#[derive(Debug, Clone)]
pub struct BlastRadius {
    name: CheckName,
    scope: Scope,
    at_most: u32,
}

impl BlastRadius {
    /// Makes a check named `name` that allows `at_most` assets at once in each part of `scope`.
    pub fn new(name: &str, scope: Scope, at_most: u32) -> Self {
        Self {
            name: name.into(),
            scope,
            at_most,
        }
    }
}

#[async_trait]
impl CheckPlugin for BlastRadius {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.name.clone()).only_for(Causes::of(&[Cause::Intent, Cause::Drift]))
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let keys = self.scope.keys(&self.name, &request)?;
        Ok(keys
            .into_iter()
            .map(|key| Claim::AtMost(key, self.at_most))
            .fold(request.proceed(), Verdict::claim))
    }
}
