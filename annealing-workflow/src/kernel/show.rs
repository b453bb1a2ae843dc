//! Shows live executions.

use std::ops::Bound;

use jiff::Timestamp;
use plugin_sdk::{Mono, Recheck, operation::ExecutionId, workflow::Task};
use prodspec_model::AssetId;

use super::{
    Lane,
    state::{Execution, ExecutionNo, Phase, Step, StepId, Why},
};
use crate::{
    definition::MachineNo,
    query::{ExecutionPage, ExecutionQuery, Only},
    view::{self, ClaimHolder, Wait, WaitFor},
};

impl Lane {
    /// One live execution.
    pub(super) fn show(&self, id: &ExecutionId) -> Option<view::Execution> {
        let no = self.no_of(id)?;
        Some(self.shown(self.live.get(&no)?))
    }

    /// The live executions that a query asks for, of the next `visits` ones.
    pub(super) fn show_page(&self, query: &ExecutionQuery, visits: usize) -> ExecutionPage {
        let limit = query.limit.clamp(1, ExecutionQuery::MAX_LIMIT);
        let (mut page, mut last) = (ExecutionPage::default(), query.after);
        let after = Bound::Excluded(ExecutionNo(query.after));
        let rest = self.live.range((after, Bound::Unbounded));
        for (visited, (no, execution)) in rest.enumerate() {
            if visited == visits || page.executions.len() == limit {
                page.next = Some(last);
                break;
            }
            last = no.0;
            let fits = query.names(&execution.id, &execution.live);
            if fits && query.only.is_none_or(|only| self.is_for(execution, only)) {
                page.executions.push(self.shown(execution));
            }
        }
        page
    }

    /// What a step waits for, in words.
    pub(super) fn waits_in_words(&self, id: StepId) -> String {
        let Some(execution) = self.live.get(&id.execution) else {
            return "it is not live".to_owned();
        };
        if let Some(wait) = self.start_wait(execution) {
            return format!("its start waits: {}", wait.why);
        }
        let name = execution.machine_name(id.machine);
        let step = execution.steps.at(id.machine);
        match step.and_then(|step| self.wait(execution, id.machine, step)) {
            Some(wait) => format!("{name} waits: {}", wait.why),
            None => format!(
                "{name} is {} and waits for nothing",
                execution.state_name(id.machine)
            ),
        }
    }

    fn shown(&self, execution: &Execution) -> view::Execution {
        let machines = execution.workflow.numbers();
        view::Execution {
            id: execution.id.clone(),
            live: execution.live.clone(),
            wait: self.start_wait(execution),
            machines: machines
                .map(|machine| self.machine_shown(execution, machine))
                .collect(),
        }
    }

    /// What the start of an execution waits for. `None`: it has begun.
    fn start_wait(&self, execution: &Execution) -> Option<Wait> {
        let start = execution.start.as_deref()?;
        self.wait(execution, MachineNo::NONE, start)
    }

    fn machine_shown(&self, execution: &Execution, machine: MachineNo) -> view::Machine {
        let step = execution.steps.at(machine);
        view::Machine {
            name: execution.machine_name(machine).clone(),
            state: execution.state_name(machine).clone(),
            run: step.map_or(1, |step| step.run),
            key: execution.key(machine),
            attempt: step.map_or(0, |step| step.attempt),
            failures: step.map_or(0, |step| step.failures),
            error: step.and_then(|step| step.rare.error.clone()),
            wait: step.and_then(|step| self.wait(execution, machine, step)),
            not_enabled: execution
                .workflow
                .false_clauses(machine, &execution.position),
        }
    }

    fn wait(&self, execution: &Execution, machine: MachineNo, step: &Step) -> Option<Wait> {
        let (what, why) = match &step.phase {
            Phase::Rests => return None,
            Phase::Due => (WaitFor::Turn, self.turn(execution, machine)),
            Phase::Suspect => (
                WaitFor::Turn,
                "its turn among the steps that were in flight when an owner ended".to_owned(),
            ),
            Phase::Dispatching(_) => (WaitFor::Call, "an answer of the dispatch stack".to_owned()),
            Phase::Calling(_) => (
                WaitFor::Call,
                format!("attempt {}, which is running", step.attempt),
            ),
            Phase::HandedOver => (
                WaitFor::Call,
                "the next owner: its call is handed over".to_owned(),
            ),
            Phase::Probing(..) => (WaitFor::Call, "an answer of the probe".to_owned()),
            Phase::Fencing(_) => self.fenced(execution, machine, step),
            Phase::Delayed(_) if step.is_open_for_a_word(false) => (
                WaitFor::Time,
                "the next attempt, because it is not known whether the edit is made; or settle it"
                    .to_owned(),
            ),
            Phase::Delayed(why) => delayed(why, step),
            Phase::Claiming(key) => self.claimed(key),
            Phase::Editing(_) => (WaitFor::Call, "the edit of a source to be made".to_owned()),
            Phase::Settling(_) => settles(step),
            Phase::Poisoned | Phase::Unsettled => (WaitFor::Word, parked(step)),
            Phase::Asking => asks(execution, machine),
            Phase::Waiting => (WaitFor::Time, "its timer".to_owned()),
            Phase::Missing(name) => (WaitFor::Missing(name.to_string()), not_registered(name)),
            Phase::Child(child) => (
                WaitFor::Child((**child).clone()),
                format!("the end of {child}"),
            ),
        };
        let (mono, wall) = step.since;
        Some(Wait {
            what,
            why,
            since: wall,
            next_look: step.wake().map(|at| at_wall(at, mono, wall)),
        })
    }

    /// Why a step or a start that is due does not begin.
    fn turn(&self, execution: &Execution, machine: MachineNo) -> String {
        let drained = self
            .drains(execution)
            .filter(|_| machine == MachineNo::NONE);
        match (&execution.live.paused, drained) {
            (Some(said), _) => format!("it is paused by {}", said.by),
            (None, Some(said)) => format!("`{}` is drained by {}", execution.id.workflow, said.by),
            (None, None) => "its turn, or a fresh lease of the owner".to_owned(),
        }
    }

    /// What a step waits for whose last attempt may have had an effect.
    fn fenced(&self, execution: &Execution, machine: MachineNo, step: &Step) -> (WaitFor, String) {
        if let Some(name) = self.not_there(execution, machine) {
            return (WaitFor::Missing(name.to_owned()), not_registered(name));
        }
        let (attempt, probed) = (step.attempt, self.has_probe(execution, machine));
        let why = match step.uncertain && probed {
            true => format!("the next question to the probe about attempt {attempt}; or settle it"),
            false => format!("the time after which attempt {attempt} can no longer take effect"),
        };
        (WaitFor::Time, why)
    }

    /// The name of the function of a machine, if it is not registered.
    fn not_there<'a>(&self, execution: &'a Execution, machine: MachineNo) -> Option<&'a str> {
        match &execution.action(machine)?.task {
            Task::Call { function } if !self.settings.functions.contains_key(function) => {
                Some(function)
            }
            _ => None,
        }
    }

    fn claimed(&self, key: &plugin_sdk::Key) -> (WaitFor, String) {
        let holders = self.claims.holders(key).filter_map(|id| {
            let execution = self.live.get(&id.execution)?;
            let machine = (!id.is_start()).then(|| execution.machine_name(id.machine).clone());
            let execution = execution.id.clone();
            Some(ClaimHolder { execution, machine })
        });
        let held_by: Vec<_> = holders.collect();
        let names: Vec<_> = held_by.iter().map(ToString::to_string).collect();
        let why = format!("the claim `{}`, held by {}", key.0, names.join(", "));
        let key = key.0.to_string();
        (WaitFor::Claim { key, held_by }, why)
    }

    /// Whether a person has to do this for an execution.
    fn is_for(&self, execution: &Execution, only: Only) -> bool {
        let mut steps = execution.steps.iter();
        match only {
            Only::Asking => steps.any(|(_, step)| step.phase == Phase::Asking),
            Only::Parked => {
                steps.any(|(_, step)| matches!(step.phase, Phase::Poisoned | Phase::Unsettled))
            }
            Only::Paused => execution.live.paused.is_some(),
            Only::Missing => steps.any(|(machine, step)| match step.phase {
                Phase::Missing(_) => true,
                Phase::Fencing(_) => self.not_there(execution, machine).is_some(),
                _ => false,
            }),
        }
    }
}

fn not_registered(name: &str) -> String {
    format!(
        "`{name}` is not registered; start a program that registers it, or skip the step if no call of it is open"
    )
}

/// Why a step is parked.
pub(super) fn parked(step: &Step) -> String {
    match step.phase {
        Phase::Poisoned => format!(
            "it was in flight when {} owners in a row ended; replay it when the cause is mended",
            step.rare.deaths.len()
        ),
        _ => format!(
            "it is not known what attempt {} has done; settle it",
            step.attempt
        ),
    }
}

fn settles(step: &Step) -> (WaitFor, String) {
    let assets = changed(step);
    let names: Vec<String> = assets.iter().map(ToString::to_string).collect();
    let why = format!(
        "the assets that its edit changed to be in sync: {}",
        names.join(", ")
    );
    (WaitFor::Settled(assets), why)
}

/// The assets that the edit of a step has changed.
fn changed(step: &Step) -> Vec<AssetId> {
    let edit = step.edit.get();
    let assets = edit.and_then(|edit| edit.assets.clone());
    assets.unwrap_or_default()
}

fn delayed(why: &Why, step: &Step) -> (WaitFor, String) {
    match why {
        Why::Failed => {
            let error = step
                .rare
                .error
                .as_deref()
                .unwrap_or("the last attempt failed");
            (
                WaitFor::Time,
                format!("the next attempt after {} failures: {error}", step.failures),
            )
        }
        Why::Edits => (
            WaitFor::Time,
            "an edit that it undoes is still being made".to_owned(),
        ),
        Why::Settling => (
            WaitFor::Settled(changed(step)),
            "the assets that its edit changed to be in sync".to_owned(),
        ),
        Why::UnderWay => (
            WaitFor::Time,
            "the work that the function began is under way".to_owned(),
        ),
        Why::Delays(delays) => {
            let assets = delays.iter().filter_map(|delay| match &delay.recheck {
                Recheck::WhenSettled(asset) => Some(asset.clone()),
                _ => None,
            });
            let rules = delays
                .iter()
                .map(|delay| format!("{}: {}", delay.check, delay.reason));
            let what = WaitFor::Rule(assets.collect());
            (what, rules.collect::<Vec<_>>().join("; "))
        }
        Why::NoDispatch(why) => (WaitFor::Rule(Vec::new()), why.to_string()),
        Why::Rate(key) => (WaitFor::Time, format!("the rate `{}` is used up", key.0)),
        Why::OlderRun => (
            WaitFor::Time,
            "a call of the run before may still take effect".to_owned(),
        ),
    }
}

fn asks(execution: &Execution, machine: MachineNo) -> (WaitFor, String) {
    match execution.action(machine).map(|action| &action.task) {
        Some(Task::Ask { question, options }) => {
            let names: Vec<&str> = options.iter().map(|option| option.as_str()).collect();
            let why = format!(
                "a person answers \"{question}\" with {}",
                names.join(" or ")
            );
            let what = WaitFor::Person {
                question: question.to_string(),
                options: options.clone(),
            };
            (what, why)
        }
        _ => (WaitFor::Word, "a person".to_owned()),
    }
}

/// A monotonic time by the wall clock of the moment `since`.
fn at_wall(at: Mono, since: Mono, wall: Timestamp) -> Timestamp {
    wall.checked_add(at.since(since)).unwrap_or(wall)
}
