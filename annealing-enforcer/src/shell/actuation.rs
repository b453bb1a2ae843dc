//! What rollouts and retention ask of an ownership: it moves pins, and names the incarnations that may be removed.

use control_plane_runtime::Runtime;
use control_plane_store::Write;
use plugin_sdk::{Actuation, Pin};
use prodspec_model::{AssetId, Incarnation};

use super::{
    input::{Reply, Retiring},
    journal::Entry,
    ownership::Ownership,
};
use crate::kernel::Event;

impl<R: Runtime> Ownership<R> {
    pub(super) fn pin(&mut self, asset: AssetId, pin: Pin<Incarnation>, reply: Reply) {
        if let Err(refused) = self.retired.allows(&pin) {
            // The caller may have gone.
            let _ = reply.send(Err(refused));
            return;
        }
        self.step(Event::Pin { asset, pin });
        self.when_durable(reply);
    }

    pub(super) fn actuate(&mut self, step: Actuation<Write>, reply: Reply) {
        if let Err(refused) = self.retired.allows_step(&step) {
            let _ = reply.send(Err(refused));
            return;
        }
        self.ahead = step.writes.into_iter().map(Entry::Write).collect();
        let (heads, moves) = (step.heads, step.moves);
        self.step(Event::Actuate { heads, moves });
        self.when_durable(reply);
    }

    /// Refuses pins to the `old` incarnations from now on, except those that are referenced, and asks the journal writer which of
    /// them kept decisions refer to.
    pub(super) fn retire(&mut self, mut retiring: Retiring) {
        for referenced in self.kernel.referenced() {
            retiring.old.remove(&referenced);
        }
        self.retired.retire(&retiring.old);
        // A journal writer that has ended has sent its reason, which ends this ownership.
        let _ = self.records.unbounded_send(vec![Entry::Retire(retiring)]);
    }

    /// Deletes the decisions of those of `assets` that are gone: an owner that crashed before it did so has left them.
    pub(super) fn forget_gone(&mut self, assets: Vec<AssetId>) {
        let gone = assets.into_iter().filter(|id| !self.kernel.knows(id));
        let gone: Vec<Entry> = gone.map(Entry::Forget).collect();
        if !gone.is_empty() {
            // A journal writer that has ended has sent its reason, which ends this ownership.
            let _ = self.records.unbounded_send(gone);
        }
    }
}
