//! Incarnations: immutable, numbered versions of all assets of a partition.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    asset::Asset,
    digest::Digest,
    id::{AssetId, IncarnationId, IncarnationNo},
    snapshot::{Change, Snapshot},
};

/// The name of a source of truth, unique in its partition, such as `manifest.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceName(pub Arc<str>);

/// The state of a source that was read, such as a digest, a commit or a version. Compared for equality only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub Arc<str>);

/// The description of an incarnation: everything except its assets. Made by [`Header::new`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// The partition and sequence number of the incarnation.
    pub id: IncarnationId,
    /// The digest over the ids and contents of all assets.
    pub digest: Digest,
    /// The incarnation that was in force when this one was sealed. `None` for the first one.
    pub parent: Option<IncarnationNo>,
    /// The time at which the incarnation was sealed.
    pub sealed_at: Timestamp,
    /// The revision of every source that was read for the incarnation.
    pub sources: BTreeMap<SourceName, Revision>,
    /// The number of assets in the incarnation.
    pub assets: u64,
}

impl Header {
    /// Describes the incarnation `id`, which has the assets of `snapshot` and follows `parent`. It names no sources;
    /// set [`Header::sources`] if the assets were generated.
    pub fn new(
        id: IncarnationId,
        parent: Option<IncarnationNo>,
        snapshot: &Snapshot,
        sealed_at: Timestamp,
    ) -> Self {
        Self {
            id,
            digest: snapshot.digest(),
            parent,
            sealed_at,
            sources: BTreeMap::new(),
            assets: snapshot.len() as u64,
        }
    }
}

/// A sealed incarnation: its header and its assets. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Incarnation(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    header: Header,
    snapshot: Snapshot,
}

impl Incarnation {
    /// Combines a header with the assets that it describes. Only stores and generation call this; all other code
    /// receives incarnations that are already sealed.
    pub fn new(header: Header, snapshot: Snapshot) -> Self {
        Self(Arc::new(Inner { header, snapshot }))
    }

    /// The header, which describes the incarnation without its assets.
    pub fn header(&self) -> &Header {
        &self.0.header
    }

    /// The partition and sequence number of the incarnation.
    pub fn id(&self) -> &IncarnationId {
        &self.0.header.id
    }

    /// The sequence number of the incarnation in its partition.
    pub fn no(&self) -> IncarnationNo {
        self.0.header.id.no
    }

    /// All assets of the incarnation.
    pub fn snapshot(&self) -> &Snapshot {
        &self.0.snapshot
    }

    /// The asset with this id. `None`: the incarnation has no such asset.
    pub fn asset(&self, id: &AssetId) -> Option<Asset> {
        self.0.snapshot.get(id.as_str())
    }
    /// Compares each of `incarnations` with the next newer one, the oldest first. Each item holds the changes of one
    /// such step. The order of `incarnations` does not matter, and each counts once.
    ///
    /// Use it where many incarnations are compared with the newest one: each change is then examined once, and not
    /// once for every older incarnation.
    pub fn changes_step_by_step(
        incarnations: impl IntoIterator<Item = Self>,
    ) -> impl Iterator<Item = Vec<Change>> {
        let by_no = incarnations.into_iter().map(|of| (of.no(), of));
        let sorted: BTreeMap<IncarnationNo, Self> = by_no.collect();
        let mut rest = sorted.into_values();
        let mut before = rest.next();
        rest.map(move |after| {
            let older = before.replace(after.clone());
            let older = older.map_or_else(Snapshot::empty, |older| older.snapshot().clone());
            older.diff(after.snapshot())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::PartitionId, rollout::RolloutPolicy};

    fn incarnation(no: u32, snapshot: Snapshot) -> Incarnation {
        let id = IncarnationId::new(PartitionId::new("test").unwrap(), IncarnationNo(no));
        let header = Header::new(id, None, &snapshot, Timestamp::UNIX_EPOCH);
        Incarnation::new(header, snapshot)
    }

    #[test]
    fn changes_are_those_of_each_step_from_old_to_new() {
        let id = |name| AssetId::new(name).unwrap();
        let asset = |name| Asset::builder(id(name)).payload(&RolloutPolicy::default());
        let asset = |name| asset(name).unwrap().build().unwrap();
        let none = Snapshot::empty();
        let one = none.edit(IncarnationNo(3), vec![asset("a")], &[]);
        let two = one.edit(IncarnationNo(5), vec![asset("b"), asset("c")], &[]);
        let all = [(5, two.clone()), (2, none), (5, two), (3, one)];
        let all = all.map(|(no, snapshot)| incarnation(no, snapshot));
        let ids = |changes: Vec<Change>| changes.iter().map(Change::id).collect::<Vec<_>>();
        let steps: Vec<_> = Incarnation::changes_step_by_step(all).map(ids).collect();
        assert_eq!(steps, [vec![id("a")], vec![id("b"), id("c")]]);
    }
}
