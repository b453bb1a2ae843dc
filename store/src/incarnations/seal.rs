//! Sealing: one commit moves the head. With it the whole incarnation becomes visible, or nothing does.
//!
//! A pack that is too large for that commit is written before it. Until the head moves, no reader looks at those
//! pieces. A crash leaves them behind, and the next seal or removal deletes them.

use prodspec_model::{Incarnation, snapshot::Pack};

use super::{
    Error, Head, Incarnations, packs,
    rows::{self, HeadRow, SealedRow, SealingRow},
};
use crate::{Batch, CommitError, Expect, Record, Store, Version, Write, limit, record};

/// Packs of at most this many bytes together are written in the commit that moves the head.
const SMALL: usize = 1 << 20;
/// How often a batch is submitted while its outcome is unknown.
const ATTEMPTS: usize = 4;

impl<S: Store + ?Sized> Incarnations<S> {
    /// Seals `incarnation` as the successor of `after`, the head from which it was built (`None` for the first one).
    /// Once this returns, the incarnation is durable and in force, and the watchers of [`Incarnations::topic`] get a
    /// hint.
    ///
    /// `with` is committed together with it: the owner's expectation of its fencing token, and records of the overrides
    /// used.
    ///
    /// # Errors
    /// - [`Error::Misfit`] if the incarnation was not built from `after`.
    /// - [`CommitError::Conflict`] if another incarnation was sealed meanwhile, or an expectation of `with` does not
    ///   hold. The incarnation in force is unchanged by this call.
    /// - [`CommitError::Unknown`] if the outcome could not be determined: read the head before doing anything else.
    pub async fn seal(
        &self,
        incarnation: &Incarnation,
        after: Option<&Head>,
        with: Batch,
    ) -> Result<Head, Error> {
        let _alone = self.writing.lock().await;
        let fresh = self.fresh(incarnation, after).await?;
        let mut batch = with;
        let bytes: usize = fresh.iter().map(|pack| pack.bytes().len()).sum();
        if bytes + batch.bytes() <= SMALL {
            batch = batch.delete_range(rows::chunks_beyond(
                &self.partition,
                after.map(|head| head.no),
            ));
            for pack in &fresh {
                batch.writes.extend(packs::pieces(&self.partition, pack));
            }
        } else {
            let sealing = self.write_ahead(&fresh, after, &batch).await?;
            batch = batch.expect_at(self.key::<SealingRow>(""), sealing);
        }
        for pack in &fresh {
            batch = batch.write(packs::row(&self.partition, pack)?);
        }
        let batch = self.publish(batch, incarnation, after).await?;
        let version = self.submit(batch).await?;
        let head = Head {
            no: incarnation.no(),
            digest: incarnation.header().digest,
            version,
        };
        self.remember(head.no, incarnation.snapshot());
        self.lock().sealed = Some(head.no);
        Ok(head)
    }

    /// Returns the packs that the store does not have yet, and checks that the incarnation was built from `after`.
    async fn fresh(
        &self,
        incarnation: &Incarnation,
        after: Option<&Head>,
    ) -> Result<Vec<Pack>, Error> {
        let header = incarnation.header();
        if header.id.partition != self.partition {
            return Err(Error::Misfit("it belongs to another partition"));
        }
        if header.parent != after.map(|head| head.no) || Some(header.id.no) <= header.parent {
            return Err(Error::Misfit("its parent is not the incarnation in force"));
        }
        if !rows::describes(header, incarnation.snapshot()) {
            return Err(Error::Misfit("its header does not describe its assets"));
        }
        let parent = match after {
            Some(head) => self.sealed(head.no).await?.root.packs().collect(),
            None => Vec::new(),
        };
        let mut fresh = Vec::new();
        for pack in incarnation.snapshot().packs() {
            if header.parent.is_none_or(|parent| pack.no() > parent) && pack.no() <= header.id.no {
                fresh.push(pack);
            } else if !parent.contains(&pack.no()) || !self.is_stored(&pack).await? {
                return Err(Error::Misfit(
                    "its assets were not edited from the assets in force",
                ));
            }
        }
        Ok(fresh)
    }

    /// Whether the store has exactly this pack, and not another one with the same number.
    async fn is_stored(&self, pack: &Pack) -> Result<bool, Error> {
        if let Some(known) = self.at_hand(pack.no())
            && std::sync::Arc::ptr_eq(known.bytes(), pack.bytes())
        {
            return Ok(true);
        }
        let name = rows::name(pack.no());
        let row = record::load::<rows::PackRow>(&*self.store, &self.partition, &name).await?;
        Ok(row.is_some_and(|row| row.value.digest == pack.digest()))
    }

    /// Writes large packs in pieces. Returns the version of the `sealing` row: the commit of the head expects it, so
    /// that it fails if another writer touched the pieces.
    async fn write_ahead(
        &self,
        fresh: &[Pack],
        after: Option<&Head>,
        with: &Batch,
    ) -> Result<Version, Error> {
        let no = after.map(|head| head.no);
        let row = SealingRow { after: no };
        let first = self
            .expecting(Batch::new(), after)
            .write(record::replace(&*self.store, &self.partition, "", row).await?)
            .delete_range(rows::chunks_beyond(&self.partition, no));
        let sealing = self.submit(with_expectations(first, with)).await?;
        let next = || {
            let batch = self.expecting(Batch::new(), after);
            with_expectations(batch.expect_at(self.key::<SealingRow>(""), sealing), with)
        };
        let mut batch = next();
        for piece in fresh
            .iter()
            .flat_map(|pack| packs::pieces(&self.partition, pack))
        {
            if batch.bytes() + piece.bytes() > limit::BATCH {
                self.submit(std::mem::replace(&mut batch, next())).await?;
            }
            batch = batch.write(piece);
        }
        self.submit(batch).await?;
        Ok(sealing)
    }

    /// Adds the writes that put `incarnation` in force.
    async fn publish(
        &self,
        batch: Batch,
        incarnation: &Incarnation,
        after: Option<&Head>,
    ) -> Result<Batch, Error> {
        let header = incarnation.header().clone();
        let name = rows::name(header.id.no);
        let head = HeadRow {
            incarnation: header.id.no,
            digest: header.digest,
        };
        let sealed = SealedRow::new(header, incarnation.snapshot().root())?;
        Ok(self
            .expecting(batch, after)
            .expect_absent(self.key::<SealedRow>(&name))
            .write(record::put(&self.partition, &name, &sealed)?)
            .write(record::replace(&*self.store, &self.partition, "", head).await?)
            .announce(rows::topic(&self.partition)))
    }

    /// Adds the expectation that no incarnation was sealed since `head` was read. `None` means that there was none.
    pub fn expecting(&self, batch: Batch, head: Option<&Head>) -> Batch {
        let found = head.map(|head| head.version);
        batch.expect(self.key::<HeadRow>(""), Expect::as_found(found))
    }

    /// Commits `batch`, and submits it again while its outcome is unknown, up to [`ATTEMPTS`] times.
    pub(super) async fn submit(&self, batch: Batch) -> Result<Version, CommitError> {
        let mut attempt = 1;
        loop {
            match self.store.commit(batch.clone()).await {
                Err(CommitError::Unknown { .. }) if attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    pub(super) fn key<R: Record>(&self, name: &str) -> crate::Key {
        record::key(&self.partition, R::KIND, name)
    }

    /// Deletes leftovers of crashes beyond the head, and makes a concurrent writer of pieces fail. For removals.
    pub(super) async fn clear(&self, batch: Batch, head: &Head) -> Result<Batch, Error> {
        let row = SealingRow {
            after: Some(head.no),
        };
        Ok(self
            .expecting(batch, Some(head))
            .write(record::replace(&*self.store, &self.partition, "", row).await?)
            .write(Write::DeleteRange(rows::chunks_beyond(
                &self.partition,
                Some(head.no),
            ))))
    }
}

/// Adds the expectations of `with`, so that a writer that lost the partition writes no pieces either.
fn with_expectations(mut batch: Batch, with: &Batch) -> Batch {
    batch.expect.extend_from_slice(&with.expect);
    batch
}
