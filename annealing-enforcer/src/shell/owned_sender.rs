//! Sends the inputs of tasks that one ownership started, marked with its token. A call or a commit may end after the
//! partition was lost and acquired again; its run and record numbers would then be mistaken for those of the new
//! ownership, where they start over.

use futures::channel::mpsc::UnboundedSender;
use plugin_sdk::FencingToken;

use super::Input;

/// Sends inputs marked with the ownership that they belong to. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct OwnedSender {
    token: FencingToken,
    inputs: UnboundedSender<Input>,
}

impl OwnedSender {
    pub(crate) fn new(token: FencingToken, inputs: UnboundedSender<Input>) -> Self {
        Self { token, inputs }
    }

    /// Sends an input. Returns `false` if the enforcer has gone.
    pub(crate) fn send(&self, input: Input) -> bool {
        let input = Input::Of(self.token, Box::new(input));
        self.inputs.unbounded_send(input).is_ok()
    }
}

impl Input {
    /// Whether the input is kept until enforcement has started.
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

    /// Whether the caller of this input no longer waits for its answer.
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
