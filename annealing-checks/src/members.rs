//! The assets in each part of a scope, kept up to date by the differences between snapshots.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use prodspec_model::{Asset, AssetId, Snapshot};

use crate::Scope;

/// The members of a scope in the snapshot that was followed last.
#[derive(Debug, Default)]
pub(crate) struct Members {
    followed: Option<Snapshot>,
    by_part: BTreeMap<String, Arc<BTreeSet<AssetId>>>,
}

impl Members {
    /// Takes in `snapshot`: all of it at first, then only its differences from the one before. A part without a difference keeps
    /// its set.
    pub(crate) fn follow(&mut self, scope: &Scope, snapshot: &Snapshot) {
        match self.followed.replace(snapshot.clone()) {
            Some(known) if known.digest() == snapshot.digest() => {}
            Some(known) => {
                for change in known.diff(snapshot) {
                    self.change(scope, change.before.as_ref(), change.after.as_ref());
                }
            }
            None => {
                for asset in scope.find(snapshot) {
                    self.change(scope, None, Some(&asset));
                }
            }
        }
    }

    fn change(&mut self, scope: &Scope, before: Option<&Asset>, after: Option<&Asset>) {
        let parts = |asset: Option<&Asset>| asset.map_or_else(Vec::new, |it| scope.parts_of(it));
        let (old, new) = (parts(before), parts(after));
        for (asset, part) in before
            .iter()
            .flat_map(|it| old.iter().map(move |part| (it, part)))
        {
            if new.contains(part) {
                continue;
            }
            if let Some(members) = self.by_part.get_mut(part) {
                Arc::make_mut(members).remove(&asset.id());
                if members.is_empty() {
                    self.by_part.remove(part);
                }
            }
        }
        for (asset, part) in after
            .iter()
            .flat_map(|it| new.iter().map(move |part| (it, part)))
        {
            if !old.contains(part) {
                let members = self.by_part.entry(part.clone()).or_default();
                Arc::make_mut(members).insert(asset.id());
            }
        }
    }

    /// The assets in a part. The same `Arc` while they are the same.
    pub(crate) fn of(&self, part: &str) -> Arc<BTreeSet<AssetId>> {
        self.by_part.get(part).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use plugin_sdk::testing;
    use prodspec_model::addons::PhysicalCluster;
    use proptest::prelude::*;

    use super::*;

    fn asset(name: &str, cluster: u8) -> Asset {
        let cluster = PhysicalCluster::new(format!("c{cluster}"));
        let asset = testing::asset(name).edit().addon(&cluster).unwrap();
        asset.build().unwrap()
    }

    proptest! {
        #[test]
        fn members_that_follow_are_those_that_are_found_anew(
            edits in prop::collection::vec(prop::collection::btree_map("[a-d]", 0u8..3, 0..4), 1..6)
        ) {
            let (scope, mut members) = (Scope::per_cluster(), Members::default());
            for (no, edit) in edits.into_iter().enumerate() {
                let assets = edit.iter().map(|(name, cluster)| asset(name, *cluster));
                let sealed = testing::incarnation(no as u32 + 1, assets);
                let before: Vec<_> = (0..3).map(|c| members.of(&format!("c{c}"))).collect();
                members.follow(&scope, sealed.snapshot());
                let mut anew = Members::default();
                anew.follow(&scope, sealed.snapshot());
                prop_assert_eq!(&members.by_part, &anew.by_part);
                for (cluster, before) in before.iter().enumerate() {
                    let after = members.of(&format!("c{cluster}"));
                    let same = Arc::ptr_eq(before, &after) || after.is_empty();
                    prop_assert_eq!(same, **before == *after || after.is_empty());
                }
            }
        }
    }
}
