//! The trait that every backend implements, and what it reads.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::{Batch, CommitError, Error, Key, KeyRange, Topic, limit};

/// A transactional, ordered key-value store: all that the control plane asks of a database.
///
/// - A commit happens entirely or not at all; once acknowledged it survives a crash. Concurrent commits may share a
///   write to the medium. Expectations are judged against what is committed at that moment, never against old reads.
/// - Each read is one snapshot of acknowledged commits, possibly a few versions old. Who must be sure expects what it
///   read in its next commit.
/// - Versions rise over the whole store: every commit has a greater one than those before, and than its batch asks to be
///   [above](Batch::above). Each value carries the version of the commit that wrote it.
/// - A batch submitted again under its id, among the last [`REMEMBERED_BATCHES`](crate::limit::REMEMBERED_BATCHES),
///   is not committed twice: the answer is the version of the first time.
///
/// ```
/// use plane_store::{Batch, CommitError, KeyRange, MemoryStore, Store};
/// # futures::executor::block_on(async {
/// let store = MemoryStore::new();
/// let first = store.commit(Batch::new().expect_absent("head/a").put("head/a", "1")).await?;
/// let second = store.commit(Batch::new().expect_at("head/a", first).put("head/a", "2")).await?;
/// assert!(second > first);
///
/// let late = store.commit(Batch::new().expect_at("head/a", first).put("head/a", "3")).await;
/// assert!(matches!(late, Err(CommitError::Conflict { found, .. }) if found == Some(second)));
///
/// let page = store.scan(KeyRange::prefix("head/"), 10).await?;
/// assert_eq!(page.rows[0].1.value, "2");
/// # Ok::<(), plane_store::Error>(())
/// # }).unwrap();
/// ```
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Reads `keys`, all from one snapshot; the answers are in the order of the keys.
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, Error>;

    /// Reads the first `limit` keys of `range`, in order, from one snapshot. A page also ends once it holds
    /// [`limit::PAGE`](crate::limit::PAGE) bytes.
    async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, Error>;

    /// Commits `batch`: all or nothing. Answers once it is durable.
    async fn commit(&self, batch: Batch) -> Result<Version, CommitError>;

    /// Yields after commits that announced `topic`. Hints only: they may be dropped, repeated and late, so whoever
    /// watches also looks from time to time. Ends when the store is closed.
    fn watch(&self, topic: Topic) -> BoxStream<'static, ()>;
}

/// The number of a commit, rising over the whole store. The first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

/// A value, and the commit that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The commit that wrote it.
    pub version: Version,
    /// What was written.
    pub value: Bytes,
}

/// One page of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The keys and their values, in order.
    pub rows: Vec<(Key, Versioned)>,
    /// What was not read yet, if anything may be left: scan it for the next page.
    pub rest: Option<KeyRange>,
}

impl Page {
    /// Takes the first page of `range` from `rows`, its rows in order: what every backend ends a scan with.
    pub fn collect<K, V>(
        range: &KeyRange,
        limit: usize,
        rows: impl IntoIterator<Item = (K, V)>,
    ) -> Self
    where
        K: std::borrow::Borrow<Key>,
        V: std::borrow::Borrow<Versioned>,
    {
        let mut page = Self::default();
        let mut bytes = 0;
        for (key, row) in rows {
            let (key, row) = (key.borrow(), row.borrow());
            bytes += key.as_str().len() + row.value.len();
            page.rows.push((key.clone(), row.clone()));
            if page.rows.len() >= limit.max(1) || bytes >= limit::PAGE {
                page.rest = Some(range.after(key));
                break;
            }
        }
        page
    }
}
