//! People who start executions, answer their questions, and say what happened in calls of unknown outcome.

use std::{sync::Arc, time::Duration};

use annealing_workflow::{
    AskError, Handle, Say,
    query::ExecutionQuery,
    record::Does,
    view::{Execution, Machine, WaitFor},
};
use control_plane_runtime::{Runtime, timeout_at};
use futures::channel::oneshot;
use plugin_sdk::By;
use plugin_sdk::operation::{ExecutionId, Start, StartCause};
use serde_json::json;

use crate::{
    executor::{Instant, NodeId, NodeRuntime},
    faults::Fault,
    flows::definitions::{depending, widest},
    world::{State, World},
};

/// Time after which a person no longer waits for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// The workflows of which people start executions, the frequent ones several times.
const WORKFLOWS: [&str; 7] = [
    "season", "season", "season", "tour", "growth", "growth", "route",
];
/// Wait for the last start.
const LATER: Duration = Duration::from_secs(60);
/// Longest time between two looks of a person.
const LOOK: Duration = Duration::from_secs(20);

/// Starts the tasks of people.
pub fn begin(world: &World) {
    if world.state().scenario.executions == 0 {
        return;
    }
    world.spawn(start_all(world.clone()));
    world.spawn(attend(world.clone()));
}

/// Starts executions one after the other, most of them during the phase with faults.
async fn start_all(world: World) {
    let (count, gap) = {
        let state = world.state();
        let count = state.scenario.executions;
        (count, state.scenario.trouble / count as u32 * 2)
    };
    for n in 0..count {
        start_next(&world, n);
        let until = {
            let mut state = world.state();
            state.now + state.flows.random.between(Duration::ZERO, gap)
        };
        while world.state().waits_for_next(n + 1 == count, until) {
            world.sleep(LOOK).await;
        }
        if world.state().healed {
            break;
        }
    }
    // Executions that begin after the faults: the last one may ask a question that no person answers.
    start_next(&world, count);
    {
        let mut state = world.state();
        let silent = state.flows.random.per_mille(250);
        state.flows.unanswered = silent.then(|| key(count + 1));
    }
    world.spawn(start(world.clone(), "season", key(count + 1), false));
    // And one when a process owns the partition again.
    world.sleep(LATER).await;
    world.spawn(start(world.clone(), "growth", key(count + 2), false));
}

/// Starts one execution of this workflow, and waits until that is acknowledged.
pub async fn order(world: World, workflow: &'static str) {
    start(world, workflow, key(0), false).await;
}

fn key(n: usize) -> Arc<str> {
    format!("order {n}").into()
}

/// Starts an execution. A command may be given twice.
fn start_next(world: &World, n: usize) {
    let (workflow, poison, twice, late) = {
        let mut state = world.state();
        let workflow = WORKFLOWS[state.flows.random.below(WORKFLOWS.len())];
        let poison = state.flow_strikes(Fault::FunctionKillsProcess);
        let late = state.flow_strikes(Fault::CommandLate).then(|| {
            let most = Duration::from_secs(1500);
            state.flows.random.between(Duration::from_secs(60), most)
        });
        (
            workflow,
            poison,
            state.flow_strikes(Fault::CommandTwice),
            late,
        )
    };
    for _ in 0..=usize::from(twice) {
        world.spawn(start(world.clone(), workflow, key(n), poison));
    }
    if let Some(late) = late {
        let world = world.clone();
        world.clone().spawn(async move {
            world.sleep(late).await;
            start(world, workflow, key(n), poison).await;
        });
    }
}

/// Gives the command to start until it is answered.
async fn start(world: World, workflow: &'static str, key: Arc<str>, poison: bool) {
    loop {
        let wait = world.state().flows.random.between(Duration::ZERO, PATIENCE);
        world.sleep(wait).await;
        for (node, handle) in handles(&world) {
            let start = Start::of(workflow).key(key.clone());
            let start = start.input(json!({ "poison": poison }));
            let started = async move { handle.start(start, by("a new order")).await };
            let started = ask(&world, node, started).await;
            if let Some(Ok(started)) = started {
                world.note("started it", None, [started.id.n, u64::from(started.new)]);
                return;
            }
        }
    }
}

/// Looks at all live executions at intervals, and says what helps, or what does not.
async fn attend(world: World) {
    loop {
        let wait = world
            .state()
            .flows
            .random
            .between(Duration::from_secs(2), LOOK);
        world.sleep(wait).await;
        for (node, handle) in handles(&world) {
            let asked = handle.clone();
            let live = async move {
                let (mut live, all) = (Vec::new(), ExecutionQuery::all());
                let asked = asked.each_live(&all, |it| live.push(it)).await;
                asked.map(|()| live)
            };
            let Some(Ok(mut live)) = ask(&world, node, live).await else {
                continue;
            };
            // Random numbers are drawn for one after the other, sorted by workflow.
            live.sort_by(|one, other| one.id.cmp(&other.id));
            let words: Vec<_> = {
                let mut state = world.state();
                if state.flow_strikes(Fault::PersonEditsField) {
                    state.person_edits();
                }
                live.iter().flat_map(|it| state.words(it)).collect()
            };
            for (execution, word) in words {
                say(&world, node, handle.clone(), execution, word).await;
            }
            break;
        }
    }
}

async fn say(
    world: &World,
    node: NodeId,
    handle: Handle<NodeRuntime>,
    execution: ExecutionId,
    word: Say,
) {
    world.note("said", None, [execution.n, 0]);
    world.state().says(&execution, &word, true);
    let (id, given) = (execution.clone(), word.clone());
    let said = async move { handle.say(&id, given, by("it helps")).await };
    let said = ask(world, node, said).await;
    if let Some(Err(AskError::Refused(_))) = said {
        world.state().says(&execution, &word, false);
    }
}

/// The handles to the lanes of all processes, those of former owners included.
fn handles(world: &World) -> Vec<(NodeId, Handle<NodeRuntime>)> {
    let state = world.state();
    let processes = state.processes.iter().flatten();
    processes
        .filter_map(|it| Some((it.node, it.lane.clone()?)))
        .collect()
}

/// The answer of a process to which a person talks. `None`: it died, or takes too long.
async fn ask<T: Send + 'static>(
    world: &World,
    node: NodeId,
    asked: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let clock = NodeRuntime::new(world.executor.clone(), NodeId::WORLD);
    let deadline = clock.now().mono + PATIENCE;
    let (answer, answered) = oneshot::channel();
    let asked = async move { drop(answer.send(asked.await)) };
    world.executor.spawn(node, Box::pin(asked));
    timeout_at(&clock, deadline, answered).await?.ok()
}

fn by(why: &str) -> By {
    By::new("a person", why)
}

impl State {
    /// Whether the next start is not due yet. After the last one, that is until the faults end.
    fn waits_for_next(&self, last: bool, until: Instant) -> bool {
        !self.healed && (last || self.now < until)
    }

    /// Notes a word that changes what the judge accepts, before it is given; or takes that back if it was refused.
    fn says(&mut self, execution: &ExecutionId, word: &Say, given: bool) {
        let Say::Restart(machines) = word else {
            return;
        };
        let Some(definition) = widest(&execution.workflow) else {
            return;
        };
        let restarted = self.flows.restarted.entry(execution.clone()).or_default();
        *restarted = if given {
            *restarted + 1
        } else {
            *restarted - 1
        };
        let all = machines.iter().flat_map(|it| depending(definition, it));
        for machine in all {
            let restarts = self.flows.restarts.entry((execution.clone(), machine));
            let restarts = restarts.or_default();
            *restarts = if given { *restarts + 1 } else { *restarts - 1 };
        }
    }

    /// The words that people have for an execution now.
    fn words(&mut self, execution: &Execution) -> Vec<(ExecutionId, Say)> {
        let mut words: Vec<Say> = Vec::new();
        for machine in &execution.machines {
            words.extend(self.helpful(execution, machine));
        }
        if execution.live.paused.is_some() && (self.healed || self.flows.random.per_mille(300)) {
            words.push(Say::Resume);
        }
        if self.flow_strikes(Fault::PersonCancels) {
            words.push(Say::Cancel);
        }
        // A run of a slot or a watch that is live again may be beside another one.
        let cause = &execution.live.origin.cause;
        let slot = matches!(cause, StartCause::Slot { .. } | StartCause::Watch { .. });
        if !slot && self.flow_strikes(Fault::PersonRestarts) {
            words.extend(self.restart(execution));
            // A person who changes their mind.
            if self.flows.random.per_mille(250) {
                words.push(Say::Cancel);
            }
        }
        if self.flow_strikes(Fault::PersonSuspends) {
            words.push(Say::Pause);
        }
        if self.flow_strikes(Fault::PersonRedefines) {
            words.push(Say::Redefine);
        }
        let id = execution.id.clone();
        words.into_iter().map(|word| (id.clone(), word)).collect()
    }

    /// Restarts a machine, preferably one with a call in flight.
    fn restart(&mut self, execution: &Execution) -> Option<Say> {
        let calls = |it: &&Machine| it.wait.as_ref().is_some_and(|it| it.what == WaitFor::Call);
        let calling: Vec<_> = execution.machines.iter().filter(calls).collect();
        let all: Vec<_> = execution.machines.iter().collect();
        let any = if calling.is_empty() || self.flows.random.per_mille(300) {
            all
        } else {
            calling
        };
        let machine = self.flows.random.pick(&any)?;
        Some(Say::restart([machine.name.clone()]))
    }

    /// The word that lets a machine go on that waits for a person.
    fn helpful(&mut self, execution: &Execution, machine: &Machine) -> Option<Say> {
        match &machine.wait.as_ref()?.what {
            WaitFor::Person { .. } => self.answer(execution, machine),
            WaitFor::Word => self.word(execution, machine),
            _ => None,
        }
    }

    fn answer(&mut self, execution: &Execution, machine: &Machine) -> Option<Say> {
        if execution.live.key.is_some() && execution.live.key == self.flows.unanswered {
            return None;
        }
        let question = (execution.id.clone(), machine.run);
        if self.flow_strikes(Fault::PersonAnswersLate) {
            let (least, most) = (Duration::from_secs(60), Duration::from_secs(400));
            let at = self.now + self.flows.random.between(least, most);
            self.flows.postponed.entry(question.clone()).or_insert(at);
        }
        let postponed = self.flows.postponed.get(&question);
        if !self.healed && postponed.is_some_and(|at| *at > self.now) {
            return None;
        }
        let option = if self.flows.random.per_mille(150) {
            "no"
        } else {
            "yes"
        };
        Some(Say::answer(machine.name.clone(), option))
    }

    /// A person looks into the ledger before they say what happened, once nothing is under way any more.
    fn word(&mut self, execution: &Execution, machine: &Machine) -> Option<Say> {
        let key = machine.key.clone();
        let stored = self.stored(&execution.id)?;
        match stored.does(&machine.name) {
            Does::Poisoned if self.healed || self.flows.random.per_mille(100) => {
                self.flows.deaths.remove(&key);
                Some(Say::Replay(machine.name.clone()))
            }
            Does::Unsettled if !self.flows.is_under_way(&key) => {
                if self.flows.ledger.effects.contains_key(&key) {
                    self.flows.told.insert(key);
                    return Some(Say::settle(machine.name.clone(), "done"));
                }
                self.flows.has_not_happened(&key);
                Some(Say::again(machine.name.clone()))
            }
            _ => None,
        }
    }
}
