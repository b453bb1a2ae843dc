//! The model of these tests: services with a size and dependencies, in a production that is a map.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use control_plane::{
    ControlPlaneBuilder,
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    sdk::{Mono, Now},
};
use futures::{
    future::BoxFuture,
    stream::{BoxStream, StreamExt},
};
use prodspec_model::{
    Digest, Revision, SourceName, TypeName,
    addons::{DependsOn, Edge, Need},
    policy::{
        AlertPolicy, ApprovalPolicy, BlastRadiusPolicy, CalendarPolicy, CapacityPolicy,
        FreezePolicy, HealthPolicy, OverloadPolicy, RatePolicy,
    },
    rollout::RolloutPolicy,
};
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task::JoinHandle};

/// Longer than any single step of a test takes, in virtual time.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Virtual time after which everything has happened that needs no further input.
pub(crate) const QUIET: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Service {
    pub(crate) size: u64,
}

impl Message for Service {
    const TYPE: &'static str = "world.v1.Service";
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) members: Vec<AssetRef>,
}

impl Message for Group {
    const TYPE: &'static str = "world.v1.Group";
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    services: BTreeMap<String, Written>,
    #[serde(default)]
    groups: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    policies: BTreeMap<String, RolloutPolicy>,
    #[serde(default)]
    health: BTreeMap<String, HealthPolicy>,
    /// Policies that are checks, each with the last part of its type name in the field `type`.
    #[serde(default)]
    checks: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    size: u64,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    turndown: bool,
    #[serde(default)]
    policy: Option<String>,
}

/// Generator that turns the manifest into assets.
pub(crate) struct Model;

impl Generator for Model {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::whole("world")
            .reads("manifest.yaml")
            .makes::<Service>()
            .makes::<Group>()
            .makes::<RolloutPolicy>()
            .makes::<HealthPolicy>()
            .makes::<AlertPolicy>()
            .makes::<ApprovalPolicy>()
            .makes::<BlastRadiusPolicy>()
            .makes::<CalendarPolicy>()
            .makes::<CapacityPolicy>()
            .makes::<FreezePolicy>()
            .makes::<OverloadPolicy>()
            .makes::<RatePolicy>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let manifest: Manifest = document.read()?;
            for (name, written) in manifest.services {
                out.asset(service(&name, written)?, document.provenance())?;
            }
            for (name, members) in manifest.groups {
                let members = members.iter().map(|id| AssetId::new(id).map(AssetRef::to));
                let group = Group {
                    members: members.collect::<Result<_, _>>()?,
                };
                let asset = Asset::builder(AssetId::new(&name)?).payload(&group)?;
                out.asset(asset, document.provenance())?;
            }
            for (name, policy) in manifest.policies {
                let asset = Asset::builder(AssetId::new(&name)?).payload(&policy)?;
                out.asset(asset, document.provenance())?;
            }
            for (name, policy) in manifest.health {
                let asset = Asset::builder(AssetId::new(&name)?).payload(&policy)?;
                out.asset(asset, document.provenance())?;
            }
            for (name, mut policy) in manifest.checks {
                let of = policy.as_object_mut().and_then(|it| it.remove("type"));
                let of = of.as_ref().and_then(|it| it.as_str()).unwrap_or_default();
                let of = TypeName::new(&format!("prodspec.v1.{of}"))?;
                let asset = Asset::builder(AssetId::new(&name)?).payload_value(of, &policy)?;
                out.asset(asset, document.provenance())?;
            }
        }
        Ok(())
    }
}

fn service(name: &str, written: Written) -> Result<prodspec_model::AssetBuilder, Problems> {
    let edge = |id: &String| {
        Ok(Edge {
            provider: AssetRef::to(AssetId::new(id)?),
            need: Need::Order,
        })
    };
    let edges: Result<Vec<Edge>, prodspec_model::id::InvalidId> =
        written.needs.iter().map(edge).collect();
    let mut asset = Asset::builder(AssetId::new(name)?)
        .payload(&Service { size: written.size })?
        .addon(&DependsOn { edges: edges? })?;
    if written.turndown {
        asset = asset.addon(&addons::Turndown {
            reason: "not needed any more".into(),
            approved_by: "ann".into(),
        })?;
    }
    if let Some(policy) = written.policy {
        asset = asset.addon(&addons::RolloutPolicyRef {
            policy: AssetRef::to(AssetId::new(&policy)?),
        })?;
    }
    Ok(asset)
}

/// Production, and the plugin that changes it.
#[derive(Clone, Default)]
pub(crate) struct Production(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) sizes: BTreeMap<AssetId, u64>,
    /// Assets whose pushes fail.
    pub(crate) broken: BTreeSet<AssetId>,
    /// Whether pushes begin and never end.
    pub(crate) hangs: bool,
    /// Assets of all pushes and turndowns, in order.
    pub(crate) pushes: Vec<AssetId>,
}

impl Production {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.state().sizes.get(&id(name)).copied()
    }

    pub(crate) fn pushes(&self) -> usize {
        self.state().pushes.len()
    }

    /// Whether pushes never end. Such a push counts as one of `asset`.
    fn hangs(&self, asset: &AssetId) -> bool {
        let mut state = self.state();
        if state.hangs {
            state.pushes.push(asset.clone());
        }
        state.hangs
    }
}

#[async_trait]
impl AssetPlugin for Production {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let there = self.state().sizes.get(request.asset_id()).copied();
        let down = asset.has_addon(addons::Turndown::TYPE);
        let wanted = asset.payload::<Service>().ok().map(|service| service.size);
        let observed = Observed::default().capacity("size", there.unwrap_or_default());
        if there == wanted.filter(|_| !down) {
            return Ok(Diff::in_sync().observed(observed));
        }
        let size = (there.unwrap_or_default(), wanted.filter(|_| !down));
        let effects = Effects::default().destructive(down);
        let effects = effects.capacity("size", size.0, size.1.unwrap_or_default());
        let change = Change::new(&asset, "resize it", vec![], effects);
        Ok(Diff::differs(change).observed(observed))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let asset = request.asset()?;
        if self.hangs(request.asset_id()) {
            return std::future::pending().await;
        }
        let mut state = self.state();
        if state.broken.contains(request.asset_id()) {
            return Err(plugin::Error::transient("it is broken"));
        }
        let service = asset.payload::<Service>().ok();
        let size = service
            .ok_or_else(|| plugin::Error::permanent("no service"))?
            .size;
        state.sizes.insert(request.asset_id().clone(), size);
        state.pushes.push(request.asset_id().clone());
        Ok(Pushed::Done)
    }
}

#[async_trait]
impl Turndown for Production {
    async fn turndown(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let mut state = self.state();
        state.sizes.remove(request.asset_id());
        state.pushes.push(request.asset_id().clone());
        Ok(Pushed::Done)
    }
}

/// A manifest in memory that tests can edit.
#[derive(Clone)]
pub(crate) struct Text(watch::Sender<String>);

impl Text {
    pub(crate) fn new(text: &str) -> Self {
        Self(watch::Sender::new(text.to_owned()))
    }

    pub(crate) fn edit(&self, text: &str) {
        self.0.send_replace(text.to_owned());
    }
}

#[async_trait]
impl SourceOfTruth for Text {
    fn name(&self) -> SourceName {
        SourceName("manifest.yaml".into())
    }

    async fn read(&self) -> Result<Reading, Problems> {
        let text = self.0.borrow().clone();
        assert_ne!(text, "panic", "on purpose");
        let mut reading = YamlFile::new("manifest.yaml").parse(text.as_bytes())?;
        reading.revision = Revision(Digest::of(text.as_bytes()).to_string().into());
        Ok(reading)
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let changes = futures::stream::unfold(self.0.subscribe(), |mut text| async {
            text.changed().await.ok().map(|()| ((), text))
        });
        changes.boxed()
    }
}

/// A builder of a control plane of this model, without store and source.
pub(crate) fn plane(production: &Production) -> ControlPlaneBuilder {
    with_parts(ControlPlane::builder("world"), production)
}

/// The same with another clock.
pub(crate) fn plane_on<R: Runtime>(runtime: R, production: &Production) -> ControlPlaneBuilder<R> {
    with_parts(ControlPlane::builder_on(runtime, "world"), production)
}

fn with_parts<R: Runtime>(
    builder: ControlPlaneBuilder<R>,
    production: &Production,
) -> ControlPlaneBuilder<R> {
    let plugin = Plugin::new(production.clone()).turndown(production.clone());
    builder
        .generator(Model)
        .asset_plugin::<Service>(plugin)
        .modelled_only::<Group>()
        .checks(|base| {
            ServiceBuilder::new()
                .layer(DependencySolverLayer::standard())
                .service(base)
        })
}

/// Tokio's paused time, and a wall clock that goes along from a Monday on.
#[derive(Clone)]
pub(crate) struct Virtual {
    tokio: TokioRuntime,
    start: Mono,
}

pub(crate) fn monday() -> Timestamp {
    "2026-11-30T00:00:00Z".parse().unwrap()
}

impl Virtual {
    pub(crate) fn current() -> Self {
        let tokio = TokioRuntime::current();
        let start = tokio.now().mono;
        Self { tokio, start }
    }
}

impl Runtime for Virtual {
    fn now(&self) -> Now {
        let mono = self.tokio.now().mono;
        let wall = monday() + mono.since(self.start);
        Now { mono, wall }
    }

    fn sleep_until(&self, at: Mono) -> BoxFuture<'static, ()> {
        self.tokio.sleep_until(at)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.tokio.spawn(task);
    }
}

/// A running control plane.
pub(crate) struct Running<R = TokioRuntime> {
    pub(crate) handle: Handle<R>,
    stop: tokio::sync::oneshot::Sender<()>,
    pub(crate) task: JoinHandle<()>,
}

impl<R: Runtime> Running<R> {
    pub(crate) fn start(plane: ControlPlane<R>) -> Self {
        let handle = plane.handle();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            plane.run(shutdown).await.unwrap();
        });
        Self { handle, stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }

    /// Waits until everything has happened that needs no further input. Some assets must still be unsettled then.
    pub(crate) async fn quiet(&self) {
        let newest = self.handle.latest().await.unwrap().no();
        let settled = self.handle.wait_settled(Settle::All(newest), QUIET).await;
        assert!(settled.is_err(), "all assets settled");
    }
}

impl Running {
    /// Starts a control plane in memory that reads `text`.
    pub(crate) fn over(text: &Text, production: &Production) -> Self {
        let plane = plane(production)
            .store(MemoryStore::new())
            .source(text.clone())
            .validators(validators::standard());
        Self::start(plane.build().unwrap())
    }
}

pub(crate) fn id(text: &str) -> AssetId {
    AssetId::new(text).unwrap()
}

/// The operator who gives the commands of these tests.
pub(crate) fn ann() -> By {
    By::new("ann", "a test")
}

/// Writes the manifest of the directory `dir`.
pub(crate) fn write(dir: &Path, text: &str) {
    std::fs::write(dir.join("manifest.yaml"), text).unwrap();
}
