//! Sealed incarnations: written once, read by id, removed when nobody needs them.
//!
//! - `rows`: what is stored, and how damage is noticed. `packs`: large buffers as rows.
//! - `seal`: one commit puts an incarnation in force. `retain`: what may go.

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

use crate::{Store, Topic, Version, record};
use packs::Packs;
use rows::{HeadRow, SealedRow};

/// The incarnations of one partition in a store.
///
/// ```
/// use std::{collections::BTreeMap, sync::Arc};
/// use plane_store::{Batch, MemoryStore, incarnations::Incarnations};
/// use prodspec_model::{Incarnation, IncarnationId, IncarnationNo, Snapshot, incarnation::Header};
/// # futures::executor::block_on(async {
/// let incarnations = Incarnations::new(Arc::new(MemoryStore::new()), "shakespeare".parse()?);
/// let snapshot = Snapshot::empty();
/// let header = Header {
///     id: IncarnationId::new("shakespeare".parse()?, IncarnationNo(1)),
///     digest: snapshot.digest(),
///     parent: None,
///     sealed_at: "2026-01-01T00:00:00Z".parse()?,
///     sources: BTreeMap::new(),
///     assets: 0,
/// };
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
    /// Held while sealing and removing.
    writing: futures::lock::Mutex<()>,
    store: Arc<S>,
}

/// Which incarnation is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its number.
    pub no: IncarnationNo,
    /// The digest of its assets.
    pub digest: Digest,
    /// The commit that put it in force.
    pub version: Version,
}

/// What is remembered between calls.
#[derive(Debug, Default)]
struct AtHand {
    /// The packs of the snapshot sealed or loaded last: those around it share most of them.
    packs: Packs,
    /// The newest incarnation known to have been sealed.
    known: Option<IncarnationNo>,
}

impl<S: Store + ?Sized> Incarnations<S> {
    /// The incarnations of `partition` in `store`.
    pub fn new(store: Arc<S>, partition: PartitionId) -> Self {
        Self {
            partition,
            at_hand: Mutex::default(),
            writing: futures::lock::Mutex::new(()),
            store,
        }
    }

    /// Says that `no` was sealed: a store without it is refused from here on. What is sealed, read or seen through this
    /// value is known already; this is for what is known from elsewhere, such as from production.
    pub fn know(&self, no: IncarnationNo) {
        let mut at_hand = self.lock();
        at_hand.known = at_hand.known.max(Some(no));
    }

    /// What to watch for new incarnations.
    pub fn topic(&self) -> Topic {
        rows::topic(&self.partition)
    }

    /// The incarnation in force, if there is one.
    ///
    /// # Errors
    /// When the store fails, or has less than what was known of it: [`Error::Younger`].
    pub async fn head(&self) -> Result<Option<Head>, Error> {
        // What is sealed while the head is read need not be in what was read.
        let known = self.lock().known;
        let row = record::load::<HeadRow>(&*self.store, &self.partition, "").await?;
        let head = row.map(|row| Head {
            no: row.value.incarnation,
            digest: row.value.digest,
            version: row.version,
        });
        let found = head.map(|head| head.no);
        if let Some(known) = known.filter(|known| found < Some(*known)) {
            return Err(Error::Younger { known, found });
        }
        let mut at_hand = self.lock();
        at_hand.known = at_hand.known.max(found);
        Ok(head)
    }

    /// The incarnation in force, with its assets.
    ///
    /// # Errors
    /// As [`Incarnations::load`].
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

    /// Incarnation `no`, with its assets. Reads only packs that the incarnation handled last did not have.
    ///
    /// # Errors
    /// [`Error::Unknown`] when it is not in the store; otherwise when the store fails or is damaged.
    pub async fn load(&self, no: IncarnationNo) -> Result<Incarnation, Error> {
        let SealedRow { header, root, .. } = self.sealed(no).await?;
        let packs = match self.gather(root.packs()).await {
            Ok(packs) => packs,
            // Perhaps it was removed between the two reads.
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

    /// The header of incarnation `no`.
    ///
    /// # Errors
    /// As [`Incarnations::load`].
    pub async fn header(&self, no: IncarnationNo) -> Result<Header, Error> {
        Ok(self.sealed(no).await?.header)
    }

    /// The headers from incarnation `from` on, at most `limit`, by number.
    ///
    /// # Errors
    /// When the store fails or is damaged.
    pub async fn headers(&self, from: IncarnationNo, limit: usize) -> Result<Vec<Header>, Error> {
        let mut headers = Vec::new();
        let mut rest = Some(crate::KeyRange {
            start: self.key::<SealedRow>(&rows::name(from)),
            ..record::range(&self.partition, <SealedRow as record::Record>::KIND)
        });
        while let Some(range) = rest.filter(|_| headers.len() < limit) {
            let page = self.store.scan(range, limit - headers.len()).await?;
            for (key, row) in &page.rows {
                let no = key.as_str().rsplit('/').next().and_then(rows::number);
                let sealed = record::decode::<SealedRow>(key, row)?.value;
                let sealed = sealed.check(&self.partition, no.unwrap_or_default())?;
                headers.push(sealed.header);
            }
            rest = page.rest;
        }
        Ok(headers)
    }

    /// The header of the incarnation that was in force at `time`, of those still kept.
    ///
    /// # Errors
    /// When the store fails or is damaged.
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
