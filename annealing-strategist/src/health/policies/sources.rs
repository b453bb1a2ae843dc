//! The sources that policies name, each read once for all policies.

use std::{collections::BTreeMap, sync::Arc};

use futures::lock::Mutex;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{BoxError, SignalSource, Signals, Sources, with_causes};

use super::super::expression::Readings;

/// Time for which alerts are not read again.
const KEPT: SignedDuration = SignedDuration::from_secs(5);

/// The last answers of all sources, by their names.
pub(super) struct Readers {
    sources: Sources,
    metrics: BTreeMap<Arc<str>, Arc<Readings>>,
    signals: BTreeMap<Arc<str>, Arc<Firing>>,
}

/// A source of alerts, and its last answer.
pub(super) struct Firing {
    pub(super) source: Arc<dyn SignalSource>,
    last: Mutex<Option<(Timestamp, Answer)>>,
}

/// The alerts, or the reason why they could not be read.
type Answer = Result<Arc<Signals>, Arc<str>>;

impl Readers {
    pub(super) fn of(sources: &Sources) -> Self {
        let metrics = sources.all_metrics();
        let readings = |source: &Arc<_>| Arc::new(Readings::of(Arc::clone(source)));
        let metrics = metrics.map(|(name, source)| (name.clone(), readings(source)));
        let firing = |source: &Arc<dyn SignalSource>| Firing {
            source: source.clone(),
            last: Mutex::default(),
        };
        let signals = sources.all_signals();
        let signals = signals.map(|(name, source)| (name.clone(), Arc::new(firing(source))));
        Self {
            metrics: metrics.collect(),
            signals: signals.collect(),
            sources: sources.clone(),
        }
    }

    /// The source of metrics with a name, or the only one.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn metrics(&self, name: Option<&str>) -> Result<&Arc<Readings>, String> {
        let (name, _) = self.sources.metric(name)?;
        Ok(&self.metrics[name])
    }

    /// The source of alerts with a name, or the only one.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn signals(&self, name: Option<&str>) -> Result<&Arc<Firing>, String> {
        let (name, _) = self.sources.signal(name)?;
        Ok(&self.signals[name])
    }
}

impl Firing {
    /// The alerts that fire at a time, or a little before.
    pub(super) async fn at(&self, now: Timestamp) -> Result<Arc<Signals>, BoxError> {
        let mut last = self.last.lock().await;
        let known = last.as_ref();
        let known = known.filter(|(at, _)| now.duration_since(*at).abs() < KEPT);
        let answer = match known {
            Some((_, answer)) => answer.clone(),
            None => {
                let read = self.source.firing().await;
                let answer: Answer = read
                    .map(Arc::new)
                    .map_err(|error| with_causes(&*error).into());
                last.insert((now, answer)).1.clone()
            }
        };
        answer.map_err(|why| (*why).into())
    }
}
