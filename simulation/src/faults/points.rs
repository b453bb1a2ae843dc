//! Crashes by number instead of by chance: each point at which a process may die has one, in the order in which they
//! are passed, so that a test can go through all of them.

use crate::{
    executor::{Instant, NodeId},
    process,
    world::World,
};

/// What a crash takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process that passes the point. The store goes on.
    Process,
    /// Every process, and what the store had not synced.
    Power,
}

/// The points that were passed, and at which of them something dies.
#[derive(Debug, Clone)]
pub struct Points {
    /// Points are numbered while this is set.
    pub counting: bool,
    /// How many were passed.
    pub passed: u64,
    /// The numbers at which something dies, from 0 on.
    pub deadly: Vec<u64>,
    /// What dies.
    pub crash: Crash,
    /// When something last died.
    pub crashed: Instant,
}

impl Default for Points {
    fn default() -> Self {
        Self {
            counting: false,
            passed: 0,
            deadly: Vec::new(),
            crash: Crash::Process,
            crashed: Instant::default(),
        }
    }
}

impl Points {
    /// Passes one more. Answers whether something dies there.
    fn pass(&mut self, now: Instant) -> Option<Crash> {
        if !self.counting {
            return None;
        }
        let number = self.passed;
        self.passed += 1;
        let deadly = self.deadly.contains(&number);
        if deadly {
            self.crashed = now;
        }
        deadly.then_some(self.crash)
    }
}

/// A point at which the process on `node` may die. Says whether it did: then the caller must not go on.
pub fn dies_here(world: &World, node: NodeId) -> bool {
    if node == NodeId::WORLD {
        return false;
    }
    let crash = {
        let mut state = world.state();
        let now = state.now;
        state.points.pass(now)
    };
    match crash {
        None => false,
        Some(Crash::Process) => process::kill(world, node),
        Some(Crash::Power) => {
            process::power_cut(world);
            true
        }
    }
}
