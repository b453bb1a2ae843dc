//! Leases as the judge sees them: the time of each process's last heartbeat in the store, and the rule that a process
//! with an old heartbeat begins no push, whether it can reach the store or not.

use std::time::Duration;

use control_plane_store::Write;

use crate::{
    deadlines::TERM,
    executor::{Instant, NodeId},
    world::State,
};

impl State {
    /// Records a commit that `node` began at `begun` and that was acknowledged. A heartbeat among the writes renews the
    /// lease.
    pub fn heard_of(&mut self, node: NodeId, begun: Instant, writes: &[Write]) {
        let beats = |write: &Write| match write {
            Write::Put(key, _) => key.as_str().starts_with("process/"),
            _ => false,
        };
        if writes.iter().any(beats) {
            self.beats.insert(node, begun);
        }
    }

    /// S5: no push and no follow-up begins without a lease. Excepted is the instant at which a paused process resumes:
    /// a call that it was about to make is refused by production itself.
    pub fn judge_lease(&mut self, node: NodeId, at: usize) {
        self.leases += 1;
        if let Some(old) = self.without_lease(node) {
            self.violated(
                "S5",
                format!(
                    "a push of asset/{at:02} begins without a lease: the last heartbeat of its process was {old:?} ago"
                ),
            );
        }
    }

    /// The age of the last heartbeat of a process that has no lease now; `None` if it has one. Excepted is the instant at
    /// which a paused process resumes.
    pub fn without_lease(&self, node: NodeId) -> Option<Option<Duration>> {
        let beat = self.beats.get(&node);
        let old = beat.map(|beat| self.now.since(*beat));
        let wakes = self.woken.get(&node) == Some(&self.now);
        (!wakes && old.is_none_or(|old| old >= TERM * 2 / 3)).then_some(old)
    }
}
