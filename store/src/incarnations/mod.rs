//! Sealed incarnations: written once, read by number, and removed by retention.
//!
//! - `rows`: the stored rows and their digests, which reveal damage. `packs`: large buffers split into rows.
//! - `seal`: one commit puts an incarnation in force. `retain`: removes incarnations that nothing refers to.

mod error;
mod packs;
mod retain;
mod rows;
mod seal;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use prodspec_model::{
    Digest, Incarnation, IncarnationNo, PartitionId, Snapshot, incarnation::Header, snapshot::Pack,
};

pub use error::Error;
pub use retain::{Keep, Removed};

use crate::{Key, KeyRange, Store, Topic, Version, Versioned, record};
use packs::Packs;
use rows::{HeadRow, SealedRow};

/// The incarnations of one partition in a store.
///
/// ```
/// use std::sync::Arc;
/// use control_plane_store::{Batch, MemoryStore, incarnations::Incarnations};
/// use prodspec_model::{Incarnation, IncarnationId, IncarnationNo, Snapshot, incarnation::Header};
/// # futures::executor::block_on(async {
/// let incarnations = Incarnations::new(Arc::new(MemoryStore::new()), "shakespeare".parse()?);
/// let snapshot = Snapshot::empty();
/// let id = IncarnationId::new("shakespeare".parse()?, IncarnationNo(1));
/// let header = Header::new(id, None, &snapshot, "2026-01-01T00:00:00Z".parse()?);
/// let head = incarnations.seal(&Incarnation::new(header, snapshot), None, Batch::new()).await?;
/// assert_eq!(incarnations.head().await?, Some(head));
/// assert_eq!(incarnations.latest().await?.unwrap().no(), IncarnationNo(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Incarnations<S: ?Sized> {
    partition: PartitionId,
    at_hand: Mutex<AtHand>,
    /// Held while sealing and while removing.
    writing: futures::lock::Mutex<()>,
    store: Arc<S>,
}

/// The incarnation in force, and the commit that put it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Number of the incarnation in force.
    pub no: IncarnationNo,
    /// Digest of the assets of that incarnation.
    pub digest: Digest,
    /// Version of the commit that put it in force.
    pub version: Version,
}

/// Data kept in memory between calls.
#[derive(Debug, Default)]
struct AtHand {
    /// Packs of the snapshot that was sealed or loaded last. Neighbouring incarnations share most of them.
    packs: Packs,
    /// Newest incarnation that is known to have been sealed.
    known: Option<IncarnationNo>,
    /// Newest incarnation that the store acknowledged to this value.
    sealed: Option<IncarnationNo>,
}

impl<S: Store + ?Sized> Incarnations<S> {
    /// Creates a handle to the incarnations of `partition` in `store`. Reads nothing yet.
    pub fn new(store: Arc<S>, partition: PartitionId) -> Self {
        Self {
            partition,
            at_hand: Mutex::default(),
            writing: futures::lock::Mutex::new(()),
            store,
        }
    }

    /// Records that `no` was sealed. From here on, a store without it is refused with [`Error::Younger`]. Needed only
    /// for knowledge from elsewhere, such as production: incarnations that were sealed or read through this value are
    /// known already.
    pub fn know(&self, no: IncarnationNo) {
        let mut at_hand = self.lock();
        at_hand.known = at_hand.known.max(Some(no));
    }

    /// The topic to watch for new incarnations.
    pub fn topic(&self) -> Topic {
        rows::topic(&self.partition)
    }

    /// Reads which incarnation is in force. `None` means that nothing was sealed yet.
    ///
    /// # Errors
    /// If the store fails, or if its head is older than an incarnation known to be sealed: [`Error::Younger`], or
    /// [`Error::Lost`] if it was sealed through this value.
    pub async fn head(&self) -> Result<Option<Head>, Error> {
        // Copied before the read: an incarnation that is sealed during the read need not be in its result.
        let (known, sealed) = {
            let at_hand = self.lock();
            (at_hand.known, at_hand.sealed)
        };
        let row = record::load::<HeadRow>(&*self.store, &self.partition, "").await?;
        let head = row.map(|row| Head {
            no: row.value.incarnation,
            digest: row.value.digest,
            version: row.version,
        });
        let found = head.map(|head| head.no);
        // A read sees what was acknowledged to the same handle.
        if let Some(sealed) = sealed.filter(|sealed| found < Some(*sealed)) {
            return Err(Error::Lost { sealed, found });
        }
        if let Some(known) = known.filter(|known| found < Some(*known)) {
            return Err(Error::Younger { known, found });
        }
        let mut at_hand = self.lock();
        at_hand.known = at_hand.known.max(found);
        Ok(head)
    }

    /// Whether something was sealed. Asks the store until it is so: the incarnation in force stays.
    ///
    /// # Errors
    /// As for [`Incarnations::head`].
    pub async fn any(&self) -> Result<bool, Error> {
        Ok(self.lock().known.is_some() || self.head().await?.is_some())
    }

    /// Loads the incarnation in force, with its assets. `None` means that nothing was sealed yet.
    ///
    /// # Errors
    /// As for [`Incarnations::load`].
    pub async fn latest(&self) -> Result<Option<Incarnation>, Error> {
        let Some(head) = self.head().await? else {
            return Ok(None);
        };
        let latest = self.load(head.no).await?;
        if latest.header().digest != head.digest {
            let what = format!("the head of {}", self.partition);
            return Err(crate::Error::damaged(what, "it names another digest").into());
        }
        Ok(Some(latest))
    }

    /// Loads incarnation `no` with its assets. Reads only packs that the previously sealed or loaded incarnation did
    /// not have.
    ///
    /// # Errors
    /// [`Error::Unknown`] if it is not in the store; [`Error::Store`] if the store fails or is damaged.
    pub async fn load(&self, no: IncarnationNo) -> Result<Incarnation, Error> {
        let SealedRow { header, root, .. } = self.sealed(no).await?;
        let packs = match self.gather(root.packs()).await {
            Ok(packs) => packs,
            // Retention may have removed the incarnation between the two reads.
            Err(error) => return Err(self.sealed(no).await.err().unwrap_or(error)),
        };
        let damaged = |error| crate::Error::damaged(header.id.to_string(), error);
        let snapshot = Snapshot::load(&root, packs).map_err(damaged)?;
        if !rows::describes(&header, &snapshot) {
            let what = header.id.to_string();
            return Err(crate::Error::damaged(what, "header and assets differ").into());
        }
        self.remember(no, &snapshot);
        Ok(Incarnation::new(header, snapshot))
    }

    /// Reads the header of incarnation `no`.
    ///
    /// # Errors
    /// As for [`Incarnations::load`].
    pub async fn header(&self, no: IncarnationNo) -> Result<Header, Error> {
        Ok(self.sealed(no).await?.header)
    }

    /// Reads at most `limit` headers in numerical order, beginning with incarnation `from`.
    ///
    /// # Errors
    /// If the store fails or is damaged.
    pub async fn headers(&self, from: IncarnationNo, limit: usize) -> Result<Vec<Header>, Error> {
        let mut headers = Vec::new();
        let mut rest = Some(self.sealed_range(from));
        while let Some(range) = rest.filter(|_| headers.len() < limit) {
            let page = self.store.scan(range, limit - headers.len()).await?;
            for (key, row) in &page.rows {
                headers.push(self.sealed_row(key, row)?.header);
            }
            rest = page.rest;
        }
        Ok(headers)
    }

    /// Returns the numbers of all incarnations, in numerical order, without decoding them.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn numbers(&self) -> Result<Vec<IncarnationNo>, Error> {
        let names = record::names::<SealedRow>(&*self.store, &self.partition).await?;
        Ok(names.iter().filter_map(|name| rows::number(name)).collect())
    }

    /// The rows of the incarnations from a number on.
    fn sealed_range(&self, from: IncarnationNo) -> KeyRange {
        KeyRange {
            start: self.key::<SealedRow>(&rows::name(from)),
            ..record::range(&self.partition, <SealedRow as record::Record>::KIND)
        }
    }

    fn sealed_row(&self, key: &Key, row: &Versioned) -> Result<SealedRow, Error> {
        let no = key.as_str().rsplit('/').next().and_then(rows::number);
        let sealed = record::decode::<SealedRow>(key, row)?.value;
        Ok(sealed.check(&self.partition, no.unwrap_or_default())?)
    }

    /// Returns the header of the incarnation that was in force at `time`, among those still stored. `None` means that
    /// there is no stored incarnation that was sealed by then.
    ///
    /// # Errors
    /// If the store fails or is damaged.
    pub async fn as_of(&self, time: Timestamp) -> Result<Option<Header>, Error> {
        const PAGE: usize = 500;
        let (mut from, mut found) = (IncarnationNo(0), None);
        loop {
            let page = self.headers(from, PAGE).await?;
            let full = page.len() == PAGE;
            from = page.last().map_or(from, |last| last.id.no.next());
            let before = |header: &Header| header.sealed_at <= time;
            found = page.into_iter().rfind(before).or(found);
            if !full {
                return Ok(found);
            }
        }
    }

    async fn gather(
        &self,
        numbers: impl Iterator<Item = IncarnationNo> + Send,
    ) -> Result<Vec<Pack>, Error> {
        let mut packs = Vec::new();
        for no in numbers {
            packs.push(match self.at_hand(no) {
                Some(pack) => pack,
                None => packs::read(&*self.store, &self.partition, no).await?,
            });
        }
        Ok(packs)
    }

    async fn sealed(&self, no: IncarnationNo) -> Result<SealedRow, Error> {
        let row = record::load::<SealedRow>(&*self.store, &self.partition, &rows::name(no)).await?;
        let row = row.ok_or(Error::Unknown(no))?;
        Ok(row.value.check(&self.partition, no)?)
    }

    fn at_hand(&self, no: IncarnationNo) -> Option<Pack> {
        self.lock().packs.get(&no).cloned()
    }

    fn remember(&self, no: IncarnationNo, snapshot: &Snapshot) {
        self.know(no);
        self.lock().packs = snapshot.packs().map(|pack| (pack.no(), pack)).collect();
    }

    fn lock(&self) -> MutexGuard<'_, AtHand> {
        self.at_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
