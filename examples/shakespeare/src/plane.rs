//! The control plane of Shakespeare, put together: start reading here.

use std::{path::PathBuf, sync::Arc, time::Duration};

use control_plane::{
    BuildError,
    checks::{MonitoringLayer, monitoring::Monitoring},
    generation::format::Limits,
    prelude::{
        Config, ControlPlane, DependencySolverLayer, HealthLayer, Plugin, PushRequest, Scope,
        ServiceBuilder, Store, YamlFile, validators,
    },
    strategist,
};

use crate::{
    alerts::{AlertFile, CLUSTER},
    health,
    metrics::Scraper,
    model::{self, FrontendJob, GlobalBalancer, LoadBalancer, ShakespeareModel},
    place::Place,
    plugins::{Balancers, Cells, GlobalBalancers, Jobs, Schemas},
    voice::say,
};

/// One look at the alerts serves for so long: an edit saved after an alert is checked against it.
const ALERTS: Duration = Duration::from_millis(200);

/// Puts the control plane of `place` together. Missing cells are started from `program`.
///
/// # Errors
/// When its parts do not fit, which would be a mistake here.
pub fn build(
    place: &Place,
    program: PathBuf,
    store: impl Store,
) -> Result<ControlPlane, BuildError> {
    let cells = Cells::new(program, place.clone());
    let metrics = Arc::new(Scraper::start(place.cells()));
    let alerts = Monitoring::new(AlertFile(place.alerts()))
        .within(Scope::per_cluster(), CLUSTER)
        .ttl(ALERTS);
    let (jobs, balancers) = (Jobs::new(cells.clone()), Balancers::new(cells.clone()));
    let builder = ControlPlane::builder(model::PARTITION)
        .store(store)
        .source(source(YamlFile::watch(place.manifest())))
        .generator(ShakespeareModel)
        .validators(validators::standard())
        .asset_type(model::job_type())
        .asset_type(model::balancer_type())
        .asset_type(model::global_type())
        .asset_type(model::schema_type())
        .asset_type(model::domain_type())
        .asset_type(model::policy_type())
        // Cells and database refuse the calls of old owners, so a lost push is known as soon as it is looked at.
        .asset_plugin::<FrontendJob>(Plugin::new(jobs.clone()).turndown(jobs).guarded())
        .asset_plugin::<LoadBalancer>(Plugin::new(balancers.clone()).turndown(balancers).guarded())
        .asset_plugin::<GlobalBalancer>(Plugin::new(GlobalBalancers::new(cells)).guarded())
        .asset_plugin::<model::DatabaseSchema>(
            Plugin::new(Schemas::new(place.database())).guarded(),
        )
        .checks(|base| {
            ServiceBuilder::new()
                // Demand never exceeds capacity, and no task runs against a schema older than it needs.
                .layer(DependencySolverLayer::standard())
                // Nothing new starts where an alert fires. What heals, goes back, or cannot wait does.
                .layer(MonitoringLayer::new(alerts))
                .service(base)
        })
        // Which cluster follows when is for the manifest to say: without a stack of our own, the standard one goes by
        // the policy asset.
        .health(|base| {
            ServiceBuilder::new()
                // The tasks' and balancers' own counts, and no word of the control plane about itself.
                .layer(HealthLayer::new(health::errors(metrics)))
                .service(base)
        })
        .rollout_config(rollout_config())
        .enforcement(|builder| {
            builder.pushes(|base| ServiceBuilder::new().map_request(narrated).service(base))
        })
        .config(config());
    #[cfg(feature = "planted-faults")]
    let builder = crate::planted::plant(builder);
    builder.build()
}

/// The manifest as it must be, wherever it is read from.
pub fn source(file: YamlFile) -> YamlFile {
    let limits = Limits {
        bytes: model::MANIFEST_LIMIT,
        ..Limits::default()
    };
    file.named(model::SOURCE).with_end_marker().limits(limits)
}

/// A service of a dozen assets on one machine can look often, and wait little.
fn config() -> Config {
    Config {
        drift_period: Duration::from_secs(2),
        observation_ttl: Duration::from_millis(500),
        backoff_base: Duration::from_millis(200),
        backoff_cap: Duration::from_secs(2),
        breaker_wait: Duration::from_secs(1),
        ..Config::default()
    }
}

/// Its rollouts bake for seconds, so they are looked at more than once a second.
fn rollout_config() -> strategist::Config {
    strategist::Config {
        validate_every: Duration::from_millis(500),
        validate_deadline: Duration::from_secs(5),
        select_again: Duration::from_secs(1),
        unknown_deadline: Duration::from_secs(30),
        ..strategist::Config::default()
    }
}

/// Says what is being pushed, once per push.
fn narrated(request: PushRequest) -> PushRequest {
    if !request.continuation {
        let PushRequest {
            asset,
            incarnation,
            cause,
            ..
        } = &request;
        let cause = format!("{cause:?}").to_lowercase();
        say(format_args!("push {asset} at {incarnation} ({cause})"));
    }
    request
}
