//! Sends the inputs of tasks that one ownership started, marked with its token. A call or a commit may end after the
//! partition was lost and acquired again; its run and record numbers would then be mistaken for those of the new
//! ownership, where they start over.

use futures::channel::mpsc::UnboundedSender;
use plugin_sdk::FencingToken;

use super::input::Input;

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
