//! Copies of external content, kept as long as an incarnation refers to it.
//!
//! A content is written before the incarnation that refers to it is sealed. The commit of the seal counts the references
//! that it adds and removes, so a content knows the incarnations that refer to it. Retention removes a content that no
//! kept incarnation refers to, and what seals that failed have left behind.
//!
//! ```text
//! content/PARTITION/DIGEST           size, number of references, and the incarnations that refer to it
//! piece/PARTITION/DIGEST/00000       its bytes, in pieces
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use plugin_sdk::blobs::{self, Blobs};
use prodspec_model::{Digest, ExternalRef, IncarnationNo, PartitionId};
use serde::{Deserialize, Serialize};

use crate::{
    Batch, CommitError, Error, Key, KeyRange, Record, Store, Write, limit,
    record::{self, Stored},
};

/// Longest piece of a content, in bytes.
const PIECE: usize = limit::VALUE - limit::KEY;

/// The external contents that the incarnations of one partition refer to.
///
/// ```
/// use std::sync::Arc;
/// use control_plane_store::{Batch, MemoryStore, contents::Contents};
/// use prodspec_model::{Digest, IncarnationNo};
/// # futures::executor::block_on(async {
/// let contents = Contents::new(Arc::new(MemoryStore::new()), "shakespeare".parse()?);
/// let digest = contents.put(b"weights", &Batch::new()).await?;
/// assert_eq!(digest, Digest::of(b"weights"));
/// assert_eq!(contents.load(digest).await?.as_deref(), Some(&b"weights"[..]));
/// // No incarnation refers to it.
/// contents.retain(&[IncarnationNo(1)].into(), &Batch::new()).await?;
/// assert_eq!(contents.load(digest).await?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Contents<S: ?Sized> {
    partition: PartitionId,
    store: Arc<S>,
}

/// The row of one content: everything but its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ContentRow {
    bytes: u64,
    /// Whether all pieces are written.
    complete: bool,
    /// Number of assets that refer to the content in the newest incarnation.
    count: u64,
    /// The incarnations that refer to the content.
    spans: Vec<Span>,
}

impl Record for ContentRow {
    const KIND: &'static str = "content";
}

/// Consecutive incarnations that refer to a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Span {
    from: IncarnationNo,
    /// The first incarnation that does not refer to it any more. `None`: the newest one does.
    until: Option<IncarnationNo>,
}

impl Span {
    fn has(&self, no: IncarnationNo) -> bool {
        self.from <= no && self.until.is_none_or(|until| no < until)
    }
}

impl<S: Store + ?Sized> Contents<S> {
    /// The contents of `partition` in `store`.
    pub fn new(store: Arc<S>, partition: PartitionId) -> Self {
        Self { partition, store }
    }

    /// Those of `wanted` that are not kept.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn missing(&self, wanted: &BTreeSet<Digest>) -> Result<BTreeSet<Digest>, Error> {
        let mut missing = BTreeSet::new();
        for digest in wanted {
            let row = self.row(*digest).await?;
            if row.is_none_or(|row| !row.value.complete) {
                missing.insert(*digest);
            }
        }
        Ok(missing)
    }

    /// Writes a content and returns its digest. Each commit has the expectations of `with`. Seal an incarnation that
    /// refers to it soon: retention removes a content to which none refers.
    ///
    /// # Errors
    /// If the store cannot be written, or an expectation does not hold.
    pub async fn put(&self, content: &[u8], with: &Batch) -> Result<Digest, Error> {
        let digest = Digest::of(content);
        let found = self.row(digest).await?;
        if found.as_ref().is_some_and(|row| row.value.complete) {
            return Ok(digest);
        }
        let mut row = ContentRow {
            bytes: content.len() as u64,
            complete: false,
            count: 0,
            spans: Vec::new(),
        };
        let start = || {
            let mut batch = Batch::new();
            batch.expect.extend_from_slice(&with.expect);
            batch
        };
        // The row comes first, so that retention finds the pieces of a writer that did not finish.
        let first = start().write(record::put(&self.partition, &digest.to_string(), &row)?);
        let mut version = self.store.commit(first).await?;
        let key = record::key(&self.partition, ContentRow::KIND, &digest.to_string());
        for (nth, piece) in content.chunks(PIECE).enumerate() {
            let batch = start().expect_at(key.clone(), version);
            let piece = Bytes::copy_from_slice(piece);
            self.store
                .commit(batch.put(self.piece(digest, nth), piece))
                .await?;
        }
        row.complete = true;
        let last = start().expect_at(key, version);
        let last = last.write(record::put(&self.partition, &digest.to_string(), &row)?);
        version = self.store.commit(last).await?;
        tracing::debug!(partition = %self.partition, %digest, bytes = content.len(), version = version.0, "keeping an external content");
        Ok(digest)
    }

    /// Reads a content. `None`: it is not kept.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn load(&self, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        let row = self.row(digest).await?;
        let Some(row) = row.filter(|row| row.value.complete) else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let mut rest = Some(self.pieces(digest));
        while let Some(range) = rest {
            let page = self.store.scan(range, limit::PAGE / PIECE).await?;
            for (_, piece) in &page.rows {
                bytes.extend_from_slice(&piece.value);
            }
            rest = page.rest.filter(|_| (bytes.len() as u64) < row.value.bytes);
        }
        Ok(Some(bytes))
    }

    /// Adds to `batch`, which seals the incarnation `no`, how many references to each content it has more or less than
    /// its parent. `None`: a content to which the incarnation refers is not kept, so it cannot be sealed.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn count(
        &self,
        mut batch: Batch,
        no: IncarnationNo,
        changes: &BTreeMap<Digest, i64>,
    ) -> Result<Option<Batch>, Error> {
        for (digest, change) in changes.iter().filter(|(_, change)| **change != 0) {
            let row = self.row(*digest).await?;
            let Some(mut row) = row.filter(|row| row.value.complete) else {
                match *change > 0 {
                    true => return Ok(None),
                    false => continue,
                }
            };
            let ContentRow { count, spans, .. } = &mut row.value;
            let before = std::mem::replace(count, count.saturating_add_signed(*change));
            match (before, *count) {
                (0, 1..) => spans.push(Span {
                    from: no,
                    until: None,
                }),
                (1.., 0) => {
                    if let Some(last) = spans.last_mut() {
                        last.until = Some(no);
                    }
                }
                _ => {}
            }
            batch = self.rewrite(batch, *digest, &row)?;
        }
        Ok(Some(batch))
    }

    /// Removes the contents to which none of the incarnations `kept`, and no newer one, refers. Each commit has the expectations of `with`.
    /// Returns the number of removed contents.
    ///
    /// # Errors
    /// If the store cannot be read or written, or an expectation does not hold.
    pub async fn retain(
        &self,
        kept: &BTreeSet<IncarnationNo>,
        with: &Batch,
    ) -> Result<usize, Error> {
        let all = record::load_all::<ContentRow>(&*self.store, &self.partition).await?;
        // Of incarnations that were sealed after `kept` was computed, nothing is known.
        let newest = kept.last();
        let mut removed = 0;
        for (name, mut row) in all {
            let Ok(digest) = name.parse::<Digest>() else {
                continue;
            };
            let spans = row.value.spans.len();
            row.value.spans.retain(|span| {
                let known = span.until.zip(newest);
                known.is_none_or(|(until, newest)| until > *newest)
                    || kept.iter().any(|no| span.has(*no))
            });
            let mut batch = Batch::new();
            batch.expect.extend_from_slice(&with.expect);
            let gone = row.value.spans.is_empty();
            if gone {
                let key = record::key(&self.partition, ContentRow::KIND, &name);
                batch = batch
                    .expect_at(key.clone(), row.version)
                    .delete(key)
                    .delete_range(self.pieces(digest));
            } else if row.value.spans.len() < spans {
                batch = self.rewrite(batch, digest, &row)?;
            } else {
                continue;
            }
            match self.store.commit(batch).await {
                Ok(_) => removed += usize::from(gone),
                // A seal has counted a reference meanwhile.
                Err(CommitError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(removed)
    }

    async fn row(&self, digest: Digest) -> Result<Option<Stored<ContentRow>>, Error> {
        record::load(&*self.store, &self.partition, &digest.to_string()).await
    }

    /// Adds the changed row to `batch`, which fails if the row changes before the commit.
    fn rewrite(
        &self,
        batch: Batch,
        digest: Digest,
        row: &Stored<ContentRow>,
    ) -> Result<Batch, Error> {
        let name = digest.to_string();
        let key = record::key(&self.partition, ContentRow::KIND, &name);
        let write: Write = row.rewrite(&self.partition, &name)?;
        Ok(batch.expect_at(key, row.version).write(write))
    }

    fn piece(&self, digest: Digest, nth: usize) -> Key {
        format!("piece/{}/{digest}/{nth:05}", self.partition).into()
    }

    fn pieces(&self, digest: Digest) -> KeyRange {
        KeyRange::prefix(&format!("piece/{}/{digest}/", self.partition))
    }
}

/// The kept contents, by digest: the address plays no role.
#[async_trait]
impl<S: Store + ?Sized> Blobs for Contents<S> {
    async fn fetch(&self, reference: &ExternalRef) -> Result<Vec<u8>, blobs::Error> {
        match self.load(reference.digest).await {
            Ok(Some(content)) => Ok(content),
            Ok(None) => Err(blobs::Error::Missing),
            Err(error) => Err(blobs::Error::Unavailable(error.into())),
        }
    }
}

impl<S: ?Sized> std::fmt::Debug for Contents<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
