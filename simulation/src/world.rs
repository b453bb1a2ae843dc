//! Everything that is not the control plane: chance, intent, production, the judge, and the processes that run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use annealing_enforcer::{Handle, kernel::Branch};
use futures::channel::mpsc;
use plane_store::{Key, MemoryStore, Version};
use prodspec_model::Incarnation;

use crate::{
    executor::{Executor, Instant, NodeId, NodeRuntime},
    faults::{Fault, Points},
    intent::Plan,
    judge::{Judge, Violation},
    production::Production,
    random::Random,
    scenario::Scenario,
    trace::Trace,
};

/// Tells the stream apart that draws what comes first.
const ORDER: u64 = 0x6f72_6465;

/// The world of one seed. Cheap to clone.
#[derive(Clone)]
pub struct World {
    /// Runs everything.
    pub executor: Executor,
    state: Arc<Mutex<State>>,
}

/// One enforcer process that runs.
#[derive(Clone)]
pub struct Process {
    /// Where.
    pub node: NodeId,
    /// How to ask it.
    pub handle: Handle<NodeRuntime>,
    /// How to tell it to stop.
    pub stop: mpsc::UnboundedSender<()>,
    /// It diffs, and never pushes.
    pub observes: bool,
    /// How to ask its strategist, while it owns the partition.
    pub rollouts: Option<annealing_strategist::Handle<NodeRuntime>>,
}

/// An incarnation that validators accepted.
pub struct Accepted {
    /// What was wanted.
    pub plan: Arc<Plan>,
    /// The content of each asset.
    pub marks: BTreeMap<usize, u64>,
}

/// What is known of intent beside the store.
#[derive(Default)]
pub struct Sealed {
    /// What validators accepted. Of several with one number one at most is sealed.
    pub accepted: BTreeMap<u32, Vec<Accepted>>,
    /// Incarnations whose seal was written, and which of those accepted it was: whoever syncs next makes it durable.
    pub written: BTreeMap<u32, usize>,
    /// Incarnations whose seal was acknowledged, the newest last.
    pub acknowledged: Vec<Incarnation>,
    /// When that was.
    pub acknowledged_at: BTreeMap<u32, Instant>,
    /// The one being sealed.
    pub submitting: Option<u32>,
    /// The sealer's node.
    pub node: Option<NodeId>,
}

/// What changes.
pub struct State {
    /// How this seed is.
    pub scenario: Scenario,
    /// Chance.
    pub random: Random,
    /// True time, as of the last look at it.
    pub now: Instant,
    /// Nothing goes wrong any more.
    pub healed: bool,
    /// No more edits.
    pub quiet: bool,
    /// What people want.
    pub plan: Plan,
    /// What was sealed.
    pub sealed: Sealed,
    /// What there is.
    pub production: Production,
    /// Who looks at it all.
    pub judge: Judge,
    /// What happened.
    pub trace: Trace,
    /// How often each fault struck.
    pub struck: BTreeMap<Fault, u64>,
    /// Points at which processes may die by number.
    pub points: Points,
    /// How often the kernels took each branch, by node and token.
    pub branches: BTreeMap<(u32, u64), BTreeMap<Branch, u64>>,
    /// The store as it is open now.
    pub store: MemoryStore,
    /// How many commits were acknowledged, and after how many each process had its last one.
    pub commits: u64,
    /// See [`State::commits`].
    pub committed: BTreeMap<NodeId, u64>,
    /// The newest version that was acknowledged.
    pub version: Version,
    /// The newest acknowledged version of each key: acknowledgements may overtake each other.
    pub newest: BTreeMap<Key, Version>,
    /// Processes that cannot reach the store.
    pub cut_off: BTreeSet<NodeId>,
    /// When the store last heard of each process.
    pub beats: BTreeMap<NodeId, Instant>,
    /// When processes that stood still went on.
    pub woken: BTreeMap<NodeId, Instant>,
    /// How many wall clocks stand still.
    pub still_clocks: usize,
    /// How often the judge has asked for a lease.
    pub leases: u64,
    /// Who called production last under the newest token.
    pub owner: Option<NodeId>,
    /// The enforcers that run, by place.
    pub processes: [Option<Process>; 2],
    /// Assets that wait for an approval, with the change to approve.
    pub unapproved: BTreeMap<usize, prodspec_model::Digest>,
    /// How often rollouts got into each state.
    pub rolled: BTreeMap<String, u64>,
    /// The policy groups, as the strategist that was asked last sees them: for people who look at a violation.
    pub views: Vec<annealing_strategist::View>,
    /// What the enforcer says of targets that have been under way for long: for the same people.
    pub explained: Vec<annealing_enforcer::Explained>,
    /// The group of which the last that people want is content that does not serve.
    pub stubborn: Option<usize>,
    /// Checks that say no, by check and scope, until when.
    pub closed: BTreeMap<(usize, usize), Instant>,
    /// Until when the provider answers nothing but errors.
    pub out_until: Instant,
}

impl World {
    /// A world that begins.
    pub fn new(seed: u64, scenario: Scenario) -> Self {
        let mut random = Random::new(seed);
        let chosen = scenario.plan.clone();
        let plan = chosen.unwrap_or_else(|| {
            let mut plan = Plan::choose(&mut random, scenario.knit);
            // A stream of its own: other seeds go as they would without.
            let mut order = Random::new(seed ^ ORDER);
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
            commits: 0,
            committed: BTreeMap::new(),
            version: Version(0),
            newest: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            beats: BTreeMap::new(),
            woken: BTreeMap::new(),
            still_clocks: 0,
            leases: 0,
            owner: None,
            processes: [None, None],
            unapproved: BTreeMap::new(),
            rolled: BTreeMap::new(),
            views: Vec::new(),
            explained: Vec::new(),
            stubborn: None,
            closed: BTreeMap::new(),
            out_until: Instant::default(),
        };
        Self {
            executor,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The state, with the time set. Never held over an await.
    pub fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = self.executor.now();
        if state.still_clocks > 0 {
            state.judge.jumped = Some(state.now);
        }
        state
    }

    /// Runs a task in the world, where nothing dies.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(NodeId::WORLD, Box::pin(task));
    }

    /// Waits.
    pub async fn sleep(&self, duration: Duration) {
        self.executor.sleep(duration).await;
    }

    /// Ends it. Store, executor and processes hold the world, which holds them: none would ever go away otherwise.
    pub fn end(&self) {
        let store = self.state().store.clone();
        store.heal();
        store.set_pause(|_| Box::pin(futures::future::ready(())));
        self.executor.end();
        let processes = std::mem::take(&mut self.state().processes);
        drop(processes);
    }

    /// Notes an event.
    pub fn note(&self, what: &'static str, asset: Option<usize>, more: [u64; 2]) {
        let node = self.executor.current();
        let mut state = self.state();
        let now = state.now;
        state.trace.note(now, node, what, asset, more);
    }

    /// Ends the run if the judge has found something.
    pub fn verdict(&self) {
        if self.state().judge.violation.is_some() {
            self.executor.stop();
        }
    }
}

impl State {
    /// Whether `fault` happens now. Counts it if so.
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

    /// An asset is part of intent again, as it would be had it never left.
    pub fn bring_back(&mut self, at: usize) {
        let most = self.plan.wishes[self.plan.schema()].version;
        let wish = &mut self.plan.wishes[at];
        (wish.exists, wish.turndown) = (true, false);
        if wish.schema.is_some() {
            wish.version = wish.version.min(most);
        }
    }

    /// Nothing goes wrong from here on.
    pub fn heal(&mut self) {
        self.healed = true;
        self.cut_off.clear();
        self.still_clocks = 0;
        self.closed.clear();
        self.out_until = Instant::default();
        self.production.undo_by_hand(self.now);
        self.judge.healed = self.now;
        for at in 2..self.plan.wishes.len() {
            self.bring_back(at);
            let wish = &mut self.plan.wishes[at];
            wish.mend();
            // What failed before is not rolled out again: this is new.
            wish.rev += u64::from(wish.pool);
        }
        for group in &mut self.plan.groups {
            (group.policy.hold, group.policy.emergency) = (None, None);
        }
    }

    /// The judge has seen something that must never happen.
    pub fn violated(&mut self, invariant: &'static str, what: String) {
        let now = self.now;
        self.judge.violation.get_or_insert(Violation {
            invariant,
            what: format!("at {:.6} s: {what}", now.0 as f64 / 1e9),
        });
    }
}
