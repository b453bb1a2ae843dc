//! A control plane whose services are updated by edits of a manifest, with a check and health validator that tests control.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane::{
    model::{
        AssetBuilder, Filter,
        goal::Goal,
        rollout::{RollOut, RolloutPolicy},
        train::Train,
    },
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    sdk::HealthValidator,
};
use plugin_sdk::{EditableSource, Health, HealthRequest, Judgement, document::Located};
use serde::Deserialize;

use crate::{
    checks_first::Frozen,
    gate::Gate,
    world::{LONG, Production, Running, Service, id, write},
};

pub(crate) const NAMES: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Deserialize)]
struct Manifest {
    services: BTreeMap<String, Located<Written>>,
    policies: BTreeMap<String, RolloutPolicy>,
    #[serde(default)]
    trains: BTreeMap<String, Train>,
    #[serde(default)]
    goals: BTreeMap<String, Goal>,
    #[serde(default)]
    changes: Vec<RollOut>,
}

#[derive(Deserialize)]
struct Written {
    size: u64,
    #[serde(default)]
    flag: bool,
    /// Whether a second service is made from the same entry.
    #[serde(default)]
    twin: bool,
    #[serde(default)]
    cluster: Option<String>,
    group: String,
}

/// Makes services whose size tells both fields of their entry: ten times the size, and one more with the flag.
struct Model(&'static str);

impl Generator for Model {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("model", self.0)
            .makes::<Service>()
            .makes::<RolloutPolicy>()
            .makes::<Train>()
            .makes::<Goal>()
            .makes::<RollOut>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let manifest: Manifest = document.read()?;
            for (name, written) in manifest.services {
                let size = written.size * 10 + u64::from(written.flag);
                let policy = AssetRef::to(AssetId::new(&written.group)?);
                let twin = written.twin.then(|| format!("{name}-twin"));
                for name in std::iter::once(name).chain(twin) {
                    let policy = addons::RolloutPolicyRef {
                        policy: policy.clone(),
                    };
                    let asset = Asset::builder(AssetId::new(&name)?).payload(&Service { size })?;
                    let mut asset = asset.addon(&policy)?;
                    if let Some(cluster) = written.cluster.clone() {
                        asset = asset.addon(&addons::PhysicalCluster { cluster })?;
                    }
                    out.asset(asset, document.provenance_at(&*written.path))?;
                }
            }
            let mut all = Vec::new();
            all.extend(manifest.policies.iter().map(built));
            all.extend(manifest.trains.iter().map(built));
            all.extend(manifest.goals.iter().map(built));
            let change = |it: &RollOut| built((&format!("rollout/{}", it.name), it));
            all.extend(manifest.changes.iter().map(change));
            for asset in all {
                out.asset(asset?, document.provenance())?;
            }
        }
        Ok(())
    }
}

fn built<T: Message>((name, payload): (&String, &T)) -> Result<AssetBuilder, Problems> {
    Ok(Asset::builder(AssetId::new(name)?).payload(payload)?)
}

pub(crate) const MANIFEST: &str = "# Our services.
services:
  a: {size: 1, flag: false, group: edits} # the first
  b: {size: 1, flag: false, group: edits}
  c: {size: 1, flag: false, group: edits}
  d: {size: 1, flag: false, group: edits}
policies:
  edits: {update: edits}
  others: {update: edits}
  slowly: {canary: {count: 1, bake_secs: 60}, max_in_flight: 1}
  flags: {max_in_flight: 1, bake_secs: 10}
  careful: {canary: {count: 1, bake_secs: 60}, max_in_flight: 1, bake_secs: 30}
  pins: {}
  halts: {canary: {count: 1, bake_secs: 60}, max_in_flight: 1, on_unhealthy: stop}
  halves: {waves: [{upto: {count: 2}, bake_secs: 600}]}
";

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Gate,
    pub(crate) production: Production,
    pub(crate) frozen: Frozen,
    /// For how long health remembers sick services.
    pub(crate) window: Duration,
    sick: Sick,
}

/// The services that were seen sick, with the times: monitoring keeps them over a restart of the control plane.
type Sick = Arc<Mutex<Vec<(Timestamp, AssetId)>>>;

/// Finds services of size 30 to 39 sick, by their sizes within a window of time, as monitoring does.
struct Seen {
    production: Production,
    window: Duration,
    sick: Sick,
}

#[async_trait]
impl HealthValidator for Seen {
    fn name(&self) -> Arc<str> {
        "seen".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let sizes = self.production.state().sizes.clone();
        let now = sizes
            .into_iter()
            .filter(|(_, size)| (30..40).contains(size));
        let mut sick = self.sick.lock().unwrap();
        sick.extend(now.map(|(asset, _)| (request.now, asset)));
        sick.retain(|(at, _)| *at + self.window >= request.now);
        let mut moved = request.updated.iter().chain(&request.under_way);
        let is_sick = moved.any(|it| {
            let mut of_it = sick.iter().filter(|(_, asset)| *asset == it.asset);
            of_it.any(|(at, _)| *at >= it.since)
        });
        Ok(match is_sick {
            true => request.found(Judgement::Unhealthy, "seen sick"),
            false => request.healthy(),
        })
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(MANIFEST)
    }

    pub(crate) fn with(manifest: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), manifest);
        Self {
            dir,
            store: Gate::default(),
            production: Production::default(),
            frozen: Frozen::default(),
            window: Duration::ZERO,
            sick: Sick::default(),
        }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        Path::new(self.dir.path()).join("manifest.yaml")
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    pub(crate) fn flags(&self) -> usize {
        self.text().matches("flag: true").count()
    }

    pub(crate) fn of_size(&self, size: u64) -> usize {
        self.names_of_size(size).len()
    }

    pub(crate) fn names_of_size(&self, size: u64) -> Vec<&'static str> {
        let of = |name: &&str| self.production.size(name) == Some(size);
        NAMES.into_iter().filter(of).collect()
    }

    pub(crate) async fn start(&self) -> Running {
        let running = self.start_with("manifest.yaml", YamlFile::new(self.path()));
        running.handle.wait_until_owner().await;
        running.handle.settle(LONG).await.unwrap();
        running
    }

    /// Starts a control plane that may edit this source.
    pub(crate) fn start_with(&self, name: &'static str, source: impl EditableSource) -> Running {
        Running::start(self.plane(TokioRuntime::current(), name, source))
    }

    pub(crate) fn plane<R: Runtime>(
        &self,
        runtime: R,
        name: &'static str,
        source: impl EditableSource,
    ) -> ControlPlane<R> {
        self.builder(runtime, name, source).build().unwrap()
    }

    pub(crate) fn builder<R: Runtime>(
        &self,
        runtime: R,
        name: &'static str,
        source: impl EditableSource,
    ) -> control_plane::ControlPlaneBuilder<R> {
        ControlPlane::builder_on(runtime, "world")
            .store(self.store.clone())
            .editable(source)
            .generator(Model(name))
            .validators(validators::standard())
            .asset_plugin::<Service>(Plugin::new(self.production.clone()))
            .checks(|base| {
                let frozen = CheckLayer::new(self.frozen.clone());
                ServiceBuilder::new()
                    .layer(DependencySolverLayer::standard())
                    .layer(frozen)
                    .service(base)
            })
            .health(|healthy| {
                let layer = HealthLayer::new(Seen {
                    production: self.production.clone(),
                    window: self.window,
                    sick: self.sick.clone(),
                });
                ServiceBuilder::new().layer(layer).service(healthy)
            })
    }
}

pub(crate) fn change(name: &str, policy: &str) -> RollOut {
    RollOut::new(name, id(policy)).on(Filter::types([Service::TYPE]))
}

pub(crate) fn dark_mode() -> RollOut {
    change("dark-mode", "slowly").set("flag", true)
}
