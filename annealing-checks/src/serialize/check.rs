//! The check of [`SerializeLayer`](super::SerializeLayer). It only declares claims; the enforcer's kernel counts them.

use async_trait::async_trait;
use plugin_sdk::{BoxError, CheckInfo, CheckName, CheckPlugin, CheckRequest, Claim, Verdict};

use crate::Scope;

/// Allows one push at a time within each part of a scope. Applies to every cause.
#[derive(Debug, Clone)]
pub struct Serialize {
    name: CheckName,
    scope: Scope,
}

impl Serialize {
    /// Makes a check named `name` that allows one push at a time within each part of `scope`.
    pub fn new(name: &str, scope: Scope) -> Self {
        Self {
            name: name.into(),
            scope,
        }
    }
}

#[async_trait]
impl CheckPlugin for Serialize {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(self.name.clone())
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let keys = self.scope.keys(&self.name, &request)?;
        Ok(keys
            .into_iter()
            .map(Claim::Exclusive)
            .fold(request.proceed(), Verdict::claim))
    }
}
