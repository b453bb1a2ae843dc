//! Batches: what one commit expects, writes and announces, and how large it may be.

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

/// What a store refuses to take in one piece. Larger things are split by layers above it.
pub mod limit {
    /// The longest key, in bytes.
    pub const KEY: usize = 1 << 10;
    /// The largest value, in bytes.
    pub const VALUE: usize = 1 << 20;
    /// The greatest version that a batch may ask to be above. Far beyond any number of commits; a greater one is not of a
    /// store.
    pub const VERSION: u64 = i64::MAX as u64 / 2;
    /// The largest batch, in bytes: all its keys and values together.
    pub const BATCH: usize = 4 << 20;
    /// A scan ends its page once the page holds this many bytes of keys and values.
    pub const PAGE: usize = 4 << 20;
    /// How many of the last batches a store recognises when they are submitted again.
    pub const REMEMBERED_BATCHES: u64 = 4096;
}

/// One commit: all of it happens, durably, or nothing does.
///
/// Writes take effect in their order.
///
/// ```
/// use plane_store::{Batch, Version};
/// let batch = Batch::new()
///     .expect_at("owner/shakespeare", Version(7))
///     .put("settled/shakespeare/job/eu", r#"{"incarnation":42}"#)
///     .delete("open/shakespeare/job/eu");
/// assert_eq!(batch.writes.len(), 2);
/// assert!(batch.check().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Names the batch, so that submitting it again is harmless.
    pub id: BatchId,
    /// What must be true when it is committed.
    pub expect: Vec<(Key, Expect)>,
    /// What it changes, in order.
    pub writes: Vec<Write>,
    /// Whom it wakes.
    pub announce: Vec<Topic>,
    /// Its version is greater than this one, whatever the store's was before.
    pub above: Version,
}

impl Batch {
    /// An empty batch with a fresh id.
    #[allow(
        clippy::new_without_default,
        reason = "no two are equal, so there is no default one"
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

    /// Commits only if `key` was last written at `version`.
    #[must_use]
    pub fn expect_at(self, key: impl Into<Key>, version: Version) -> Self {
        self.expect(key, Expect::At(version))
    }

    /// Commits only if there is no `key`.
    #[must_use]
    pub fn expect_absent(self, key: impl Into<Key>) -> Self {
        self.expect(key, Expect::Absent)
    }

    /// Commits only if `key` is as expected.
    #[must_use]
    pub fn expect(mut self, key: impl Into<Key>, expect: Expect) -> Self {
        self.expect.push((key.into(), expect));
        self
    }

    /// Writes `value` under `key`.
    #[must_use]
    pub fn put(self, key: impl Into<Key>, value: impl Into<Bytes>) -> Self {
        self.write(Write::Put(key.into(), value.into()))
    }

    /// Removes `key`, if it is there.
    #[must_use]
    pub fn delete(self, key: impl Into<Key>) -> Self {
        self.write(Write::Delete(key.into()))
    }

    /// Removes every key in `range`.
    #[must_use]
    pub fn delete_range(self, range: KeyRange) -> Self {
        self.write(Write::DeleteRange(range))
    }

    /// Adds one write.
    #[must_use]
    pub fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// Hints to those who watch `topic` that something changed. For heads, pins and commands; not for decisions.
    #[must_use]
    pub fn announce(mut self, topic: impl Into<Topic>) -> Self {
        self.announce.push(topic.into());
        self
    }

    /// Commits at a version above `version`, which production or people know from a store that was lost: what is given
    /// out from here on is newer than all of that. At most [`limit::VERSION`].
    #[must_use]
    pub fn above(mut self, version: Version) -> Self {
        self.above = self.above.max(version);
        self
    }

    /// The version it gets in a store whose newest commit is `newest`. For backends.
    pub fn version_after(&self, newest: Version) -> Version {
        Version(newest.0.max(self.above.0.min(limit::VERSION)) + 1)
    }

    /// How much of [`limit::BATCH`] it takes.
    pub fn bytes(&self) -> usize {
        let expected: usize = self.expect.iter().map(|(key, _)| key.as_str().len()).sum();
        expected + self.writes.iter().map(Write::bytes).sum::<usize>()
    }

    /// Checks the limits. Backends do it first.
    ///
    /// # Errors
    /// [`CommitError::TooLarge`], naming what is too large.
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

/// What a batch expects of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// It was last written at this version.
    At(Version),
    /// It is not there.
    Absent,
}

impl Expect {
    /// That the key is as it was found.
    pub fn as_found(found: Option<Version>) -> Self {
        found.map_or(Self::Absent, Self::At)
    }

    /// Whether a key found at `found` is as expected.
    pub fn holds(self, found: Option<Version>) -> bool {
        self == Self::as_found(found)
    }
}

/// One change of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Writes a value, whatever was there.
    Put(Key, Bytes),
    /// Removes a key, if it is there.
    Delete(Key),
    /// Removes every key in the range.
    DeleteRange(KeyRange),
}

impl Write {
    /// How much of [`limit::BATCH`] it takes.
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

/// Names a batch. A batch submitted again under its id is committed once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u128);

impl BatchId {
    /// An id that no other batch of any process has.
    pub fn fresh() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        static NONCE: OnceLock<(RandomState, RandomState)> = OnceLock::new();
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let (high, low) = NONCE.get_or_init(Default::default);
        // `RandomState`s of one thread differ by one in their key only; hashing different inputs keeps halves apart.
        let halves = (high.hash_one(n), low.hash_one(!n));
        Self(u128::from(halves.0) << 64 | u128::from(halves.1))
    }
}

impl fmt::Debug for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchId({:032x})", self.0)
    }
}

/// Something that can be watched, such as `head/shakespeare`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

impl Topic {
    /// The topic as text.
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
