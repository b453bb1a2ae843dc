//! Batches: the expectations, writes and announcements of one commit, and their size limits.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;

use crate::{CommitError, Key, KeyRange, Version};

/// Size limits of stores. Layers above the store split larger data.
pub mod limit {
    /// Maximum length of a key, in bytes.
    pub const KEY: usize = 1 << 10;
    /// Maximum size of a value, in bytes.
    pub const VALUE: usize = 1 << 20;
    /// Greatest version that a batch may ask to be [above](super::Batch::above). No store reaches it by counting commits.
    pub const VERSION: u64 = i64::MAX as u64 / 2;
    /// Maximum size of a batch, in bytes: all its keys and values together.
    pub const BATCH: usize = 4 << 20;
    /// Size of a page in bytes of keys and values: a scan ends its page once the page holds this much.
    pub const PAGE: usize = 4 << 20;
    /// Number of newest batches that a store recognises when they are submitted again.
    pub const REMEMBERED_BATCHES: u64 = 4096;
}

/// The content of one commit. A store makes all of it durable, or none of it.
///
/// Writes take effect in their order. The builder methods add to the batch.
///
/// ```
/// use control_plane_store::{Batch, Version};
/// let batch = Batch::new()
///     .expect_at("owner/shakespeare", Version(7))
///     .put("settled/shakespeare/job/eu", r#"{"incarnation":42}"#)
///     .delete("open/shakespeare/job/eu");
/// assert_eq!(batch.writes.len(), 2);
/// assert!(batch.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Id of the batch. Submitting a batch again under the same id commits it once.
    pub id: BatchId,
    /// Expected state of keys at the time of the commit. The batch is refused if one does not hold.
    pub expect: Vec<(Key, Expect)>,
    /// Changes of keys, in order.
    pub writes: Vec<Write>,
    /// Topics whose watchers receive a hint after the commit.
    pub announce: Vec<Topic>,
    /// The commit gets a version greater than this one, whatever the newest version of the store is. Default 0.
    pub above: Version,
}

impl Batch {
    /// Creates an empty batch with a fresh id.
    #[allow(
        clippy::new_without_default,
        reason = "each batch has its own id, so there is no default value"
    )]
    pub fn new() -> Self {
        Self {
            id: BatchId::fresh(),
            expect: Vec::new(),
            writes: Vec::new(),
            announce: Vec::new(),
            above: Version(0),
        }
    }

    /// Adds an expectation: `key` was last written at `version`.
    #[must_use]
    pub fn expect_at(self, key: impl Into<Key>, version: Version) -> Self {
        self.expect(key, Expect::At(version))
    }

    /// Adds an expectation: `key` does not exist.
    #[must_use]
    pub fn expect_absent(self, key: impl Into<Key>) -> Self {
        self.expect(key, Expect::Absent)
    }

    /// Adds an expectation about `key`.
    #[must_use]
    pub fn expect(mut self, key: impl Into<Key>, expect: Expect) -> Self {
        self.expect.push((key.into(), expect));
        self
    }

    /// Adds a write of `value` under `key`.
    #[must_use]
    pub fn put(self, key: impl Into<Key>, value: impl Into<Bytes>) -> Self {
        self.write(Write::Put(key.into(), value.into()))
    }

    /// Adds the removal of `key`. A key that does not exist is no error.
    #[must_use]
    pub fn delete(self, key: impl Into<Key>) -> Self {
        self.write(Write::Delete(key.into()))
    }

    /// Adds the removal of every key in `range`.
    #[must_use]
    pub fn delete_range(self, range: KeyRange) -> Self {
        self.write(Write::DeleteRange(range))
    }

    /// Adds one write after the writes so far.
    #[must_use]
    pub fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// Sends a hint to the watchers of `topic` after the commit. Meant for heads, pins and commands, not for decisions.
    #[must_use]
    pub fn announce(mut self, topic: impl Into<Topic>) -> Self {
        self.announce.push(topic.into());
        self
    }

    /// Asks for a version above `version`. Used after the loss of a store: production or operators still know versions
    /// of the lost store, and versions of the new store have to be greater. At most [`limit::VERSION`]. Of several
    /// calls the greatest counts.
    #[must_use]
    pub fn above(mut self, version: Version) -> Self {
        self.above = self.above.max(version);
        self
    }

    /// The version that this batch gets in a store whose newest commit is `newest`. For backends.
    pub fn version_after(&self, newest: Version) -> Version {
        Version(newest.0.max(self.above.0.min(limit::VERSION)) + 1)
    }

    /// Size of the batch in bytes, to compare with [`limit::BATCH`].
    pub fn bytes(&self) -> usize {
        let expected: usize = self.expect.iter().map(|(key, _)| key.as_str().len()).sum();
        expected + self.writes.iter().map(Write::bytes).sum::<usize>()
    }

    /// Checks the batch against the [`limit`]s. Backends call it before they do anything else.
    ///
    /// # Errors
    /// [`CommitError::TooLarge`], naming the part that is too large.
    pub fn check(&self) -> Result<(), CommitError> {
        let within = |bytes, limit, what: &dyn Fn() -> String| {
            if bytes <= limit {
                return Ok(());
            }
            Err(CommitError::TooLarge {
                what: what(),
                bytes,
                limit,
            })
        };
        let expected = self.expect.iter().map(|(key, _)| key);
        for key in expected.chain(self.writes.iter().flat_map(Write::keys)) {
            within(key.as_str().len(), limit::KEY, &|| "a key".into())?;
        }
        for write in &self.writes {
            if let Write::Put(key, value) = write {
                within(value.len(), limit::VALUE, &|| {
                    format!("the value of `{key}`")
                })?;
            }
        }
        within(self.bytes(), limit::BATCH, &|| "the batch".into())
    }
}

/// Expected state of one key at the time of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// The key was last written at this version.
    At(Version),
    /// The key does not exist.
    Absent,
}

impl Expect {
    /// The expectation that the key has not changed since a read found it at `found`, or absent for `None`.
    pub fn as_found(found: Option<Version>) -> Self {
        found.map_or(Self::Absent, Self::At)
    }

    /// Whether the expectation holds for a key whose current version is `found`; `None` means absent.
    pub fn holds(self, found: Option<Version>) -> bool {
        self == Self::as_found(found)
    }
}

/// One change of a key or of a range of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Writes a value, and replaces the existing one if there is one.
    Put(Key, Bytes),
    /// Removes a key. A key that does not exist is no error.
    Delete(Key),
    /// Removes every key in the range.
    DeleteRange(KeyRange),
}

impl Write {
    /// Size of the write in bytes, to compare with [`limit::BATCH`].
    pub fn bytes(&self) -> usize {
        let value = match self {
            Self::Put(_, value) => value.len(),
            Self::Delete(_) | Self::DeleteRange(_) => 0,
        };
        value + self.keys().map(|key| key.as_str().len()).sum::<usize>()
    }

    fn keys(&self) -> impl Iterator<Item = &Key> {
        let (first, second) = match self {
            Self::Put(key, _) | Self::Delete(key) => (key, None),
            Self::DeleteRange(range) => (&range.start, range.end.as_ref()),
        };
        [Some(first), second].into_iter().flatten()
    }
}

/// Id of a batch. A batch submitted again under the same id is committed once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u128);

impl BatchId {
    /// Creates an id that no other batch of any process has.
    pub fn fresh() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        static NONCE: OnceLock<(RandomState, RandomState)> = OnceLock::new();
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let (high, low) = NONCE.get_or_init(Default::default);
        // Two `RandomState`s of one thread differ by one in their key only. Hashing different inputs keeps the halves
        // independent.
        let halves = (high.hash_one(n), low.hash_one(!n));
        Self(u128::from(halves.0) << 64 | u128::from(halves.1))
    }
}

impl fmt::Debug for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchId({:032x})", self.0)
    }
}

/// Name of something that callers watch, such as `head/shakespeare`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// The name of the topic as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for Topic {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_ids_differ() {
        let ids: std::collections::BTreeSet<_> = (0..1000).map(|_| BatchId::fresh()).collect();
        assert_eq!(ids.len(), 1000);
    }

    #[test]
    fn limits_are_exact() {
        let value = |n| Bytes::from(vec![b'x'; n]);
        let too_large = |batch: Batch| matches!(batch.check(), Err(CommitError::TooLarge { .. }));
        assert!(!too_large(Batch::new().put("k", value(limit::VALUE))));
        assert!(too_large(Batch::new().put("k", value(limit::VALUE + 1))));
        assert!(!too_large(Batch::new().delete("k".repeat(limit::KEY))));
        assert!(too_large(Batch::new().delete("k".repeat(limit::KEY + 1))));
        let full = (0..4).fold(Batch::new(), |batch, n| {
            batch.put(format!("{n}"), value(limit::VALUE - 1))
        });
        assert!(!too_large(full.clone()));
        assert!(too_large(full.delete("k")));
    }
}
