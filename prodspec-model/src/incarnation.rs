//! Incarnations: immutable, numbered versions of all assets of a partition.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    asset::Asset,
    digest::Digest,
    id::{AssetId, IncarnationId, IncarnationNo},
    snapshot::Snapshot,
};

/// The name of a source of truth, unique in its partition, such as `manifest.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceName(pub Arc<str>);

/// The state of a source that was read, such as a digest, a commit or a version. Compared for equality only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub Arc<str>);

/// The description of an incarnation: everything except its assets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
}
