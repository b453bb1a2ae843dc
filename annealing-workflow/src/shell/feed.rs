//! Follows the feed of a partition, from any place in it and in any process that has the store.

use std::{sync::Arc, time::Duration};

use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::{Error, Record as _, Write, record};
use futures::{Stream, StreamExt, stream};
use jiff::{SignedDuration, Timestamp};

use super::build::Workflows;
use crate::{
    kernel::Record,
    record::{FeedPosition, FeedRecord, Told},
};

/// Time for which the feed is kept.
pub(super) const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Number of commits that are read at once.
const PAGE: usize = 100;
/// Longest time after which a follower looks into the store without being told: another process may write it.
const LOOK: Duration = Duration::from_secs(5);

/// The part of the feed that one commit wrote.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Heard {
    /// The place from which a follower goes on after this part.
    pub position: FeedPosition,
    /// What the commit did, in order.
    pub told: Vec<Told>,
}

impl<R: Runtime> Workflows<R> {
    /// Follows what executions do: every transition, failure, word, parked step, start and end, once each and in order, over
    /// changes of owner. `after`: goes on after this place; `None` begins with the oldest that is kept, which is seven days
    /// old. Works in every process that has the store.
    ///
    /// An error of the store ends nothing: the next item is read again.
    pub fn follow(
        self: &Arc<Self>,
        after: Option<FeedPosition>,
    ) -> impl Stream<Item = Result<Heard, Error>> + Send + 'static {
        let ours = self.clone();
        let pages = stream::unfold(after, move |after| {
            let ours = ours.clone();
            async move {
                let page = ours.newer(after.as_ref()).await;
                let last = page.as_ref().ok().and_then(|page| page.last());
                let next = last.map(|heard| heard.position.clone()).or(after);
                Some((page, next))
            }
        });
        pages.flat_map(|page| match page {
            Ok(page) => stream::iter(page).map(Ok).left_stream(),
            Err(error) => stream::iter([Err(error)]).right_stream(),
        })
    }

    /// The parts after a place, as soon as there are some.
    async fn newer(&self, after: Option<&FeedPosition>) -> Result<Vec<Heard>, Error> {
        let mut told = self.told.subscribe();
        loop {
            told.borrow_and_update();
            let page = self.page(after).await?;
            if !page.is_empty() {
                return Ok(page);
            }
            let until = self.runtime.now().mono + LOOK;
            // The sender is in `self`, so it lives.
            let _ = timeout_at(&self.runtime, until, told.changed()).await;
        }
    }

    async fn page(&self, after: Option<&FeedPosition>) -> Result<Vec<Heard>, Error> {
        let mut range = record::range(&self.partition, FeedRecord::KIND);
        if let Some(after) = after {
            range = range.after(&record::key(&self.partition, FeedRecord::KIND, &after.0));
        }
        let page = self.store.scan(range, PAGE).await?;
        let heard = page.rows.iter().map(|(row, stored)| {
            let name = row.as_str().rsplit('/').next().unwrap_or_default();
            Ok(Heard {
                position: FeedPosition(name.into()),
                told: record::decode::<FeedRecord>(row, stored)?.value.0,
            })
        });
        heard.collect()
    }

    /// The last place of the feed. `None`: it is empty.
    pub(super) async fn last_place(&self) -> Result<Option<FeedPosition>, Error> {
        let mut last = None;
        loop {
            let page = self.page(last.as_ref()).await?;
            match page.last() {
                Some(heard) => last = Some(heard.position.clone()),
                None => return Ok(last),
            }
        }
    }

    /// The writes that remove what is too old of the feed.
    pub(super) async fn old_feed(&self, now: Timestamp) -> Result<Vec<Write>, Error> {
        let kept_since = now.checked_sub(KEPT).unwrap_or(Timestamp::MIN);
        let page = self.page(None).await?.into_iter();
        let is_old = |heard: &Heard| heard.told.iter().all(|told| told.entry.at < kept_since);
        let old = page.take_while(is_old);
        let gone =
            old.map(|heard| record::delete::<FeedRecord>(&self.partition, &heard.position.0));
        Ok(gone.collect())
    }
}

/// What a commit with these records adds to the feed. `None`: nothing.
pub(super) fn told(records: &[Record]) -> Option<FeedRecord> {
    let told = records.iter().flat_map(|record| match record {
        Record::Log(execution, _, log) => {
            let told = |entry: &crate::record::Entry| Told {
                execution: execution.clone(),
                entry: entry.clone(),
            };
            log.0.iter().map(told).collect()
        }
        _ => Vec::new(),
    });
    let told: Vec<Told> = told.collect();
    (!told.is_empty()).then_some(FeedRecord(told))
}
