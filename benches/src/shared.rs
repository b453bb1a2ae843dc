//! Our side of the scenario `solver`: the real enforcer with the dependency solver, and a provider with many consumers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use annealing_checks::DependencySolverLayer;
use annealing_enforcer::{
    Config, Enforcer, Handle, Settle,
    store::{
        Batch, MemoryStore, Store,
        incarnations::{Head, Incarnations},
    },
};
use async_trait::async_trait;
use control_plane_runtime::TokioRuntime;
use plugin_sdk::{
    AssetPlugin, Change, Diff, DiffRequest, Effects, Observed, PushRequest, Pushed, plugin,
};
use prodspec_model::{
    Asset, AssetId, AssetRef, Incarnation, Message, PartitionId, Snapshot,
    addons::{DependsOn, Edge, Need},
};
use serde::{Deserialize, Serialize};
use tower::ServiceBuilder;

use crate::{
    Error,
    measure::{Meter, Sample},
    ours::{HOUR, incarnation, runtime},
};

/// Duration of a push in production.
const PUSH: Duration = Duration::from_millis(20);

/// Maximum number of diffs per consumer in the phase `grow`; more are an error. One before the push, one after it, and
/// one while the levels of the other consumers are not known yet.
const MOST_DIFFS_TO_GROW: f64 = 3.0;
/// Maximum number of diffs per consumer in the phase `come`; more are an error. One more than to grow: the consumer may
/// have to wait for the provider, which is new too.
const MOST_DIFFS_TO_COME: f64 = 4.0;

/// Id of the provider.
const PROVIDER: &str = "balancer";
/// Unit of capacity.
const UNIT: &str = "qps";

/// Payload of the provider and its consumers: their capacity.
#[derive(Debug, Serialize, Deserialize)]
struct Service {
    qps: u64,
}

impl Message for Service {
    const TYPE: &'static str = "benches.v1.Service";
}

/// Production: the capacity of each asset, and the number of the consumers' diffs.
#[derive(Debug, Clone, Default)]
struct Production {
    has: Arc<Mutex<BTreeMap<AssetId, u64>>>,
    diffs: Arc<AtomicU64>,
}

impl Production {
    fn has(&self) -> MutexGuard<'_, BTreeMap<AssetId, u64>> {
        self.has.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl AssetPlugin for Production {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        if request.asset_id().as_str() != PROVIDER {
            self.diffs.fetch_add(1, Ordering::Relaxed);
        }
        let asset = request.asset()?;
        let wanted = wanted(&asset)?;
        let has = self
            .has()
            .get(request.asset_id())
            .copied()
            .unwrap_or_default();
        let observed = Observed::default().capacity(UNIT, has);
        if has == wanted {
            return Ok(Diff::in_sync().observed(observed));
        }
        let effects = Effects::default().capacity(UNIT, has, wanted);
        let change = Change::new(&asset, "resize it", Vec::new(), effects);
        Ok(Diff::differs(change).observed(observed))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let asset = request.asset()?;
        let wanted = wanted(&asset)?;
        tokio::time::sleep(PUSH).await;
        self.has().insert(request.asset_id().clone(), wanted);
        Ok(Pushed::Done)
    }
}

fn wanted(asset: &Asset) -> Result<u64, plugin::Error> {
    let service = asset.payload::<Service>();
    let service = service.map_err(|error| plugin::Error::permanent(error.to_string()))?;
    Ok(service.qps)
}

fn consumer(no: usize, qps: u64) -> Result<Asset, Error> {
    let id = AssetId::new(&format!("job/{no:05}"))?;
    let need = Need::Capacity { unit: UNIT.into() };
    let provider = AssetRef::to(AssetId::new(PROVIDER)?);
    let edges = vec![Edge { provider, need }];
    let asset = Asset::builder(id).payload(&Service { qps })?;
    Ok(asset.addon(&DependsOn { edges })?.build()?)
}

/// A running enforcer, its store and its newest intent.
struct World {
    handle: Handle<TokioRuntime>,
    incarnations: Arc<Incarnations<dyn Store>>,
    latest: Incarnation,
    head: Head,
}

impl World {
    async fn new(production: &Production) -> Result<Self, Error> {
        let partition = PartitionId::new("benches")?;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let incarnations = Arc::new(Incarnations::new(store.clone(), partition.clone()));
        let latest = incarnation(None, Snapshot::empty())?;
        let head = incarnations.seal(&latest, None, Batch::new()).await?;
        let enforcer = Enforcer::builder(TokioRuntime::current(), partition, store)
            .config(Config::default().drift_period(HOUR))
            .incarnations(incarnations.clone())
            .asset_plugin::<Service>(production.clone())
            .checks(|base| {
                let stack = ServiceBuilder::new().layer(DependencySolverLayer::standard());
                stack.service(base)
            })
            .build()?;
        let handle = enforcer.handle();
        tokio::spawn(enforcer.run(std::future::pending()));
        Ok(Self {
            handle,
            incarnations,
            latest,
            head,
        })
    }

    /// Seals and publishes an incarnation with `put`, and waits until every asset is settled.
    async fn settle(&mut self, put: Vec<Asset>) -> Result<(), Error> {
        let snapshot = self.latest.snapshot();
        let snapshot = snapshot.edit(self.latest.no().next(), put, &[]);
        let next = incarnation(Some(&self.latest), snapshot)?;
        let sealed = self
            .incarnations
            .seal(&next, Some(&self.head), Batch::new());
        self.head = sealed.await?;
        self.latest = next.clone();
        self.handle.publish(next);
        let all = Settle::All(self.latest.no());
        Ok(self.handle.wait_settled(all, HOUR).await?)
    }
}

/// Measures two phases: `n` consumers appear with a use of 1 each (`come`), then all grow to 2 at once (`grow`).
pub(crate) fn grow(n: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let production = Production::default();
        let mut world = World::new(&production).await?;
        let provider = Asset::builder(AssetId::new(PROVIDER)?);
        let provider = provider.payload(&Service { qps: 10 * n as u64 })?.build()?;
        let consumers = |qps| (0..n).map(move |no| consumer(no, qps));
        let mut first: Vec<_> = consumers(1).collect::<Result<_, _>>()?;
        first.push(provider);
        let meter = Meter::start()?;
        world.settle(first).await?;
        let come = sample(&production, &meter, ("come", MOST_DIFFS_TO_COME), n)?;
        let grown: Vec<_> = consumers(2).collect::<Result<_, _>>()?;
        let meter = Meter::start()?;
        world.settle(grown).await?;
        let grow = sample(&production, &meter, ("grow", MOST_DIFFS_TO_GROW), n)?;
        Ok(vec![come, grow])
    })
}

/// Returns the measurements of one phase, with its diffs per consumer. More than `most_diffs` are an error.
fn sample(
    production: &Production,
    meter: &Meter,
    (phase, most_diffs): (&str, f64),
    n: usize,
) -> Result<Sample, Error> {
    let mut sample = meter.stop(phase, n)?;
    let diffs = production.diffs.swap(0, Ordering::Relaxed) as f64 / n as f64;
    if diffs > most_diffs {
        return Err(format!("{phase}: {diffs} diffs for each of {n} consumers").into());
    }
    sample.diffs_each = Some(diffs);
    Ok(sample)
}
