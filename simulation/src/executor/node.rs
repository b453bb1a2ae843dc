//! Nodes: each one dies and pauses separately and has its own clocks.

use std::time::Duration;

use super::{Executor, Instant, Run, locked};
use crate::random::Random;

/// Id of a process, or of the world around the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The node of production and of the tasks that inject faults. It never dies.
    pub const WORLD: Self = Self(0);
}

/// Condition of a node: its tasks run, are paused, or are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Up,
    Paused,
    Dead,
}

/// State of a node: its condition and its clocks.
#[derive(Debug)]
pub(super) struct Node {
    /// Whether the node's tasks run now.
    pub(super) condition: Condition,
    /// Runnable tasks that wait for the end of a pause.
    pub(super) parked: Vec<u32>,
    /// Value of the monotonic clock when the world began. It differs between processes.
    pub(super) mono: u64,
    /// Error of the wall clock, in nanoseconds.
    pub(super) wrong: i64,
    /// Time at which the wall clock stopped; `None` while the clock runs.
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
    /// Makes a new node whose wall clock is wrong by `wrong` nanoseconds.
    pub fn boot(&self, random: &mut Random, wrong: i64) -> NodeId {
        let mut run = locked(&self.0.run);
        let mut node = Node::new(random.below(1 << 50) as u64);
        node.wrong = wrong;
        run.nodes.push(node);
        NodeId(run.nodes.len() as u32 - 1)
    }

    /// Kills a node: its tasks are dropped where they wait.
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
        // Drop the tasks without the lock, because their destructors may wake other tasks.
        drop(dropped);
    }

    /// Whether a node is alive, paused or not.
    pub fn lives(&self, node: NodeId) -> bool {
        locked(&self.0.run).node(node).condition != Condition::Dead
    }

    /// Pauses a node's tasks, or resumes them. Its clocks go on in either case.
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

    /// Whether a node is alive and paused.
    pub fn is_paused(&self, node: NodeId) -> bool {
        locked(&self.0.run).node(node).condition == Condition::Paused
    }

    /// Makes a node's wall clock jump forwards, or backwards if `back` is set.
    pub fn jump(&self, node: NodeId, by: Duration, back: bool) {
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        let mut run = locked(&self.0.run);
        run.node_mut(node).wrong += if back { -by } else { by };
    }

    /// Corrects a node's wall clock and lets it run.
    pub fn correct(&self, node: NodeId) {
        let mut run = locked(&self.0.run);
        let node = run.node_mut(node);
        (node.wrong, node.stopped) = (0, None);
    }

    /// Stops a node's wall clock at its current time.
    pub fn stop_clock(&self, node: NodeId) {
        let now = self.now();
        let mut run = locked(&self.0.run);
        run.node_mut(node).stopped.get_or_insert(now);
    }

    /// Lets a node's wall clock run again and show the time as if it had never stopped.
    pub fn let_clock_go(&self, node: NodeId) {
        locked(&self.0.run).node_mut(node).stopped = None;
    }
}
