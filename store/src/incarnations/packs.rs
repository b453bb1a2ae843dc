//! Packs as rows: split into pieces for writing, and reassembled when read.

use std::collections::BTreeMap;

use bytes::Bytes;
use prodspec_model::{IncarnationNo, PartitionId, snapshot::Pack};

use super::rows::{self, PackRow};
use crate::{Batch, Error, Store, Write, limit, record};

/// Longest piece of a pack, in bytes. Four of them fit into a batch, with their keys.
const CHUNK: usize = limit::VALUE - limit::KEY;

/// Packs by number.
pub(super) type Packs = BTreeMap<IncarnationNo, Pack>;

/// Splits `pack` into writes of at most [`CHUNK`] bytes.
pub(super) fn pieces(partition: &PartitionId, pack: &Pack) -> impl Iterator<Item = Write> {
    let pieces = pack.bytes().chunks(CHUNK).enumerate();
    pieces.map(move |(nth, piece)| {
        let key = rows::chunk(partition, pack.no(), nth);
        Write::Put(key, Bytes::copy_from_slice(piece))
    })
}

/// The write of the row that describes `pack`.
pub(super) fn row(partition: &PartitionId, pack: &Pack) -> Result<Write, Error> {
    let row = PackRow {
        bytes: pack.bytes().len() as u64,
        digest: pack.digest(),
    };
    record::put(partition, &rows::name(pack.no()), &row)
}

/// Adds the removal of a pack and its pieces to `batch`.
pub(super) fn remove(batch: Batch, partition: &PartitionId, no: IncarnationNo) -> Batch {
    batch
        .write(record::delete::<PackRow>(partition, &rows::name(no)))
        .delete_range(rows::chunks(partition, no))
}

/// Reads one pack and verifies its digest.
pub(super) async fn read(
    store: &(impl Store + ?Sized),
    partition: &PartitionId,
    no: IncarnationNo,
) -> Result<Pack, Error> {
    let what = || format!("pack {no} of {partition}");
    let row = record::load::<PackRow>(store, partition, &rows::name(no)).await?;
    let row = row.ok_or_else(|| Error::damaged(what(), "its row is missing"))?;
    let mut bytes = Vec::new();
    let mut rest = Some(rows::chunks(partition, no));
    while let Some(range) = rest {
        let page = store.scan(range, limit::PAGE / CHUNK).await?;
        for (_, piece) in &page.rows {
            bytes.extend_from_slice(&piece.value);
        }
        rest = page.rest.filter(|_| (bytes.len() as u64) < row.value.bytes);
    }
    Pack::check(no, bytes, row.value.digest).map_err(|error| Error::damaged(what(), error))
}
