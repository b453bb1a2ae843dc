//! Watchers within one process. Backends use them to implement [`Store::watch`](crate::Store::watch).

use std::collections::BTreeMap;

use futures::{StreamExt, channel::mpsc, stream::BoxStream};

use crate::Topic;

/// The watchers of topics. Dropping this value ends their streams.
///
/// ```
/// use futures::{FutureExt, StreamExt};
/// use control_plane_store::Watchers;
/// let mut watchers = Watchers::default();
/// let mut hints = watchers.watch("head/shakespeare".into());
/// watchers.announce(&"head/shakespeare".into(), || 1);
/// assert_eq!(hints.next().now_or_never(), Some(Some(())));
/// ```
#[derive(Debug, Default)]
pub struct Watchers(BTreeMap<Topic, Vec<mpsc::Sender<()>>>);

impl Watchers {
    /// Adds a watcher of `topic`. The stream yields for announcements made from now on.
    pub fn watch(&mut self, topic: Topic) -> BoxStream<'static, ()> {
        // One waiting hint is as good as many, so the channel holds one, and hints to a full channel are dropped.
        let (sender, receiver) = mpsc::channel(1);
        let watchers = self.0.entry(topic).or_default();
        watchers.retain(|watcher| !watcher.is_closed());
        watchers.push(sender);
        receiver.boxed()
    }

    /// Sends a hint to every watcher, whatever it watches. For backends that may have missed announcements.
    pub fn announce_all(&mut self) {
        for watchers in self.0.values_mut() {
            watchers.retain_mut(|watcher| {
                let _ = watcher.try_send(());
                !watcher.is_closed()
            });
        }
    }

    /// Sends a hint to each watcher of `topic`. `times` is called once per watcher and says how many hints to send:
    /// normally 1; fault injection uses other numbers.
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
