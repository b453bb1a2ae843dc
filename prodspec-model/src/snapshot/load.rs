//! Saving a snapshot as a small descriptor (its root) with its packs, and loading it again.

use serde::{Deserialize, Serialize};

use super::{
    Inner, Snapshot,
    node::{HEADER, Node, Tree},
    pack::{Location, NODE, Pack, UNIT, length_word},
    table::{Packs, Slot},
};
use crate::{digest::Digest, id::IncarnationNo};

/// The descriptor of a snapshot without the content of its packs. It is small and is kept with the incarnation's
/// header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    assets: Option<Location>,
    references: Option<Location>,
    len: u64,
    digest: Digest,
    packs: Vec<Reach>,
}

/// The part of one pack that is live in a snapshot: `live` units of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Reach {
    no: IncarnationNo,
    live: u32,
}

impl Root {
    /// The numbers of the packs that are needed to load the snapshot, in ascending order.
    pub fn packs(&self) -> impl Iterator<Item = IncarnationNo> {
        self.packs.iter().map(|reach| reach.no)
    }
}

/// The reasons for which a snapshot cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A pack that the root names was not given to [`Snapshot::load`].
    #[error("pack {0} is missing; load every pack that the root names")]
    Missing(IncarnationNo),
    /// The root and the packs do not belong together. The text says which check failed.
    #[error(
        "the root of a snapshot does not match its packs: {0}; restore the store from a backup"
    )]
    Misfit(&'static str),
}

impl Snapshot {
    /// The descriptor from which [`Snapshot::load`] loads this snapshot, together with its packs.
    pub fn root(&self) -> Root {
        let reach = |slot: &Slot| Reach {
            no: IncarnationNo(slot.no),
            live: slot.live,
        };
        Root {
            assets: self.0.assets,
            references: self.0.references,
            len: self.0.len as u64,
            digest: self.digest(),
            packs: self.0.packs.0.iter().map(reach).collect(),
        }
    }

    /// Loads a snapshot from its root and its packs. Packs that `root` does not name are ignored.
    ///
    /// The cost does not depend on the number of assets, because [`Pack::check`] has already verified the packs.
    ///
    /// # Errors
    /// When a pack is missing, or when `root` and the packs do not belong together.
    pub fn load(root: &Root, packs: impl IntoIterator<Item = Pack>) -> Result<Self, LoadError> {
        let mut given: Vec<Pack> = packs.into_iter().collect();
        given.sort_by_key(Pack::no);
        let mut slots = Vec::with_capacity(root.packs.len());
        for reach in &root.packs {
            let at = given.binary_search_by_key(&reach.no, Pack::no);
            let bytes = at.map(|at| given[at].bytes().clone());
            let bytes = bytes.map_err(|_| LoadError::Missing(reach.no))?;
            if !(1..=bytes.len() / UNIT).contains(&(reach.live as usize)) {
                return Err(LoadError::Misfit(
                    "the live size of a pack is zero, or more than its length",
                ));
            }
            slots.push(Slot {
                no: reach.no.0,
                live: reach.live,
                bytes,
            });
        }
        if !slots.is_sorted_by(|a, b| a.no < b.no) {
            return Err(LoadError::Misfit("the packs are not in order"));
        }
        let packs = Packs(slots);
        check(&packs, root.assets, Tree::Assets)?;
        check(&packs, root.references, Tree::References)?;
        let snapshot = Self::of(Inner {
            assets: root.assets,
            references: root.references,
            len: usize::try_from(root.len).unwrap_or(usize::MAX),
            packs,
            newest: None,
        });
        match snapshot.digest() == root.digest {
            true => Ok(snapshot),
            false => Err(LoadError::Misfit("the digest of the assets differs")),
        }
    }
}

/// Checks that there is a node of `tree` at `root`. `None`: the tree is empty.
fn check(packs: &Packs, root: Option<Location>, tree: Tree) -> Result<(), LoadError> {
    let Some(root) = root else { return Ok(()) };
    let tail = packs.tail(root);
    let fits = tail.len() >= HEADER && {
        let word = length_word(tail);
        let length = (word & !NODE) as usize;
        word & NODE != 0
            && (HEADER..=tail.len()).contains(&length)
            && Node::read(tail).tree() == tree
    };
    match fits {
        true => Ok(()),
        false => Err(LoadError::Misfit(
            "no node of the tree at the location of its root",
        )),
    }
}
