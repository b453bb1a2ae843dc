//! The assets of one incarnation as a persistent Merkle search tree.
//!
//! The boundaries between nodes depend on ids only. Equal content therefore has an equal shape and an equal digest,
//! whatever edits led to it. Nodes and assets are blocks of bytes in packs, the same in memory and on disk; an edit
//! writes one pack and shares the other packs. With k changes among N assets, an edit and a diff cost O(k log N).
//!
//! - `node`: the bytes of a node. `chunk`: the boundaries between nodes. `pack`: the buffers.
//! - `edit`: the changes of one edit. `rewrite`: their application to a tree. `write`: the new pack. `forward`: the
//!   blocks that an edit moves out of old packs.
//! - `walk`: a walk through one tree from left to right. `diff`: a walk through two trees. `load`: loading from a
//!   store.

mod chunk;
mod diff;
mod edit;
mod forward;
mod load;
mod node;
mod of_type;
mod pack;
mod rewrite;
mod table;
mod walk;
mod write;

use std::sync::Arc;

pub use load::{LoadError, Root};
pub use of_type::OfType;
pub use pack::{DamagedPack, Location, Pack};

use crate::{
    asset::Asset,
    digest::Digest,
    id::{AssetId, IncarnationNo},
};
use table::{Packs, Slot};
use walk::Walk;

/// All assets of one incarnation, sorted by id. Cheap to clone; snapshots share the parts that an edit did not change.
///
/// ```
/// use prodspec_model::{Asset, AssetId, IncarnationNo, Message, Snapshot};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Job { replicas: u32 }
/// impl Message for Job { const TYPE: &'static str = "test.v1.Job"; }
/// let job = |id: &str, replicas| -> Result<Asset, Box<dyn std::error::Error>> {
///     Ok(Asset::builder(AssetId::new(id)?).payload(&Job { replicas })?.build()?)
/// };
///
/// let first = Snapshot::empty().edit(IncarnationNo(1), vec![job("job/eu", 2)?, job("job/us", 2)?], &[]);
/// let second = first.edit(IncarnationNo(2), vec![job("job/us", 3)?], &[]);
/// let changes = first.diff(&second);
/// assert_eq!(changes.len(), 1);
/// assert_eq!(changes[0].id().as_str(), "job/us");
/// assert_eq!(second.get("job/us").map(|job| job.payload_json().to_owned()).as_deref(), Some(r#"{"replicas":3}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Snapshot(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// The root of the tree from id to asset.
    assets: Option<Location>,
    /// The root of the tree of references, sorted by target, then by source.
    references: Option<Location>,
    len: usize,
    packs: Packs,
    /// The number of the pack that the latest edit wrote. `None`: the snapshot was loaded or is empty.
    newest: Option<u32>,
}

/// One asset that differs between two snapshots. At least one of `before` and `after` is `Some`, and they differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The asset in the older snapshot. `None`: the asset was added.
    pub before: Option<Asset>,
    /// The asset in the newer snapshot. `None`: the asset was removed.
    pub after: Option<Asset>,
}

impl Change {
    /// The id of the asset that differs.
    #[allow(
        clippy::expect_used,
        reason = "the type's invariant: `before` or `after` is `Some`"
    )]
    pub fn id(&self) -> AssetId {
        self.before
            .as_ref()
            .or(self.after.as_ref())
            .map(Asset::id)
            .expect("`before` or `after` is `Some`")
    }
}

/// An asset whose content or location differs between two snapshots. At least one of the two locations is `Some`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// The asset's location in the older snapshot. `None`: the asset was added.
    pub before: Option<Location>,
    /// The asset's location in the newer snapshot. `None`: the asset was removed.
    pub after: Option<Location>,
    /// True when the content differs; false when only the location does.
    pub changed: bool,
}

impl Inner {
    fn locate(&self, id: &str) -> Option<Location> {
        let (_, leaf) = walk::seek(&self.packs, self.assets?, 0, id.as_bytes());
        match leaf.find(id.as_bytes()) {
            (nth, true) => Some(leaf.location(nth)),
            _ => None,
        }
    }

    fn located(&self, id: &str) -> Option<(Location, Asset)> {
        let at = self.locate(id)?;
        Some((at, self.packs.asset(at)?))
    }
}

impl Snapshot {
    fn of(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// Creates a snapshot without assets.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The number of assets in the snapshot.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether the snapshot has no assets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The digest over the ids and contents of all assets.
    pub fn digest(&self) -> Digest {
        match self.0.assets {
            Some(root) => crate::asset::Block::digest_at(self.0.packs.tail(root)),
            None => Digest::of(&[]),
        }
    }

    /// The asset with the id `id`. `None`: the snapshot has no such asset.
    pub fn get(&self, id: &str) -> Option<Asset> {
        self.0.packs.asset(self.locate(id)?)
    }

    /// Whether the snapshot has an asset with the id `id`.
    pub fn contains(&self, id: &str) -> bool {
        self.locate(id).is_some()
    }

    /// The location of the asset with the id `id`. `None`: the snapshot has no such asset.
    pub fn locate(&self, id: &str) -> Option<Location> {
        self.0.locate(id)
    }

    /// The asset at `location`, without a search.
    ///
    /// The location must come from [`Snapshot::locate`] of this snapshot, or from an older one and kept up to date with
    /// [`Snapshot::diff_locations`]. `None`: the snapshot no longer contains that pack.
    pub fn at(&self, location: Location) -> Option<Asset> {
        self.0.packs.asset(location)
    }

    /// Brings the bytes of several assets into the processor's caches at once, so that reading them one after the other
    /// soon afterwards does not wait for memory each time. Meant for some tens of assets; it has no other effect.
    /// Locations are as for [`Snapshot::at`].
    pub fn read_ahead(&self, locations: impl IntoIterator<Item = Location>) {
        let lines = locations.into_iter().map(|at| self.0.packs.first_lines(at));
        std::hint::black_box(lines.fold(0, |all, line| all ^ line));
    }

    /// All assets of the snapshot, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = Asset> {
        self.iter_from("")
    }

    /// All assets whose id is `id` or greater, sorted by id.
    pub fn iter_from(&self, id: &str) -> impl Iterator<Item = Asset> {
        let packs = &self.0.packs;
        let key = id.as_bytes();
        let mut walk = self.0.assets.map(|root| Walk::seek(packs, root, 0, key));
        let mut nth = walk.as_ref().map_or(0, |walk| walk.node().find(key).0);
        std::iter::from_fn(move || {
            let walk = walk.as_mut()?;
            if nth == walk.node().count() {
                if !walk.advance() {
                    return None;
                }
                nth = 0;
            }
            nth += 1;
            packs.asset(walk.node().location(nth - 1))
        })
    }

    /// All assets whose id starts with `prefix`, sorted by id.
    pub fn iter_prefix(&self, prefix: &str) -> impl Iterator<Item = Asset> {
        self.iter_from(prefix)
            .take_while(move |asset| asset.id_str().starts_with(prefix))
    }

    /// A new snapshot in which the assets of `put` are added or replaced and those of `removed` are removed.
    ///
    /// The edit writes pack `no`: the number of the incarnation that the snapshot is for. The number must not be less
    /// than that of an earlier edit.
    ///
    /// If two assets in `put` have the same id, the later one is used. An id in both `put` and `removed` is put. An
    /// asset of equal content keeps its location. When nothing changes, the result is this snapshot itself. When this
    /// snapshot is a draft that has already written pack `no`, the edit continues that pack in a copy.
    #[must_use]
    pub fn edit(&self, no: IncarnationNo, put: Vec<Asset>, removed: &[AssetId]) -> Self {
        match edit::edit(&self.0, no, put, removed) {
            Some(inner) => Self::of(inner),
            None => self.clone(),
        }
    }

    /// The assets whose content differs between this snapshot and `newer`, sorted by id.
    pub fn diff(&self, newer: &Self) -> Vec<Change> {
        diff::content(&self.0, &newer.0)
    }

    /// The assets whose content or location differs between this snapshot and `newer`, sorted by id. For callers that
    /// keep [`Location`]s.
    pub fn diff_locations(&self, newer: &Self) -> Vec<Relocation> {
        diff::places(&self.0, &newer.0)
    }

    /// The ids of all assets that refer to `target`, sorted.
    pub fn referrers(&self, target: &str) -> Vec<AssetId> {
        let mut found = Vec::new();
        let Some(root) = self.0.references else {
            return found;
        };
        let prefix = edit::reference_prefix(target);
        let mut walk = Walk::seek(&self.0.packs, root, 0, &prefix);
        loop {
            let mut keys = walk.node().keys();
            while let Some(key) = keys.next() {
                if let Some(source) = key.strip_prefix(&prefix[..]) {
                    let source = std::str::from_utf8(source).unwrap_or_default();
                    found.push(AssetId::trusted(source));
                } else if *key > *prefix {
                    return found;
                }
            }
            if !walk.advance() {
                return found;
            }
        }
    }

    /// Every pack that holds a part of this snapshot, sorted by number.
    pub fn packs(&self) -> impl Iterator<Item = Pack> {
        self.0.packs.0.iter().map(Slot::pack)
    }

    /// The pack that the latest edit wrote. A store that has the snapshot before the edit needs only this pack in
    /// addition. `None`: the snapshot was loaded, or no block of that pack is in use.
    pub fn new_pack(&self) -> Option<Pack> {
        self.0.packs.slot(self.0.newest?).map(Slot::pack)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("len", &self.len())
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
