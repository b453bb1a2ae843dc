//! Quarantine: content that failed, and content that waited in a rollout that failed (R22).

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::RolloutId;
use prodspec_model::{Asset, AssetId, Digest, Incarnation};

use crate::{
    kernel::event::Record,
    record::{Failed, Quarantined},
};

/// The quarantined contents of the group's assets. Every change returns the records to store.
#[derive(Debug)]
pub(in crate::kernel) struct Quarantine {
    /// The policy asset of the group, which the records name.
    policy: AssetId,
    /// The contents by asset. Each asset has at least one.
    assets: BTreeMap<AssetId, Quarantined>,
}

impl Quarantine {
    /// Creates the quarantine of the group of `policy` from its stored records.
    pub(in crate::kernel) fn new(policy: AssetId, stored: Vec<(AssetId, Quarantined)>) -> Self {
        Self {
            policy,
            assets: stored.into_iter().collect(),
        }
    }

    /// Whether no content is quarantined.
    pub(in crate::kernel) fn is_empty(&self) -> bool {
        self.assets.is_empty()
    }

    /// Whether the content of `new` failed in a rollout other than `own`.
    pub(in crate::kernel) fn has(&self, new: &Asset, own: Option<RolloutId>) -> bool {
        let quarantined = self.assets.get(&new.id());
        quarantined.is_some_and(|it| it.has(new.digest(), own))
    }

    /// Returns the record of this content of an asset.
    pub(in crate::kernel) fn find(&self, asset: &AssetId, content: Digest) -> Option<&Failed> {
        self.assets.get(asset)?.find(content, None)
    }

    /// Returns the assets whose content in `at` failed in `rollout`, sorted by id.
    pub(in crate::kernel) fn failed_in(
        &self,
        rollout: RolloutId,
        at: &Incarnation,
    ) -> impl Iterator<Item = &AssetId> {
        let failed = move |(asset, failed): &(&AssetId, &Quarantined)| {
            let content = at.asset(asset).map(|it| it.digest());
            content.is_some_and(|content| failed.failed_in(rollout, content))
        };
        self.assets.iter().filter(failed).map(|(asset, _)| asset)
    }

    /// Quarantines a content of an asset. Returns the record to store.
    pub(in crate::kernel) fn add(&mut self, asset: &AssetId, failed: Failed) -> Record {
        let new = || Quarantined::of(self.policy.clone());
        let quarantined = self.assets.entry(asset.clone()).or_insert_with(new);
        quarantined.add(failed);
        Record::Quarantine(asset.clone(), Some(quarantined.clone()))
    }

    /// Forgets all contents of an asset. Returns the record to delete, if there is one.
    pub(in crate::kernel) fn forget(&mut self, asset: &AssetId) -> Option<Record> {
        let there = self.assets.remove(asset);
        there.map(|_| Record::Quarantine(asset.clone(), None))
    }

    /// Releases the contents for which `is_over` is true, and adds the records to store to `records`. Returns the
    /// assets concerned, sorted by id.
    pub(in crate::kernel) fn release(
        &mut self,
        is_over: impl Fn(&Failed) -> bool,
        records: &mut Vec<Record>,
    ) -> Vec<AssetId> {
        let mut concerned = Vec::new();
        self.assets.retain(|asset, quarantined| {
            let before = quarantined.failed.len();
            quarantined.failed.retain(|failed| !is_over(failed));
            let left = quarantined.failed.len();
            if left < before {
                let kept = (left > 0).then(|| quarantined.clone());
                records.push(Record::Quarantine(asset.clone(), kept));
                concerned.push(asset.clone());
            }
            left > 0
        });
        concerned
    }

    /// R22: a rollout of `to` completes. Releases the content of assets that have other content there. If the rollout
    /// has thereby fixed all content that failed in an earlier one, releases the content that only waited there, too.
    /// `is_target`: whether the rollout updated an asset. Returns the assets whose content only waited.
    pub(in crate::kernel) fn mend(
        &mut self,
        to: &Incarnation,
        is_target: impl Fn(&AssetId) -> bool,
        records: &mut Vec<Record>,
    ) -> Vec<AssetId> {
        let changed = self.assets.iter().filter(|(id, quarantined)| {
            // One that is older, as a train may roll out after a failure, mends nothing.
            let is_newer = quarantined.failed.iter().all(|it| it.to <= to.no());
            let there = to.asset(id);
            is_newer && there.is_none_or(|asset| !quarantined.has(asset.digest(), None))
        });
        let mended: Vec<AssetId> = changed.map(|(id, _)| id.clone()).collect();
        let mut fixed = BTreeSet::new();
        for asset in mended {
            let quarantined = self.assets.remove(&asset);
            // A revert fixes nothing: it is no target.
            let quarantined = quarantined.filter(|_| is_target(&asset));
            fixed.extend(quarantined.iter().flat_map(Quarantined::reached_in));
            records.push(Record::Quarantine(asset, None));
        }
        let others = self.assets.values();
        let failing: BTreeSet<_> = others.flat_map(Quarantined::reached_in).collect();
        fixed.retain(|rollout| !failing.contains(rollout));
        self.release(|failed| fixed.contains(&failed.rollout), records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prodspec_model::IncarnationNo;

    use crate::kernel::tests::rig::{P, id, seal, thing};

    /// A quarantine after rollout 1, in which `a` failed and `b` waited, both with size 1.
    fn failed() -> Quarantine {
        let mut quarantine = Quarantine::new(id(P), Vec::new());
        for (name, reached) in [("a", true), ("b", false)] {
            let failed = Failed {
                rollout: RolloutId(1),
                to: IncarnationNo(1),
                content: thing(name, 1).digest(),
                reached,
            };
            quarantine.add(&id(name), failed);
        }
        quarantine
    }

    #[test]
    fn r22_content_that_failed_is_found_except_in_its_own_rollout() {
        let quarantine = failed();
        assert!(quarantine.has(&thing("a", 1), None));
        assert!(!quarantine.has(&thing("a", 1), Some(RolloutId(1))));
        assert!(!quarantine.has(&thing("a", 2), None), "other content");
        let newest = seal(None, vec![thing("a", 2), thing("b", 1)], &[]);
        let failed: Vec<_> = quarantine.failed_in(RolloutId(1), &newest).collect();
        assert_eq!(failed, [&id("b")]);
    }

    #[test]
    fn r22_fix_releases_the_content_that_only_waited() {
        let (mut quarantine, mut records) = (failed(), Vec::new());
        let fixed = seal(None, vec![thing("a", 2), thing("b", 1)], &[]);
        let rest = quarantine.mend(&fixed, |asset| *asset == id("a"), &mut records);
        assert_eq!(rest, [id("b")]);
        assert!(quarantine.is_empty());
        assert_eq!(records.len(), 2, "both records are deleted");
    }

    #[test]
    fn r22_revert_releases_nothing_that_waited() {
        let (mut quarantine, mut records) = (failed(), Vec::new());
        let reverted = seal(None, vec![thing("a", 0), thing("b", 1)], &[]);
        let rest = quarantine.mend(&reverted, |_| false, &mut records);
        assert_eq!(rest, Vec::new());
        assert!(quarantine.has(&thing("b", 1), None));
    }

    #[test]
    fn r22_released_asset_leaves_no_empty_record() {
        let (mut quarantine, mut records) = (failed(), Vec::new());
        let gone = quarantine.release(|failed| failed.reached, &mut records);
        assert_eq!(gone, [id("a")]);
        assert!(matches!(&records[..], [Record::Quarantine(_, None)]));
        assert!(quarantine.forget(&id("a")).is_none());
        assert!(quarantine.forget(&id("b")).is_some() && quarantine.is_empty());
    }
}
