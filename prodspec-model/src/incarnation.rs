//! Incarnations: immutable snapshots of a partition's intent.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    asset::Asset,
    digest::Digest,
    id::{AssetId, IncarnationId, IncarnationNo},
    snapshot::Snapshot,
};

/// The name of a source of truth in its partition, such as `manifest.yaml`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceName(pub Arc<str>);

/// Which state of a source was read: a digest, a commit, a version. Compared for equality only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub Arc<str>);

/// What is known of an incarnation beside its assets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Which one it is.
    pub id: IncarnationId,
    /// The digest of all assets, ids and contents.
    pub digest: Digest,
    /// The incarnation it was made from.
    pub parent: Option<IncarnationNo>,
    /// When it was sealed.
    pub sealed_at: Timestamp,
    /// The revision of every source read for it.
    pub sources: BTreeMap<SourceName, Revision>,
    /// How many assets it holds.
    pub assets: u64,
}

/// A sealed incarnation. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Incarnation(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    header: Header,
    snapshot: Snapshot,
}

impl Incarnation {
    /// Joins a header with its assets. For stores and generation; everybody else is handed sealed incarnations.
    pub fn new(header: Header, snapshot: Snapshot) -> Self {
        Self(Arc::new(Inner { header, snapshot }))
    }

    /// What is known of it beside its assets.
    pub fn header(&self) -> &Header {
        &self.0.header
    }

    /// Its id.
    pub fn id(&self) -> &IncarnationId {
        &self.0.header.id
    }

    /// Its sequence number.
    pub fn no(&self) -> IncarnationNo {
        self.0.header.id.no
    }

    /// Its assets.
    pub fn snapshot(&self) -> &Snapshot {
        &self.0.snapshot
    }

    /// One of its assets.
    pub fn asset(&self, id: &AssetId) -> Option<Asset> {
        self.0.snapshot.get(id.as_str())
    }
}
