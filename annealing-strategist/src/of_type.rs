//! The assets of one type in the newest incarnation, kept from one incarnation to the next.

use std::collections::BTreeMap;

use prodspec_model::{Asset, AssetId, Change, Snapshot};

/// The payloads of the assets of one type, by their ids.
#[derive(Debug, Clone)]
pub(crate) struct OfType<T> {
    type_name: &'static str,
    /// `None`: the asset means nothing here.
    read: fn(Asset) -> Option<T>,
    all: BTreeMap<AssetId, T>,
}

impl<T> OfType<T> {
    /// Knows no asset yet.
    pub(crate) fn new(type_name: &'static str, read: fn(Asset) -> Option<T>) -> Self {
        Self {
            type_name,
            read,
            all: BTreeMap::new(),
        }
    }

    /// Takes in all assets of an incarnation.
    pub(crate) fn all_of(mut self, snapshot: &Snapshot) -> Self {
        let ours = snapshot.iter().filter(|it| it.type_str() == self.type_name);
        let read = ours.filter_map(|it| Some((it.id(), (self.read)(it)?)));
        self.all = read.collect();
        self
    }

    /// Takes in the changes to another incarnation. Returns whether one of them is of this type.
    pub(crate) fn change(&mut self, changes: &[Change]) -> bool {
        let is_ours = |it: &&Asset| it.type_str() == self.type_name;
        let mut is_changed = false;
        for change in changes {
            let mut both = change.before.iter().chain(&change.after);
            if !both.any(|it| is_ours(&it)) {
                continue;
            }
            is_changed = true;
            let after = change.after.as_ref().filter(is_ours).cloned();
            match after.and_then(self.read) {
                Some(read) => self.all.insert(change.id(), read),
                None => self.all.remove(&change.id()),
            };
        }
        is_changed
    }

    /// All assets, sorted by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AssetId, &T)> {
        self.all.iter()
    }
}
