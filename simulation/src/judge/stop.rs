//! What the judge knows of orderly stops: nothing new starts, and what ends in time is not left unknown (R13).

use std::{collections::BTreeMap, time::Duration};

use annealing_enforcer::Config;
use plugin_sdk::{Pushed, plugin};

use super::Call;
use crate::{executor::Instant, executor::NodeId, process::PUSH, world::State};

/// Writing takes less: to admit a push, from when its deadline counts, and to say how it went.
const RECORDED: Duration = Duration::from_secs(10);
/// A process has ended so long after its drain.
const ENDED: Duration = Duration::from_secs(10);

/// Processes that are told to stop, and what they have under way.
#[derive(Debug, Default)]
pub struct Stops {
    told: BTreeMap<NodeId, Instant>,
    /// The last push of each asset, by process.
    pushes: BTreeMap<(NodeId, usize), Sent>,
    /// When the store last did not take what a process wrote, and when that was begun.
    refused: BTreeMap<NodeId, Instant>,
    /// Until when a process stands still, or stood still last.
    sleeps: BTreeMap<NodeId, Instant>,
}

/// A push, as its sender knows it.
#[derive(Debug, Clone, Copy)]
struct Sent {
    begun: Instant,
    token: u64,
    known: Known,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It has not answered.
    UnderWay,
    /// It has, and how it went is known since then.
    Over(Instant),
    /// How it went cannot be known, or it goes on.
    Open,
}

impl Stops {
    /// The store did not take what `node` began to write at `begun`.
    pub fn refused(&mut self, node: NodeId, begun: Instant) {
        self.refused.insert(node, begun);
    }

    /// The process on `node` stands still.
    pub fn sleeps(&mut self, node: NodeId, until: Instant) {
        self.sleeps.insert(node, until);
    }

    /// The last push of an asset by `node` will never answer.
    pub fn lost(&mut self, node: NodeId, at: usize) {
        if let Some(sent) = self.pushes.get_mut(&(node, at)) {
            sent.known = Known::Open;
        }
    }
}

impl State {
    /// A process is told to stop.
    pub fn told_to_stop(&mut self, node: NodeId) {
        self.judge.stops.told.entry(node).or_insert(self.now);
    }

    /// A push is begun: nothing new is, once its process was told to stop.
    pub(super) fn judge_begun(&mut self, at: usize, call: &Call<'_>) {
        let node = NodeId(call.node);
        let sent = Sent {
            begun: self.now,
            token: call.token,
            known: Known::UnderWay,
        };
        self.judge.stops.pushes.insert((node, at), sent);
        let Some(told) = self.judge.stops.told.get(&node).copied() else {
            return;
        };
        if self.now > told && !call.continuation && !self.has_slept_since(node, told) {
            self.violated(
                "drain",
                format!(
                    "a push of asset/{at:02} begins {:?} after its process was told to stop",
                    self.now.since(told)
                ),
            );
        }
    }

    /// A push answers.
    pub fn answered(&mut self, node: NodeId, at: usize, answer: &Result<Pushed, plugin::Error>) {
        let now = self.now;
        let Some(sent) = self.judge.stops.pushes.get_mut(&(node, at)) else {
            return;
        };
        sent.known = match answer {
            Ok(Pushed::InProgress { .. })
            | Err(plugin::Error::Unknown { .. } | plugin::Error::Fenced { .. }) => Known::Open,
            Ok(_) | Err(_) => Known::Over(now),
        };
    }

    /// Whoever was told to stop has, some time after its drain.
    pub fn judge_drains(&mut self) {
        let most = Config::default().drain + ENDED;
        let nodes: Vec<_> = self.processes.iter().flatten().map(|p| p.node).collect();
        for node in nodes {
            let told = self.judge.stops.told.get(&node).copied();
            let late = told.filter(|told| self.now.since(*told) > most);
            if let Some(told) = late.filter(|told| !self.is_excused(node, *told)) {
                let since = self.now.since(told);
                self.violated(
                    "drain",
                    format!("process {} was told to stop {since:?} ago", node.0),
                );
            }
        }
    }

    /// The process on `node` has ended, by itself or because it was told to: what it knows of its pushes is recorded.
    pub fn judge_drained(&mut self, node: NodeId, well: bool) {
        let told = self.judge.stops.told.get(&node).copied();
        let Some(told) = told.filter(|told| well && !self.is_excused(node, *told)) else {
            return;
        };
        let drained = told + Config::default().drain;
        let pushes = self
            .judge
            .stops
            .pushes
            .range((node, 0)..=(node, usize::MAX));
        let pushes: Vec<_> = pushes.map(|((_, at), sent)| (*at, *sent)).collect();
        for (at, sent) in pushes {
            self.judge.look("drain");
            let open = self.judge.open.get(&at);
            let own = open.is_some_and(|(.., token)| *token == sent.token);
            // Who has lost the partition since has nothing to wait for.
            if !own || self.is_excused(node, sent.begun) {
                continue;
            }
            let in_time = self.now + RECORDED < sent.begun + PUSH;
            let wrong = match sent.known {
                Known::UnderWay if self.now < drained && in_time => "is not waited for",
                Known::Over(since) if since + RECORDED < drained => "is over and left open",
                _ => continue,
            };
            self.violated(
                "drain",
                format!(
                    "process {} stops, and its push of asset/{at:02} {wrong}",
                    node.0
                ),
            );
        }
    }

    /// Whether a process stood still since, or the store did not take what it wrote.
    fn is_excused(&self, node: NodeId, since: Instant) -> bool {
        let refused = self.judge.stops.refused.get(&node);
        self.has_slept_since(node, since)
            || self.cut_off.contains(&node)
            || refused.is_some_and(|begun| *begun + RECORDED > since)
    }

    /// Whether a process stood still since.
    fn has_slept_since(&self, node: NodeId, since: Instant) -> bool {
        let until = self.judge.stops.sleeps.get(&node);
        until.is_some_and(|until| *until >= since)
    }
}
