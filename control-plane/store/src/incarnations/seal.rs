//! Sealing: one commit moves the head, and with it everything becomes visible or nothing does.
//!
//! A pack too large for that commit is written ahead of it. Until the head moves nobody knows of those pieces; a crash
//! leaves them behind, and the next seal or removal clears them away.

use prodspec_model::{Incarnation, snapshot::Pack};

use super::{
    Error, Head, Incarnations, packs,
    rows::{self, HeadRow, SealedRow, SealingRow},
};
use crate::{Batch, CommitError, Expect, Record, Store, Version, Write, limit, record};

/// Packs of up to this many bytes go into the commit that moves the head.
const SMALL: usize = 1 << 20;
/// How often a batch is submitted whose fate is not known.
const ATTEMPTS: usize = 4;

impl<S: Store + ?Sized> Incarnations<S> {
    /// Seals `incarnation` as the successor of `after`, the head it was built from. Durable once this returns: it is in
    /// force, and everyone who watches [`Incarnations::topic`] is told.
    ///
    /// `with` is committed along with it: the owner's expectation of its fencing token, records of overrides used.
    ///
    /// # Errors
    /// - [`Error::Misfit`] when the incarnation is not one built from `after`.
    /// - A [`CommitError::Conflict`] when another incarnation was sealed meanwhile, or `with` does not hold. Nothing is
    ///   in force then that was not before.
    /// - [`CommitError::Unknown`] when it could not be found out: read the head before anything else.
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
        let batch = self.publish(batch, incarnation, after)?;
        let version = self.submit(batch).await?;
        let head = Head {
            no: incarnation.no(),
            digest: incarnation.header().digest,
            version,
        };
        self.remember(head.no, incarnation.snapshot());
        Ok(head)
    }

    /// The packs that the store does not have yet.
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
                    "its assets were not edited from those in force",
                ));
            }
        }
        Ok(fresh)
    }

    /// Whether the store has this very pack, not another one of its number.
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

    /// Writes large packs, piece by piece. Returns what the commit of the head must expect of `sealing`, so that no
    /// other writer can have touched the pieces.
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
            .write(record::put(&self.partition, "", &row)?)
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

    /// Adds what puts `incarnation` in force.
    fn publish(
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
            .write(record::put(&self.partition, "", &head)?)
            .announce(rows::topic(&self.partition)))
    }

    /// Expects the head to be where it was.
    fn expecting(&self, batch: Batch, head: Option<&Head>) -> Batch {
        let found = head.map(|head| head.version);
        batch.expect(self.key::<HeadRow>(""), Expect::as_found(found))
    }

    /// Commits `batch`, again and again while it is not known whether it was.
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

    /// Clears away what a crash left behind the head, unless a writer is at work. For removals.
    pub(super) fn clear(&self, batch: Batch, head: &Head) -> Result<Batch, Error> {
        let row = SealingRow {
            after: Some(head.no),
        };
        Ok(self
            .expecting(batch, Some(head))
            .write(record::put(&self.partition, "", &row)?)
            .write(Write::DeleteRange(rows::chunks_beyond(
                &self.partition,
                Some(head.no),
            ))))
    }
}

/// Adds what `with` expects: a writer that lost the partition must not even write ahead.
fn with_expectations(mut batch: Batch, with: &Batch) -> Batch {
    batch.expect.extend_from_slice(&with.expect);
    batch
}
