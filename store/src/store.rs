//! The [`Store`] trait, which every backend implements, and the types that its reads return.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::{Batch, CommitError, Error, Key, KeyRange, Topic, limit};

/// A transactional, ordered key-value store. The control plane asks nothing else of a database.
///
/// Every backend guarantees:
///
/// - **Atomic, durable commits.** A commit happens entirely or not at all. Once acknowledged, it survives a crash.
///   Concurrent commits may share one write to the medium.
/// - **Expectations are checked at commit time**, against the committed state of that moment.
/// - **Snapshot reads.** Each call of [`get`](Self::get) or [`scan`](Self::scan) reads one snapshot of durable commits.
///   It sees every commit that was acknowledged to the same handle, or to a clone of it, before the read began. Commits
///   of other handles may be missing: of a store with several servers, for as long as this handle commits nothing. A
///   caller that needs the current value lists the version that it read as an expectation of its next commit.
/// - **Rising versions.** Every commit has a greater version than all commits that were acknowledged before it was
///   submitted, than the commits that wrote what it replaces or removes, and than the version that its batch asks to be
///   [above](Batch::above). Commits that run at the same time have different versions, in any order. Each value carries
///   the version of the commit that wrote it.
/// - **Idempotent batches.** A batch that is submitted again under the same id is not committed twice: the store
///   answers with the version of the first commit. Backends remember the ids of the last
///   [`REMEMBERED_BATCHES`](crate::limit::REMEMBERED_BATCHES) batches.
///
/// ```
/// use control_plane_store::{Batch, CommitError, KeyRange, MemoryStore, Store};
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
/// # Ok::<(), control_plane_store::Error>(())
/// # }).unwrap();
/// ```
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Reads the values of `keys` from one snapshot. The answers are in the order of `keys`; `None` means that the key
    /// does not exist.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the store cannot be reached, [`Error::Poisoned`] if its medium failed earlier,
    /// [`Error::Damaged`] if the stored data is not readable.
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, Error>;

    /// Reads at most `limit` rows of `range` in key order, from one snapshot. A page also ends once it holds
    /// [`limit::PAGE`](crate::limit::PAGE) bytes, so it may have fewer rows; [`Page::rest`] says how to continue. A
    /// `limit` of 0 counts as 1.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, Error>;

    /// Commits `batch` entirely or not at all, and returns its version once it is durable.
    ///
    /// # Errors
    /// [`CommitError`] says whether anything was written and what the caller may do next. After
    /// [`CommitError::Unknown`] the caller submits the same batch, under the same id, again.
    async fn commit(&self, batch: Batch) -> Result<Version, CommitError>;

    /// Returns a stream that yields after commits that announced `topic`. Items are hints: they may be dropped,
    /// repeated or late, so a caller also reads the store from time to time. The stream ends when the store is closed.
    fn watch(&self, topic: Topic) -> BoxStream<'static, ()>;
}

/// The number of a commit, rising over the whole store. The first commit has number 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

/// A stored value with the version of the commit that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// Version of the commit that wrote the value.
    pub version: Version,
    /// The bytes that were stored.
    pub value: Bytes,
}

/// One page of rows that [`Store::scan`] returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// Keys with their values, in key order.
    pub rows: Vec<(Key, Versioned)>,
    /// Range to scan for the next page. `None` means that the scan reached the end of the requested range.
    pub rest: Option<KeyRange>,
}

impl Page {
    /// Builds the first page of `range` from `rows`, which must be the rows of `range` in key order. Backends use it to
    /// implement [`Store::scan`]. The page ends after `limit` rows (at least one) or [`limit::PAGE`] bytes.
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
