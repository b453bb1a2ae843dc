//! Checks that say no for a while, hang and fail; what they said is remembered for the judge.

use std::time::Duration;

use annealing_checks::{
    CalendarLayer, RateLayer, Scope, SerializeLayer, Types, calendar::Calendar,
    solver::DependencySolver,
};
use async_trait::async_trait;
use plugin_sdk::{
    BoxError, Cause, Causes, CheckInfo, CheckPlugin, CheckRequest, Delay, Quota, Recheck, Verdict,
    service::{CheckLayer, Proceed},
};
use tower::Service;

use crate::{
    executor::NodeId,
    faults::Fault,
    intent::{Kind, number},
    judge::Said,
    world::{State, World},
};

/// How many parts the partition has for the checks that say no.
pub const SCOPES: usize = 3;

/// The check that applies to everything, and the one that applies to intent only.
const ALWAYS: usize = 0;
const INTENT: usize = 1;
/// What is serialized.
const SERIAL: usize = 5;

/// The checks that a push for this cause has to pass.
pub fn covering(cause: Option<Cause>) -> impl Iterator<Item = usize> {
    let intent = (cause == Some(Cause::Intent)).then_some(INTENT);
    [ALWAYS].into_iter().chain(intent)
}

/// Whether the check that applies to intent only says no to an asset now.
pub fn is_red(state: &State, at: usize) -> bool {
    let until = state.closed.get(&(INTENT, at % SCOPES));
    until.is_some_and(|until| state.now < *until)
}

/// What gradual pushes exclude each other by.
pub fn serial(at: usize) -> usize {
    at % SERIAL
}

/// A check that can be told to say no.
struct Gate {
    world: World,
    node: NodeId,
    number: usize,
}

#[async_trait]
impl CheckPlugin for Gate {
    fn info(&self) -> CheckInfo {
        let (name, causes) = match self.number {
            ALWAYS => ("gate", Causes::ALL),
            _ => ("freeze", Causes::INTENT),
        };
        CheckInfo {
            name: name.into(),
            causes,
        }
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        self.remember(&request, false);
        let (hangs, fails, delay) = {
            let mut state = self.world.state();
            let delay = state
                .random
                .delay(Duration::from_millis(2), Duration::from_secs(2));
            let slow = state.strikes(Fault::Slow);
            let (least, most) = (Duration::from_secs(1), Duration::from_secs(20));
            let delay = match slow {
                true => state.random.between(least, most),
                false => delay,
            };
            let hangs = state.strikes(Fault::CheckHangs);
            (hangs, state.strikes(Fault::CheckFails), delay)
        };
        if hangs {
            return futures::future::pending().await;
        }
        if delay > Duration::from_millis(1) {
            self.world.sleep(delay).await;
        }
        if fails {
            return Err("the check lost its way".into());
        }
        let scope = number(request.asset.as_str()) % SCOPES;
        let closed = {
            let state = self.world.state();
            let until = state.closed.get(&(self.number, scope)).copied();
            until.is_some_and(|until| state.now < until)
        };
        self.remember(&request, !closed);
        if closed && self.number == INTENT {
            let at = number(request.asset.as_str());
            let mut state = self.world.state();
            state.judge_red(at, request.incarnation.no.0);
        }
        if !closed {
            return Ok(Verdict::proceed(request.now));
        }
        let delay = Delay {
            check: self.info().name,
            reason: "closed for now".into(),
            evidence: serde_json::Value::Null,
            recheck: Recheck::After(Duration::from_secs(5)),
        };
        Ok(Verdict::delay(request.now, delay))
    }
}

impl Gate {
    fn remember(&self, request: &CheckRequest, yes: bool) {
        let asset = number(request.asset.as_str());
        let mut state = self.world.state();
        let said = Said {
            yes,
            at: state.now,
            incarnation: request.incarnation.no.0,
            change: request.change.digest,
        };
        let key = (self.node.0, self.number, asset);
        state.judge.said.insert(key, said);
    }
}

/// The stack of one process: the real checks, and two that can be told to say no.
#[allow(clippy::expect_used, reason = "the calendar is a constant")]
pub fn checks(
    world: &World,
    node: NodeId,
) -> impl Service<CheckRequest, Response = Verdict, Error: Into<BoxError>, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    let gate = |number| {
        CheckLayer::new(Gate {
            world: world.clone(),
            node,
            number,
        })
    };
    let date = |minute| jiff::civil::date(2026, 3, 4).at(12, minute, 0, 0);
    let calendar = Calendar::builder("UTC")
        .freeze(date(10), date(14), "the quarter's end")
        .build()
        .expect("a calendar");
    let serial = Scope::by(|asset| Some(format!("{}", serial(number(asset.id_str())))))
        .only(Types::only([Kind::Gradual.type_name()]));
    let quota = Quota {
        burst: 6,
        every: Duration::from_millis(1500),
    };
    tower::ServiceBuilder::new()
        .layer(CheckLayer::new(DependencySolver::standard()))
        .layer(gate(ALWAYS))
        .layer(gate(INTENT))
        .layer(CalendarLayer::new(calendar))
        .layer(SerializeLayer::new("one-at-a-time", serial))
        .layer(RateLayer::new(
            "rate",
            Scope::all().only(Types::only([Kind::Guarded.type_name()])),
            quota,
        ))
        .service(Proceed)
}
