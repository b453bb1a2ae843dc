//! Conditions on orderly stops: no new push begins, and no push that ends in time is left unknown (R13).

use std::{collections::BTreeMap, time::Duration};

use annealing_enforcer::Config;
use plugin_sdk::{Pushed, plugin};

use super::Call;
use crate::{deadlines::PUSH, executor::Instant, executor::NodeId, world::State};

/// Maximum time to record the admission of a push, or its outcome.
const RECORDED: Duration = Duration::from_secs(10);
/// Maximum time between the end of the drain and the end of the process.
const ENDED: Duration = Duration::from_secs(10);

/// Processes that were told to stop, and their pushes.
#[derive(Debug, Default)]
pub struct Stops {
    /// Time at which each process was told to stop.
    told: BTreeMap<NodeId, Instant>,
    /// The last push of each asset, by process and asset.
    pushes: BTreeMap<(NodeId, usize), Sent>,
    /// Begin of the last failed commit of each process.
    refused: BTreeMap<NodeId, Instant>,
    /// End of the current or last pause of each process.
    sleeps: BTreeMap<NodeId, Instant>,
}

/// A push, as far as its sender knows.
#[derive(Debug, Clone, Copy)]
struct Sent {
    begun: Instant,
    token: u64,
    known: Known,
}

/// A sender's knowledge of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The push has not answered.
    UnderWay,
    /// The push has answered with its outcome at this time.
    Over(Instant),
    /// The outcome cannot be known, or the push is in progress.
    Open,
}

impl Stops {
    /// Records that a commit failed that `node` began at `begun`.
    pub fn refused(&mut self, node: NodeId, begun: Instant) {
        self.refused.insert(node, begun);
    }

    /// Records that the process on `node` is paused.
    pub fn sleeps(&mut self, node: NodeId, until: Instant) {
        self.sleeps.insert(node, until);
    }

    /// Records that the last push of an asset by `node` will never answer.
    pub fn lost(&mut self, node: NodeId, at: usize) {
        if let Some(sent) = self.pushes.get_mut(&(node, at)) {
            sent.known = Known::Open;
        }
    }
}

impl State {
    /// Records that a process was told to stop.
    pub fn told_to_stop(&mut self, node: NodeId) {
        self.judge.stops.told.entry(node).or_insert(self.now);
    }

    /// Records the begin of a push, and judges that its process was not told to stop before.
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

    /// The assets with a push that `node` has begun, that has not answered and whose time is not over.
    pub(super) fn under_way_at(&self, node: NodeId) -> Vec<usize> {
        let pushes = &self.judge.stops.pushes;
        let under_way = |sent: &Sent| sent.known == Known::UnderWay && self.now < sent.begun + PUSH;
        let own = pushes.range((node, 0)..=(node, usize::MAX));
        own.filter(|(_, sent)| under_way(sent))
            .map(|((_, at), _)| *at)
            .collect()
    }

    /// Records the answer of a push.
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

    /// Judges that each process has ended in time after it was told to stop.
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
                    format!(
                        "process {} was told to stop {since:?} ago and still runs",
                        node.0
                    ),
                );
            }
        }
    }

    /// Judges a process that has ended; `well` is true if it ended without an error. If it was told to stop, it has
    /// recorded the outcomes of its pushes.
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
            let own = open.is_some_and(|it| it.token.0 == sent.token);
            // A process that has lost the partition since need not wait for its pushes.
            if !own || self.is_excused(node, sent.begun) {
                continue;
            }
            let in_time = self.now + RECORDED < sent.begun + PUSH;
            let wrong = match sent.known {
                Known::UnderWay if self.now < drained && in_time => "was not awaited",
                Known::Over(since) if since + RECORDED < drained => {
                    "has ended and is still recorded as open"
                }
                _ => continue,
            };
            self.violated(
                "drain",
                format!(
                    "process {} has stopped, and its push of asset/{at:02} {wrong}",
                    node.0
                ),
            );
        }
    }

    /// Whether a process was paused since `since`, is cut off from the store, or had a failed commit since then.
    fn is_excused(&self, node: NodeId, since: Instant) -> bool {
        let refused = self.judge.stops.refused.get(&node);
        self.has_slept_since(node, since)
            || self.cut_off.contains(&node)
            || refused.is_some_and(|begun| *begun + RECORDED > since)
    }

    /// Whether a process was paused at `since` or later.
    fn has_slept_since(&self, node: NodeId, since: Instant) -> bool {
        let until = self.judge.stops.sleeps.get(&node);
        until.is_some_and(|until| *until >= since)
    }
}
