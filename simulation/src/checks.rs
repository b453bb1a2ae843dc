//! Checks that delay for a while, hang and fail. The judge records their answers.

use std::time::Duration;

use annealing_checks::{
    CalendarLayer, RateLayer, Scope, SerializeLayer, Types, calendar::Calendar,
    solver::DependencySolver,
};
use async_trait::async_trait;
use plugin_sdk::{
    BoxError, Causes, CheckInfo, CheckPlugin, CheckRequest, Delay, Quota, Recheck, Verdict,
    service::{CheckLayer, Proceed, StackService},
};
#[cfg(feature = "planted-bugs")]
use {
    annealing_checks::solver::{OrderRule, Push, Question, VersionOrder, Wait},
    plugin_sdk::{Diff, observe::Link},
    prodspec_model::addons::Need,
};

use crate::{
    executor::NodeId,
    faults::Fault,
    gates::{ALWAYS, INTENT, serial},
    intent::{Kind, number},
    world::World,
    world::judge::Said,
};

/// Deadline of a check: without an answer by then it counts as a delay.
const DEADLINE: Duration = Duration::from_secs(30);

/// Breaks R16: a drift repair waits until its provider is in sync, as a change of intent does.
#[cfg(feature = "planted-bugs")]
struct PatientOrder;

#[cfg(feature = "planted-bugs")]
impl OrderRule for PatientOrder {
    fn questions(&self, push: &Push<'_>) -> Vec<Question> {
        let ordered = push
            .providers()
            .iter()
            .filter(|link| link.need == Need::Order);
        let question = |link: &Link| {
            let first = link.asset.clone();
            Question::new([first.clone()], move |seen| match seen.diff(&first) {
                Some(Diff::InSync { .. }) => Vec::new(),
                _ => vec![Wait::on(first, "must be in sync first")],
            })
        };
        ordered.map(question).collect()
    }
}

/// The real solver, or the broken one whose drift repairs wait for edits.
fn solver(world: &World) -> DependencySolver {
    #[cfg(feature = "planted-bugs")]
    if world.state().scenario.patient_order {
        return DependencySolver::capacity()
            .with(VersionOrder)
            .with(PatientOrder);
    }
    let _ = world;
    DependencySolver::standard()
}

/// A check that delays while it is closed.
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
        CheckInfo::new(name).only_for(causes)
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
            let fails = state.strikes(Fault::CheckFails);
            let at = number(request.asset_id().as_str());
            match (hangs, fails || slow) {
                (true, _) => state.hindered(at, DEADLINE),
                (false, true) => state.hindered(at, delay),
                _ => {}
            }
            (hangs, fails, delay)
        };
        if hangs {
            return futures::future::pending().await;
        }
        if delay > Duration::from_millis(1) {
            self.world.sleep(delay).await;
        }
        if fails {
            return Err("the check failed".into());
        }
        let at = number(request.asset_id().as_str());
        let closed = {
            let state = self.world.state();
            state.gates.is_closed(self.number, at, state.now)
        };
        self.remember(&request, !closed);
        if closed && self.number == INTENT {
            let mut state = self.world.state();
            state.judge_red(at, request.incarnation().no.0);
        }
        if !closed {
            return Ok(request.proceed());
        }
        let delay = Delay::new("closed for now", Recheck::After(Duration::from_secs(5)))
            .check(self.info().name);
        Ok(Verdict::delay(request.now, delay))
    }
}

impl Gate {
    /// Remembers an answer. One to a rollout allows no push.
    fn remember(&self, request: &CheckRequest, yes: bool) {
        if request.ahead {
            return;
        }
        let mut state = self.world.state();
        let said = Said {
            yes,
            at: state.now,
            incarnation: request.incarnation().no.0,
            change: request.change.digest,
        };
        let key = (self.node.0, self.number, request.asset_id().clone());
        state.judge.said.insert(key, said);
    }
}

/// Makes the check stack of one process: the real checks, and two that can be closed.
#[allow(clippy::expect_used, reason = "the calendar is a constant")]
pub fn checks(world: &World, node: NodeId) -> impl StackService<CheckRequest, Verdict> {
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
        .expect("the constant calendar is valid");
    let serial = Scope::by(|asset| Some(format!("{}", serial(number(asset.id_str())))))
        .only(Types::only([Kind::Gradual.type_name()]));
    let quota = Quota::new(6, Duration::from_millis(1500));
    tower::ServiceBuilder::new()
        .layer(CheckLayer::new(solver(world)))
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
