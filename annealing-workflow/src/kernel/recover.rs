//! A lane that goes on where the last owner was.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use plugin_sdk::{
    Claim, Class, FencingToken, Mono, Now,
    operation::{AssetRun, ExecutionId, KeyIdentity},
    workflow::{MachineName, WorkflowName},
};
use prodspec_model::{AssetId, Digest, Incarnation};
use serde_json::Value;

use super::{
    Bug, Lane, Settings,
    by_machine::ByMachine,
    event::{CommitNo, Effects},
    log::LogHead,
    packed::Kept,
    sparse::Sparse,
    state::{About, Execution, ExecutionNo, Phase, Step, StepId, Why},
    watch::RecoveredWatch,
};
use crate::{
    cron::ScheduleRecord,
    definition::Workflow,
    record::{Changed, Does, Entry, Live, Output, RateRecord, Said, StepRecord, What},
};

/// A live execution as the store has it.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoveredExecution {
    /// Id of the execution, which also has its number.
    pub id: ExecutionId,
    /// The definition to which the execution keeps.
    pub workflow: Workflow,
    /// The record of the execution itself, without its steps.
    pub live: Live,
    /// The input with which the execution was started.
    pub input: Value,
    /// If it runs for an asset, the runs in the record of its key.
    pub runs: Vec<AssetRun>,
    /// The assets that it is about, if it is a run of a watch.
    pub changed: Option<Changed>,
    /// The records of its machines.
    pub steps: BTreeMap<MachineName, StepRecord>,
    /// The output of each machine that has left one for later steps.
    pub outputs: BTreeMap<MachineName, Output>,
    /// The first entry, and the number of entries, of each record of its log, oldest first.
    pub log: Vec<(u32, u32)>,
}

/// A live execution whose definition this program version cannot read. It has its key and its claims until a program of
/// another version goes on with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Aside {
    /// Id of the execution, which also has its number.
    pub id: ExecutionId,
    /// The key of the start. `None`: it had none.
    pub key: Option<Arc<str>>,
    /// The claims that the execution and its machines hold.
    pub claims: Vec<Claim>,
}

/// The stored data of a lane.
#[derive(Debug, Clone, Default)]
pub struct Recovered {
    /// The number of the next execution.
    pub next: u64,
    /// The executions that have not ended, sorted by number.
    pub live: Vec<RecoveredExecution>,
    /// The live executions that are set aside.
    pub aside: Vec<Aside>,
    /// The schedules, each with its asset.
    pub schedules: Vec<(AssetId, ScheduleRecord)>,
    /// The watches, each with its asset and the stored state of watched assets.
    pub watches: Vec<RecoveredWatch>,
    /// Earlier owners that did not die: their processes lived on after they had lost the partition.
    pub survived: BTreeSet<KeyIdentity>,
    /// The workflows that are drained.
    pub drained: BTreeMap<WorkflowName, Said>,
    /// How far rates are used up.
    pub rates: Vec<RateRecord>,
    /// Digests of the definitions that are stored.
    pub definitions: Vec<Digest>,
}

impl Lane {
    /// Goes on with stored executions, as the owner with this token. `latest`: the incarnation in force. Appends what has
    /// to be written first.
    pub fn recover(
        settings: Settings,
        token: FencingToken,
        recovered: Recovered,
        latest: Option<Incarnation>,
        now: Now,
        out: &mut Effects,
    ) -> Self {
        let mut lane = Self::empty(settings, token, now);
        lane.latest = latest.as_ref().map(Incarnation::no);
        lane.stored = recovered.definitions.into_iter().collect();
        lane.next_execution = recovered.next.max(1);
        let mut interrupted = Vec::new();
        for mut execution in recovered.live {
            lane.next_execution = lane.next_execution.max(execution.id.n + 1);
            let mended = execution.forget_deaths(&recovered.survived);
            let no = ExecutionNo(execution.id.n);
            lane.add(now, execution, &mut interrupted);
            for name in mended {
                let machine = lane
                    .live
                    .get(&no)
                    .and_then(|it| it.workflow.machine_no(&name));
                if let Some(machine) = machine {
                    lane.changed(StepId {
                        execution: no,
                        machine,
                    });
                }
            }
        }
        recovered
            .aside
            .into_iter()
            .for_each(|aside| lane.set_aside(aside));
        lane.restore_schedules(recovered.schedules);
        lane.drained = recovered.drained;
        lane.restore_rates(now, recovered.rates, out);
        lane.restore_watches(recovered.watches, latest);
        lane.shuffle(&mut interrupted);
        for (id, owner) in interrupted {
            match owner.filter(|owner| !recovered.survived.contains(owner)) {
                Some(owner) => lane.interrupted(now, id, owner, out),
                None => lane.handed_over(now, id, out),
            }
        }
        lane.settled(now, out);
        lane
    }

    fn empty(settings: Settings, token: FencingToken, now: Now) -> Self {
        Self {
            settings,
            token,
            live: BTreeMap::new(),
            keys: BTreeMap::new(),
            recent: BTreeMap::new(),
            recent_until: Default::default(),
            stored: Default::default(),
            next_execution: 1,
            latest: None,
            lease: Mono(0),
            agenda: Default::default(),
            ready: Default::default(),
            claims: Default::default(),
            rates: Default::default(),
            drained: BTreeMap::new(),
            claimants: BTreeMap::new(),
            freed: Default::default(),
            calls: BTreeMap::new(),
            running: 0,
            next_call: 0,
            held: Default::default(),
            suspects: Default::default(),
            draining: false,
            schedules: Default::default(),
            watches: Default::default(),
            editing: Default::default(),
            commit: Default::default(),
            durable: Default::default(),
            // Any number other than zero, different for each owner.
            begun: now,
            random: token.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            dirty: Default::default(),
            touched: Default::default(),
            live_changed: Default::default(),
            looks: Default::default(),
            log: BTreeMap::new(),
            answering: Default::default(),
            origins: Default::default(),
            reopened: BTreeMap::new(),
            terminated: BTreeMap::new(),
        }
    }

    /// Adds a stored execution. Its steps whose calls were in flight are appended to `interrupted`, each with its owner, or
    /// with none if that has handed the call over.
    pub(super) fn add(
        &mut self,
        now: Now,
        mut stored: RecoveredExecution,
        interrupted: &mut Vec<(StepId, Option<KeyIdentity>)>,
    ) {
        let no = ExecutionNo(stored.id.n);
        let steps = std::mem::take(&mut stored.steps);
        let outputs = std::mem::take(&mut stored.outputs);
        stored.live.origin = self.origins.shared(stored.live.origin);
        let mut execution = Execution::restored(stored);
        self.restore_start(now, no, &mut execution);
        let mut phases = Vec::new();
        for (name, record) in steps {
            let Some(machine) = execution.workflow.machine_no(&name) else {
                continue;
            };
            if let Some(state) = execution.workflow.state_no(machine, &record.state) {
                execution.position.set(machine, state);
            }
            execution.transitions += record.transitions;
            let id = StepId {
                execution: no,
                machine,
            };
            if !self.planted(Bug::CountInLayer) {
                self.claims.restore(&id, &record.claims);
            }
            let (step, phase, alarm) = Step::restored(now, &record);
            let forgets = phase == Phase::Waiting && self.planted(Bug::ForgetTimer);
            let alarm = alarm.filter(|_| !forgets);
            phases.push((id, phase, alarm));
            execution.steps.at_or_insert(machine, || step);
            match record.call {
                Some(call) if call.in_flight => interrupted.push((id, Some(call.owner))),
                Some(call) if call.handed_over => interrupted.push((id, None)),
                _ => {}
            }
        }
        execution.restore_classes();
        execution.take_outputs(outputs);
        if let Some(key) = &execution.live.key {
            self.keys
                .insert((execution.id.workflow.clone(), key.clone()), no);
        }
        let machines: Vec<_> = execution.workflow.numbers().collect();
        self.live.insert(no, Box::new(execution));
        for (id, phase, alarm) in phases {
            self.enter(now, id, phase, alarm);
        }
        self.look_at(no, machines);
    }

    /// Keeps the key and the claims of an execution that is set aside.
    fn set_aside(&mut self, aside: Aside) {
        let no = ExecutionNo(aside.id.n);
        self.next_execution = self.next_execution.max(aside.id.n + 1);
        self.claims.restore(&StepId::start(no), &aside.claims);
        if let Some(key) = aside.key {
            self.keys.insert((aside.id.workflow, key), no);
        }
    }

    /// Restores the wait of an execution that has not begun yet, or the claims of one that has.
    fn restore_start(&mut self, now: Now, no: ExecutionNo, execution: &mut Execution) {
        let live = &execution.live;
        if !live.waits && live.claims.is_empty() {
            return;
        }
        let start = match live.waits {
            true => Step::of_start(now, Class::of(&live.origin.cause, false, false)),
            false => Step::holding(now, &live.claims),
        };
        self.claims.restore(&StepId::start(no), &start.rare.claims);
        execution.start = Some(Box::new(start));
    }

    /// A call of this step was in flight when the last owner ended.
    fn interrupted(&mut self, now: Now, id: StepId, owner: KeyIdentity, out: &mut Effects) {
        let limit = self.settings.config.death_limit;
        let counts = !self.planted(Bug::DeathsUncounted);
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let machine = execution.machine_name(id.machine).clone();
        let Some(step) = execution.steps.at_mut(id.machine) else {
            return;
        };
        if counts {
            step.rare.deaths.push(owner);
        }
        step.suspect = true;
        let deaths = u32::try_from(step.rare.deaths.len()).unwrap_or(u32::MAX);
        let (attempt, restarts) = (step.attempt, step.rare.restarts);
        let log = self.log.entry(id.execution).or_default();
        let entry = |what| Entry {
            at: now.wall,
            machine: Some(machine.clone()),
            what,
        };
        log.push(entry(What::Interrupted { attempt, deaths }));
        // A new run has no deaths.
        if deaths >= limit && !restarts {
            self.park(now, id, Phase::Poisoned);
        } else {
            self.resolve(now, id, false, out);
        }
        self.changed(id);
    }

    /// A call of this step was in flight when the last owner ended in order, or lost the partition and lived on.
    fn handed_over(&mut self, now: Now, id: StepId, out: &mut Effects) {
        if let Some(alarm) = self.step_of(id).map(|step| step.alarm.time()) {
            self.enter(now, id, Phase::HandedOver, alarm);
        }
        self.resolve(now, id, false, out);
        self.changed(id);
    }

    /// Orders the steps that were in flight, differently for each owner.
    fn shuffle<T>(&mut self, steps: &mut [T]) {
        for last in (1..steps.len()).rev() {
            let other = usize::try_from(self.random() % (last as u64 + 1)).unwrap_or(0);
            steps.swap(last, other);
        }
    }

    /// Lets the calls and children that were due go on.
    fn settled(&mut self, now: Now, out: &mut Effects) {
        let due = self.live.iter().flat_map(|(no, execution)| {
            let due = execution
                .steps
                .iter()
                .filter(|(_, step)| step.phase == Phase::Due);
            due.map(|(machine, _)| StepId {
                execution: *no,
                machine,
            })
        });
        let waiting = self
            .live
            .iter()
            .filter(|(_, execution)| execution.waits_to_start());
        let waiting: Vec<_> = waiting.map(|(no, _)| StepId::start(*no)).collect();
        for id in due.collect::<Vec<_>>() {
            self.due(now, id, out);
        }
        for id in waiting {
            self.due_start(now, id, out);
        }
        self.finish(now, out);
    }
}

impl RecoveredExecution {
    /// R26: standing still is no death. Forgets the deaths of owners that have survived, and returns the machines about which
    /// that changes something.
    fn forget_deaths(&mut self, survived: &BTreeSet<KeyIdentity>) -> Vec<MachineName> {
        let mut changed = Vec::new();
        for (name, step) in &mut self.steps {
            let before = step.deaths.len();
            step.deaths.retain(|owner| !survived.contains(owner));
            if step.deaths.len() < before {
                changed.push(name.clone());
            }
        }
        changed
    }
}

impl Execution {
    /// An execution as its own records have it, without its steps.
    fn restored(stored: RecoveredExecution) -> Self {
        let mut position = stored.workflow.first();
        if stored.live.cancelled.is_some() {
            position.cancel();
        }
        let mut id = stored.id;
        if id.workflow == *stored.workflow.name() {
            id.workflow = stored.workflow.name().clone();
        }
        Self {
            id,
            workflow: stored.workflow,
            live: stored.live,
            input: Sparse::of(stored.input),
            about: About::of(stored.runs, stored.changed),
            position,
            start: None,
            steps: ByMachine::default(),
            context: Sparse::default(),
            transitions: 0,
            log: LogHead::of(&stored.log),
            taken_over: true,
            started_in: CommitNo::default(),
        }
    }

    /// Gives the steps the classes that they began with.
    fn restore_classes(&mut self) {
        let goes_on = self.transitions > 0;
        for (machine, step) in self.steps.iter_mut() {
            let action = self.workflow.action(machine, self.position.state(machine));
            let cleans_up = action.is_some_and(|action| action.cleans_up);
            step.class = Class::of(&self.live.origin.cause, goes_on, cleans_up);
        }
    }

    /// Takes in what machines have left for each other.
    fn take_outputs(&mut self, outputs: BTreeMap<MachineName, Output>) {
        for (name, output) in outputs {
            let machine = self.workflow.machine_no(&name);
            if let Some(machine) = machine.filter(|_| !output.context.is_empty()) {
                self.context.insert(machine, (output.order, output.context));
            }
        }
    }
}

impl Step {
    /// A step as its record has it, with its phase and the end of it.
    fn restored(now: Now, record: &StepRecord) -> (Self, Phase, Option<Mono>) {
        let mut step = Self::new((now.mono, now.wall));
        step.run = record.run;
        step.rare.identity = record.identity;
        step.transitions = record.transitions;
        step.rare.begun = record.begun.clone();
        step.attempt = record.attempt;
        step.failures = record.failures;
        step.rare.deaths = record.deaths.clone();
        step.suspect = !record.deaths.is_empty();
        step.rare.error = record.error.clone();
        step.tries = record.tries;
        step.rare.claims = record.claims.clone();
        step.under_way = record.under_way;
        step.uncertain = record.uncertain;
        step.edit = record.edit.clone().map(Kept::open).unwrap_or_default();
        step.rare.expires = record.expires.map(|wait| wait.ends_at(now));
        step.rare.restarts = record.restarts;
        step.rare.overtaken = record.overtaken;
        step.rare.reach = record.reach.map(|wait| wait.ends_at(now));
        step.rare.older_child = record.older_child.clone();
        let wait = record.wait.map(|wait| wait.ends_at(now));
        let (phase, alarm) = match (&record.call, &record.child, record.does) {
            (Some(call), ..) if call.handed_over => {
                (Phase::HandedOver, Some(call.until.ends_at(now)))
            }
            (Some(call), ..) => (Phase::Fencing(call.counts), Some(call.until.ends_at(now))),
            (_, Some(child), _) => (Phase::Child(Box::new(child.clone())), None),
            (.., Does::Unsettled) => (Phase::Unsettled, None),
            (.., Does::Poisoned) => (Phase::Poisoned, None),
            (.., Does::Asks) => (Phase::Asking, None),
            (.., Does::Waits) => (Phase::Waiting, wait),
            // It may be made already. Its id makes it once.
            (.., Does::Edits) => {
                step.uncertain = true;
                (Phase::Due, None)
            }
            (.., Does::Settles) => {
                step.settles_until = wait.into();
                (Phase::Due, None)
            }
            (.., Does::Calls) if record.under_way => {
                (Phase::Delayed(Why::UnderWay), wait.or(Some(now.mono)))
            }
            (.., Does::Calls) => match wait {
                Some(_) => (Phase::Delayed(Why::Failed), wait),
                None => (Phase::Due, None),
            },
            (.., Does::Starts) => (Phase::Due, None),
            (.., Does::Rests) => (Phase::Rests, None),
        };
        step.trim();
        (step, phase, alarm)
    }
}
