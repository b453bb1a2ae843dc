//! A case that is small enough to try a crash at every point and at every pair of points: a balancer that uses a job,
//! and an asset without edges. There are no faults besides the crashes.

use std::time::Duration;

use control_plane_store::{record, records::AssetRecord};
use futures::FutureExt;
use plugin_sdk::operation::{EffectKey, KeyIdentity};

use crate::{
    executor::Instant,
    faults::{Crash, Points, Rates},
    flows::source::Change,
    intent::{Bad, Kind, Plan, Wish, asset, partition},
    process,
    production::Content,
    run::audit,
    scenario::Scenario,
    sealer::seal_for_ever,
    store,
    workflows::order,
    world::judge::Violation,
    world::{State, World},
};

/// Number of the job, the balancer's provider.
const JOB: usize = 2;
/// Number of the balancer, which uses the job.
const BALANCER: usize = 3;
/// Number of assets. The first two are concepts, which are not enforced.
const ALL: usize = 5;
/// The case has ended when no work was left for this time.
const CALM: Duration = Duration::from_secs(6);
/// Number of tries of a read that takes no time in half of the cases.
const TRIES: usize = 50;
/// Maximum duration of the case; more is a violation of L1.
const MOST: Duration = Duration::from_secs(900);

/// The work of the control plane when it crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It pushes the assets for the first time.
    Turnup,
    /// One new incarnation changes job and balancer, because the balancer needs more capacity of the job.
    Growth,
    /// One new incarnation changes job and balancer, because the balancer needs less capacity of the job.
    Shrinkage,
    /// A workflow has an effect, makes an edit, waits until production has it, and has another effect.
    Workflow,
}

/// The result of a run of the case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Asset number and content mark of each push that took effect, sorted; a repeated push is listed repeatedly.
    pub took_effect: Vec<(usize, Option<u64>)>,
    /// Content of each resource at the end.
    pub contents: Vec<Option<Content>>,
    /// How often each effect of an execution was made, by its key.
    pub effects: Vec<(String, u32)>,
    /// The fields that each edit of an execution has set.
    pub edits: Vec<Vec<String>>,
    /// How each execution ended.
    pub outcomes: Vec<(String, String)>,
    /// The first violation; `None` if every invariant held.
    pub violation: Option<Violation>,
}

/// Runs the case on `scenario`, with a crash at each point numbered in `deadly`. Returns the result, and the number of
/// points that were passed until no work was left.
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
        now = until_calm(&world, Doing::Turnup, now);
        let mut state = world.state();
        state.scenario.travel = travel;
        match doing {
            Doing::Growth => state.plan.wishes[BALANCER].uses = 16,
            Doing::Shrinkage => state.plan.wishes[BALANCER].uses = 2,
            Doing::Turnup | Doing::Workflow => {}
        }
        state.production.took_effect.clear();
        state.points.counting = true;
    }
    if doing == Doing::Workflow {
        let people = world.clone();
        world.spawn(async move { order(people, "opening").await });
    }
    now = until_calm(&world, doing, now);
    let passed = {
        let mut state = world.state();
        state.points.counting = false;
        state.points.passed
    };
    let last = world.state().production.last_push;
    // L1 requires two drift periods without a push.
    now = now.max(last + scenario.drift_period * 2);
    world.executor.run_until(now);
    audit(&world);
    now = now + Duration::from_secs(5);
    world.executor.run_until(now);
    let ending = ending(&world);
    world.end();
    (ending, passed)
}

/// The scenario of a case with a workflow.
pub fn with_workflows() -> Scenario {
    Scenario {
        executions: 1,
        // Little else happens during the case, so that it has few points.
        drift_period: Duration::from_secs(60),
        ..scenario()
    }
}

/// The scenario of the case without crashes: a fixed intent, and a provider to which a push takes 19 s.
pub fn scenario() -> Scenario {
    Scenario {
        rates: Rates::none(),
        store_faults: [0; 7],
        enforcers: 1,
        drift_period: Duration::from_secs(30),
        plan: Some(plan()),
        travel: Some(Duration::from_secs(19)),
        executions: 0,
        schedules: false,
        watches: false,
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
        renamed: false,
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
        mutual: false,
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
    let effects = state.flows.ledger.effects.iter();
    let changes = state.flows.source.changes.values();
    let fields = |change: &Change| change.fields.iter().map(ToString::to_string).collect();
    Ending {
        took_effect,
        contents: resources.map(|resource| resource.content).collect(),
        effects: effects
            .map(|(key, it)| (unowned(key).to_string(), it.times))
            .collect(),
        edits: changes.map(fields).collect(),
        outcomes: state.outcomes().collect(),
        violation: state.judge.violation.clone(),
    }
}

/// A key without the random number of its owner. A crash may come before a run begins, so that another owner begins it.
fn unowned(key: &EffectKey) -> EffectKey {
    key.clone().identity(KeyIdentity::default())
}

/// Lets time pass until no work has been left for [`CALM`].
fn until_calm(world: &World, doing: Doing, mut now: Instant) -> Instant {
    let (begun, step) = (now, Duration::from_secs(1));
    let wanted = world.state().wanted();
    let mut calm = Duration::ZERO;
    while calm < CALM && world.state().judge.violation.is_none() {
        now = now + step;
        world.executor.run_until(now);
        let is_calm = world.state().is_calm(begun, &wanted) && nothing_open(world);
        let is_calm = is_calm && world.state().executions_are_over(doing);
        calm = if is_calm { calm + step } else { Duration::ZERO };
        if now.since(begun) > MOST {
            let told = format!("work is left after {MOST:?}");
            world.state().violated("L1", told);
        }
    }
    now
}

/// Whether the store has no record of an open push.
fn nothing_open(world: &World) -> bool {
    let store = world.state().store.clone();
    let records = || record::load_all::<AssetRecord>(&store, &partition()).now_or_never();
    // Half of all reads take time, and no time passes here: try again until a read is immediate.
    let records = (0..TRIES).find_map(|_| records());
    let open = |(_, record): &(String, record::Stored<AssetRecord>)| record.value.open.is_some();
    records.is_some_and(|all| all.is_ok_and(|all| !all.iter().any(open)))
}

impl State {
    /// The contents that production has when it matches intent.
    fn wanted(&mut self) -> Vec<Content> {
        let assets: Vec<_> = (JOB..ALL).map(|at| asset(&self.plan, at)).collect();
        let contents = assets.iter().map(|asset| self.production.content(asset));
        contents.collect()
    }

    /// How each execution that has ended did, by its id.
    fn outcomes(&self) -> impl Iterator<Item = (String, String)> {
        let all = self.flows.keys.values();
        all.filter_map(|id| Some((id.to_string(), self.outcome(id)?)))
    }

    /// Whether the executions of the case have begun and ended.
    fn executions_are_over(&self, doing: Doing) -> bool {
        doing != Doing::Workflow || self.outcomes().count() == 1
    }

    /// Whether every resource has its wanted content, was diffed since `since` and since the last crash, and no push is
    /// on its way.
    fn is_calm(&self, since: Instant, wanted: &[Content]) -> bool {
        let since = since.max(self.points.crashed);
        let resources = &self.production.resources[JOB..ALL];
        resources.iter().zip(wanted).all(|(resource, wanted)| {
            let looked = resource.looked_at.is_some_and(|at| at > since);
            looked && resource.has(Some(*wanted)) && resource.sent.is_empty()
        })
    }
}
