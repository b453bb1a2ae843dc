//! The layer that adds a [`Calendar`] to a dispatch stack. Separate from the check, because it holds back starts of
//! executions and of steps, not pushes.

use std::sync::Arc;

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, CheckName, Class, Dispatch, DispatchPlugin, DispatchRequest,
    service::{DispatchLayer, Dispatched},
};
use tower_layer::Layer;

use super::Calendar;

/// A layer that lets executions, or [steps](Self::steps) of them, start only while a calendar is open. A window that closes stops
/// further starts; an execution and a step under way go on, and so do the further attempts of a step.
///
/// It holds back no urgent work: what the push of a rollback or of an emergency starts. The calendar's causes and types
/// concern pushes and are ignored here.
///
/// ```
/// use annealing_checks::calendar::{Calendar, StartLayer};
/// use plugin_sdk::service::ByCause;
///
/// let nights = Calendar::builder("Europe/Zurich").weekly("Sun-Thu 22:00-04:00").build()?;
/// let dispatch = tower::ServiceBuilder::new()
///     .layer(StartLayer::new(nights.clone()).workflows(["reindex"]))
///     // The migration begins at any time, and switches over at night.
///     .layer(StartLayer::new(nights).workflows(["migrate"]).steps(["switch"]))
///     .service(ByCause);
/// # Ok::<(), annealing_checks::calendar::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StartLayer(Starts);

/// The rule of [`StartLayer`]: a calendar, and the workflows that it is for.
#[derive(Debug, Clone)]
pub struct Starts {
    calendar: Arc<Calendar>,
    workflows: Option<Arc<[String]>>,
    /// `None`: starts of executions.
    steps: Option<Arc<[String]>>,
}

impl StartLayer {
    /// Makes a layer that lets executions start only while `calendar` is open.
    pub fn new(calendar: Calendar) -> Self {
        Self(Starts {
            calendar: Arc::new(calendar),
            workflows: None,
            steps: None,
        })
    }

    /// Limits the layer to executions of these workflows. Others start at any time.
    #[must_use]
    pub fn workflows<W: Into<String>>(mut self, workflows: impl IntoIterator<Item = W>) -> Self {
        self.0.workflows = Some(workflows.into_iter().map(Into::into).collect());
        self
    }

    /// Holds back these steps instead of the starts of executions, by the names of their states.
    #[must_use]
    pub fn steps<S: Into<String>>(mut self, steps: impl IntoIterator<Item = S>) -> Self {
        self.0.steps = Some(steps.into_iter().map(Into::into).collect());
        self
    }
}

impl Starts {
    /// Whether the request is the first attempt of a bound step or, without bound steps, the start of an execution.
    fn begins(&self, request: &DispatchRequest) -> bool {
        match (&self.steps, &request.step) {
            (None, step) => step.is_none(),
            (Some(bound), Some(step)) => {
                request.attempt <= 1 && bound.iter().any(|it| it == step.as_str())
            }
            (Some(_), None) => false,
        }
    }

    fn applies(&self, request: &DispatchRequest) -> bool {
        let name = request.execution.workflow.as_str();
        let of = |workflows: &Arc<[String]>| workflows.iter().any(|it| it == name);
        self.begins(request)
            && request.class < Class::Urgent
            && self.workflows.as_ref().is_none_or(of)
    }
}

#[async_trait]
impl DispatchPlugin for Starts {
    fn name(&self) -> CheckName {
        self.calendar.name.clone()
    }

    async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError> {
        if !self.applies(&request) || self.calendar.is_open(request.now) {
            return Ok(request.go());
        }
        Ok(request.go().delayed(self.calendar.closed(request.now)))
    }
}

impl<S> Layer<S> for StartLayer {
    type Service = Dispatched<S, Starts>;

    fn layer(&self, inner: S) -> Self::Service {
        DispatchLayer::new(self.0.clone()).layer(inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use jiff::Timestamp;
    use plugin_sdk::{
        Cause, Recheck, conformance,
        operation::{ExecutionId, StartCause},
        service::{ByCause, stack},
        testing::dispatch_request,
    };
    use prodspec_model::IncarnationNo;

    use super::*;

    fn office() -> StartLayer {
        StartLayer::new(Calendar::weekdays("Europe/Zurich").unwrap())
    }

    /// A Friday night.
    fn closed() -> DispatchRequest {
        let mut request = dispatch_request();
        request.now = "2026-03-06T22:00:00Z".parse().unwrap();
        request
    }

    fn dispatch(layer: StartLayer, request: DispatchRequest) -> Dispatch {
        block_on(stack(layer.layer(ByCause)).call(request)).unwrap()
    }

    #[test]
    fn r32_execution_waits_until_its_calendar_opens_and_its_steps_do_not() {
        let found = dispatch(office(), closed());
        let monday: Timestamp = "2026-03-09T09:00:00+01:00".parse().unwrap();
        assert_eq!(found.delays[0].recheck, Recheck::At(monday));
        assert_eq!(found.delays[0].check.as_str(), "calendar");
        let mut open = closed();
        open.now = monday;
        assert!(dispatch(office(), open).is_go());
        let step = closed().step("load".into(), None, false);
        assert!(dispatch(office(), step).is_go());
    }

    #[test]
    fn r32_step_that_is_bound_waits_until_its_calendar_opens_and_goes_on_after_it() {
        let bound = || office().steps(["load"]);
        let step = |name: &str| closed().step(name.into(), None, false);
        let held = dispatch(bound(), step("load"));
        let monday: Timestamp = "2026-03-09T09:00:00+01:00".parse().unwrap();
        assert_eq!(held.delays[0].recheck, Recheck::At(monday));
        assert!(dispatch(bound(), step("other")).is_go());
        assert!(dispatch(bound(), closed()).is_go(), "the execution starts");
        let mut again = step("load");
        again.attempt = 2;
        assert!(dispatch(bound(), again).is_go());
        let cleans_up = closed().step("load".into(), None, true);
        assert!(dispatch(bound(), cleans_up).is_go());
    }

    #[test]
    fn r32_calendar_holds_back_its_workflows_only_and_no_urgent_work() {
        assert!(dispatch(office().workflows(["reindex"]), closed()).is_go());
        assert!(!dispatch(office().workflows(["season"]), closed()).is_go());
        let cause = StartCause::Push {
            asset: plugin_sdk::testing::asset("season/2027").id(),
            incarnation: IncarnationNo(1),
            cause: Cause::Rollback,
        };
        let now = plugin_sdk::Now {
            mono: plugin_sdk::Mono(0),
            wall: closed().now,
        };
        let urgent = DispatchRequest::start(ExecutionId::new("season", 1), cause, now);
        assert!(dispatch(office(), urgent).is_go());
    }

    #[test]
    fn r32_start_layer_keeps_the_laws_of_dispatch() {
        let step = closed().step("load".into(), None, false);
        let requests = [dispatch_request(), closed(), step];
        let bound = office().steps(["load"]);
        block_on(conformance::dispatch_layer(bound, requests.clone())).unwrap();
        block_on(conformance::dispatch_layer(office(), requests)).unwrap();
    }
}
