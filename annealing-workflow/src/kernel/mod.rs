//! The kernel of a lane: all decisions about the executions of one partition, without clock, randomness or IO.
//!
//! [`Lane::step`](Kernel::step) takes in one event and returns records, calls and replies. All records of a step are one
//! commit, so what was consumed and what follows from it are never apart. A call that may have an effect begins when its
//! attempt is durable. The files beside this one are the transitions; `kernel/state.rs` is the data.

mod admit;
mod agenda;
mod answer;
mod asked;
mod begin;
mod by_machine;
mod calls;
mod drain;
mod edit;
mod event;
mod gate;
mod gather;
mod handover;
mod inbox;
mod intended;
mod log;
mod operate;
mod origins;
mod packed;
mod queue;
mod rates;
mod recover;
mod redefine;
mod refused;
mod reopen;
mod restart;
mod runs;
mod say;
mod schedule;
mod show;
mod sparse;
mod start;
mod state;
mod terminate;
#[cfg(test)]
mod tests;
mod text;
mod transition;
mod trigger;
mod unknown;
mod watch;
mod words;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use control_plane_runtime::{Kernel, claims::Claims};
use jiff::SignedDuration;
use plugin_sdk::{
    FencingToken, Key, Mono, Now,
    operation::{ExecutionId, FunctionInfo, KeyIdentity},
    workflow::{MachineName, WorkflowName},
};
use prodspec_model::{Digest, IncarnationNo};

pub(crate) use self::edit::{HOLDER, holder};
use self::{
    agenda::Agenda,
    inbox::{Answering, Given},
    origins::Origins,
    queue::Queue,
    rates::WrittenRates,
    schedule::Schedules,
    state::{Execution, ExecutionNo, Phase, Step},
    watch::Watches,
};
pub use self::{
    asked::Asked,
    event::{
        Call, CallNo, Command, CommitNo, Effects, Event, PreparedEdit, Record, Reply, ReplyNo, Run,
    },
    intended::{Intended, ScheduleWord},
    recover::{Aside, Recovered, RecoveredExecution},
    refused::Refused,
    say::{Say, Settled, WorkflowWord},
    state::StepId,
    watch::RecoveredWatch,
};
pub use crate::bug::Bug;
use crate::{
    config::Config,
    definition::Workflow,
    record::{Entry, KeyRecord, OpenEffect, Said},
};

/// Maximum length of a chain of causes.
pub(crate) const CHAIN: usize = 8;
/// Time for an answer of the dispatch stack or of a probe, and until the next question after an error.
const DISPATCH: Duration = Duration::from_secs(10);
/// Time for which the key of an ended execution stays in memory, so that a start that has looked into the store before
/// the end is still recognised.
const RECENT: Duration = Duration::from_secs(60);

/// A function as the kernel knows it.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its name, deadline and powers, and what may be done after an unknown outcome.
    pub info: FunctionInfo,
    /// Whether a probe can find out what happened.
    pub has_probe: bool,
}

/// What the kernel knows of the program around it. It stays the same for one ownership.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The functions that are registered, by name.
    pub functions: BTreeMap<Arc<str>, Function>,
    /// The workflows that new executions may have, by name.
    pub workflows: BTreeMap<WorkflowName, Workflow>,
    /// The identity of the keys of effects that begin under this ownership.
    pub identity: KeyIdentity,
    /// Whether there is a dispatch stack to ask.
    pub dispatches: bool,
    /// Limits, waits and retention of the lane.
    pub config: Config,
}

/// The kernel of the executions of one partition, for one ownership.
#[derive(Debug)]
pub struct Lane {
    settings: Settings,
    token: FencingToken,
    /// Boxed, because the nodes of the map are half full.
    live: BTreeMap<ExecutionNo, Box<Execution>>,
    /// The keys of live executions.
    keys: BTreeMap<(WorkflowName, Arc<str>), ExecutionNo>,
    /// The keys of executions that ended a short time ago, and when they are forgotten.
    recent: BTreeMap<(WorkflowName, Arc<str>), KeyRecord>,
    recent_until: VecDeque<(Mono, WorkflowName, Arc<str>)>,
    /// The definitions in the store.
    stored: BTreeSet<Digest>,
    next_execution: u64,
    latest: Option<IncarnationNo>,
    lease: Mono,
    agenda: Agenda,
    ready: Queue,
    /// The claims of steps.
    claims: Claims<StepId>,
    rates: WrittenRates,
    /// The workflows of which nothing begins.
    drained: BTreeMap<WorkflowName, Said>,
    claimants: BTreeMap<Key, Queue>,
    /// Keys of which something was given back in this step.
    freed: BTreeSet<Key>,
    calls: BTreeMap<CallNo, StepId>,
    /// Number of calls of functions in flight.
    running: usize,
    next_call: u64,
    /// Calls that wait until the commit of their attempt is durable.
    held: VecDeque<(CommitNo, CallNo, Call)>,
    suspects: Suspects,
    /// Whether the owner ends in order: no call begins any more.
    draining: bool,
    schedules: Schedules,
    watches: Watches,
    /// The steps whose edits are being made, or may have been.
    editing: BTreeSet<StepId>,
    commit: CommitNo,
    durable: CommitNo,
    random: u64,
    /// When the ownership began.
    begun: Now,
    /// Steps whose records have to be written in this step of the kernel.
    dirty: BTreeSet<StepId>,
    /// Executions that may have ended in this step.
    touched: BTreeSet<ExecutionNo>,
    /// Executions whose own record has to be written.
    live_changed: BTreeSet<ExecutionNo>,
    /// Machines whose actions may be enabled now, or not any more.
    looks: BTreeSet<StepId>,
    log: BTreeMap<ExecutionNo, Vec<Entry>>,
    /// Commands of other processes whose answers are not durable yet.
    answering: Answering,
    origins: Origins,
    /// What may still take effect of an execution that an operator ends in this step.
    terminated: BTreeMap<MachineName, OpenEffect>,
    /// Executions that this owner has made live again after an end, and how often each had ended then.
    reopened: BTreeMap<ExecutionNo, u32>,
}

/// Steps that were in flight when an owner ended. One at a time is tried again.
#[derive(Debug, Default)]
struct Suspects {
    waiting: VecDeque<StepId>,
    /// The one that is tried, and when the next one may be.
    tried: Option<(StepId, Mono)>,
}

impl Kernel for Lane {
    type Event = Event;
    type Effects = Effects;

    fn step(&mut self, now: Now, event: Event, out: &mut Effects) {
        let apart = matches!(event, Event::Answered(..)) && self.planted(Bug::TwoCommits);
        // An answer that comes after its time changes nothing, also if the clock was not looked at in between.
        if matches!(event, Event::Answered(..) | Event::Probed(..)) {
            self.fire_alarms(now, out);
        }
        match event {
            Event::Heard {
                command,
                by,
                known,
                reply,
            } => self.heard(now, command, &text::cut_by(by), known, reply, out),
            Event::Asked {
                id,
                at,
                command,
                by,
                known,
            } => {
                let by = text::cut_by(by);
                let given = Given { id, at, by, known };
                self.asked(now, given, command, out);
            }
            Event::Known(keys) => self.known(now, keys),
            Event::Dispatched(call, answer) => self.dispatched(now, call, answer),
            Event::Answered(call, answer) => self.answered(now, call, answer, true, out),
            Event::PutOff(call, why) => self.answered(now, call, Err(why), false, out),
            Event::Probed(call, answer) => self.probed(now, call, answer, out),
            // Generation ends before the lane does. The next owner makes the edit under the same id.
            Event::Edited(_, Err(_)) if self.draining => {}
            Event::Edited(call, answer) => self.edited(now, call, answer, out),
            Event::Settled(call, answer) => self.settled_edit(now, call, answer, out),
            Event::Took(incarnation, intended) => {
                self.latest = Some(incarnation.no());
                self.watches.took(incarnation);
                self.intended(now, *intended, out);
            }
            Event::Intended(intended) => self.intended(now, *intended, out),
            Event::Stands(standings) => self.stand(now, standings),
            Event::Durable(commit) => self.became_durable(now, commit, out),
            Event::Lease(until) => {
                self.lease = until;
                self.fire_alarms(now, out);
                self.release(now, out);
            }
            Event::Drain => self.begin_drain(now),
            Event::HandOver => self.hand_over(now, out),
            Event::Tick => {}
        }
        self.fire_alarms(now, out);
        if apart {
            out.urgent = true;
            return self.write(now, out);
        }
        self.finish(now, out);
    }
}

impl Lane {
    /// Does what follows from a step, and writes it in one commit.
    fn finish(&mut self, now: Now, out: &mut Effects) {
        loop {
            self.look(now, out);
            self.end_those_over(now, out);
            self.run_schedules(now, out);
            self.run_watches(now, out);
            if !self.looks.is_empty() {
                continue;
            }
            self.try_suspects(now);
            self.admit(now, out);
            // An execution that was admitted begins in this step.
            if self.looks.is_empty() {
                break;
            }
        }
        self.write(now, out);
        self.check(out);
    }

    /// The time at which the kernel needs a tick. `None`: it waits for other events only.
    pub fn next_wake(&self) -> Option<Mono> {
        let wakes = [
            self.agenda.first(),
            self.suspects.next_wake(),
            self.schedules.next_wake(),
            self.watches.next_wake(),
        ];
        wakes.into_iter().flatten().min()
    }

    /// Whether an execution is live.
    pub fn is_live(&self, execution: &ExecutionId) -> bool {
        self.no_of(execution).is_some()
    }

    /// Number of live executions, paused and waiting ones included.
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// The number of a live execution. `None`: it is not live.
    fn no_of(&self, execution: &ExecutionId) -> Option<ExecutionNo> {
        let no = ExecutionNo(execution.n);
        let live = self.live.get(&no)?;
        (live.id == *execution).then_some(no)
    }

    /// Takes what intent says of schedules and watches.
    fn intended(&mut self, now: Now, intended: Intended, out: &mut Effects) {
        let Intended {
            all,
            schedules,
            watches,
            turned_down,
        } = intended;
        self.intended_schedules(now, all, schedules);
        self.intended_watches(now, all, watches);
        for asset in turned_down {
            if self.schedules.stop(&asset) | self.watches.stop(&asset) {
                out.records.push(trigger::turned_down(&asset, now.wall));
            }
        }
    }

    /// The incarnations that calls in flight read.
    pub fn in_use(&self) -> BTreeSet<IncarnationNo> {
        let executions = self.live.values();
        let steps = executions.flat_map(|execution| execution.steps.values());
        steps.filter_map(|step| step.incarnation).collect()
    }

    /// The incarnations that retention has to spare: those that calls in flight read, and those with the content before
    /// the changes that watches handle.
    pub fn referenced(&self) -> BTreeSet<IncarnationNo> {
        let mut all = self.in_use();
        all.extend(self.watches.cited());
        let changed = self
            .live
            .values()
            .filter_map(|it| it.about.changed.as_ref());
        let changed = changed.flat_map(|changed| &changed.assets);
        all.extend(changed.filter_map(|asset| asset.before));
        all
    }

    /// Notes which definitions are stored.
    pub fn knows_definitions(&mut self, stored: Vec<Digest>) {
        self.stored.extend(stored);
    }

    /// Forgets the stored definitions to which no live execution keeps, which no new one would have, and which are not
    /// `spared`. Returns them, to be removed from the store.
    pub fn forget_definitions(&mut self, spared: impl Fn(&Digest) -> bool) -> BTreeSet<Digest> {
        let stored = self.stored.iter().copied();
        let mut unused: BTreeSet<Digest> = stored.filter(|it| !spared(it)).collect();
        let new = self.settings.workflows.values().map(Workflow::digest);
        let live = self.live.values().map(|it| it.live.origin.definition);
        for used in new.chain(live) {
            unused.remove(&used);
        }
        self.stored.retain(|it| !unused.contains(it));
        unused
    }

    fn became_durable(&mut self, now: Now, commit: CommitNo, out: &mut Effects) {
        self.durable = self.durable.max(commit);
        self.answering.durable(commit);
        self.fire_alarms(now, out);
        self.release(now, out);
        let over = |(until, ..): &mut (Mono, WorkflowName, Arc<str>)| *until <= now.mono;
        while let Some((_, workflow, key)) = self.recent_until.pop_front_if(over) {
            self.recent.remove(&(workflow, key));
        }
    }

    /// Remembers what the store knows of keys, unless the lane knows more.
    fn known(&mut self, now: Now, keys: Vec<KeyRecord>) {
        for known in keys {
            let name = (known.workflow.clone(), known.key.clone());
            if self.live_under(&name).is_some() || self.recent.contains_key(&name) {
                continue;
            }
            self.recent_until
                .push_back((now.mono + RECENT, name.0.clone(), name.1.clone()));
            self.recent.insert(name, known);
        }
    }

    /// The time until which calls may begin.
    pub(crate) fn leased_until(&self) -> Mono {
        match self.planted(Bug::IgnoreLease) {
            true => Mono(u64::MAX),
            false => self.lease,
        }
    }

    fn step_of(&self, id: StepId) -> Option<&Step> {
        let execution = self.live.get(&id.execution)?;
        match id.is_start() {
            true => execution.start.as_deref(),
            false => execution.steps.at(id.machine),
        }
    }

    fn step_mut(&mut self, id: StepId) -> Option<&mut Step> {
        let execution = self.live.get_mut(&id.execution)?;
        match id.is_start() {
            true => execution.start.as_deref_mut(),
            false => execution.steps.at_mut(id.machine),
        }
    }

    /// Sets the phase of a step, with the time at which it ends by itself.
    fn enter(&mut self, now: Now, id: StepId, phase: Phase, alarm: Option<Mono>) {
        self.leave_queues(id);
        let Some(step) = self.step_mut(id) else {
            return;
        };
        let before = std::mem::replace(&mut step.phase, phase);
        step.since = (now.mono, now.wall);
        step.alarm = alarm.into();
        let is_open = step.edit_is_open();
        self.list(id);
        let is_over = match is_open {
            true => !self.editing.insert(id) && matches!(before, Phase::Editing(_)),
            false => self.editing.remove(&id),
        };
        if is_over {
            self.watches.look_again();
        }
    }

    /// Takes a step out of the queue in which it waits for its turn or for a claim.
    fn leave_queues(&mut self, id: StepId) {
        let Some(step) = self.step_of(id) else {
            return;
        };
        let (class, age) = (step.class, step.age());
        match &step.phase {
            Phase::Due => drop(self.ready.remove(class, age, id)),
            Phase::Claiming(key) => {
                let key = key.clone();
                if let Some(queue) = self.claimants.get_mut(&key) {
                    queue.remove(class, age, id);
                    if queue.is_empty() {
                        self.claimants.remove(&key);
                    }
                }
            }
            Phase::Suspect => self.suspects.waiting.retain(|it| *it != id),
            _ => {}
        }
    }

    /// Notes that the record of a step has to be written.
    fn changed(&mut self, id: StepId) {
        self.dirty.insert(id);
        self.touched.insert(id.execution);
    }

    /// Whether a guard is left out on purpose.
    #[cfg_attr(not(feature = "planted-bugs"), allow(clippy::unused_self))]
    fn planted(&self, bug: Bug) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.settings.config.planted == Some(bug);
        #[cfg(not(feature = "planted-bugs"))]
        {
            let _ = bug;
            false
        }
    }

    /// The same moment with a wall time that follows the monotonic clock: what is measured by it takes as long as it says,
    /// even if the wall clock is set.
    pub(crate) fn steady(&self, now: Now) -> Now {
        let passed = SignedDuration::try_from(now.mono.since(self.begun.mono));
        let wall = self.begun.wall.checked_add(passed.unwrap_or_default());
        Now {
            mono: now.mono,
            wall: wall.unwrap_or(now.wall),
        }
    }

    /// A number that differs from call to call and from owner to owner (xorshift).
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
