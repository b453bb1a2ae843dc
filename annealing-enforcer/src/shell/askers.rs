//! Open questions of checks to the kernel about other assets, and the channels for the answers.

use std::collections::BTreeMap;

use futures::channel::oneshot;
use plugin_sdk::{Observation, Shared, Usage, observe};
use prodspec_model::AssetId;

use crate::kernel::{Effects, Event};

/// The open questions of checks, by ticket.
#[derive(Debug, Default)]
pub(super) struct Askers {
    /// The last ticket given out.
    tickets: u64,
    observations: BTreeMap<u64, oneshot::Sender<Result<Observation, observe::Error>>>,
    usages: BTreeMap<u64, oneshot::Sender<Usage>>,
}

impl Askers {
    /// Registers a check's question about `asset`. Returns the event for the kernel.
    pub(super) fn observe(
        &mut self,
        asset: AssetId,
        reply: oneshot::Sender<Result<Observation, observe::Error>>,
    ) -> Event {
        self.tickets += 1;
        self.observations.insert(self.tickets, reply);
        Event::Observe {
            ticket: self.tickets,
            asset,
        }
    }

    /// Registers a check's question about the use of `shared` by all consumers except `but`. Returns the event for the
    /// kernel.
    pub(super) fn usage(
        &mut self,
        shared: Shared,
        but: AssetId,
        reply: oneshot::Sender<Usage>,
    ) -> Event {
        self.tickets += 1;
        self.usages.insert(self.tickets, reply);
        Event::Usage {
            ticket: self.tickets,
            shared,
            but,
        }
    }

    /// Sends the answers of one step to the checks. Answers to aborted checks are dropped.
    pub(super) fn answer(&mut self, effects: &mut Effects) {
        for (ticket, found) in effects.replies.drain(..) {
            if let Some(reply) = self.observations.remove(&ticket) {
                let _ = reply.send(found);
            }
        }
        for (ticket, usage) in effects.usages.drain(..) {
            if let Some(reply) = self.usages.remove(&ticket) {
                let _ = reply.send(usage);
            }
        }
    }
}
