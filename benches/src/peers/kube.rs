//! kube-runtime: its store, its scheduler and its applier, fed from memory; there is no API server.
//!
//! The reconciler does nothing and asks to be called again after a period, so that only the machinery is measured.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{
    Stream, StreamExt, TryStreamExt,
    channel::mpsc::{UnboundedSender, unbounded},
    future::{Ready, ready},
    stream,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    core::ObjectMeta,
    runtime::{
        applier,
        controller::{Action, Config},
        reflector::{ObjectRef, store, store::Writer},
        watcher::Event,
    },
};
use tokio::runtime::Runtime;

use crate::{
    Error, assets,
    measure::{Meter, Sample, now},
    scenarios::event_latency::EVENTS,
};

/// An hour: nothing comes back while a burst or an event is measured.
const HOUR: Duration = Duration::from_secs(3_600);

/// The multiples of it, without their whole parts, spread evenly over 0 to 1 however many they are.
const GOLDEN: f64 = 0.618_033_988_749_895;

type Results = Pin<Box<dyn Stream<Item = Result<(), Error>>>>;

/// What the reconciler knows.
#[derive(Debug)]
struct Context {
    /// After how long each object is reconciled again.
    period: Duration,
    /// How many reconciles there were.
    reconciled: AtomicUsize,
    /// How many of them, the first ones, spread their next one over the period.
    spread: usize,
    /// When the last reconcile started.
    started: Mutex<Option<Instant>>,
}

/// A controller with a filled store.
struct World {
    n: usize,
    context: Arc<Context>,
    writer: Writer<ConfigMap>,
    events: UnboundedSender<ObjectRef<ConfigMap>>,
    results: Results,
}

impl World {
    /// `n` objects, each of which will be reconciled once, and again after `period`; the second time of the first
    /// `spread` of them falls somewhere within it.
    fn new(n: usize, period: Duration, spread: usize) -> Self {
        let (reader, mut writer) = store();
        writer.apply_watcher_event(&Event::Init);
        for no in 0..n {
            writer.apply_watcher_event(&Event::InitApply(object(no, 1)));
        }
        writer.apply_watcher_event(&Event::InitDone);
        let context = Arc::new(Context {
            period,
            reconciled: AtomicUsize::new(0),
            spread,
            started: Mutex::new(None),
        });
        let (events, inbox) = unbounded();
        let queue = stream::iter((0..n).map(reference)).chain(inbox);
        let results = applier(
            reconcile,
            |_, error: &Infallible, _| match *error {},
            context.clone(),
            reader,
            queue.map(Ok::<_, Infallible>),
            Config::default(),
        );
        let results = results.map_ok(|_| ()).map_err(Error::from);
        Self {
            n,
            context,
            writer,
            events,
            results: Box::pin(results),
        }
    }

    /// Reconciles every object once.
    async fn round(&mut self) -> Result<(), Error> {
        for _ in 0..self.n {
            self.one().await?;
        }
        Ok(())
    }

    async fn one(&mut self) -> Result<(), Error> {
        self.results.next().await.ok_or("the applier has ended")?
    }

    /// Changes one object; how long until its reconcile starts.
    async fn change(&mut self, no: usize, version: u64) -> Result<Duration, Error> {
        let changed = Event::Apply(object(no, version));
        let sealed = now();
        self.writer.apply_watcher_event(&changed);
        self.events.unbounded_send(reference(no))?;
        self.one().await?;
        let started = lock(&self.context.started).take();
        Ok(started.ok_or("nothing was reconciled")? - sealed)
    }
}

fn reconcile(_: Arc<ConfigMap>, context: Arc<Context>) -> Ready<Result<Action, Infallible>> {
    *lock(&context.started) = Some(now());
    let turn = context.reconciled.fetch_add(1, Ordering::Relaxed);
    let after = if turn < context.spread {
        context.period.mul_f64(1.0 - (turn as f64 * GOLDEN).fract())
    } else {
        context.period
    };
    ready(Ok(Action::requeue(after)))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(no: usize) -> String {
    assets::id(no).replace('/', "-")
}

fn reference(no: usize) -> ObjectRef<ConfigMap> {
    ObjectRef::new(&name(no)).within("benches")
}

fn object(no: usize, version: u64) -> ConfigMap {
    let data = [
        ("cluster", format!("cluster-{:02}", no % 50)),
        ("replicas", (3 + no % 7).to_string()),
        ("version", version.to_string()),
    ];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name(no)),
            namespace: Some("benches".into()),
            ..ObjectMeta::default()
        },
        data: Some(data.map(|(key, value)| (key.into(), value)).into()),
        ..ConfigMap::default()
    }
}

fn runtime() -> Result<Runtime, Error> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_time().build()?)
}

/// Every object is reconciled once.
pub(crate) fn burst(n: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let mut world = World::new(n, HOUR, 0);
        let meter = Meter::start()?;
        world.round().await?;
        Ok(vec![meter.stop("all", n)?])
    })
}

/// Memory beside the store, then one round spread over a minute and one spread over an hour, in virtual time.
pub(crate) fn idle(n: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let mut samples = Vec::new();
        for (phase, period) in [("60s", Duration::from_secs(60)), ("1h", HOUR)] {
            let mut world = World::new(n, period, n);
            let meter = Meter::start()?;
            world.round().await?;
            if samples.is_empty() {
                samples.push(meter.stop("settled", n)?.bytes(meter.grown()?));
            }
            tokio::time::pause();
            let meter = Meter::start()?;
            world.round().await?;
            samples.push(meter.stop(phase, n)?.lasting(period));
            tokio::time::resume();
        }
        Ok(samples)
    })
}

/// Events one after the other, all other objects idle.
pub(crate) fn latency(n: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let mut world = World::new(n, HOUR, 0);
        world.round().await?;
        let meter = Meter::start()?;
        let mut latencies = Vec::with_capacity(EVENTS);
        for event in 0..EVENTS {
            latencies.push(
                world
                    .change(assets::shuffled(event, n), 2 + event as u64)
                    .await?,
            );
        }
        Ok(vec![meter.stop("all", EVENTS)?.latencies(latencies)])
    })
}
