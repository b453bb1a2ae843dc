//! How far the listeners of a lane have heard the feed. Retention removes nothing that one of them has not heard.

use std::{collections::BTreeMap, sync::Arc};

use control_plane_runtime::Runtime;
use control_plane_store::{Error, record};

use super::build::Workflows;
use crate::record::{FeedPosition, ListenerRecord};

/// The last place of the feed that each registered listener has heard, as it is stored or about to be.
///
/// A listener that this program does not register holds nothing back, so that one that a team has given up does not keep
/// executions for ever.
#[derive(Debug)]
pub(super) struct Cursors(BTreeMap<Arc<str>, FeedPosition>);

impl Cursors {
    /// The cursors of a new owner. A listener has heard nothing before it says where it begins.
    pub(super) fn new(listeners: impl IntoIterator<Item = Arc<str>>) -> Self {
        let begin = |name| (name, FeedPosition::before_all());
        Self(listeners.into_iter().map(begin).collect())
    }

    /// Notes that a listener has heard all up to a place. One that reads again from an older place has heard the newer one.
    pub(super) fn heard(&mut self, listener: &str, place: &FeedPosition) {
        if let Some(cursor) = self.0.get_mut(listener)
            && *cursor < *place
        {
            *cursor = place.clone();
        }
    }

    /// Whether there are listeners.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The last place that all listeners have heard. `None`: there are no listeners, so nothing waits for them.
    pub(super) fn by_all(&self) -> Option<&FeedPosition> {
        self.0.values().min()
    }

    /// The listeners that have heard least.
    pub(super) fn last(&self) -> Vec<&str> {
        let least = self.by_all();
        let last = self.0.iter().filter(|(_, place)| Some(*place) == least);
        last.map(|(name, _)| &**name).collect()
    }
}

impl<R: Runtime> Workflows<R> {
    /// The last place of the feed, if a stored cursor of a registered listener is before it. `None`: all that the feed has
    /// was heard. A listener without a cursor is new: it begins at the end of the feed.
    pub(super) async fn unheard(&self) -> Result<Option<FeedPosition>, Error> {
        let mut first: Option<FeedPosition> = None;
        for listener in &self.listeners {
            let name = &listener.name;
            let stored =
                record::load::<ListenerRecord>(&*self.store, &self.partition, name).await?;
            let place = stored.map(|it| it.value.heard);
            first = [first, place].into_iter().flatten().min();
        }
        match first {
            Some(first) => self.last_place(Some(first)).await,
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r41_place_heard_by_all_is_that_of_the_last_listener() {
        let at = |commit| FeedPosition::new(1, commit, 0);
        let mut cursors = Cursors::new(["audit".into(), "notices".into()]);
        cursors.heard("audit", &at(7));
        assert!(cursors.by_all() < Some(&at(0)), "notices has not begun");
        assert_eq!(cursors.last(), ["notices"]);
        cursors.heard("notices", &at(5));
        cursors.heard("notices", &at(3));
        cursors.heard("gone", &at(1));
        assert_eq!(cursors.by_all(), Some(&at(5)));
        assert_eq!(Cursors::new([]).by_all(), None);
    }
}
