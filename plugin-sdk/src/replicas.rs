//! [`Replicas`]: several servers that watch the same production, as one source.

use std::collections::{BTreeMap, btree_map::Entry};

use async_trait::async_trait;
use futures::future::join_all;

use crate::{
    error::{BoxError, with_causes},
    metric::{Expression, MetricQuery, MetricReading, MetricSource},
    problem::Problem,
    signal::{Alert, SignalSource, Signals},
};

/// Servers of one kind that watch the same production, such as two Prometheus servers. All are read at the same time.
///
/// - Metrics are those of the server that knows production up to the latest time; among equals, of the one with the most
///   series, because a server that cannot reach production has fewer.
/// - Alerts are those of all servers together. One that is silenced on one server and not on another one fires.
/// - A server that fails is passed over. If all fail, the error names each one's reason.
///
/// ```
/// use plugin_sdk::{MetricSource, Replicas};
///
/// # fn both(a: impl MetricSource, b: impl MetricSource) {
/// # use std::sync::Arc;
/// # let (a, b): (Arc<dyn MetricSource>, Arc<dyn MetricSource>) = (Arc::new(a), Arc::new(b));
/// let prometheus = Replicas::of([a, b]);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Replicas<S>(Vec<S>);

impl<S> Replicas<S> {
    /// Makes one source of all these. Without any, it always fails.
    pub fn of(all: impl IntoIterator<Item = S>) -> Self {
        Self(all.into_iter().collect())
    }
}

/// The answers of those that answer, or the reasons of all.
fn answers<T>(all: Vec<Result<T, BoxError>>) -> Result<Vec<T>, BoxError> {
    let (mut answers, mut reasons) = (Vec::new(), Vec::new());
    for answer in all {
        match answer {
            Ok(answer) => answers.push(answer),
            Err(error) => reasons.push(with_causes(&*error)),
        }
    }
    match answers.is_empty() {
        true if reasons.is_empty() => Err("there is no replica: give it at least one".into()),
        true => Err(reasons.join("; ").into()),
        false => Ok(answers),
    }
}

#[async_trait]
impl<S: MetricSource> MetricSource for Replicas<S> {
    fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
        self.0.iter().try_for_each(|it| it.accepts(expression))
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        let all = self.0.iter().map(|it| it.read(query.clone()));
        let all = answers(join_all(all).await)?;
        let best = all.into_iter().max_by_key(|it| (it.as_of, it.series.len()));
        best.ok_or_else(|| "there is no replica".into())
    }
}

#[async_trait]
impl<S: SignalSource> SignalSource for Replicas<S> {
    async fn firing(&self) -> Result<Signals, BoxError> {
        let all = self.0.iter().map(SignalSource::firing);
        let all = answers(join_all(all).await)?;
        let as_of = all.iter().map(|it| it.as_of).max();
        let mut union: BTreeMap<_, Alert> = BTreeMap::new();
        for alert in all.into_iter().flat_map(|it| it.firing) {
            let of = (alert.name.clone(), alert.labels.clone());
            match union.entry(of) {
                Entry::Vacant(free) => drop(free.insert(alert)),
                Entry::Occupied(mut seen) => join(seen.get_mut(), alert),
            }
        }
        Ok(Signals {
            firing: union.into_values().collect(),
            as_of: as_of.ok_or("there is no replica")?,
        })
    }
}

/// Takes in the same alert from another server. To a server that was restarted it began later than it did.
fn join(alert: &mut Alert, other: Alert) {
    let known = [alert.since, other.since].into_iter().flatten();
    alert.since = known.min();
    alert.silenced = alert.silenced.take().and(other.silenced);
    alert.inhibited &= other.inhibited;
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use jiff::ToSpan;

    use super::*;
    use crate::{signal::Silence, testing::NOW};

    struct Fake(Option<Vec<Alert>>);

    #[async_trait]
    impl SignalSource for Fake {
        async fn firing(&self) -> Result<Signals, BoxError> {
            let firing = self.0.clone().ok_or("down")?;
            Ok(Signals { firing, as_of: NOW })
        }
    }

    fn firing(all: [Option<Vec<Alert>>; 2]) -> Result<Vec<Alert>, BoxError> {
        let replicas = Replicas::of(all.map(Fake));
        Ok(block_on(replicas.firing())?.firing)
    }

    #[test]
    fn r108_alerts_of_all_replicas_count() {
        let (slow, full) = (
            Alert::named("Slow").label("cluster", "eu"),
            Alert::named("Full"),
        );
        let union = firing([
            Some(vec![slow.clone()]),
            Some(vec![full.clone(), slow.clone()]),
        ]);
        assert_eq!(union.unwrap(), [full.clone(), slow.clone()]);
        assert_eq!(firing([None, Some(vec![full.clone()])]).unwrap(), [full]);
        let both = firing([None, None]).unwrap_err().to_string();
        assert_eq!(both, "down; down");
        let elsewhere = Alert::named("Slow").label("cluster", "us");
        let two = firing([Some(vec![slow]), Some(vec![elsewhere])]);
        assert_eq!(two.unwrap().len(), 2);
    }

    #[test]
    fn r108_alert_of_two_replicas_is_silenced_by_both_and_as_old_as_the_older() {
        let slow = Alert::named("Slow");
        let silence = Silence {
            by: "bo".to_owned(),
            until: None,
        };
        let silenced = slow.clone().silenced(silence);
        let of = |one: &Alert, two: &Alert| {
            firing([Some(vec![one.clone()]), Some(vec![two.clone()])]).unwrap()
        };
        assert_eq!(of(&silenced, &slow), of(&slow, &slow));
        assert_eq!(of(&silenced, &silenced), [silenced]);
        let (old, new) = (slow.clone().since(NOW - 1.hour()), slow.clone().since(NOW));
        assert_eq!(of(&old, &new), of(&old, &old));
        assert_eq!(of(&slow, &old), [old]);
    }
}
