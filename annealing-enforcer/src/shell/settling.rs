//! Callers that wait until enforcement has taken an incarnation, or until all assets are settled at it.

use futures::channel::oneshot;

use super::input::Awaited;
use crate::kernel::Kernel;

/// Number of waiting callers below which those that have gone are not looked for.
const FEW: usize = 64;

/// The callers that wait.
#[derive(Debug, Default)]
pub(super) struct Settling {
    callers: Vec<(Awaited, oneshot::Sender<()>)>,
    /// Number of callers at which those that have gone are looked for next.
    sweep_at: usize,
}

impl Settling {
    /// Adds a caller, or answers it at once.
    pub(super) fn wait(&mut self, kernel: &Kernel, what: Awaited, reply: oneshot::Sender<()>) {
        if self.callers.len() >= self.sweep_at.max(FEW) {
            self.callers.retain(|(_, reply)| !reply.is_canceled());
            self.sweep_at = 2 * self.callers.len();
        }
        self.callers.push((what, reply));
        self.changed(kernel);
    }

    /// Answers the callers whose wait is over.
    pub(super) fn changed(&mut self, kernel: &Kernel) {
        if self.callers.is_empty() {
            return;
        }
        let newest = kernel.latest().no();
        let all_settled = kernel.all_settled_at(newest);
        let is_over = |what: Awaited| match what {
            Awaited::Taken(no) => no <= newest,
            Awaited::AllSettled(no) => no <= newest && all_settled,
        };
        for (_, reply) in self.callers.extract_if(.., |(what, _)| is_over(*what)) {
            // The caller may have gone.
            let _ = reply.send(());
        }
    }
}
