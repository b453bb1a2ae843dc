//! The feed of one ownership: followers get the state of all pinned assets first, then every change, until the
//! ownership ends.

use futures::channel::mpsc::UnboundedSender;
use plugin_sdk::PinEvent;

use crate::kernel::Kernel;

/// The followers of one ownership's feed.
#[derive(Debug, Default)]
pub(super) struct Feed(Vec<UnboundedSender<PinEvent>>);

impl Feed {
    /// Adds a follower and sends it the newest incarnation and the state of all pinned assets.
    pub(super) fn follow(&mut self, kernel: &mut Kernel, follower: UnboundedSender<PinEvent>) {
        let all = [
            PinEvent::Took(kernel.latest().clone()),
            PinEvent::Statuses(kernel.followed()),
        ];
        if all
            .into_iter()
            .all(|item| follower.unbounded_send(item).is_ok())
        {
            self.0.push(follower);
        }
    }

    /// Sends `items` to all followers, and removes followers that have gone.
    pub(super) fn tell(&mut self, items: &mut Vec<PinEvent>) {
        for item in items.drain(..) {
            self.0
                .retain(|follower| follower.unbounded_send(item.clone()).is_ok());
        }
    }
}
