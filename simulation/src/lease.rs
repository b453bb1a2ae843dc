//! Leases, as the judge sees them: when the store last heard of each process, and that none begins a push when that is
//! too long ago, whether it can reach the store or not.

use plane_store::Write;

use crate::{
    executor::{Instant, NodeId},
    process::TERM,
    world::State,
};

impl State {
    /// A commit that `node` had begun at `begun` was acknowledged to it. With a heartbeat in it, the lease begins anew.
    pub fn heard_of(&mut self, node: NodeId, begun: Instant, writes: &[Write]) {
        let beats = |write: &Write| match write {
            Write::Put(key, _) => key.as_str().starts_with("process/"),
            _ => false,
        };
        if writes.iter().any(beats) {
            self.beats.insert(node, begun);
        }
    }

    /// S5: no push, and no follow-up of one, is begun without a lease. What a process was about to do when it stopped
    /// is for production to refuse.
    pub fn judge_lease(&mut self, node: NodeId, at: usize) {
        self.leases += 1;
        if self.woken.get(&node) == Some(&self.now) {
            return;
        }
        let beat = self.beats.get(&node);
        let old = beat.map(|beat| self.now.since(*beat));
        if old.is_none_or(|old| old >= TERM * 2 / 3) {
            self.violated(
                "S5",
                format!(
                    "a push of asset/{at:02} begins, and its process was last heard of {old:?} ago"
                ),
            );
        }
    }
}
