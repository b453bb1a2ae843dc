//! Production: the content of each service, the plugin that changes it, and its health.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use control_plane::sdk::{
    AssetPlugin, BoxError, Change, Diff, DiffRequest, Effects, Health, HealthRequest,
    HealthValidator, Judgement, Observed, PushRequest, Pushed, plugin,
};

use super::{manifest::Service, world::World};
use crate::executor::{Instant, NodeRuntime};

/// The content of all services.
#[derive(Debug, Default)]
pub(super) struct Production(BTreeMap<String, Running>);

/// The content of a service, with the time since which it has each field.
#[derive(Debug, Clone, Copy)]
struct Running {
    content: Service,
    version_since: Instant,
    flag_since: Instant,
    /// Since when it answers with errors. `None`: it does not.
    sick_since: Option<Instant>,
}

impl Production {
    /// The content of a service. `None`: it does not run.
    pub(super) fn content(&self, name: &str) -> Option<Service> {
        Some(self.0.get(name)?.content)
    }

    /// Whether a service has had this value of a field since `then`.
    pub(super) fn has_since(&self, name: &str, (field, value): (&str, u64), then: Instant) -> bool {
        self.0.get(name).is_some_and(|it| {
            let since = match field {
                "flag" => it.flag_since,
                _ => it.version_since,
            };
            it.content.field(field) == value && since <= then
        })
    }

    /// Whether a service answers with errors that began at `then` or later.
    fn is_sick_since(&self, name: &str, then: Timestamp) -> bool {
        let since = self.0.get(name).and_then(|it| it.sick_since);
        since.is_some_and(|since| NodeRuntime::wall(since) >= then)
    }

    fn put(&mut self, now: Instant, name: &str, content: Service) {
        let before = self.0.get(name).copied();
        let keeps =
            |field: &str| before.filter(|it| it.content.field(field) == content.field(field));
        let running = Running {
            content,
            version_since: keeps("version").map_or(now, |it| it.version_since),
            flag_since: keeps("flag").map_or(now, |it| it.flag_since),
            sick_since: content.is_sick().then(|| {
                let before = before.and_then(|it| it.sick_since);
                before.unwrap_or(now)
            }),
        };
        self.0.insert(name.to_owned(), running);
    }
}

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
