//! The sources of metrics and alerts that policies name.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures::lock::Mutex;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{BoxError, MetricSource, SignalSource, Signals, with_causes};

use super::super::expression::Readings;

/// Time for which alerts are not read again.
const KEPT: SignedDuration = SignedDuration::from_secs(5);

/// Sources of metrics and of alerts, by the names that policies use.
#[derive(Clone, Default)]
pub struct Sources {
    pub(super) metrics: BTreeMap<Arc<str>, Arc<Readings>>,
    pub(super) signals: BTreeMap<Arc<str>, Arc<Firing>>,
}

/// A source of alerts, and its last answer.
pub(super) struct Firing {
    pub(super) source: Arc<dyn SignalSource>,
    last: Mutex<Option<(Timestamp, Answer)>>,
}

/// The alerts, or the reason why they could not be read.
type Answer = Result<Arc<Signals>, Arc<str>>;

impl Sources {
    /// Adds a source of metrics. A second one with the same name takes the place of the first.
    #[must_use]
    pub fn metrics(mut self, name: &str, source: impl MetricSource) -> Self {
        let readings = Arc::new(Readings::of(source));
        self.metrics.insert(name.into(), readings);
        self
    }

    /// Adds a source of alerts. A second one with the same name takes the place of the first.
    #[must_use]
    pub fn signals(mut self, name: &str, source: impl SignalSource) -> Self {
        let firing = Firing {
            source: Arc::new(source),
            last: Mutex::default(),
        };
        self.signals.insert(name.into(), Arc::new(firing));
        self
    }
}

/// The source with a name, or the only one.
///
/// # Errors
/// The reason why there is none. `kind` is the kind of source.
pub(super) fn named<'a, T>(
    all: &'a BTreeMap<Arc<str>, Arc<T>>,
    name: Option<&str>,
    kind: &str,
) -> Result<&'a Arc<T>, String> {
    let list = || match all.is_empty() {
        true => "there is none: give one to the builder of the control plane".to_owned(),
        false => {
            let names: Vec<&str> = all.keys().map(|name| &**name).collect();
            format!("there are: {}", names.join(", "))
        }
    };
    match (name, all.len()) {
        (Some(name), _) => all
            .get(name)
            .ok_or_else(|| format!("no source of {kind} is named `{name}`; {}", list())),
        (None, 1) => all.values().next().ok_or_else(list),
        (None, _) => Err(format!("name a source of {kind}; {}", list())),
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

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("metrics", &self.metrics.keys())
            .field("signals", &self.signals.keys())
            .finish()
    }
}
