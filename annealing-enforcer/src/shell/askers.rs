//! Checks that wait for the kernel's answer about other assets.

use std::collections::BTreeMap;

use futures::channel::oneshot;
use plugin_sdk::{Observation, Shared, Usage};
use prodspec_model::AssetId;

use crate::kernel::{Effects, Event};

/// The open questions, by ticket.
#[derive(Debug, Default)]
pub(super) struct Askers {
    tickets: u64,
    observations: BTreeMap<u64, oneshot::Sender<Result<Observation, String>>>,
    usages: BTreeMap<u64, oneshot::Sender<Usage>>,
}

impl Askers {
    /// A check asks how `asset` compares with production.
    pub(super) fn observe(
        &mut self,
        asset: AssetId,
        reply: oneshot::Sender<Result<Observation, String>>,
    ) -> Event {
        self.tickets += 1;
        self.observations.insert(self.tickets, reply);
        Event::Observe {
            ticket: self.tickets,
            asset,
        }
    }

    /// A check asks what the consumers of `shared` use, `but` left out.
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

    /// Passes on the answers of one step. A check that has ended meanwhile gets none.
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
