//! The way back in for what one ownership started. A call or a commit may end when the partition has changed hands
//! twice: what it then says would be taken for another's, whose numbers start over with every ownership.

use futures::channel::mpsc::UnboundedSender;
use plugin_sdk::FencingToken;

use super::Input;

/// Hands inputs in, marked with the ownership that they belong to. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    token: FencingToken,
    inputs: UnboundedSender<Input>,
}

impl Inside {
    pub(crate) fn new(token: FencingToken, inputs: UnboundedSender<Input>) -> Self {
        Self { token, inputs }
    }

    /// Says whether anybody is there to take it.
    pub(crate) fn send(&self, input: Input) -> bool {
        let input = Input::Of(self.token, Box::new(input));
        self.inputs.unbounded_send(input).is_ok()
    }
}

impl Input {
    /// Whether it is kept until enforcement has started.
    pub(super) fn waits_for_start(&self) -> bool {
        let keeps = matches!(
            self,
            Self::Tell(..)
                | Self::Pin(..)
                | Self::Actuate(..)
                | Self::Retire(_)
                | Self::Feed(_)
                | Self::WaitSettled(..)
                | Self::Kernel(crate::kernel::Event::Publish(_))
        );
        keeps && !self.is_given_up()
    }

    /// Whether whoever asked for it waits for no answer any more.
    pub(super) fn is_given_up(&self) -> bool {
        match self {
            Self::Tell(_, reply) | Self::Pin(_, _, reply) | Self::Actuate(_, reply) => {
                reply.is_canceled()
            }
            Self::WaitSettled(_, reply) => reply.is_canceled(),
            _ => false,
        }
    }
}
