//! Nodes: what dies, sleeps and reads a clock on its own.

use std::time::Duration;

use super::{Executor, Instant, Run, locked};
use crate::random::Random;

/// A process, or the world around the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// Where production lives, and whoever makes trouble. Never dies.
    pub const WORLD: Self = Self(0);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Up,
    Paused,
    Dead,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) condition: Condition,
    /// Runnable tasks that wait for the end of a pause.
    pub(super) parked: Vec<u32>,
    /// What its monotonic clock showed when the world began: two processes never agree on it.
    pub(super) mono: u64,
    /// How wrong its wall clock is, in nanoseconds.
    pub(super) wrong: i64,
    /// Since when its wall clock stands still.
    pub(super) stopped: Option<Instant>,
}

impl Node {
    pub(super) fn new(mono: u64) -> Self {
        Self {
            condition: Condition::Up,
            parked: Vec::new(),
            mono,
            wrong: 0,
            stopped: None,
        }
    }
}

impl Run {
    pub(super) fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.0 as usize]
    }

    pub(super) fn node_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.nodes[node.0 as usize]
    }
}

impl Executor {
    /// A new node. Its wall clock is as wrong as `wrong` says.
    pub fn boot(&self, random: &mut Random, wrong: i64) -> NodeId {
        let mut run = locked(&self.0.run);
        let mut node = Node::new(random.below(1 << 50) as u64);
        node.wrong = wrong;
        run.nodes.push(node);
        NodeId(run.nodes.len() as u32 - 1)
    }

    /// Ends a node: its tasks are dropped where they are.
    pub fn kill(&self, node: NodeId) {
        let mut run = locked(&self.0.run);
        run.node_mut(node).condition = Condition::Dead;
        let mut dropped = Vec::new();
        for at in 0..run.tasks.len() {
            if run.tasks[at].as_ref().is_some_and(|task| task.node == node)
                && let Some(task) = run.tasks[at].take()
            {
                task.wake.finish();
                run.free.push(at as u32);
                dropped.push(task);
            }
        }
        drop(run);
        // Without the lock: what is dropped may wake others.
        drop(dropped);
    }

    /// Whether a node lives, paused or not.
    pub fn lives(&self, node: NodeId) -> bool {
        locked(&self.0.run).node(node).condition != Condition::Dead
    }

    /// Stops a node's tasks, or lets them go on. Clocks go on in any case.
    pub fn pause(&self, node: NodeId, paused: bool) {
        let mut run = locked(&self.0.run);
        let entry = run.node_mut(node);
        if entry.condition == Condition::Dead {
            return;
        }
        entry.condition = if paused {
            Condition::Paused
        } else {
            Condition::Up
        };
        if !paused {
            let parked = std::mem::take(&mut entry.parked);
            locked(&self.0.ready).extend(parked);
        }
    }

    /// Whether a node is paused.
    pub fn is_paused(&self, node: NodeId) -> bool {
        locked(&self.0.run).node(node).condition == Condition::Paused
    }

    /// Makes a node's wall clock jump.
    pub fn jump(&self, node: NodeId, by: Duration, back: bool) {
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        let mut run = locked(&self.0.run);
        run.node_mut(node).wrong += if back { -by } else { by };
    }

    /// Puts a node's wall clock right.
    pub fn correct(&self, node: NodeId) {
        let mut run = locked(&self.0.run);
        let node = run.node_mut(node);
        (node.wrong, node.stopped) = (0, None);
    }

    /// Makes a node's wall clock stand still.
    pub fn stop_clock(&self, node: NodeId) {
        let now = self.now();
        let mut run = locked(&self.0.run);
        run.node_mut(node).stopped.get_or_insert(now);
    }

    /// Lets a node's wall clock go on, as if it had never stood still.
    pub fn let_clock_go(&self, node: NodeId) {
        locked(&self.0.run).node_mut(node).stopped = None;
    }
}
