//! The assets of one type in intent that nothing pushes: goals, trains, and changes that are declared.

use std::collections::BTreeMap;

use prodspec_model::{Asset, AssetId, Incarnation, Message, addons::Turndown};

/// The assets of one type in intent, as of an incarnation, but for those that are turned down.
pub(crate) struct InIntent<T> {
    latest: Option<Incarnation>,
    pub(crate) all: BTreeMap<AssetId, T>,
}

impl<T> Default for InIntent<T> {
    fn default() -> Self {
        Self {
            latest: None,
            all: BTreeMap::new(),
        }
    }
}

impl<T: Message> InIntent<T> {
    /// Takes in an incarnation. The first one is read as a whole, the others cost as much as they change.
    pub(crate) fn take(&mut self, newer: &Incarnation) {
        let Some(older) = self.latest.replace(newer.clone()) else {
            self.all = newer.snapshot().iter().filter_map(declared).collect();
            return;
        };
        for change in older.snapshot().diff(newer.snapshot()) {
            self.all.remove(&change.id());
            self.all.extend(change.after.and_then(declared));
        }
    }
}

/// The content of an asset, if it is of this type and is not turned down.
pub(crate) fn declared<T: Message>(asset: Asset) -> Option<(AssetId, T)> {
    if asset.type_str() != T::TYPE || asset.addon::<Turndown>().ok()?.is_some() {
        return None;
    }
    Some((asset.id(), asset.payload::<T>().ok()?))
}
