//! What the judge of workflows knows: the provider's ledger, the calls in flight, and the words of people.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use plugin_sdk::{
    operation::{EffectKey, ExecutionId, Fence},
    workflow::MachineName,
};

use super::{definitions::Function, schedules::Slots, source::Source};
use crate::{
    executor::{Instant, NodeId},
    random::Random,
};

/// What may pass between the beginning of an attempt and of its call.
pub(super) const MOMENT: Duration = Duration::from_secs(1);

/// A machine of an execution.
pub(super) type Step = (ExecutionId, MachineName);

/// The step of a key.
pub(super) fn step(key: &EffectKey) -> Step {
    (key.execution.clone(), key.step.clone())
}

/// A call of a function, from its beginning on.
#[derive(Clone)]
pub(super) struct Called {
    pub(super) function: &'static Function,
    pub(super) node: NodeId,
    pub(super) key: EffectKey,
    pub(super) fence: Fence,
    pub(super) begun: Instant,
    /// Time from then to the deadline of its attempt, at which it is abandoned.
    pub(super) left: Duration,
    /// Whether its future is in flight.
    pub(super) open: bool,
    /// Whether it has ended with a known outcome.
    pub(super) known: bool,
    /// Until then it may take effect, as far as the function promises; `None` if its message has arrived.
    pub(super) until: Option<Duration>,
}

/// What the provider did for one key.
#[derive(Default)]
pub(super) struct Effect {
    pub(super) times: u32,
    /// Until then the work is under way.
    pub(super) ready: Instant,
}

/// The provider's ledger.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) effects: BTreeMap<EffectKey, Effect>,
    /// The greatest fence heard for each step.
    pub(super) heard: BTreeMap<Step, Fence>,
    /// Number of messages that travel, by key.
    pub(super) travelling: BTreeMap<EffectKey, u32>,
}

/// All that the world knows of executions.
pub struct Flows {
    /// Random numbers of workflows, in a stream of their own, so that other draws do not depend on them.
    pub random: Random,
    pub(super) ledger: Ledger,
    /// All calls, in the order in which they began.
    pub(super) calls: Vec<Called>,
    /// Keys for which a function, a probe or a person has told that the work is done.
    pub(super) told: BTreeSet<EffectKey>,
    /// Keys of calls that must not be repeated, while their outcome is not known.
    pub(super) uncertain: BTreeSet<EffectKey>,
    /// Number of deaths in a row with a call of this key in flight.
    pub(super) deaths: BTreeMap<EffectKey, u32>,
    /// Number of failures in a row of the calls of this key.
    pub(super) failures: BTreeMap<EffectKey, u32>,
    /// Tokens of owners whose last call of this key has told that work is under way. When they call again, that is durable.
    pub(super) progress: BTreeMap<EffectKey, u64>,
    /// Number of restarts that people have asked for, by step. A refused one does not count.
    pub(super) restarts: BTreeMap<Step, u32>,
    /// The execution of each key of a start.
    pub(super) keys: BTreeMap<(String, Arc<str>), ExecutionId>,
    /// The question that no person answers; `None`: there is none.
    pub(super) unanswered: Option<Arc<str>>,
    /// Answers that are postponed, by question.
    pub(super) postponed: BTreeMap<(ExecutionId, u32), Instant>,
    /// Greatest token of all calls.
    pub(super) token: u64,
    /// Token of the newest owner whose workflows have begun.
    pub(super) owner: u64,
    /// The editable source.
    pub(super) source: Source,
    /// What is known of slots of schedules.
    pub(super) slots: Slots,
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
            keys: BTreeMap::new(),
            unanswered: None,
            postponed: BTreeMap::new(),
            token: 0,
            owner: 0,
            source: Source::default(),
            slots: Slots::default(),
        }
    }

    /// Maximum number of runs of a step: the first one, and one for each restart.
    pub(super) fn most_runs(&self, step: &Step) -> u32 {
        1 + self.restarts.get(step).copied().unwrap_or_default()
    }

    /// Whether a call or a message of this key is under way anywhere.
    pub(super) fn is_under_way(&self, key: &EffectKey) -> bool {
        let open = |it: &Called| it.open && it.key == *key;
        self.calls.iter().any(open) || self.ledger.travelling.get(key).is_some_and(|it| *it > 0)
    }
}
