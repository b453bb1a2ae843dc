//! The orderly end of an ownership: calls in flight are waited for, and the rest is handed over (R26).

use control_plane_runtime::Runtime;
use control_plane_store::{Write, journal::Ticket};
use plugin_sdk::Mono;

use super::{super::survived, Session};
use crate::kernel::Event;

/// The orderly end of an ownership.
pub(super) enum Draining {
    /// Calls in flight may end until then.
    Until(Mono),
    /// What is left is handed over when this is durable.
    HandedOver(Ticket),
}

impl<R: Runtime> Session<R> {
    /// Removes the records of owners that have survived, once what follows from them is durable.
    pub(super) fn forget_survived(&mut self) {
        let partition = &self.workflows.partition;
        let gone = std::mem::take(&mut self.survived).into_iter();
        let gone: Vec<_> = gone
            .map(|owner| Write::Delete(survived::key(partition, owner)))
            .collect();
        self.remove(gone);
    }

    /// Begins the orderly end: no call begins any more.
    pub(super) fn drain(&mut self, until: Mono) {
        self.step(Event::Drain);
        let calls = self.kernel.in_flight();
        if calls > 0 {
            let partition = &self.workflows.partition;
            tracing::info!(%partition, calls, "shutting down; waiting for calls of functions to end");
        }
        self.draining = Some(Draining::Until(until));
    }

    /// Hands over what is left when no call is in flight or the time for them is over. `true`: that is durable.
    pub(super) fn is_handed_over(&mut self) -> bool {
        match self.draining {
            None => return false,
            Some(Draining::HandedOver(ticket)) => return self.journal.is_durable(ticket),
            Some(Draining::Until(until)) => {
                if !self.kernel.is_drained() && self.workflows.runtime.now().mono < until {
                    return false;
                }
            }
        }
        let calls = self.kernel.in_flight();
        if calls > 0 {
            let partition = &self.workflows.partition;
            tracing::warn!(%partition, calls, "calls of functions did not end while shutting down; handing them over to the next owner");
        }
        self.step(Event::HandOver);
        self.flush();
        self.draining = Some(Draining::HandedOver(self.last));
        self.journal.is_durable(self.last)
    }

    /// The time for calls in flight, while they are waited for.
    pub(super) fn drained_by(&self) -> Option<Mono> {
        match self.draining {
            Some(Draining::Until(until)) => Some(until),
            _ => None,
        }
    }
}
