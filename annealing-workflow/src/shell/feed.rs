//! Follows the feed of a partition, from any place in it and in any process that has the store.

use std::{sync::Arc, time::Duration};

use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::{Error, Key, KeyRange, Record as _, Version, Versioned, Write, record};
use futures::{Stream, StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{operation::ExecutionId, workflow::WorkflowName};
use prodspec_model::{AssetId, PartitionId};
use serde::{Deserialize, Serialize};

use super::build::Workflows;
use crate::{
    kernel::{CommitNo, Record},
    record::{Entry, FeedPosition, FeedRecord, Subject, Told, known},
};

/// Time for which the feed is kept; longer, if a listener has not heard it.
pub(super) const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Size in bytes from which on a part gets no further entry. An entry has some kilobytes at most.
const PART: usize = 256 * 1024;
/// Number of commits that are read at once.
const PAGE: usize = 100;
/// Wait before the store is read again that could not be read.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest time after which a follower looks into the store without being told: another process may write it.
const LOOK: Duration = Duration::from_secs(5);

/// The part of the feed that one commit wrote.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Heard {
    /// The place from which a follower goes on after this part.
    pub position: FeedPosition,
    /// What the commit did, in order, without what only a newer program version knows.
    pub told: Vec<Told>,
    /// The number of each entry in the part, whatever this program version knows.
    pub(super) numbers: Vec<usize>,
}

impl<R: Runtime> Workflows<R> {
    /// Follows what executions do: every transition, failure, word, parked step, start and end, and the slots that schedules
    /// miss and the words to schedules, watches and workflows; once each and in order, over
    /// changes of owner. `after`: goes on after this place; `None` begins with the oldest that is kept, which is seven days
    /// old, or older if a registered listener has not heard it. Works in every process that has the store.
    ///
    /// An error of the store ends nothing: after a second it is read again.
    pub fn follow(
        self: &Arc<Self>,
        after: Option<FeedPosition>,
    ) -> impl Stream<Item = Result<Heard, Error>> + Send + 'static {
        let ours = self.clone();
        let pages = stream::unfold((after, false), move |(after, failed)| {
            let ours = ours.clone();
            async move {
                let page = match failed {
                    true => {
                        ours.runtime.sleep(AGAIN).await;
                        ours.newer(after.as_ref()).await
                    }
                    false => ours.newer(after.as_ref()).await,
                };
                let failed = page.is_err();
                let last = page.as_ref().ok().and_then(|page| page.last());
                let next = last.map(|heard| heard.position.clone()).or(after);
                Some((page, (next, failed)))
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

    /// The rows after a place.
    fn after(&self, after: Option<&FeedPosition>) -> KeyRange {
        let range = record::range(&self.partition, FeedRecord::KIND);
        match after {
            Some(after) => range.after(&record::key(&self.partition, FeedRecord::KIND, &after.0)),
            None => range,
        }
    }

    async fn page(&self, after: Option<&FeedPosition>) -> Result<Vec<Heard>, Error> {
        let page = self.store.scan(self.after(after), PAGE).await?;
        let heard = page.rows.iter().map(|(row, stored)| {
            let all = match serde_json::from_slice::<Vec<serde_json::Value>>(&stored.value) {
                Ok(all) => all,
                // It is damaged. What is after it is heard.
                Err(error) => {
                    tracing::warn!(key = %row, %error, "a part of the feed of executions cannot be read; it is left out");
                    Vec::new()
                }
            };
            let (numbers, told) = known(all).unzip();
            let position = position(row);
            Heard { position, told, numbers }
        });
        Ok(heard.collect())
    }

    /// The last place of the feed after a place. `None`: there is none.
    pub(super) async fn last_place(
        &self,
        mut after: Option<FeedPosition>,
    ) -> Result<Option<FeedPosition>, Error> {
        let mut last = None;
        loop {
            let page = self.store.scan(self.after(after.as_ref()), PAGE).await?;
            let Some((row, _)) = page.rows.last() else {
                return Ok(last);
            };
            last = Some(position(row));
            after.clone_from(&last);
        }
    }

    /// The writes that remove what is too old of the feed, of the parts after a place, and that all listeners have heard, up
    /// to the place `heard` (`None`: there are no listeners). Empty: nothing is left to remove.
    pub(super) async fn old_feed(
        &self,
        after: Option<&FeedPosition>,
        heard: Option<&FeedPosition>,
        now: Timestamp,
    ) -> Result<(Vec<Write>, Option<FeedPosition>), Error> {
        let kept_since = now.checked_sub(KEPT).unwrap_or(Timestamp::MIN);
        let page = self.store.scan(self.after(after), PAGE).await?;
        // What nothing can read is of no use. What only a newer program version can read is kept as long as the rest.
        let is_kept = |stored: &Versioned| {
            let ages = serde_json::from_slice::<Vec<Age>>(&stored.value);
            ages.is_ok_and(|ages| ages.iter().any(|age| age.entry.at >= kept_since))
        };
        let is_heard = |key: &Key| heard.is_none_or(|heard| position(key) <= *heard);
        let old = page.rows.into_iter();
        let old = old.take_while(|(key, row)| is_heard(key) && !is_kept(row));
        let old: Vec<Key> = old.map(|(key, _)| key).collect();
        let last = old.last().map(position);
        Ok((old.into_iter().map(Write::Delete).collect(), last))
    }
}

/// The place of the last of these rows of the feed. `None`: they are no rows of the feed.
pub(super) fn last_of(rows: &[Write]) -> Option<FeedPosition> {
    match rows.last()? {
        Write::Put(key, _) => Some(position(key)),
        _ => None,
    }
}

/// The place of a row.
fn position(row: &Key) -> FeedPosition {
    let name = row.as_str().rsplit('/').next().unwrap_or_default();
    FeedPosition(name.into())
}

/// An entry of the feed of which only the time matters, of this program version or a newer one.
#[derive(Deserialize)]
struct Age {
    entry: At,
}

#[derive(Deserialize)]
struct At {
    at: Timestamp,
}

/// An entry of the feed as it is written: a [`Told`] without a copy.
#[derive(Serialize)]
struct Telling<'r> {
    #[serde(flatten)]
    about: About<'r>,
    entry: &'r Entry,
}

/// A [`Subject`](crate::record::Subject) without a copy.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum About<'r> {
    Execution(&'r ExecutionId),
    Asset(&'r AssetId),
    Workflow(&'r WorkflowName),
}

impl<'r> From<&'r Subject> for About<'r> {
    fn from(subject: &'r Subject) -> Self {
        match subject {
            Subject::Execution(execution) => Self::Execution(execution),
            Subject::Asset(asset) => Self::Asset(asset),
            Subject::Workflow(workflow) => Self::Workflow(workflow),
        }
    }
}

/// What a commit with these records adds to the feed, in parts that fit into a value of the store.
///
/// # Errors
/// When JSON cannot hold an entry.
pub(super) fn rows(
    partition: &PartitionId,
    fence: Version,
    commit: CommitNo,
    records: &[Record],
) -> Result<Vec<Write>, Error> {
    let key = |part| {
        let name = FeedPosition::new(fence.0, commit.0, part);
        record::key(partition, FeedRecord::KIND, &name.0)
    };
    let parts = parts(records).map_err(|error| Error::Unwritable {
        key: key(0),
        source: Arc::new(error),
    })?;
    let rows = parts.into_iter().enumerate();
    Ok(rows
        .map(|(part, json)| Write::Put(key(part), json.into()))
        .collect())
}

/// [`FeedRecord`]s with the entries of the logs among these records, as JSON. Each entry is written once, because this is on
/// the way of every step.
fn parts(records: &[Record]) -> Result<Vec<Vec<u8>>, serde_json::Error> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for record in records {
        let (about, entries) = match record {
            Record::Log(execution, _, log) => (About::Execution(execution), &log.0[..]),
            Record::Told(about, entry) => (about.into(), std::slice::from_ref(entry)),
            _ => continue,
        };
        for entry in entries {
            let is_full = parts.last().is_none_or(|part| part.len() >= PART);
            if is_full {
                parts.push(Vec::new());
            }
            if let Some(part) = parts.last_mut() {
                part.push(if is_full { b'[' } else { b',' });
                serde_json::to_writer(part, &Telling { about, entry })?;
            }
        }
    }
    parts.iter_mut().for_each(|part| part.push(b']'));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use control_plane_runtime::TokioRuntime;
    use control_plane_store::{Batch, MemoryStore, Store};
    use serde_json::json;

    use super::*;
    use crate::record::{LogRecord, Subject, What};

    /// Entries that are more than a value of the store may hold are in several parts, all of them and in order.
    #[test]
    fn r41_entries_of_a_large_commit_are_in_parts_that_fit() {
        let entry = |n: usize| Entry {
            at: Timestamp::UNIX_EPOCH,
            machine: None,
            what: What::Note(format!("{n} {}", "x".repeat(1_000))),
        };
        let log = |n: usize| {
            let id = ExecutionId::new("w", n as u64);
            Record::Log(id, 0, LogRecord(vec![entry(2 * n), entry(2 * n + 1)]))
        };
        let records: Vec<Record> = (0..1_000).map(log).collect();
        let partition: PartitionId = "test".parse().unwrap();
        let rows = rows(&partition, Version(1), CommitNo(2), &records).unwrap();
        assert!(rows.len() > 4, "{}", rows.len());
        let mut told = Vec::new();
        let mut names = Vec::new();
        for row in &rows {
            let Write::Put(key, value) = row else {
                panic!("{row:?}");
            };
            assert!(value.len() < 2 * PART);
            names.push(key.clone());
            told.extend(serde_json::from_slice::<FeedRecord>(value).unwrap().0);
        }
        assert!(names.is_sorted());
        let entries: Vec<Entry> = told.into_iter().map(|told| told.entry).collect();
        assert_eq!(entries, (0..2_000).map(entry).collect::<Vec<_>>());
    }

    fn note(at: Timestamp) -> serde_json::Value {
        let told = Told {
            about: Subject::Execution(ExecutionId::new("w", 1)),
            entry: Entry {
                at,
                machine: None,
                what: What::Note("later".to_owned()),
            },
        };
        json!(told)
    }

    /// An entry that this program version does not know.
    fn newer(at: Timestamp) -> serde_json::Value {
        json!({ "execution": "w-0000000001", "entry": { "at": at, "what": "newer" } })
    }

    async fn following(parts: &[serde_json::Value]) -> Arc<Workflows<TokioRuntime>> {
        let store = Arc::new(MemoryStore::new());
        let partition: PartitionId = "test".parse().unwrap();
        let rows = (0..).zip(parts).map(|(n, part)| {
            let name = FeedPosition::new(1, n, 0);
            let key = record::key(&partition, FeedRecord::KIND, &name.0);
            Write::Put(key, part.to_string().into_bytes().into())
        });
        let batch = rows.fold(Batch::new(), Batch::write);
        store.commit(batch).await.unwrap();
        let workflows = Workflows::builder(TokioRuntime::current(), partition, store);
        workflows.build().unwrap()
    }

    /// What only a newer program version knows is kept as long as the rest. What is no list of entries is of no use.
    #[tokio::test]
    async fn r41_parts_of_newer_program_versions_are_kept_for_seven_days_too() {
        let hour = SignedDuration::from_hours(1);
        let now = Timestamp::UNIX_EPOCH + KEPT * 2;
        let (old, young) = (now - KEPT - hour, now - hour);
        let damaged = json!("damaged");
        for (parts, gone) in [
            (
                vec![
                    json!([newer(old)]),
                    json!([note(old)]),
                    damaged.clone(),
                    json!([newer(young)]),
                ],
                3,
            ),
            (
                vec![json!([newer(old), note(young)]), json!([note(old)])],
                0,
            ),
            (vec![json!([newer(old)]); 150], 100),
            (vec![damaged], 1),
        ] {
            let workflows = following(&parts).await;
            let (writes, last) = workflows.old_feed(None, None, now).await.unwrap();
            assert_eq!(writes.len(), gone, "{parts:?}");
            let last_gone = gone.checked_sub(1);
            assert_eq!(last, last_gone.map(|n| FeedPosition::new(1, n as u64, 0)));
        }
    }

    #[tokio::test]
    async fn r41_parts_that_a_listener_has_not_heard_are_kept_however_old() {
        let now = Timestamp::UNIX_EPOCH + KEPT * 2;
        let old = now - KEPT - SignedDuration::from_hours(1);
        let workflows = following(&vec![json!([note(old)]); 9]).await;
        let heard = |n| FeedPosition::new(1, n, 0);
        for (heard, gone) in [
            (None, 9),
            (Some(heard(3)), 4),
            (Some(FeedPosition::before_all()), 0),
        ] {
            let (writes, _) = workflows.old_feed(None, heard.as_ref(), now).await.unwrap();
            assert_eq!(writes.len(), gone, "{heard:?}");
        }
        let last = workflows.last_place(Some(heard(3))).await.unwrap();
        assert_eq!(last, Some(heard(8)));
        let last = workflows.last_place(Some(heard(8))).await.unwrap();
        assert_eq!(last, None);
    }

    #[tokio::test]
    async fn r42_entries_beside_those_of_a_newer_program_version_are_heard() {
        let at = Timestamp::UNIX_EPOCH;
        let workflows = following(&[json!([note(at), newer(at), note(at)])]).await;
        let page = workflows.page(None).await.unwrap();
        let told: Vec<usize> = page.iter().map(|heard| heard.told.len()).collect();
        assert_eq!(told, [2]);
        // The keys of what listeners start have these numbers, in every program version.
        assert_eq!(page[0].numbers, [0, 2]);
    }

    #[test]
    fn r41_feed_says_what_an_entry_is_about() {
        let entry = |note: &str| Entry {
            at: Timestamp::UNIX_EPOCH,
            machine: None,
            what: What::Note(note.to_owned()),
        };
        let (id, asset) = (
            ExecutionId::new("w", 1),
            AssetId::new("cron/nightly").unwrap(),
        );
        let records = [
            Record::Told(Subject::Asset(asset.clone()), entry("late")),
            Record::Log(id.clone(), 0, LogRecord(vec![entry("begun")])),
        ];
        let partition: PartitionId = "test".parse().unwrap();
        let rows = rows(&partition, Version(1), CommitNo(2), &records).unwrap();
        let [Write::Put(_, value)] = &rows[..] else {
            panic!("{rows:?}");
        };
        let told = serde_json::from_slice::<FeedRecord>(value).unwrap().0;
        let about: Vec<Subject> = told.into_iter().map(|told| told.about).collect();
        assert_eq!(about, [Subject::Asset(asset), Subject::Execution(id)]);
    }
}
