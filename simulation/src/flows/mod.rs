//! What the judge of workflows knows: the provider's ledger, the calls in flight, and the words of people.

pub(crate) mod definitions;
pub(crate) mod slots;
pub(crate) mod source;
pub(crate) mod watches;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use plugin_sdk::{
    operation::{EffectKey, ExecutionId, Fence},
    workflow::MachineName,
};

use self::{definitions::Function, slots::Slots, source::Source, watches::Watched};
use crate::{
    executor::{Instant, NodeId},
    random::Random,
};

/// What may pass between the beginning of an attempt and of its call.
pub(crate) const MOMENT: Duration = Duration::from_secs(1);

/// A machine of an execution.
pub(crate) type Step = (ExecutionId, MachineName);

/// The step of a key.
pub(crate) fn step(key: &EffectKey) -> Step {
    (key.execution.clone(), key.step.clone())
}

/// A call of a function, from its beginning on.
#[derive(Clone)]
pub(crate) struct Called {
    pub(crate) function: &'static Function,
    pub(crate) node: NodeId,
    pub(crate) key: EffectKey,
    pub(crate) fence: Fence,
    pub(crate) begun: Instant,
    /// Time from then to the deadline of its attempt, at which it is abandoned.
    pub(crate) left: Duration,
    /// Whether its future is in flight.
    pub(crate) open: bool,
    /// Whether it has ended with a known outcome.
    pub(crate) known: bool,
    /// Whether another owner had followed when its future was dropped. Its owner may have noted before that there was no
    /// answer in time.
    pub(crate) left_behind: bool,
    /// Until then it may take effect, as far as the function promises; `None` if its message has arrived.
    pub(crate) until: Option<Duration>,
}

/// What the provider did for one key.
#[derive(Default)]
pub(crate) struct Effect {
    pub(crate) times: u32,
    /// Until then the work is under way.
    pub(crate) ready: Instant,
}

/// The provider's ledger.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) effects: BTreeMap<EffectKey, Effect>,
    /// The greatest fence heard for each step.
    pub(crate) heard: BTreeMap<Step, Fence>,
    /// Number of messages that travel, by key.
    pub(crate) travelling: BTreeMap<EffectKey, u32>,
}

/// All that the world knows of executions.
pub struct Flows {
    /// Random numbers of workflows, in a stream of their own, so that other draws do not depend on them.
    pub random: Random,
    pub(crate) ledger: Ledger,
    /// All calls, in the order in which they began.
    pub(crate) calls: Vec<Called>,
    /// Keys for which a function, a probe or a person has told that the work is done.
    pub(crate) told: BTreeSet<EffectKey>,
    /// Keys of calls that must not be repeated, while their outcome is not known.
    pub(crate) uncertain: BTreeSet<EffectKey>,
    /// Number of deaths in a row with a call of this key in flight.
    pub(crate) deaths: BTreeMap<EffectKey, u32>,
    /// Number of failures in a row of the calls of this key.
    pub(crate) failures: BTreeMap<EffectKey, u32>,
    /// Tokens of owners whose last call of this key has told that work is under way. When they call again, that is durable.
    pub(crate) progress: BTreeMap<EffectKey, u64>,
    /// Number of restarts that people have asked for, by step. A refused one does not count.
    pub(crate) restarts: BTreeMap<Step, u32>,
    /// The same by execution, whatever machine each was about: it takes back a cancel, so that actions begin again which the
    /// cancel had withdrawn.
    pub(crate) restarted: BTreeMap<ExecutionId, u32>,
    /// The run and the number of the last attempt of each step that was durable while its guard held and no restart waited.
    pub(crate) enabled: BTreeMap<Step, (u32, u32)>,
    /// The execution of each key of a start.
    pub(crate) keys: BTreeMap<(String, Arc<str>), ExecutionId>,
    /// The question that no person answers; `None`: there is none.
    pub(crate) unanswered: Option<Arc<str>>,
    /// Answers that are postponed, by question.
    pub(crate) postponed: BTreeMap<(ExecutionId, u32), Instant>,
    /// Greatest token of all calls.
    pub(crate) token: u64,
    /// Token of the newest owner whose workflows have begun.
    pub(crate) owner: u64,
    /// The editable source.
    pub(crate) source: Source,
    /// What is known of slots of schedules.
    pub(crate) slots: Slots,
    /// What is known of the runs of watches.
    pub(crate) watched: Watched,
    /// Executions with a step that holds the claim of which there is one, as far as known.
    pub(crate) pressing: BTreeSet<ExecutionId>,
}

/// Separates the random stream of workflows.
const STREAM: u64 = 0x776f_726b;

impl Flows {
    /// What is known at the beginning of the run of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed ^ STREAM),
            ledger: Ledger::default(),
            calls: Vec::new(),
            told: BTreeSet::new(),
            uncertain: BTreeSet::new(),
            deaths: BTreeMap::new(),
            failures: BTreeMap::new(),
            progress: BTreeMap::new(),
            restarts: BTreeMap::new(),
            restarted: BTreeMap::new(),
            enabled: BTreeMap::new(),
            keys: BTreeMap::new(),
            unanswered: None,
            postponed: BTreeMap::new(),
            token: 0,
            owner: 0,
            source: Source::default(),
            slots: Slots::default(),
            watched: Watched::default(),
            pressing: BTreeSet::new(),
        }
    }

    /// Maximum number of runs of a step: the first one, and one for each restart.
    pub(crate) fn most_runs(&self, step: &Step) -> u32 {
        1 + self.restarts.get(step).copied().unwrap_or_default()
    }

    /// Maximum number of edits of a step of this execution: the first one, and one for each restart of any machine.
    pub(crate) fn most_edits(&self, execution: &ExecutionId) -> u32 {
        1 + self.restarted.get(execution).copied().unwrap_or_default()
    }

    /// A probe or a person has found that the effect of this key did not happen, and that nothing of it is under way.
    pub(crate) fn has_not_happened(&mut self, key: &EffectKey) {
        self.uncertain.remove(key);
        for call in self.calls.iter_mut().filter(|it| it.key == *key) {
            call.known = true;
        }
    }

    /// Whether a call or a message of this key is under way anywhere.
    pub(crate) fn is_under_way(&self, key: &EffectKey) -> bool {
        let open = |it: &Called| it.open && it.key == *key;
        self.calls.iter().any(open) || self.ledger.travelling.get(key).is_some_and(|it| *it > 0)
    }
}
