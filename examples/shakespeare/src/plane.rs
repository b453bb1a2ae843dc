//! The control plane of Shakespeare, put together: start reading here.

use std::{path::PathBuf, time::Duration};

use control_plane::{
    BuildError,
    generation::format::Limits,
    prelude::{
        Config, ControlPlane, DependencySolverLayer, Plugin, PushRequest, ServiceBuilder, Store,
        YamlFile, validators,
    },
};

use crate::{
    model::{self, FrontendJob, GlobalBalancer, LoadBalancer, ShakespeareModel},
    place::Place,
    plugins::{Balancers, Cells, GlobalBalancers, Jobs, Schemas},
    voice::say,
};

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
    let (jobs, balancers) = (Jobs::new(cells.clone()), Balancers::new(cells.clone()));
    ControlPlane::builder(model::PARTITION)
        .store(store)
        .source(source(YamlFile::watch(place.manifest())))
        .generator(ShakespeareModel)
        .validators(validators::standard())
        .asset_type(model::job_type())
        .asset_type(model::balancer_type())
        .asset_type(model::global_type())
        .asset_type(model::schema_type())
        .asset_type(model::domain_type())
        // Cells and database refuse the calls of old owners, so a lost push is known as soon as it is looked at.
        .asset_plugin::<FrontendJob>(Plugin::new(jobs.clone()).turndown(jobs).guarded())
        .asset_plugin::<LoadBalancer>(Plugin::new(balancers.clone()).turndown(balancers).guarded())
        .asset_plugin::<GlobalBalancer>(Plugin::new(GlobalBalancers::new(cells)).guarded())
        .asset_plugin::<model::DatabaseSchema>(
            Plugin::new(Schemas::new(place.database())).guarded(),
        )
        // Demand never exceeds capacity, and no task runs against a schema older than it needs.
        .checks(|base| {
            ServiceBuilder::new()
                .layer(DependencySolverLayer::standard())
                .service(base)
        })
        .enforcement(|builder| {
            builder.pushes(|base| ServiceBuilder::new().map_request(narrated).service(base))
        })
        .config(config())
        .build()
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
