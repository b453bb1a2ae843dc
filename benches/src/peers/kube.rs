//! kube-runtime as a peer: its store, scheduler and applier, with objects from memory and without an API server.
//!
//! The reconciler does nothing but request its next call after a period, so that only the machinery is measured.

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
};

/// One hour, so that no object is reconciled again while a burst or an event is measured.
const HOUR: Duration = Duration::from_secs(3_600);

/// The golden ratio's fraction: the fractional parts of its multiples spread evenly over 0 to 1, for any number of
/// them.
const GOLDEN: f64 = 0.618_033_988_749_895;

type Results = Pin<Box<dyn Stream<Item = Result<(), Error>>>>;

/// State of the reconciler.
#[derive(Debug)]
struct Context {
    /// The wait before an object is reconciled again.
    period: Duration,
    /// Number of reconciles so far.
    reconciled: AtomicUsize,
    /// Number of first reconciles whose next ones are spread over the period.
    spread: usize,
    /// Start of the newest reconcile.
    started: Mutex<Option<Instant>>,
}

/// A controller whose store is filled.
struct World {
    n: usize,
    context: Arc<Context>,
    writer: Writer<ConfigMap>,
    events: UnboundedSender<ObjectRef<ConfigMap>>,
    results: Results,
}

impl World {
    /// Makes `n` objects. Each is reconciled once, and again after `period`; for the first `spread` of them the second
    /// time falls somewhere within the period.
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

    /// Changes one object and returns the time until its reconcile starts.
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

/// Measures one reconcile of each of `n` objects.
pub(crate) fn burst(n: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let mut world = World::new(n, HOUR, 0);
        let meter = Meter::start()?;
        world.round().await?;
        Ok(vec![meter.stop("all", n)?])
    })
}

/// Measures the memory beside the store, then a round spread over a minute and one over an hour, in virtual time.
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

/// Measures `events` changes of single objects, one after the other, while all other objects are idle.
pub(crate) fn latency(n: usize, events: usize) -> Result<Vec<Sample>, Error> {
    runtime()?.block_on(async {
        let mut world = World::new(n, HOUR, 0);
        world.round().await?;
        let meter = Meter::start()?;
        let mut latencies = Vec::with_capacity(events);
        for event in 0..events {
            latencies.push(
                world
                    .change(assets::shuffled(event, n), 2 + event as u64)
                    .await?,
            );
        }
        Ok(vec![meter.stop("all", events)?.latencies(latencies)])
    })
}
