//! The shared state of a run.

mod judge;
mod wanted;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use control_plane::Handle;
use control_plane_store::MemoryStore;

use judge::Judge;
pub(super) use wanted::Wanted;

use super::{Report, manifest, page::Page, production::Production};
use crate::{
    executor::{Executor, Instant, NodeId, NodeRuntime},
    random::Random,
};

/// The world around the control plane. Clones share one state.
#[derive(Clone)]
pub(super) struct World {
    pub(super) executor: Executor,
    state: Arc<Mutex<State>>,
}

/// A running control plane.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) node: NodeId,
    pub(super) handle: Handle<NodeRuntime>,
}

pub(super) struct State {
    pub(super) random: Random,
    /// Whether the faults have ended.
    pub(super) healed: bool,
    /// Faults strike this often, per thousand chances of each.
    pub(super) faults: u32,
    pub(super) store: MemoryStore,
    /// `None`: it died, and starts again later.
    pub(super) process: Option<Process>,
    pub(super) page: Page,
    pub(super) production: Production,
    pub(super) judge: Judge,
    /// The services whose pushes a check delays, each with the end.
    pub(super) frozen: BTreeMap<String, Instant>,
    /// Whether a train carries the versions of services. Otherwise changes set them, too.
    pub(super) train: bool,
    /// Whether the control plane looks at health and production seldom, so that a long run costs less.
    pub(super) is_calm: bool,
    /// The number of the next value that a person writes or wants.
    pub(super) values: u64,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let train = random.per_mille(350);
        let faults = [0, 10, 10, 40][random.below(4)];
        let text = manifest::draw(&mut random, train);
        Self::of(seed, random, (text, train), faults)
    }

    /// The world of a year.
    pub(super) fn year(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let text = manifest::draw_year(&mut random);
        let world = Self::of(seed, random, (text, true), 1);
        world.state().is_calm = true;
        world
    }

    fn of(seed: u64, random: Random, (text, train): (String, bool), faults: u32) -> Self {
        let state = State {
            is_calm: false,
            healed: false,
            faults,
            store: MemoryStore::new(),
            process: None,
            page: Page::new(text),
            production: Production::default(),
            judge: Judge::new(train),
            frozen: BTreeMap::new(),
            train,
            values: 10,
            random,
        };
        Self {
            executor: Executor::sorted(seed),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Instant {
        self.executor.now()
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(NodeId::WORLD, Box::pin(task));
    }

    pub(super) async fn sleep(&self, time: Duration) {
        self.executor.sleep(time).await;
    }

    /// Sleeps for a random time.
    pub(super) async fn takes(&self, least: Duration, most: Duration) {
        let time = self.state().random.between(least, most);
        self.sleep(time).await;
    }

    /// Ends the run if a rule was broken.
    pub(super) fn verdict(&self) {
        if self.state().judge.violation.is_some() {
            self.executor.stop();
        }
    }

    pub(super) fn report(&self, seed: u64) -> Report {
        let panicked = self.executor.panicked();
        let panicked = panicked.map(|why| ("panic".to_owned(), why));
        let (violation, counts) = {
            let judge = &self.state().judge;
            (judge.violation.clone(), judge.counts.clone())
        };
        let report = Report {
            seed,
            violation: panicked.or(violation),
            trace: self.executor.trace(),
            steps: self.executor.steps(),
            counts,
        };
        // The tasks have clones of the world.
        self.executor.end();
        self.state().process = None;
        report
    }
}

impl State {
    /// Whether a fault strikes now.
    pub(super) fn strikes(&mut self, times: u32) -> bool {
        !self.healed && self.random.per_mille(self.faults * times)
    }

    /// A value that no field has had. `digit` is its last one: 3 is sick.
    pub(super) fn value(&mut self, digit: u64) -> u64 {
        self.values += 10;
        self.values + digit
    }

    /// Counts something that happens.
    pub(super) fn count(&mut self, event: &'static str) {
        *self.judge.counts.entry(event).or_default() += 1;
    }

    /// The last handle to the control plane. `None`: it is down.
    pub(super) fn handle(&self) -> Option<Handle<NodeRuntime>> {
        Some(self.process.as_ref()?.handle.clone())
    }
}

/// Numbers of things that happened.
type Counts = BTreeMap<&'static str, u64>;
