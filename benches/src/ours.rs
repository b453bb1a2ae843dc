//! Our side of the enforcement scenarios: the real enforcer from its builder, with a stack of checks, a memory store
//! and an in-process plugin whose production always matches intent.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use annealing_checks::{CalendarLayer, DependencySolverLayer, SerializeLayer, calendar::Calendar};
use annealing_enforcer::{
    Config, Enforcer, Handle, Plugin, Settle,
    store::{
        Batch, MemoryStore, Store,
        incarnations::{Head, Incarnations},
    },
};
use async_trait::async_trait;
use control_plane_runtime::TokioRuntime;
use jiff::Timestamp;
use plugin_sdk::{AssetPlugin, Diff, DiffRequest, PushRequest, Pushed, plugin};
use prodspec_model::{
    Asset, Incarnation, IncarnationId, IncarnationNo, PartitionId, Snapshot, incarnation::Header,
};
use tokio::{sync::oneshot, task::JoinHandle};
use tower::ServiceBuilder;

use crate::{
    Error,
    assets::{self, JobType, jobs, shuffled},
    measure::{Meter, Sample, now},
};

/// One hour, so that no drift scan falls into the measurement of a burst or an event.
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// A plugin whose diffs are always in sync. It counts the diffs, and notes when the newest one started.
#[derive(Debug, Clone, Default)]
struct Right(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    diffs: AtomicU64,
    started: Mutex<Option<Instant>>,
    watched: AtomicU64,
}

impl Right {
    /// Returns when the newest diff started, and forgets it.
    fn started(&self) -> Result<Instant, Error> {
        let started = self.0.started.lock();
        let started = started.unwrap_or_else(PoisonError::into_inner).take();
        Ok(started.ok_or("nothing was diffed")?)
    }
}

#[async_trait]
impl AssetPlugin for Right {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        if self.0.watched.load(Ordering::Relaxed) != 0 {
            *self
                .0
                .started
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = Some(now());
        }
        self.0.diffs.fetch_add(1, Ordering::Relaxed);
        request.asset()?;
        Ok(Diff::in_sync())
    }

    async fn push(&self, _: PushRequest) -> Result<Pushed, plugin::Error> {
        Err(plugin::Error::permanent(
            "the plugin expects no push, because its diffs are in sync",
        ))
    }
}

/// A running enforcer, and the sender that ends it.
struct Owner {
    handle: Handle<TokioRuntime>,
    task: JoinHandle<Result<(), annealing_enforcer::Error>>,
    end: oneshot::Sender<()>,
}

/// A partition with its store, its owner and its newest intent.
struct World {
    drift_period: Duration,
    store: Arc<dyn Store>,
    plugin: Right,
    owner: Option<Owner>,
    incarnations: Arc<Incarnations<dyn Store>>,
    latest: Incarnation,
    head: Head,
}

impl World {
    /// Starts an enforcer of an empty partition and waits until it is settled.
    async fn new(drift_period: Duration) -> Result<Self, Error> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let partition = PartitionId::new("benches")?;
        let incarnations = Arc::new(Incarnations::new(store.clone(), partition));
        let latest = incarnation(None, Snapshot::empty())?;
        let head = incarnations.seal(&latest, None, Batch::new()).await?;
        let mut world = Self {
            drift_period,
            store,
            plugin: Right::default(),
            owner: None,
            incarnations,
            latest,
            head,
        };
        world.start()?;
        world.settled().await?;
        Ok(world)
    }

    /// Starts an enforcer of the partition.
    fn start(&mut self) -> Result<(), Error> {
        let calendar = Calendar::builder("America/New_York")
            .weekly("Mon-Fri 09:00-17:00")
            .build()?;
        let partition = PartitionId::new("benches")?;
        let enforcer = Enforcer::builder(TokioRuntime::current(), partition, self.store.clone())
            .config(Config::default().drift_period(self.drift_period))
            .incarnations(self.incarnations.clone())
            .asset_plugin::<JobType>(Plugin::new(self.plugin.clone()).in_memory())
            .checks(|base| {
                ServiceBuilder::new()
                    .layer(DependencySolverLayer::standard())
                    .layer(SerializeLayer::new(
                        "one-at-a-time",
                        annealing_checks::Scope::all(),
                    ))
                    .layer(CalendarLayer::new(calendar))
                    .service(base)
            })
            .build()?;
        let handle = enforcer.handle();
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(enforcer.run(async { drop(ended.await) }));
        self.owner = Some(Owner { handle, task, end });
        Ok(())
    }

    /// Shuts the enforcer down.
    async fn stop(&mut self) -> Result<(), Error> {
        if let Some(owner) = self.owner.take() {
            // The enforcer may have ended already.
            let _ = owner.end.send(());
            owner.task.await??;
        }
        Ok(())
    }

    fn handle(&self) -> Result<&Handle<TokioRuntime>, Error> {
        let owner = self.owner.as_ref();
        Ok(&owner.ok_or("the partition has no owner")?.handle)
    }

    /// Seals the next incarnation, with `put` added or changed, and does not publish it yet.
    async fn seal(&mut self, put: Vec<Asset>) -> Result<Incarnation, Error> {
        let snapshot = self
            .latest
            .snapshot()
            .edit(self.latest.no().next(), put, &[]);
        let next = incarnation(Some(&self.latest), snapshot)?;
        self.head = self
            .incarnations
            .seal(&next, Some(&self.head), Batch::new())
            .await?;
        self.latest = next.clone();
        Ok(next)
    }

    async fn settled(&self) -> Result<(), Error> {
        self.handle()?
            .wait_settled(Settle::All(self.latest.no()), HOUR)
            .await?;
        Ok(())
    }

    /// Publishes `n` jobs and measures, as `phase`, until all are settled.
    async fn burst(&mut self, n: usize, phase: &str) -> Result<(Sample, Meter), Error> {
        let next = self.seal(jobs(n)?).await?;
        let meter = Meter::start()?;
        self.handle()?.publish(next);
        self.settled().await?;
        let diffs = self.plugin.0.diffs.load(Ordering::Relaxed);
        if diffs < n as u64 {
            return Err(format!("{diffs} diffs for {n} assets").into());
        }
        Ok((meter.stop(phase, n)?, meter))
    }
}

/// Makes an incarnation of `snapshot` that follows `parent`; the first one without a parent.
pub(crate) fn incarnation(
    parent: Option<&Incarnation>,
    snapshot: Snapshot,
) -> Result<Incarnation, Error> {
    let no = parent.map_or(IncarnationNo(1), |parent| parent.no().next());
    let id = IncarnationId::new(PartitionId::new("benches")?, no);
    let parent = parent.map(Incarnation::no);
    let header = Header::new(id, parent, &snapshot, Timestamp::UNIX_EPOCH);
    Ok(Incarnation::new(header, snapshot))
}

/// Makes a tokio runtime with a single thread and a clock.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?)
}

/// Publishes `n` assets at once and measures one diff of each.
pub(crate) fn burst(n: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let mut world = World::new(HOUR).await?;
        Ok(vec![world.burst(n, "all").await?.0])
    })
}

/// Measures the memory beside the snapshot, then a drift period of a minute and one of an hour, in virtual time.
pub(crate) fn idle(n: usize) -> Result<Vec<Sample>, Error> {
    let mut samples = period(n, "60s", Duration::from_secs(60))?;
    samples.extend(period(n, "1h", HOUR)?.pop());
    Ok(samples)
}

/// Settles `n` assets, then measures one drift period.
fn period(n: usize, phase: &str, period: Duration) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let mut world = World::new(period).await?;
        let (settled, meter) = world.burst(n, "settled").await?;
        let settled = settled.bytes(meter.grown()?);
        tokio::time::pause();
        // The scan spreads over the first period; the second period is measured.
        tokio::time::sleep(period).await;
        let before = world.plugin.0.diffs.load(Ordering::Relaxed);
        let meter = Meter::start()?;
        tokio::time::sleep(period).await;
        let diffs = (world.plugin.0.diffs.load(Ordering::Relaxed) - before) as usize;
        if diffs < n * 99 / 100 {
            return Err(format!("{diffs} of {n} assets were looked at in {phase}").into());
        }
        let scanned = meter.stop(phase, diffs)?.lasting(period);
        Ok(vec![settled, scanned])
    })
}

/// Changes the intent of one asset at a time, `events` times, while all others are idle; measures from the seal to the
/// start of its diff.
pub(crate) fn latency(n: usize, events: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let mut world = World::new(HOUR).await?;
        world.burst(n, "all").await?;
        world.plugin.0.watched.store(1, Ordering::Relaxed);
        let mut latencies = Vec::with_capacity(events);
        let meter = Meter::start()?;
        for event in 0..events {
            let changed = assets::job(shuffled(event, n), 2 + event as u64)?;
            let next = world.seal(vec![changed]).await?;
            let sealed = now();
            world.handle()?.publish(next);
            world.settled().await?;
            latencies.push(world.plugin.started()? - sealed);
        }
        Ok(vec![meter.stop("all", events)?.latencies(latencies)])
    })
}

/// Measures the time from the start of a new owner of `n` settled assets to its first diff, of an asset whose intent has
/// changed since the owner before. The new owner finds the incarnations in memory.
pub(crate) fn takeover(n: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let mut world = World::new(HOUR).await?;
        world.burst(n, "all").await?;
        world.stop().await?;
        world.seal(vec![assets::job(shuffled(0, n), 2)?]).await?;
        world.plugin.0.watched.store(1, Ordering::Relaxed);
        let meter = Meter::start()?;
        let began = now();
        world.start()?;
        world.settled().await?;
        let first = world.plugin.started()? - began;
        Ok(vec![meter.stop("all", n)?.latencies(vec![first])])
    })
}
