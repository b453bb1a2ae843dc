//! The sources of metrics and alerts that policies name.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{metric::MetricSource, signal::SignalSource};

/// Sources of metrics and of alerts, by the names that policies use.
///
/// ```
/// # use plugin_sdk::{MetricSource, SignalSource, Sources};
/// # fn sources(prometheus: impl MetricSource, alertmanager: impl SignalSource) -> Sources {
/// Sources::default()
///     .metrics("prometheus", prometheus)
///     .signals("alertmanager", alertmanager)
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Sources {
    metrics: BTreeMap<Arc<str>, Arc<dyn MetricSource>>,
    signals: BTreeMap<Arc<str>, Arc<dyn SignalSource>>,
}

impl Sources {
    /// Adds a source of metrics. A second one with the same name takes the place of the first.
    #[must_use]
    pub fn metrics(mut self, name: &str, source: impl MetricSource) -> Self {
        self.metrics.insert(name.into(), Arc::new(source));
        self
    }

    /// Adds a source of alerts. A second one with the same name takes the place of the first.
    #[must_use]
    pub fn signals(mut self, name: &str, source: impl SignalSource) -> Self {
        self.signals.insert(name.into(), Arc::new(source));
        self
    }

    /// All sources of metrics, sorted by name.
    pub fn all_metrics(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<dyn MetricSource>)> {
        self.metrics.iter()
    }

    /// All sources of alerts, sorted by name.
    pub fn all_signals(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<dyn SignalSource>)> {
        self.signals.iter()
    }

    /// The source of metrics with a name and that name. `None` finds the only one.
    ///
    /// # Errors
    /// The reason why there is none, with the names that there are.
    pub fn metric(
        &self,
        name: Option<&str>,
    ) -> Result<(&Arc<str>, &Arc<dyn MetricSource>), String> {
        find(&self.metrics, name, "metrics")
    }

    /// The source of alerts with a name and that name. `None` finds the only one.
    ///
    /// # Errors
    /// The reason why there is none, with the names that there are.
    pub fn signal(
        &self,
        name: Option<&str>,
    ) -> Result<(&Arc<str>, &Arc<dyn SignalSource>), String> {
        find(&self.signals, name, "alerts")
    }
}

fn find<'a, T: ?Sized>(
    all: &'a BTreeMap<Arc<str>, Arc<T>>,
    name: Option<&str>,
    kind: &str,
) -> Result<(&'a Arc<str>, &'a Arc<T>), String> {
    let list = || match all.is_empty() {
        true => "there is none: give one to the builder of the control plane".to_owned(),
        false => {
            let names: Vec<&str> = all.keys().map(|name| &**name).collect();
            format!("there are: {}", names.join(", "))
        }
    };
    match (name, all.len()) {
        (Some(name), _) => all
            .get_key_value(name)
            .ok_or_else(|| format!("no source of {kind} is named `{name}`; {}", list())),
        (None, 1) => all.iter().next().ok_or_else(list),
        (None, _) => Err(format!("name a source of {kind}; {}", list())),
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
