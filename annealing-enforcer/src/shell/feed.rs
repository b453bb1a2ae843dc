//! Who listens to how pinned assets stand: everything first, then every change, until the ownership ends.

use futures::channel::mpsc::UnboundedSender;

use crate::kernel::{FeedItem, Kernel};

/// Everybody who listens to one ownership.
#[derive(Debug, Default)]
pub(super) struct Feed(Vec<UnboundedSender<FeedItem>>);

impl Feed {
    /// Tells a new listener everything there is.
    pub(super) fn follow(&mut self, kernel: &mut Kernel, follower: UnboundedSender<FeedItem>) {
        let all = [
            FeedItem::Took(kernel.latest().clone()),
            FeedItem::Stands(kernel.followed()),
        ];
        if all
            .into_iter()
            .all(|item| follower.unbounded_send(item).is_ok())
        {
            self.0.push(follower);
        }
    }

    /// Tells everybody what happened, and forgets those who have gone.
    pub(super) fn tell(&mut self, items: &mut Vec<FeedItem>) {
        for item in items.drain(..) {
            self.0
                .retain(|follower| follower.unbounded_send(item.clone()).is_ok());
        }
    }
}
