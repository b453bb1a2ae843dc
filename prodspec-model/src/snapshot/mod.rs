//! The assets of one incarnation as a persistent Merkle search tree.
//!
//! The ends of nodes depend on ids only, so equal content has equal shape and an equal digest, whatever its history. Nodes
//! and assets are blocks of bytes in packs, the same in memory and on disk; an edit writes one pack and shares the rest.
//! With k changes among N assets, an edit and a diff cost O(k log N).
//!
//! - `node`: the bytes of a node. `chunk`: where nodes end. `pack`: the buffers.
//! - `edit`: what an edit changes. `rewrite`: how it changes a tree. `write`: the pack it writes. `forward`: what it moves
//!   out of old packs.
//! - `walk`: from left to right. `diff`: two at once. `load`: from a store.

mod chunk;
mod diff;
mod edit;
mod forward;
mod load;
mod node;
mod pack;
mod rewrite;
mod walk;
mod write;

use std::sync::Arc;

pub use load::{LoadError, Root};
pub use pack::{DamagedPack, Location, Pack};

use crate::{
    asset::Asset,
    digest::Digest,
    id::{AssetId, IncarnationNo},
};
use pack::{Packs, Slot};
use walk::Walk;

/// All assets of one incarnation, ordered by id. Cheap to clone; an edit shares what it did not touch.
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
    /// The root of the tree of references, by target and source.
    references: Option<Location>,
    len: usize,
    packs: Packs,
    /// The pack that the latest edit wrote.
    newest: Option<u32>,
}

/// One difference between two snapshots. At least one side is there, and the sides differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The asset in the older snapshot.
    pub before: Option<Asset>,
    /// The asset in the newer snapshot.
    pub after: Option<Asset>,
}

impl Change {
    /// The asset that differs.
    #[allow(
        clippy::expect_used,
        reason = "a difference has a side: see the type's invariant"
    )]
    pub fn id(&self) -> AssetId {
        self.before
            .as_ref()
            .or(self.after.as_ref())
            .map(Asset::id)
            .expect("one side is there")
    }
}

/// An asset whose content or place differs between two snapshots. At least one side is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// Where the older snapshot has it.
    pub before: Option<Location>,
    /// Where the newer snapshot has it.
    pub after: Option<Location>,
    /// Whether it differs in content, not only in place.
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

    /// A snapshot without assets.
    pub fn empty() -> Self {
        Self::default()
    }

    /// How many assets there are.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The digest of all ids and contents.
    pub fn digest(&self) -> Digest {
        match self.0.assets {
            Some(root) => crate::asset::Block::digest_at(self.0.packs.tail(root)),
            None => Digest::of(&[]),
        }
    }

    /// The asset named `id`.
    pub fn get(&self, id: &str) -> Option<Asset> {
        self.0.packs.asset(self.locate(id)?)
    }

    /// Whether there is an asset named `id`.
    pub fn contains(&self, id: &str) -> bool {
        self.locate(id).is_some()
    }

    /// Where the asset named `id` is.
    pub fn locate(&self, id: &str) -> Option<Location> {
        self.0.locate(id)
    }

    /// The asset at `location`, without a search: what [`Snapshot::locate`] of this snapshot or one before it said,
    /// kept up to date by [`Snapshot::diff_locations`]. `None` when nothing is left of that pack.
    pub fn at(&self, location: Location) -> Option<Asset> {
        self.0.packs.asset(location)
    }

    /// All assets, by id.
    pub fn iter(&self) -> impl Iterator<Item = Asset> {
        self.iter_from("")
    }

    /// All assets whose id is not below `id`, by id.
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

    /// All assets whose id starts with `prefix`, by id.
    pub fn iter_prefix(&self, prefix: &str) -> impl Iterator<Item = Asset> {
        self.iter_from(prefix)
            .take_while(move |asset| asset.id_str().starts_with(prefix))
    }

    /// A snapshot with `put` added or replaced and `removed` taken away, written to pack `no`: the number of the
    /// incarnation it is for, which must not be below that of any edit before.
    ///
    /// Of two in `put` with one id the later counts, an id in both `put` and `removed` is put, and an asset of equal
    /// content keeps its place. When nothing changes, the result is this snapshot itself. An edit of a draft that has
    /// written pack `no` already continues that pack, in a copy.
    #[must_use]
    pub fn edit(&self, no: IncarnationNo, put: Vec<Asset>, removed: &[AssetId]) -> Self {
        match edit::edit(&self.0, no, put, removed) {
            Some(inner) => Self::of(inner),
            None => self.clone(),
        }
    }

    /// What differs in content from this snapshot to `newer`, by id.
    pub fn diff(&self, newer: &Self) -> Vec<Change> {
        diff::content(&self.0, &newer.0)
    }

    /// What differs in content or place from this snapshot to `newer`, by id: for holders of [`Location`]s.
    pub fn diff_locations(&self, newer: &Self) -> Vec<Relocation> {
        diff::places(&self.0, &newer.0)
    }

    /// The assets that refer to `target`, sorted.
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

    /// Every pack that this snapshot reaches into, by number.
    pub fn packs(&self) -> impl Iterator<Item = Pack> {
        self.0.packs.0.iter().map(Slot::pack)
    }

    /// The pack that the latest edit wrote: what has to be kept to keep this snapshot, given that before the edit.
    /// `None` when it was loaded, or nothing is left.
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
