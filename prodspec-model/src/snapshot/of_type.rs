//! The assets of a few types, kept from one incarnation to the next.

use std::{collections::BTreeMap, fmt};

use super::{Change, Snapshot};
use crate::{asset::Asset, id::AssetId};

/// Content that is read from the assets of some types, by their ids.
#[derive(Clone)]
pub struct OfType<T> {
    types: &'static [&'static str],
    read: fn(Asset) -> Option<T>,
    all: BTreeMap<AssetId, T>,
    followed: Option<Snapshot>,
}

impl<T> OfType<T> {
    /// Knows no asset yet. `read` reads the assets of `types`; for `None` the asset is left out.
    pub fn new(types: &'static [&'static str], read: fn(Asset) -> Option<T>) -> Self {
        Self {
            types,
            read,
            all: BTreeMap::new(),
            followed: None,
        }
    }

    /// Takes in all assets of a snapshot.
    #[must_use]
    pub fn all_of(mut self, snapshot: &Snapshot) -> Self {
        let ours = snapshot.iter().filter(|it| self.has(it));
        let read = ours.filter_map(|it| Some((it.id(), (self.read)(it)?)));
        self.all = read.collect();
        self
    }

    /// Takes in the changes to another snapshot. Returns whether one of them is of these types.
    pub fn change(&mut self, changes: &[Change]) -> bool {
        let mut is_changed = false;
        for change in changes {
            let mut both = change.before.iter().chain(&change.after);
            if !both.any(|it| self.has(it)) {
                continue;
            }
            is_changed = true;
            let after = change.after.as_ref().filter(|it| self.has(it)).cloned();
            match after.and_then(self.read) {
                Some(read) => self.all.insert(change.id(), read),
                None => self.all.remove(&change.id()),
            };
        }
        is_changed
    }

    /// Takes in `snapshot`: all of it at first, then only the differences from the one before. Returns whether an asset of these types
    /// may have changed.
    pub fn follow(&mut self, snapshot: &Snapshot) -> bool {
        let before = self.followed.replace(snapshot.clone());
        match before {
            Some(known) if known.digest() == snapshot.digest() => false,
            Some(known) => self.change(&known.diff(snapshot)),
            None => {
                let empty = Self::new(self.types, self.read);
                self.all = empty.all_of(snapshot).all;
                true
            }
        }
    }

    fn has(&self, asset: &Asset) -> bool {
        self.types.contains(&asset.type_str())
    }

    /// The content of all these assets, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = (&AssetId, &T)> {
        self.all.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for OfType<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfType")
            .field("types", &self.types)
            .field("all", &self.all)
            .finish_non_exhaustive()
    }
}
