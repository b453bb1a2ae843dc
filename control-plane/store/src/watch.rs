//! Watchers within one process: what backends hand hints through.

use std::collections::BTreeMap;

use futures::{StreamExt, channel::mpsc, stream::BoxStream};

use crate::Topic;

/// Those who watch topics. Dropping it ends their streams.
///
/// ```
/// use futures::{FutureExt, StreamExt};
/// use plane_store::Watchers;
/// let mut watchers = Watchers::default();
/// let mut hints = watchers.watch("head/shakespeare".into());
/// watchers.announce(&"head/shakespeare".into(), || 1);
/// assert_eq!(hints.next().now_or_never(), Some(Some(())));
/// ```
#[derive(Debug, Default)]
pub struct Watchers(BTreeMap<Topic, Vec<mpsc::Sender<()>>>);

impl Watchers {
    /// Hints about `topic`, from now on.
    pub fn watch(&mut self, topic: Topic) -> BoxStream<'static, ()> {
        // A hint that waits says as much as many, so the channel is short and a full one is no loss.
        let (sender, receiver) = mpsc::channel(1);
        let watchers = self.0.entry(topic).or_default();
        watchers.retain(|watcher| !watcher.is_closed());
        watchers.push(sender);
        receiver.boxed()
    }

    /// Hints `times()` times to each watcher of `topic`: once, unless faults are wanted.
    pub fn announce(&mut self, topic: &Topic, mut times: impl FnMut() -> usize) {
        let Some(watchers) = self.0.get_mut(topic) else {
            return;
        };
        watchers.retain_mut(|watcher| {
            for _ in 0..times() {
                let _ = watcher.try_send(());
            }
            !watcher.is_closed()
        });
    }
}
