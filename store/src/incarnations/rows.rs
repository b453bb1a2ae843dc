//! The rows of an incarnation: their keys, and the digests that reveal damage.
//!
//! ```text
//! head/PARTITION                       which incarnation is in force, and its digest
//! incarnation/PARTITION/0000000042     header and root, with a digest over both
//! pack/PARTITION/0000000042            length and digest of a pack
//! chunk/PARTITION/0000000042/00000     its bytes, in pieces
//! sealing/PARTITION                    written by each writer or remover of chunks beyond the head
//! ```

use plugin_sdk::BoxError;
use prodspec_model::{
    Digest, IncarnationNo, PartitionId, Snapshot, canonical, incarnation::Header, snapshot::Root,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Key, KeyRange, Record, Topic, record};

/// The row that names the incarnation in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeadRow {
    pub(super) incarnation: IncarnationNo,
    pub(super) digest: Digest,
}

impl Record for HeadRow {
    const KIND: &'static str = "head";
}

/// The row of one incarnation: everything but its packs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub(super) struct SealedRow {
    pub(super) header: Header,
    pub(super) root: Root,
    sum: Digest,
    /// The digest of header and root as they are stored, with fields that only a newer version knows.
    #[serde(skip)]
    found: Digest,
}

/// The row of one incarnation as it is stored.
#[derive(Deserialize)]
struct Stored {
    header: Value,
    root: Value,
    sum: Digest,
}

impl TryFrom<Stored> for SealedRow {
    type Error = BoxError;

    fn try_from(Stored { header, root, sum }: Stored) -> Result<Self, BoxError> {
        Ok(Self {
            found: self::sum(&header, &root)?,
            header: serde_json::from_value(header)?,
            root: serde_json::from_value(root)?,
            sum,
        })
    }
}

impl Record for SealedRow {
    const KIND: &'static str = "incarnation";
}

impl SealedRow {
    pub(super) fn new(header: Header, root: Root) -> Result<Self, Error> {
        let sum = sum(&header, &root)?;
        Ok(Self {
            header,
            root,
            sum,
            found: sum,
        })
    }

    /// Checks that the row is the one that was sealed as `no`.
    pub(super) fn check(self, partition: &PartitionId, no: IncarnationNo) -> Result<Self, Error> {
        let fits = self.header.id.no == no && &self.header.id.partition == partition;
        if fits && self.found == self.sum {
            return Ok(self);
        }
        let key = record::key(partition, Self::KIND, &name(no));
        Err(Error::damaged(
            format!("the record `{key}`"),
            "its content does not match its digest",
        ))
    }
}

fn sum(header: &impl Serialize, root: &impl Serialize) -> Result<Digest, Error> {
    let bytes = canonical::to_bytes(&(header, root));
    bytes
        .map(|bytes| Digest::of(&bytes))
        .map_err(|error| Error::damaged("an incarnation's header", error))
}

/// The row of one pack: everything but its bytes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct PackRow {
    pub(super) bytes: u64,
    pub(super) digest: Digest,
}

impl Record for PackRow {
    const KIND: &'static str = "pack";
}

/// The row that orders writers of chunks beyond the head: its version shows that another writer came in between.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct SealingRow {
    pub(super) after: Option<IncarnationNo>,
}

impl Record for SealingRow {
    const KIND: &'static str = "sealing";
}

/// Formats a number for a key, so that keys sort by number.
pub(super) fn name(no: IncarnationNo) -> String {
    format!("{:010}", no.0)
}

/// Parses the number of a key.
pub(super) fn number(name: &str) -> Option<IncarnationNo> {
    name.parse().ok().map(IncarnationNo)
}

/// Key of piece `nth` of a pack.
pub(super) fn chunk(partition: &PartitionId, no: IncarnationNo, nth: usize) -> Key {
    format!("chunk/{partition}/{}/{nth:05}", name(no)).into()
}

/// Keys of all pieces of one pack.
pub(super) fn chunks(partition: &PartitionId, no: IncarnationNo) -> KeyRange {
    KeyRange::prefix(&format!("chunk/{partition}/{}/", name(no)))
}

/// Keys of all pieces of packs with higher numbers than `no`. They were left behind by a crash, or are being written.
pub(super) fn chunks_beyond(partition: &PartitionId, no: Option<IncarnationNo>) -> KeyRange {
    let all = KeyRange::prefix(&format!("chunk/{partition}/"));
    let first = no.map_or(IncarnationNo(0), IncarnationNo::next);
    KeyRange {
        start: format!("chunk/{partition}/{}/", name(first)).into(),
        ..all
    }
}

/// The topic announced when a new incarnation of `partition` is in force.
pub(super) fn topic(partition: &PartitionId) -> Topic {
    Topic::from(format!("head/{partition}"))
}

/// Whether `header` describes `snapshot`.
pub(super) fn describes(header: &Header, snapshot: &Snapshot) -> bool {
    header.digest == snapshot.digest() && header.assets == snapshot.len() as u64
}
