//! The check behind [`PoliciesLayer`](super::PoliciesLayer).

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::future::join_all;
use plugin_sdk::{
    BoxError, CheckInfo, CheckName, CheckPlugin, CheckRequest, Recheck, Sources, Verdict,
    with_causes,
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
    /// Those of the snapshot before. A plan and enforcement may take turns with two snapshots.
    before: Arc<All>,
}

impl Policies {
    /// The name of the check, and the beginning of the names of its policies.
    const NAME: &'static str = "policies";

    /// Makes a check by policies that name these sources.
    pub fn reading(sources: &Sources) -> Self {
        let newest = Newest {
            read: OfType::new(policy::CHECKS, Some),
            compiled: Arc::default(),
            before: Arc::default(),
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
            let known = [newest.compiled.clone(), newest.before.clone()];
            let ready = newest.read.iter().filter_map(|(id, asset)| {
                let mut same = known.iter().filter_map(|all| all.get(id));
                let same = same.find(|it| it.digest == asset.digest());
                let ready = same.cloned().or_else(|| {
                    let compiled = compile(Self::NAME, asset, &self.readers)?;
                    Some(Arc::new(compiled))
                });
                Some((id.clone(), ready?))
            });
            let ready = Arc::new(ready.collect());
            newest.before = std::mem::replace(&mut newest.compiled, ready);
        }
        newest.compiled.clone()
    }
}

impl Compiled {
    /// The verdict of the policy on the push of an asset, which has another content in the newest incarnation perhaps. `None`: it is not about the asset, or not about this cause.
    async fn verdict(
        &self,
        asset: &Asset,
        newest: Option<&Asset>,
        request: &CheckRequest,
    ) -> Option<Verdict> {
        let mut contents = newest.into_iter().chain([asset]);
        if !contents.any(|it| self.is_about(it, request.now)) {
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
        let exempt = self.exempt_from(asset, request.now);
        for delay in &mut verdict.delays {
            delay.check = CheckName::from(&*self.name);
            if let (Recheck::At(at), Some(exempt)) = (&mut delay.recheck, exempt) {
                *at = exempt.min(*at);
            }
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
        let present = request.newest.get(request.asset_id());
        let present = present.as_ref();
        let verdicts = all.values();
        let verdicts = verdicts.map(|it| it.verdict(&asset, present, &request));
        let verdicts = join_all(verdicts).await.into_iter().flatten();
        Ok(verdicts.fold(request.proceed(), Verdict::join))
    }
}

impl std::fmt::Debug for Policies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Policies").field(&self.readers).finish()
    }
}
