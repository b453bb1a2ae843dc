//! The plugin that changes production, and the health of services. Both fail at times.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use control_plane::sdk::{
    AssetPlugin, BoxError, Causes, Change, CheckInfo, CheckPlugin, CheckRequest, Delay, Diff,
    DiffRequest, Effects, Health, HealthRequest, HealthValidator, Judgement, Observed, PushRequest,
    Pushed, Recheck, Verdict, plugin,
};

use super::{manifest::Service, world::World};

/// The plugin of services.
pub(super) struct Provider(pub(super) World);

#[async_trait]
impl AssetPlugin for Provider {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let most = Duration::from_millis(500);
        self.0.takes(Duration::ZERO, most).await;
        let mut state = self.0.state();
        if state.strikes(3) {
            return Err(plugin::Error::transient("the provider does not answer"));
        }
        let asset = request.asset()?;
        let there = state.production.content(request.asset_id().as_str());
        if there == asset.payload::<Service>().ok() {
            return Ok(Diff::in_sync());
        }
        let change = Change::new(&asset, "update it", vec![], Effects::default());
        Ok(Diff::differs(change).observed(Observed::default()))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let most = Duration::from_secs(6);
        self.0.takes(Duration::from_millis(10), most).await;
        let now = self.0.now();
        let mut state = self.0.state();
        if state.strikes(5) {
            return Err(plugin::Error::transient("the provider does not answer"));
        }
        let service = request.asset()?.payload::<Service>();
        let service = service.map_err(|_| plugin::Error::permanent("this is no service"))?;
        let name = request.asset_id().as_str();
        state.production.put(now, name, service);
        state.count("push");
        match state.strikes(5) {
            true => Err(plugin::Error::unknown("the connection was lost")),
            false => Ok(Pushed::Done),
        }
    }
}

/// Delays pushes of intent of services that are frozen. A rollback goes on.
pub(super) struct Freeze(pub(super) World);

#[async_trait]
impl CheckPlugin for Freeze {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("freeze").only_for(Causes::INTENT)
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let most = Duration::from_millis(500);
        self.0.takes(Duration::ZERO, most).await;
        let now = self.0.now();
        let mut state = self.0.state();
        let end = state.frozen.get(request.asset_id().as_str()).copied();
        if end.is_none_or(|end| end <= now) {
            return Ok(request.proceed());
        }
        state.count("delayed");
        let again = Recheck::After(Duration::from_secs(5));
        Ok(Verdict::delay(
            request.now,
            Delay::new("it is frozen", again),
        ))
    }
}

/// Finds services unhealthy that answer with errors now and did not when the rollout began.
pub(super) struct Seen(pub(super) World);

#[async_trait]
impl HealthValidator for Seen {
    fn name(&self) -> Arc<str> {
        "seen".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let most = Duration::from_millis(500);
        self.0.takes(Duration::ZERO, most).await;
        let mut state = self.0.state();
        if state.strikes(5) {
            return Err("the metrics cannot be read".into());
        }
        if state.strikes(5) {
            return Ok(request.found(Judgement::Unknown, "no data"));
        }
        let began = request.began.unwrap_or(request.now);
        let mut moved = request.updated.iter().chain(&request.under_way);
        let is_sick = moved.any(|it| state.production.is_sick_since(it.asset.as_str(), began));
        Ok(match is_sick {
            true => request.found(Judgement::Unhealthy, "it answers with errors"),
            false => request.healthy(),
        })
    }
}
