//! A case so small that a crash can be tried at every point of it, and at every two: a balancer that uses a job, and an
//! asset that has nothing to do with either. Besides the crashes nothing goes wrong.

use std::time::Duration;

use futures::FutureExt;
use plane_store::{record, records::AssetRecord};

use crate::{
    executor::Instant,
    faults::{Crash, Points, Rates},
    intent::{Bad, Kind, Plan, Wish, asset, partition, seal_for_ever},
    judge::Violation,
    process,
    production::Content,
    run::audit,
    scenario::Scenario,
    store,
    world::{State, World},
};

/// The job, which others use.
const JOB: usize = 2;
/// The balancer, which uses it.
const BALANCER: usize = 3;
/// All assets. The first two are concepts, which nobody enforces.
const ALL: usize = 5;
/// After so long without anything left to do nothing is left to do.
const CALM: Duration = Duration::from_secs(6);
/// So often something that takes no time half of the time is tried.
const TRIES: usize = 50;
/// Nothing takes so long.
const MOST: Duration = Duration::from_secs(900);

/// What the control plane is doing when it crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It brings up what nobody has seen before.
    Turnup,
    /// One new incarnation changes the job and the balancer, which needs more of it.
    Growth,
    /// One new incarnation changes the job and the balancer, which needs less of it.
    Shrinkage,
}

/// What was done in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Which contents took effect where, sorted: as often as they are listed.
    pub took_effect: Vec<(usize, Option<u64>)>,
    /// What is in production.
    pub contents: Vec<Option<Content>>,
    /// What must never happen, and did.
    pub violation: Option<Violation>,
}

/// Plays the case on `scenario`, with something dying at the points numbered in `deadly`. Answers how it ended and how
/// many points were passed until nothing was left to do.
pub fn play(doing: Doing, scenario: &Scenario, crash: Crash, deadly: &[u64]) -> (Ending, u64) {
    let world = World::new(1, scenario.clone());
    {
        let mut state = world.state();
        (state.healed, state.quiet) = (true, true);
        state.points = Points {
            counting: doing == Doing::Turnup,
            passed: 0,
            deadly: deadly.to_vec(),
            crash,
            ..Points::default()
        };
    }
    store::trouble(&world);
    seal_for_ever(&world);
    process::start(&world, 0);
    let mut now = Instant::default();
    if doing != Doing::Turnup {
        let travel = world.state().scenario.travel.take();
        now = until_calm(&world, now);
        let mut state = world.state();
        state.scenario.travel = travel;
        state.plan.wishes[BALANCER].uses = if doing == Doing::Growth { 16 } else { 2 };
        state.production.took_effect.clear();
        state.points.counting = true;
    }
    now = until_calm(&world, now);
    let passed = {
        let mut state = world.state();
        state.points.counting = false;
        state.points.passed
    };
    let last = world.state().production.last_push;
    // By then nothing may have been pushed for two drift periods.
    now = now.max(last + scenario.drift_period * 2);
    world.executor.run_until(now);
    audit(&world);
    now = now + Duration::from_secs(5);
    world.executor.run_until(now);
    let ending = ending(&world);
    world.end();
    (ending, passed)
}

/// The case without crashes: what people want, and a provider far away.
pub fn scenario() -> Scenario {
    Scenario {
        rates: Rates::none(),
        store_faults: [0; 6],
        enforcers: 1,
        drift_period: Duration::from_secs(30),
        plan: Some(plan()),
        travel: Some(Duration::from_secs(19)),
        ..Scenario::choose(0)
    }
}

fn plan() -> Plan {
    let wish = |at| Wish {
        kind: [
            Kind::Concept,
            Kind::Concept,
            Kind::Guarded,
            Kind::Advisory,
            Kind::Gradual,
        ][at],
        parent: (at == BALANCER).then_some(JOB),
        schema: None,
        order: None,
        ordered: false,
        loner: at != BALANCER && at != JOB,
        exists: true,
        turndown: false,
        edge: at == BALANCER,
        uses: 8,
        slack: 0,
        version: 1,
        rev: 0,
        valid: true,
        bad: Bad::Not,
        pool: false,
        loose: false,
        group: None,
        steady: false,
        cluster: 0,
    };
    Plan {
        wishes: (0..ALL).map(wish).collect(),
        groups: Vec::new(),
        ranks: [0; 3],
    }
}

fn ending(world: &World) -> Ending {
    let mut state = world.state();
    state.judge_audited();
    let took_effect = state.production.took_effect.iter();
    let mark = |content: Content| content.mark;
    let mut took_effect: Vec<_> = took_effect.map(|(at, to)| (*at, to.map(mark))).collect();
    took_effect.sort_unstable();
    let resources = state.production.resources.iter();
    Ending {
        took_effect,
        contents: resources.map(|resource| resource.content).collect(),
        violation: state.judge.violation.clone(),
    }
}

/// Lets time pass until nothing has been left to do for a while.
fn until_calm(world: &World, mut now: Instant) -> Instant {
    let (begun, step) = (now, Duration::from_secs(1));
    let wanted = world.state().wanted();
    let mut calm = Duration::ZERO;
    while calm < CALM && world.state().judge.violation.is_none() {
        now = now + step;
        world.executor.run_until(now);
        let is_calm = world.state().is_calm(begun, &wanted) && nothing_open(world);
        calm = if is_calm { calm + step } else { Duration::ZERO };
        if now.since(begun) > MOST {
            let told = "something is left to do for ever".to_owned();
            world.state().violated("L1", told);
        }
    }
    now
}

/// Whether the store knows of no push that may be under way.
fn nothing_open(world: &World) -> bool {
    let store = world.state().store.clone();
    let records = || record::load_all::<AssetRecord>(&store, &partition()).now_or_never();
    // Half of all reads take time, which does not pass here.
    let records = (0..TRIES).find_map(|_| records());
    let open = |(_, record): &(String, record::Stored<AssetRecord>)| record.value.open.is_some();
    records.is_some_and(|all| all.is_ok_and(|all| !all.iter().any(open)))
}

impl State {
    /// What production has when everything is as people want it.
    fn wanted(&mut self) -> Vec<Content> {
        let assets: Vec<_> = (JOB..ALL).map(|at| asset(&self.plan, at)).collect();
        let contents = assets.iter().map(|asset| self.production.content(asset));
        contents.collect()
    }

    /// Everything is as people want it, and was looked at since `since` and since the last crash.
    fn is_calm(&self, since: Instant, wanted: &[Content]) -> bool {
        let since = since.max(self.points.crashed);
        let resources = &self.production.resources[JOB..ALL];
        resources.iter().zip(wanted).all(|(resource, wanted)| {
            let looked = resource.looked_at.is_some_and(|at| at > since);
            looked && resource.has(Some(*wanted)) && resource.sent.is_empty()
        })
    }
}
