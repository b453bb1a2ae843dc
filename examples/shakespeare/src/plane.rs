//! Assembles the control plane of the Shakespeare service. Start reading here.

use std::{path::PathBuf, sync::Arc, time::Duration};

use control_plane::{
    checks::{MonitoringLayer, monitoring::Monitoring},
    prelude::{
        Config, ControlPlane, DependencySolverLayer, HealthLayer, Plugin, PushRequest, Scope,
        ServiceBuilder, Store, YamlFile, validators,
    },
    strategist, workflow,
};
use testbed::{
    alerts::{AlertFile, CLUSTER},
    cells::Cells,
    manifest,
    metrics::Scraper,
    place::Place,
    program::Failure,
    service::Service,
    voice::say,
};

use crate::{
    health,
    model::{self, FrontendJob, GlobalBalancer, LoadBalancer, Manifest, ShakespeareModel},
    plugins::{Balancers, GlobalBalancers, Jobs, Schemas},
    workflows,
};

/// How long one reading of the alerts file is used. It is short, so that an edit saved after an alert meets that alert.
const ALERTS: Duration = Duration::from_millis(200);

/// The service, as the commands of the testbed know it.
#[derive(Debug, Clone, Copy)]
pub struct Shakespeare;

impl Service for Shakespeare {
    const MANIFEST: &'static str = Manifest::DEFAULT;
    const POLICY: &'static str = model::POLICY;
    const TRY: &'static [&'static str] = &[
        "replicas: 3              more tasks; the balancers follow, in the order that keeps capacity",
        "version: \"2\"             a new version, one cluster after the other, while `load` runs",
        "flags: [\"--fail-percent=50\"]  a bad version: it reaches one cluster, and goes back by itself",
    ];

    fn plane(place: &Place, program: PathBuf, store: impl Store) -> Result<ControlPlane, Failure> {
        build(place, program, store)
    }
}

fn build(place: &Place, program: PathBuf, store: impl Store) -> Result<ControlPlane, Failure> {
    let press = workflows::Printer::new(program.clone(), place.press());
    let cells = Cells::new(program, place.clone());
    let metrics = Arc::new(Scraper::start(place.cells()));
    let alerts = Monitoring::new(AlertFile(place.alerts()))
        .within(Scope::per_cluster(), CLUSTER)
        .ttl(ALERTS);
    let (jobs, balancers) = (Jobs::new(cells.clone()), Balancers::new(cells.clone()));
    let builder = ControlPlane::builder(model::PARTITION)
        .store(store)
        // Editable, because operations change fields of it. What a person writes there wins.
        .editable(manifest::source(YamlFile::watch(place.manifest())))
        .generator(ShakespeareModel)
        .validators(validators::standard())
        .asset_type(model::job_type())
        .asset_type(model::balancer_type())
        .asset_type(model::global_type())
        .asset_type(model::schema_type())
        .asset_type(model::index_type())
        .asset_type(model::domain_type())
        .asset_type(model::policy_type())
        // Cells and database refuse calls of earlier owners. A push with an unknown outcome is therefore over as soon
        // as the current owner has read production once.
        .asset_plugin::<FrontendJob>(Plugin::new(jobs.clone()).turndown(jobs).guarded())
        .asset_plugin::<LoadBalancer>(Plugin::new(balancers.clone()).turndown(balancers).guarded())
        .asset_plugin::<GlobalBalancer>(Plugin::new(GlobalBalancers::new(cells)).guarded())
        .asset_plugin::<model::DatabaseSchema>(
            Plugin::new(Schemas::new(place.database())).guarded(),
        )
        .checks(|base| {
            ServiceBuilder::new()
                // Keeps demand below capacity, and starts no task before the schema that it needs.
                .layer(DependencySolverLayer::standard())
                // Delays intent changes in clusters where an alert fires. Repairs, rollbacks and emergencies go on.
                .layer(MonitoringLayer::new(alerts))
                .service(base)
        })
        // The manifest decides the order of the clusters: the standard selection stack follows the policy asset, so no
        // stack is given here.
        .health(|base| {
            ServiceBuilder::new()
                // Judges by the counters of tasks and balancers. Reports of the control plane itself are not used.
                .layer(HealthLayer::new(health::errors(metrics)))
                .service(base)
        })
        .rollout_config(rollout_config())
        .enforcement(|builder| {
            builder.pushes(|base| ServiceBuilder::new().map_request(narrated).service(base))
        })
        .config(config())
        .workflow_config(workflow_config());
    let builder = workflows::add(builder, &press)?;
    #[cfg(feature = "planted-faults")]
    let builder = crate::planted::plant(builder);
    Ok(builder.build()?)
}

/// Timing of enforcement. With a dozen assets on one machine, frequent diffs and short waits cost little.
fn config() -> Config {
    Config::default()
        .drift_period(Duration::from_secs(2))
        .observation_ttl(Duration::from_millis(500))
        .backoff_base(Duration::from_millis(200))
        .backoff_cap(Duration::from_secs(2))
        .breaker_wait(Duration::from_secs(1))
}

/// Timing of rollouts. They bake for a few seconds only, so health is validated twice a second.
fn rollout_config() -> strategist::Config {
    strategist::Config::default()
        .validate_every(Duration::from_millis(500))
        .validate_deadline(Duration::from_secs(5))
        .select_again(Duration::from_secs(1))
        .unknown_deadline(Duration::from_secs(30))
}

/// Timing of workflows. The press answers within a second, so short waits after failures cost little.
fn workflow_config() -> workflow::Config {
    let mut config = workflow::Config::default();
    config.backoff_base = Duration::from_millis(200);
    config.backoff_cap = Duration::from_secs(2);
    config
}

/// Prints a line when a push begins, but not for the follow-up calls of the same push.
fn narrated(request: PushRequest) -> PushRequest {
    if !request.continuation {
        let cause = format!("{:?}", request.cause).to_lowercase();
        say(format_args!("push {} ({cause})", request.intent));
    }
    request
}
