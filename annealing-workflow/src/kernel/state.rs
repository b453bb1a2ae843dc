//! The state of live executions in memory.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use jiff::Timestamp;
use plugin_sdk::{
    Claim, Class, Delay, Mono, Now,
    operation::{AssetRun, EffectKey, ExecutionId, KeyIdentity, Requirement, SourceEdit},
    workflow::{Action, MachineName, StateName},
};
use prodspec_model::IncarnationNo;
use serde_json::{Map, Value};

use super::{
    by_machine::ByMachine,
    event::{CallNo, CommitNo},
    log::LogHead,
    packed::Kept,
    sparse::{Empty, Sparse, Until},
};
use crate::{
    definition::{MachineNo, Position, Workflow},
    record::{Changed, Live, StepEdit},
};

/// Number of a live execution in the lane. Later starts have greater numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ExecutionNo(pub(super) u64);

/// A machine of a live execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    pub(super) execution: ExecutionNo,
    pub(super) machine: MachineNo,
}

impl StepId {
    /// The start of an execution. It waits and holds claims as a step does.
    pub(super) fn start(execution: ExecutionNo) -> Self {
        let machine = MachineNo::NONE;
        Self { execution, machine }
    }

    pub(super) fn is_start(self) -> bool {
        self.machine == MachineNo::NONE
    }
}

/// A live execution.
#[derive(Debug)]
pub(super) struct Execution {
    pub(super) id: ExecutionId,
    pub(super) workflow: Workflow,
    pub(super) live: Live,
    pub(super) input: Sparse<Value>,
    pub(super) about: Sparse<About>,
    pub(super) position: Position,
    /// The start, which waits until the dispatch stack and drains let the execution begin, and then holds its claims. `None`: it
    /// did not wait, and holds nothing.
    pub(super) start: Option<Box<Step>>,
    /// The machines whose first action has begun.
    pub(super) steps: ByMachine<Step>,
    pub(super) context: Sparse<Contexts>,
    /// Number of transitions of all machines, restarts included.
    pub(super) transitions: u32,
    pub(super) log: LogHead,
    /// Whether an earlier owner has begun it. Then each attempt is durable before its call, so that a call that ends
    /// owners is known by the record of its attempt.
    pub(super) taken_over: bool,
    /// The commit of its start. No function is called before it is durable: a call that ends the owner would leave no
    /// trace, and a program that asks for the start again would end the next owner.
    pub(super) started_in: CommitNo,
}

/// The entries of the context that each machine left. Those with greater numbers were left later.
pub(super) type Contexts = BTreeMap<MachineNo, (u32, Map<String, Value>)>;

impl Empty for Contexts {
    fn empty() -> &'static Self {
        static EMPTY: Contexts = Contexts::new();
        &EMPTY
    }
}

/// The input of most executions is null.
impl Empty for Value {
    fn empty() -> &'static Self {
        static EMPTY: Value = Value::Null;
        &EMPTY
    }
}

/// The assets that an execution is about. Most are about none.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct About {
    /// If it runs for an asset, the newest run for each of its contents, with this one last.
    pub(super) runs: Vec<AssetRun>,
    /// The assets that it is about, if it is a run of a watch.
    pub(super) changed: Option<Changed>,
}

impl About {
    pub(super) fn of(runs: Vec<AssetRun>, changed: Option<Changed>) -> Sparse<Self> {
        Sparse::of(Self { runs, changed })
    }
}

impl Empty for About {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<About> = LazyLock::new(About::default);
        &EMPTY
    }
}

/// A machine with an action that has begun at least once.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) run: u32,
    pub(super) transitions: u32,
    pub(super) attempt: u32,
    pub(super) failures: u32,
    /// Number of attempts of the present action.
    pub(super) tries: u32,
    pub(super) phase: Phase,
    /// Start of the phase.
    pub(super) since: (Mono, Timestamp),
    /// When the phase ends by itself, if it does.
    pub(super) alarm: Until,
    /// The time in the agenda at which the step is looked at.
    pub(super) listed: Until,
    pub(super) class: Class,
    /// The incarnation of the call, kept over its rounds.
    pub(super) incarnation: Option<IncarnationNo>,
    /// The function has said that its work is under way.
    pub(super) under_way: bool,
    /// It was in flight when an owner ended, and has not answered since.
    pub(super) suspect: bool,
    /// An attempt of this run may have had an effect, and none has said since whether it had.
    pub(super) uncertain: bool,
    /// The changes of intent that the last answer asked for.
    pub(super) edit: Kept,
    /// The end of the time in which the assets of the edit have to be in sync.
    pub(super) settles_until: Until,
    /// What it has only around its attempts.
    pub(super) rare: Sparse<Rare>,
}

/// What a step has around its attempts, and seldom while it rests or waits for long.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rare {
    pub(super) begun: BTreeMap<StateName, u32>,
    /// The identity of the run's key, if it began by a restart.
    pub(super) identity: Option<KeyIdentity>,
    /// The owners that died in a row while a call was in flight.
    pub(super) deaths: Vec<KeyIdentity>,
    /// Number of attempts in a row, of this owner, after which it was not known whether the edit is made.
    pub(super) untold: u32,
    pub(super) error: Option<String>,
    /// When all attempts together are over. `None`: none has begun, or there is no such limit.
    pub(super) expires: Option<Mono>,
    /// Time since which the next attempt is due: its age in queues. `None`: it is not.
    pub(super) due: Option<(Mono, Timestamp)>,
    pub(super) claims: Vec<Claim>,
    /// The claims that are to be taken before the next attempt.
    pub(super) wanted: Vec<Claim>,
    /// When the dispatch stack let it go, and the incarnation then.
    pub(super) let_go: Option<(Mono, IncarnationNo)>,
    pub(super) needs: BTreeMap<String, Requirement>,
    pub(super) rounds: u32,
    /// The claim for which it was woken.
    pub(super) woken: Option<plugin_sdk::Key>,
    /// The last attempt, which has not answered, may still take effect until then.
    pub(super) reach: Option<Mono>,
    /// A restart waits until the last attempt can no longer take effect.
    pub(super) restarts: bool,
    /// A cancel came before that. If the cancel is taken back, the machine is set back.
    pub(super) overtaken: bool,
    /// The child execution of an older run, which ends before the new run begins anything.
    pub(super) older_child: Option<ExecutionId>,
}

impl Empty for Rare {
    fn empty() -> &'static Self {
        static EMPTY: LazyLock<Rare> = LazyLock::new(Rare::default);
        &EMPTY
    }
}

/// What a step does or waits for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Phase {
    /// No action is under way.
    Rests,
    /// The next attempt may begin: it waits for its turn, for a fresh lease, or for the end of a pause or a drain.
    Due,
    /// The dispatch stack is asked.
    Dispatching(CallNo),
    /// It waits until the alarm.
    Delayed(Why),
    /// It waits for a claim.
    Claiming(plugin_sdk::Key),
    /// A function is called, or will be when the attempt is durable.
    Calling(CallNo),
    /// It waits until the old attempt can no longer take effect, or until the probe is asked again. `true`: the attempt
    /// counts as a failure if it had no effect.
    Fencing(bool),
    /// The owner ends in order while the call is in flight: the next one goes on.
    HandedOver,
    /// A probe is asked. The second part is that of [`Phase::Fencing`].
    Probing(CallNo, bool),
    /// It was in flight when an owner ended, and waits for its turn among such steps.
    Suspect,
    /// It was in flight at too many deaths: a person says whether it is called again.
    Poisoned,
    /// A person says what happened in the last attempt.
    Unsettled,
    /// A person chooses an option.
    Asking,
    /// A timer runs.
    Waiting,
    /// A function or a workflow with this name is not registered.
    Missing(Arc<str>),
    /// A child execution is live.
    Child(Box<ExecutionId>),
    /// An edit of a source is being made.
    Editing(CallNo),
    /// The assets that an edit changed are not in sync yet. The alarm is the end of the time for it.
    Settling(CallNo),
}

/// Why a step is delayed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Why {
    /// The last attempt failed.
    Failed,
    /// The function has said when to call again.
    UnderWay,
    /// An edit that is to be undone is still being made.
    Edits,
    /// It is not known yet whether the assets of its edit are in sync.
    Settling,
    /// The dispatch stack delays it.
    Delays(Vec<Delay>),
    /// The dispatch stack has not answered.
    NoDispatch(Box<str>),
    /// A rate is used up.
    Rate(plugin_sdk::Key),
    /// The last attempt may still take effect, and a restart waits for that.
    OlderRun,
}

impl Step {
    /// Whether an edit is being made that has not been made yet, as far as is known.
    pub(super) fn edit_may_come(&self) -> bool {
        self.edit.may_come()
    }

    /// Whether its edit is being made now, or may have been made although no answer has said so.
    pub(super) fn edit_is_open(&self) -> bool {
        self.edit_may_come() && (self.uncertain || matches!(self.phase, Phase::Editing(_)))
    }

    /// Whether a person may say what has happened: nothing is in flight, and it is not known whether the last call or the
    /// edit took effect. `probed`: the function has a probe, which has not found out yet.
    pub(super) fn is_open_for_a_word(&self, probed: bool) -> bool {
        let may_be_edited = self.uncertain && self.edit_may_come();
        match &self.phase {
            Phase::Unsettled => true,
            Phase::Delayed(Why::Failed) => may_be_edited,
            Phase::Fencing(_) => self.uncertain && probed,
            _ => false,
        }
    }

    /// What the machine has changed so far.
    pub(super) fn made(&self) -> Vec<SourceEdit> {
        let edit = self.edit.get();
        edit.map(|edit| edit.made()).unwrap_or_default()
    }

    /// The changes of intent that the present action has yet to make or to wait for.
    pub(super) fn open_edit(&self) -> Option<Cow<'_, StepEdit>> {
        self.edit.get().filter(|edit| !edit.over)
    }

    /// Gives back the memory that the step does not need while it rests or waits for long.
    pub(super) fn trim(&mut self) {
        self.rare.trim();
        self.edit.pack();
    }

    pub(super) fn new(since: (Mono, Timestamp)) -> Self {
        Self {
            run: 1,
            transitions: 0,
            attempt: 0,
            failures: 0,
            tries: 0,
            phase: Phase::Rests,
            since,
            alarm: Until::NONE,
            listed: Until::NONE,
            class: Class::New,
            incarnation: None,
            under_way: false,
            suspect: false,
            uncertain: false,
            edit: Kept::default(),
            settles_until: Until::NONE,
            rare: Sparse::default(),
        }
    }

    /// The start of an execution, which is due.
    pub(super) fn of_start(now: Now, class: Class) -> Self {
        let mut start = Self::new((now.mono, now.wall));
        (start.class, start.phase) = (class, Phase::Due);
        start
    }

    /// The start of an execution that has begun and holds claims until it ends.
    pub(super) fn holding(now: Now, claims: &[Claim]) -> Self {
        let mut start = Self::new((now.mono, now.wall));
        start.rare.claims = claims.to_vec();
        start
    }

    /// Whether the next attempt continues what has begun: work that is under way, or an attempt that asked for assets.
    pub(super) fn goes_on_in_a_pause(&self) -> bool {
        self.under_way || self.rare.rounds > 0
    }

    /// The time from which on the queues count its age.
    pub(super) fn age(&self) -> Mono {
        self.rare.due.unwrap_or(self.since).0
    }

    /// The time at which the step has to be looked at. What may have happened is not called failed by a clock: while a
    /// call is in flight or its outcome is open, the end of the time for all attempts is not looked at.
    pub(super) fn wake(&self) -> Option<Mono> {
        match (self.alarm.time(), self.ends()) {
            (Some(alarm), Some(ends)) => Some(alarm.min(ends)),
            (one, other) => one.or(other),
        }
    }

    /// When all attempts together are over, unless a call is in flight or its outcome is open.
    pub(super) fn ends(&self) -> Option<Mono> {
        let open = matches!(
            self.phase,
            Phase::Calling(_)
                | Phase::HandedOver
                | Phase::Fencing(_)
                | Phase::Probing(..)
                | Phase::Suspect
                | Phase::Poisoned
                | Phase::Unsettled
                | Phase::Child(_)
                | Phase::Editing(_)
        );
        let open = open || self.uncertain && self.edit_may_come() || self.rare.restarts;
        self.rare.expires.filter(|_| !open)
    }

    /// Whether an effect of the present run may be under way or may have happened without an answer.
    pub(super) fn may_have_effect(&self) -> bool {
        self.under_way
            || self.uncertain
            || self.rare.restarts
            || self.edit_may_come()
            || matches!(
                self.phase,
                Phase::Calling(_)
                    | Phase::HandedOver
                    | Phase::Fencing(_)
                    | Phase::Probing(..)
                    | Phase::Unsettled
                    | Phase::Child(_)
                    | Phase::Editing(_)
            )
    }
}

impl Execution {
    /// The action of a machine in its present state. `None`: the state has none.
    pub(super) fn action(&self, machine: MachineNo) -> Option<&Action> {
        self.workflow.action(machine, self.position.state(machine))
    }

    pub(super) fn machine_name(&self, machine: MachineNo) -> &MachineName {
        &self.workflow.machine(machine).name
    }

    pub(super) fn state_name(&self, machine: MachineNo) -> &StateName {
        self.workflow.state(machine, self.position.state(machine))
    }

    /// The key of the effects of a machine's present run.
    pub(super) fn key(&self, machine: MachineNo) -> EffectKey {
        let step = self.steps.at(machine);
        let run = step.map_or(1, |step| step.run);
        let identity = step.and_then(|step| step.rare.identity);
        EffectKey::new(self.id.clone(), self.machine_name(machine), run)
            .identity(identity.unwrap_or(self.live.origin.identity))
    }

    /// What the machines have left for each other, in the order in which they left it.
    pub(super) fn shared(&self) -> Map<String, Value> {
        let mut left: Vec<_> = self.context.values().collect();
        left.sort_by_key(|(order, _)| *order);
        let entries = left.into_iter().flat_map(|(_, context)| context.clone());
        entries.collect()
    }

    /// The number of entries that are left after all that are there.
    pub(super) fn next_order(&self) -> u32 {
        let last = self.context.values().map(|(order, _)| *order).max();
        last.unwrap_or(0) + 1
    }

    /// Whether the execution has not begun yet.
    pub(super) fn waits_to_start(&self) -> bool {
        let start = self.start.as_ref();
        start.is_some_and(|start| start.phase != Phase::Rests)
    }

    /// Whether calls are in flight, and nothing else is under way or waited for.
    pub(super) fn has_only_calls_in_flight(&self) -> bool {
        let calls = |phase: &Phase| matches!(phase, Phase::Rests | Phase::Calling(_));
        !self.waits_to_start() && self.steps.values().all(|step| calls(&step.phase))
    }

    /// Whether nothing is under way or waited for.
    pub(super) fn is_over(&self) -> bool {
        !self.waits_to_start() && self.steps.values().all(|step| step.phase == Phase::Rests)
    }
}
