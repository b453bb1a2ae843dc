//! The check behind [`PoliciesLayer`](super::PoliciesLayer).

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::future::join_all;
use plugin_sdk::{
    BoxError, CheckInfo, CheckName, CheckPlugin, CheckRequest, Sources, Verdict, with_causes,
};
use prodspec_model::{Asset, Snapshot, policy, snapshot::OfType};

use super::compiled::{All, Compiled, Readers, compile};

/// The check by all policies in intent. Its rules are listed in the [module](super).
#[derive(Clone)]
pub struct Policies {
    readers: Arc<Readers>,
    newest: Arc<Mutex<Newest>>,
}

/// The policies of the newest incarnation.
struct Newest {
    read: OfType<Asset>,
    compiled: Arc<All>,
}

impl Policies {
    /// The name of the check, and the beginning of the names of its policies.
    const NAME: &'static str = "policies";

    /// Makes a check by policies that name these sources.
    pub fn reading(sources: &Sources) -> Self {
        let newest = Newest {
            read: OfType::new(policy::CHECKS, Some),
            compiled: Arc::default(),
        };
        Self {
            readers: Arc::new(Readers::of(sources)),
            newest: Arc::new(Mutex::new(newest)),
        }
    }

    /// The policies of a snapshot. Those that have not changed keep their checks.
    fn all(&self, snapshot: &Snapshot) -> Arc<All> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.read.follow(snapshot) {
            let known = newest.compiled.clone();
            let ready = newest.read.iter().filter_map(|(id, asset)| {
                let same = known.get(id).filter(|it| it.digest == asset.digest());
                let ready = same.cloned().or_else(|| {
                    let compiled = compile(Self::NAME, asset, &self.readers)?;
                    Some(Arc::new(compiled))
                });
                Some((id.clone(), ready?))
            });
            newest.compiled = Arc::new(ready.collect());
        }
        newest.compiled.clone()
    }
}

impl Compiled {
    /// The verdict of the policy. `None`: it is not about the asset, or not about this cause.
    async fn verdict(&self, asset: &Asset, request: &CheckRequest) -> Option<Verdict> {
        if !self.is_about(asset, request.now) {
            return None;
        }
        let mut verdict = match &self.check {
            Ok(check) if !check.info().causes.contains(request.cause) => return None,
            Ok(check) => match check.check(request.clone()).await {
                Ok(verdict) => verdict,
                Err(error) => request.delay(format!("the check failed: {}", with_causes(&*error))),
            },
            Err(_) if !(self.holds_unread)(request) => return None,
            Err(why) => request.delay(format!("the policy cannot check: {why}")),
        };
        for delay in &mut verdict.delays {
            delay.check = CheckName::from(&*self.name);
        }
        Some(verdict)
    }
}

#[async_trait]
impl CheckPlugin for Policies {
    fn info(&self) -> CheckInfo {
        CheckInfo::new(Self::NAME)
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let Some(newest) = request.newest.bound_to() else {
            return Ok(request.proceed());
        };
        let all = self.all(newest.snapshot());
        if all.is_empty() {
            return Ok(request.proceed());
        }
        let asset = request.asset()?;
        let verdicts = all.values().map(|it| it.verdict(&asset, &request));
        let verdicts = join_all(verdicts).await.into_iter().flatten();
        Ok(verdicts.fold(request.proceed(), Verdict::join))
    }
}

impl std::fmt::Debug for Policies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Policies").field(&self.readers).finish()
    }
}
