//! The layer that adds a [`Calendar`] to a policy stack. Separate from the check, because it holds back targets of
//! rollouts, not pushes.

use std::sync::Arc;

use plugin_sdk::{
    Recheck, SelectRequest, Selection, Until,
    service::{Narrow, NarrowLayer, Narrowed},
};
use tower_layer::Layer;

use super::Calendar;

/// A layer that selects targets only while a calendar is open.
///
/// It holds nothing back on the way back, in an emergency, and at a first turnup that the policy allows at once. The
/// calendar's causes and types concern pushes and are ignored here.
///
/// ```
/// use annealing_checks::calendar::{Calendar, WindowLayer};
/// use plugin_sdk::service::AllTargets;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(WindowLayer::new(Calendar::weekdays("Europe/Zurich")?).domains(["eu"]))
///     .layer(WindowLayer::new(Calendar::weekdays("America/New_York")?).domains(["us"]))
///     .service(AllTargets);
/// # Ok::<(), annealing_checks::calendar::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct WindowLayer {
    calendar: Arc<Calendar>,
    domains: Option<Arc<[String]>>,
}

impl WindowLayer {
    /// Makes a layer that selects any target only while `calendar` is open.
    pub fn new(calendar: Calendar) -> Self {
        Self {
            calendar: Arc::new(calendar),
            domains: None,
        }
    }

    /// Limits the layer to targets whose own failure domain ([`Target::domain`](plugin_sdk::Target::domain)) is listed.
    /// Other targets are not held back.
    #[must_use]
    pub fn domains<D: Into<String>>(self, domains: impl IntoIterator<Item = D>) -> Self {
        Self {
            domains: Some(domains.into_iter().map(Into::into).collect()),
            ..self
        }
    }

    fn keeps(&self, domain: Option<&str>) -> bool {
        match (&self.domains, domain) {
            (None, _) => true,
            (Some(domains), Some(domain)) => domains.iter().any(|listed| listed == domain),
            (Some(_), None) => false,
        }
    }
}

impl Narrow for WindowLayer {
    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        if !request.is_cautious() || beneath.now.is_empty() || self.calendar.is_open(request.now) {
            return beneath;
        }
        let offered = beneath.now.len();
        let selection = beneath.narrowed(|place| {
            let target = request.targets.get(place as usize);
            !target.is_some_and(|target| self.keeps(target.domain()))
        });
        if selection.now.len() == offered {
            return selection;
        }
        let closed = self.calendar.closed(request.now);
        selection.waiting(
            format!("{}: {}", closed.check, closed.reason),
            match closed.recheck {
                Recheck::At(opens) => Until::Time(opens),
                _ => Until::Person,
            },
        )
    }
}

impl<S> Layer<S> for WindowLayer {
    type Service = Narrowed<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        NarrowLayer::new(self.clone()).layer(inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::executor::block_on;
    use jiff::Timestamp;
    use plugin_sdk::{
        Direction, TargetSelection, conformance,
        service::AllTargets,
        testing::{select_request, target},
    };

    use super::*;

    fn windows() -> WindowLayer {
        WindowLayer::new(Calendar::weekdays("Europe/Zurich").unwrap()).domains(["eu"])
    }

    /// A Friday night.
    fn closed() -> SelectRequest {
        let targets = [target("job/eu", &["eu"]), target("job/us", &["us"])];
        let mut request = select_request(targets);
        request.now = "2026-03-06T22:00:00Z".parse().unwrap();
        request
    }

    #[test]
    fn domain_outside_its_windows_waits_until_they_open() {
        let policy = windows().layer(AllTargets);
        let selection = block_on(policy.select(closed())).unwrap();
        assert_eq!(selection.now, [1]);
        let monday: Timestamp = "2026-03-09T09:00:00+01:00".parse().unwrap();
        assert_eq!(selection.waits[0].until, Until::Time(monday));
        let back = closed().direction(Direction::Back);
        assert_eq!(block_on(policy.select(back)).unwrap().now, [0, 1]);
    }

    #[test]
    fn targets_of_a_calendar_that_never_opens_wait_for_an_operator() {
        let never = Calendar::builder("UTC");
        let day = jiff::civil::date(2026, 1, 1);
        let last = jiff::civil::Date::MAX;
        let calendar = never.freeze(day, last, "without an end").build().unwrap();
        let policy = WindowLayer::new(calendar).layer(AllTargets);
        let selection = block_on(policy.select(closed())).unwrap();
        assert!(selection.now.is_empty());
        assert_eq!(selection.waits[0].until, Until::Person);
    }

    #[test]
    fn r18_windows_keep_the_laws_of_selection() {
        block_on(conformance::select_layer(windows(), [closed()])).unwrap();
        let policy = windows().layer(AllTargets);
        let minute = Duration::from_secs(60);
        block_on(conformance::select(&policy, [closed()], minute)).unwrap();
    }
}
