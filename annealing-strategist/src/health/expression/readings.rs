//! The values that a source has measured, read once for all rules and all rollouts.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use futures::lock::Mutex;
use jiff::Timestamp;
use plugin_sdk::{BoxError, Expression, MetricQuery, MetricReading, MetricSource, Series, Windows};

/// Maximum number of answers to an expression that are kept: of the newest windows, and of those before live rollouts began.
const KEPT: usize = 8;

/// A source of metrics, and its last answers.
pub(in crate::health) struct Readings {
    source: Box<dyn MetricSource>,
    kept: Mutex<BTreeMap<Expression, VecDeque<(Windows, Slot)>>>,
}

/// The answer to one query. Locked while the source is read, so that others wait for its answer.
type Slot = Arc<Mutex<Option<Arc<Table>>>>;

/// The values of an expression, by the labels of their series.
pub(in crate::health) struct Table {
    series: BTreeMap<Vec<String>, Vec<Series>>,
    as_of: Timestamp,
}

impl Readings {
    pub(in crate::health) fn of(source: impl MetricSource) -> Self {
        Self {
            source: Box::new(source),
            kept: Mutex::default(),
        }
    }

    /// The answer to a query. It is read once; a source that fails is read again at the next look.
    pub(in crate::health) async fn read(&self, query: MetricQuery) -> Result<Arc<Table>, BoxError> {
        let slot = self.slot(&query).await;
        let mut answer = slot.lock().await;
        if let Some(known) = &*answer {
            return Ok(known.clone());
        }
        let labels = query.expression.labels.clone();
        let reading = self.source.read(query).await?;
        Ok(answer.insert(Arc::new(Table::of(reading, &labels))).clone())
    }

    /// The answer to a query about the past, which is not kept.
    #[cfg(feature = "statistics")]
    pub(in crate::health) async fn read_past(&self, query: MetricQuery) -> Result<Table, BoxError> {
        let labels = query.expression.labels.clone();
        let reading = self.source.read(query).await?;
        Ok(Table::of(reading, &labels))
    }

    async fn slot(&self, query: &MetricQuery) -> Slot {
        let mut kept = self.kept.lock().await;
        let kept = kept.entry(query.expression.clone()).or_default();
        if let Some((_, slot)) = kept.iter().find(|(of, _)| *of == query.windows) {
            return slot.clone();
        }
        let slot = Slot::default();
        kept.truncate(KEPT - 1);
        kept.push_front((query.windows, slot.clone()));
        slot
    }
}

impl Table {
    /// Sorts the series of a reading. One that lacks a label is about no asset.
    fn of(reading: MetricReading, labels: &[String]) -> Self {
        let mut all: BTreeMap<_, Vec<Series>> = BTreeMap::new();
        for series in reading.series {
            let key = labels.iter().map(|label| series.labels.get(label).cloned());
            if let Some(key) = key.collect() {
                all.entry(key).or_default().push(series);
            }
        }
        let as_of = reading.as_of;
        Self { series: all, as_of }
    }

    /// Time up to which the source knew production.
    pub(in crate::health) fn as_of(&self) -> Timestamp {
        self.as_of
    }

    /// The value of the one series with these labels in each window. `None`: it has none, or there are several series.
    #[cfg(feature = "statistics")]
    pub(in crate::health) fn line(&self, key: &[String], windows: Windows) -> Vec<Option<f64>> {
        let mut line = vec![None; windows.count as usize];
        let Some([series]) = self.series.get(key).map(Vec::as_slice) else {
            return line;
        };
        for (at, value) in &series.samples {
            let after = at.duration_since(windows.first()).as_secs();
            let place = usize::try_from(after / windows.length.as_secs().max(1) as i64);
            if windows.has(*at)
                && let Some(place) = place.ok().and_then(|place| line.get_mut(place))
            {
                *place = value.is_finite().then_some(*value);
            }
        }
        line
    }

    /// The values of the series with these labels in the window that ends then. `None` stands for one that is no number.
    pub(super) fn values(&self, key: &[String], end: Timestamp) -> Vec<Option<f64>> {
        let series = self.series.get(key).into_iter().flatten();
        let at = |it: &Series| it.samples.iter().find(|(at, _)| *at == end).copied();
        let values = series.filter_map(at).map(|(_, value)| value);
        values.map(|it| it.is_finite().then_some(it)).collect()
    }
}
