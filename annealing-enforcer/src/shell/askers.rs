//! Open questions of checks to the kernel about other assets, and the channels for the answers.

use std::collections::BTreeMap;

use futures::channel::oneshot;
use plugin_sdk::{Observation, Served, Usage, observe};

use super::input::Question;
use crate::kernel::{Effects, Event};

/// The open questions of checks, by ticket.
#[derive(Debug, Default)]
pub(super) struct Askers {
    /// The last ticket given out.
    tickets: u64,
    observations: BTreeMap<u64, oneshot::Sender<Result<Observation, observe::Error>>>,
    usages: BTreeMap<u64, oneshot::Sender<Usage>>,
    served: BTreeMap<u64, oneshot::Sender<Served>>,
}

impl Askers {
    /// Registers a question of a check. Returns the event for the kernel.
    pub(super) fn ask(&mut self, question: Question) -> Event {
        self.tickets += 1;
        let ticket = self.tickets;
        match question {
            Question::Observe { asset, reply } => {
                self.observations.insert(ticket, reply);
                Event::Observe { ticket, asset }
            }
            Question::Usage { shared, but, reply } => {
                self.usages.insert(ticket, reply);
                Event::Usage {
                    ticket,
                    shared,
                    but,
                }
            }
            Question::Served {
                serving,
                but,
                reply,
            } => {
                self.served.insert(ticket, reply);
                Event::Served {
                    ticket,
                    serving,
                    but,
                }
            }
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
        for (ticket, served) in effects.served.drain(..) {
            if let Some(reply) = self.served.remove(&ticket) {
                let _ = reply.send(served);
            }
        }
    }
}
