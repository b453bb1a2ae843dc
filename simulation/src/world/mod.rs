//! The world around the control plane: random numbers, intent, production, the judge, and the running processes.

pub mod judge;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use annealing_enforcer::{Handle, kernel::Branch};
use control_plane_store::{Key, MemoryStore, Version};
use futures::channel::mpsc;
use prodspec_model::{AssetId, Incarnation};

use crate::{
    executor::{Executor, Instant, NodeId, NodeRuntime},
    faults::{Fault, Points},
    flows::Flows,
    gates::Gates,
    intent::Plan,
    production::Production,
    random::Random,
    scenario::Scenario,
    trace::Trace,
};
use judge::{Judge, Violation};

/// Separates the random stream that draws the edges of order.
const ORDER: u64 = 0x6f72_6465;

/// The world of one seed; clones share one state.
#[derive(Clone)]
pub struct World {
    /// Executor of all tasks in this world.
    pub executor: Executor,
    state: Arc<Mutex<State>>,
}

/// An enforcer process that is running.
#[derive(Clone)]
pub struct Process {
    /// Node on which the process runs.
    pub node: NodeId,
    /// Handle for questions and commands to the enforcer.
    pub handle: Handle<NodeRuntime>,
    /// A message here tells the process to stop.
    pub stop: mpsc::UnboundedSender<()>,
    /// Whether the process only diffs and never pushes.
    pub observes: bool,
    /// Handle of the process's strategist; `None` while the process does not own the partition.
    pub rollouts: Option<annealing_strategist::Handle<NodeRuntime>>,
    /// Handle of the process's workflows; `None` while the process does not own the partition.
    pub lane: Option<annealing_workflow::Handle<NodeRuntime>>,
    /// Starts another process in its place after it was killed.
    pub again: fn(&World, usize),
}

/// An incarnation that the validators accepted.
pub struct Accepted {
    /// The intent that was sealed.
    pub plan: Arc<Plan>,
    /// Mark of each asset's content, by asset number.
    pub marks: BTreeMap<usize, u64>,
}

/// Facts about incarnations that the judge knows independently of the store.
#[derive(Default)]
pub struct Sealed {
    /// Accepted incarnations by number. Of several with the same number at most one is sealed.
    pub accepted: BTreeMap<u32, Vec<Accepted>>,
    /// Incarnations whose seal was written, with the index among the accepted ones. The next sync makes them durable.
    pub written: BTreeMap<u32, usize>,
    /// Incarnations whose seal was acknowledged, with the newest last.
    pub acknowledged: Vec<Incarnation>,
    /// Time of each acknowledgement, by incarnation number.
    pub acknowledged_at: BTreeMap<u32, Instant>,
    /// Number of the incarnation that is being sealed, if any.
    pub submitting: Option<u32>,
    /// Node of the sealer; `None` while it is down.
    pub node: Option<NodeId>,
    /// Starts the sealer again after it was killed; `None` before its first start.
    pub again: Option<fn(&World)>,
}

/// Mutable state of the world, behind one lock.
pub struct State {
    /// Parameters of this seed's run.
    pub scenario: Scenario,
    /// Random numbers for faults and choices.
    pub random: Random,
    /// True time, set whenever the state is locked.
    pub now: Instant,
    /// Whether the phase with faults is over.
    pub healed: bool,
    /// Whether the phase with edits is over.
    pub quiet: bool,
    /// The current intent, as edited and possibly not sealed yet.
    pub plan: Plan,
    /// The incarnations that were accepted, written and acknowledged.
    pub sealed: Sealed,
    /// The simulated production with its resources.
    pub production: Production,
    /// The judge that checks the invariants.
    pub judge: Judge,
    /// The events of this run.
    pub trace: Trace,
    /// Number of times that each fault struck.
    pub struck: BTreeMap<Fault, u64>,
    /// Numbered points at which processes may die.
    pub points: Points,
    /// Number of times that the kernels took each branch, by node and token.
    pub branches: BTreeMap<(u32, u64), BTreeMap<Branch, u64>>,
    /// The store as it was opened last.
    pub store: MemoryStore,
    /// The handle of each process to the store as it was opened last.
    pub handles: BTreeMap<NodeId, MemoryStore>,
    /// Newest version of the store that was acknowledged.
    pub version: Version,
    /// Newest acknowledged version of each key. Needed because acknowledgements may overtake each other.
    pub newest: BTreeMap<Key, Version>,
    /// Processes that cannot reach the store now.
    pub cut_off: BTreeSet<NodeId>,
    /// Start of the present outage of the store.
    pub unreachable_since: Option<Instant>,
    /// Start of the last acknowledged heartbeat of each process.
    pub beats: BTreeMap<NodeId, Instant>,
    /// Time at which each paused process last resumed.
    pub woken: BTreeMap<NodeId, Instant>,
    /// Number of wall clocks that stand still now.
    pub still_clocks: usize,
    /// Number of times that the judge checked a lease.
    pub leases: u64,
    /// The process that last called production with the newest token.
    pub owner: Option<NodeId>,
    /// The running enforcers, by place; `None` for a place whose process is down.
    pub processes: [Option<Process>; 2],
    /// Assets that wait for an approval, with the digest of the change to approve.
    pub unapproved: BTreeMap<usize, prodspec_model::Digest>,
    /// Renamed assets that no diff has found in sync under their new ids yet.
    pub renaming: BTreeSet<usize>,
    /// Number of times that rollouts entered each state, by counter name.
    pub rolled: BTreeMap<String, u64>,
    /// Rollouts under way that operators had to end, each by its policy and number, by counter name.
    pub rescued: BTreeMap<&'static str, BTreeSet<(AssetId, u64)>>,
    /// The policy groups as the strategist last reported them, for people who read a violation.
    pub views: Vec<annealing_strategist::View>,
    /// The enforcer's explanations of targets that have been under way for long, for people who read a violation.
    pub explained: Vec<annealing_enforcer::Explained>,
    /// The group whose last edit keeps bad content in intent; `None` if there is none.
    pub stubborn: Option<usize>,
    /// The checks that delay now.
    pub gates: Gates,
    /// End of the provider's outage: until then each call fails.
    pub out_until: Instant,
    /// What is known of the executions of workflows.
    pub flows: Flows,
}

impl World {
    /// Makes the world of `seed` at its beginning.
    pub fn new(seed: u64, scenario: Scenario) -> Self {
        let mut random = Random::new(seed);
        let chosen = scenario.plan.clone();
        let plan = chosen.unwrap_or_else(|| {
            let mut plan = Plan::choose(&mut random, scenario.knit);
            // A separate stream, so that other seeds do not change.
            let mut order = Random::new(seed ^ ORDER);
            plan.mutual = scenario.mutual;
            if order.per_mille(scenario.ordered) {
                plan.put_in_order(&mut order, scenario.rates.of(Fault::EditGroup) > 0);
            }
            plan
        });
        let executor = Executor::new(seed);
        let state = State {
            production: Production::new(&plan),
            judge: Judge::new(plan.wishes.len()),
            scenario,
            random,
            now: Instant::default(),
            healed: false,
            quiet: false,
            plan,
            sealed: Sealed::default(),
            trace: Trace::default(),
            struck: BTreeMap::new(),
            points: Points::default(),
            branches: BTreeMap::new(),
            store: MemoryStore::new(),
            handles: BTreeMap::new(),
            version: Version(0),
            newest: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            unreachable_since: None,
            beats: BTreeMap::new(),
            woken: BTreeMap::new(),
            still_clocks: 0,
            leases: 0,
            owner: None,
            processes: [None, None],
            unapproved: BTreeMap::new(),
            renaming: BTreeSet::new(),
            rolled: BTreeMap::new(),
            rescued: BTreeMap::new(),
            views: Vec::new(),
            explained: Vec::new(),
            stubborn: None,
            gates: Gates::default(),
            out_until: Instant::default(),
            flows: Flows::new(seed),
        };
        Self {
            executor,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Locks the state and sets its time. The guard must not be held across an await.
    pub fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = self.executor.now();
        if state.still_clocks > 0 {
            state.judge.jumped = Some(state.now);
        }
        state
    }

    /// Runs a task on [`NodeId::WORLD`], which never dies.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(NodeId::WORLD, Box::pin(task));
    }

    /// Waits for `duration` of true time.
    pub async fn sleep(&self, duration: Duration) {
        self.executor.sleep(duration).await;
    }

    /// Ends the world and frees its memory: store, executor and processes refer to the world in a cycle, which is
    /// broken here.
    pub fn end(&self) {
        let store = self.state().store.clone();
        store.heal();
        store.set_pause(|_| Box::pin(futures::future::ready(())));
        self.executor.end();
        let processes = std::mem::take(&mut self.state().processes);
        drop(processes);
    }

    /// Adds an event of the current node to the trace.
    pub fn note(&self, what: &'static str, asset: Option<usize>, more: [u64; 2]) {
        let node = self.executor.current();
        let mut state = self.state();
        let now = state.now;
        state.trace.note(now, node, what, asset, more);
    }

    /// Stops the executor if the judge has found a violation.
    pub fn verdict(&self) {
        if self.state().judge.violation.is_some() {
            self.executor.stop();
        }
    }
}

impl State {
    /// Draws whether `fault` strikes now, and counts it if so.
    pub fn strikes(&mut self, fault: Fault) -> bool {
        if self.healed && !fault.goes_on() {
            return false;
        }
        let rate = self.scenario.rates.of(fault);
        let strikes = self.random.per_mille(rate);
        if strikes {
            *self.struck.entry(fault).or_default() += 1;
        }
        strikes
    }

    /// Adds an asset to intent again, without a turndown and with a version that the schema allows.
    pub fn bring_back(&mut self, at: usize) {
        let most = self.plan.wishes[self.plan.schema()].version;
        let wish = &mut self.plan.wishes[at];
        (wish.exists, wish.turndown) = (true, false);
        if wish.schema.is_some() {
            wish.version = wish.version.min(most);
        }
    }

    /// Ends all faults, and repairs intent and the manual changes of production.
    pub fn heal(&mut self) {
        self.healed = true;
        self.cut_off.clear();
        self.still_clocks = 0;
        self.gates.open();
        self.out_until = Instant::default();
        self.production.undo_by_hand(self.now);
        self.judge.healed = self.now;
        for at in 2..self.plan.wishes.len() {
            self.bring_back(at);
            let wish = &mut self.plan.wishes[at];
            wish.mend();
            // Quarantined content is not rolled out again, so a new revision is needed.
            wish.rev += u64::from(wish.pool);
        }
        for group in &mut self.plan.groups {
            (group.policy.hold, group.policy.emergency) = (None, None);
        }
    }

    /// Records a violation. Only the first one is kept.
    pub fn violated(&mut self, invariant: &'static str, what: String) {
        let now = self.now;
        self.judge.violation.get_or_insert(Violation {
            invariant,
            what: format!("at {:.6} s: {what}", now.0 as f64 / 1e9),
        });
    }
}
