//! The check of [`RateLayer`](super::RateLayer). It only declares claims; the enforcer's kernel counts them.

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, CheckInfo, CheckName, CheckPlugin, CheckRequest, Claim, Quota, Verdict,
};

use crate::Scope;

/// Limits the rate of pushes within each part of a scope. Applies to every cause.
#[derive(Debug, Clone)]
pub struct Rate {
    name: CheckName,
    scope: Scope,
    quota: Quota,
}

impl Rate {
    /// Makes a check named `name` that limits the pushes of each part of `scope` to `quota`.
    pub fn new(name: &str, scope: Scope, quota: Quota) -> Self {
        Self {
            name: name.into(),
            scope,
            quota,
        }
    }
}

#[async_trait]
impl CheckPlugin for Rate {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.name.clone())
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let keys = self.scope.keys(&self.name, &request)?;
        Ok(keys
            .into_iter()
            .map(|key| Claim::Rate(key, self.quota))
            .fold(request.proceed(), Verdict::claim))
    }
}
