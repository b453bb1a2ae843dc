//! Retention: removes old incarnations, and the packs and external contents that no other incarnation uses.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use prodspec_model::IncarnationNo;

use super::{
    Error, Incarnations, packs,
    rows::{self, PackRow, SealedRow},
};
use crate::{Batch, Store, contents::Contents, record};

/// Maximum number of incarnations or packs removed by one batch.
const PER_BATCH: usize = 1000;

/// Which incarnations to keep: those that at least one of the rules keeps, and always the one in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// Keep all incarnations newer than this one. The rest of this value was computed before they were sealed, so it
    /// does not know who refers to them.
    pub after: IncarnationNo,
    /// Keep this many of the newest incarnations.
    pub count: usize,
    /// Keep incarnations that were sealed at most this long ago.
    pub age: Duration,
    /// Keep these: they are pinned, part of a live rollout, or cited by a kept decision.
    pub pinned: BTreeSet<IncarnationNo>,
}

/// The incarnations, packs and contents that were removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    /// Numbers of the removed incarnations.
    pub incarnations: Vec<IncarnationNo>,
    /// Numbers of the removed packs, which no incarnation used any more.
    pub packs: Vec<IncarnationNo>,
    /// Number of removed contents, to which no incarnation referred any more.
    pub contents: usize,
}

impl<S: Store + ?Sized> Incarnations<S> {
    /// Removes incarnations that `keep` does not keep, and leftovers of crashes. Every batch has the expectations of
    /// `with`: the owner's fencing token, and the pins from which `keep` was computed.
    ///
    /// Incarnations are removed before packs, so that every readable incarnation is complete at every instant.
    ///
    /// # Errors
    /// If the store fails, or another incarnation was sealed meanwhile: then read the pins again and try again.
    pub async fn retain(
        &self,
        keep: &Keep,
        now: Timestamp,
        with: &Batch,
    ) -> Result<Removed, Error> {
        // Most rows are read before seals have to wait.
        let mut sealed = self.sealed_from(IncarnationNo(0)).await?;
        let _alone = self.writing.lock().await;
        let Some(head) = self.head().await? else {
            return Ok(Removed::default());
        };
        let next = sealed.last().map(|row| row.header.id.no.next());
        sealed.extend(self.sealed_from(next.unwrap_or_default()).await?);
        let found = sealed.last().map(|row| row.header.id.no);
        if found != Some(head.no) {
            // The list is from an older state than the head, so the packs of the newest incarnation are not known.
            let known = head.no;
            return Err(Error::Younger { known, found });
        }
        let mut removed = Removed::default();
        let reached = sort_out(&sealed, keep, (head.no, now), &mut removed.incarnations);
        for name in record::names::<PackRow>(&*self.store, &self.partition).await? {
            let no = rows::number(&name);
            removed
                .packs
                .extend(no.filter(|no| *no <= head.no && !reached.contains(no)));
        }
        let start = async || {
            let mut batch = Batch::new();
            batch.expect.extend_from_slice(&with.expect);
            self.clear(batch, &head).await
        };
        for some in removed.incarnations.chunks(PER_BATCH) {
            let mut batch = start().await?;
            for no in some {
                let name = rows::name(*no);
                batch = batch.write(record::delete::<SealedRow>(&self.partition, &name));
            }
            self.submit(batch).await?;
        }
        for some in removed.packs.chunks(PER_BATCH) {
            let remove = |batch, no: &IncarnationNo| packs::remove(batch, &self.partition, *no);
            self.submit(some.iter().fold(start().await?, remove))
                .await?;
        }
        if removed == Removed::default() {
            self.submit(start().await?).await?;
        }
        removed.contents = self.retain_contents(&sealed, &removed, with).await?;
        Ok(removed)
    }

    /// Removes the external contents to which none of the incarnations refers that were not `removed`.
    async fn retain_contents(
        &self,
        sealed: &[SealedRow],
        removed: &Removed,
        with: &Batch,
    ) -> Result<usize, Error> {
        let gone: BTreeSet<IncarnationNo> = removed.incarnations.iter().copied().collect();
        let all = sealed.iter().map(|row| row.header.id.no);
        let kept = all.filter(|no| !gone.contains(no)).collect();
        let contents = Contents::new(self.store.clone(), self.partition.clone());
        Ok(contents.retain(&kept, with).await?)
    }

    /// Reads the sealed rows from a number on, in numerical order.
    async fn sealed_from(&self, from: IncarnationNo) -> Result<Vec<SealedRow>, Error> {
        let mut sealed = Vec::new();
        let mut rest = Some(self.sealed_range(from));
        while let Some(range) = rest {
            let page = self.store.scan(range, PER_BATCH).await?;
            for (key, row) in &page.rows {
                sealed.push(self.sealed_row(key, row)?);
            }
            rest = page.rest;
        }
        Ok(sealed)
    }
}

/// Adds the incarnations that `keep` does not keep to `removed`. Returns the packs that the others use.
fn sort_out(
    sealed: &[SealedRow],
    keep: &Keep,
    (head, now): (IncarnationNo, Timestamp),
    removed: &mut Vec<IncarnationNo>,
) -> BTreeSet<IncarnationNo> {
    let mut reached = BTreeSet::new();
    let newest = sealed.len().saturating_sub(keep.count);
    for (nth, row) in sealed.iter().enumerate() {
        let no = row.header.id.no;
        let age = now.duration_since(row.header.sealed_at);
        let young = SignedDuration::try_from(keep.age).is_ok_and(|limit| age <= limit);
        let newer = no > keep.after || no >= head;
        if nth >= newest || young || newer || keep.pinned.contains(&no) {
            reached.extend(row.root.packs());
        } else {
            removed.push(no);
        }
    }
    reached
}
