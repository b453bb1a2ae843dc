//! R17 in `chaos`: which contents of governed assets may change by which event.

use std::collections::BTreeMap;

use plugin_sdk::Pin;
use prodspec_model::{Asset, AssetId, Digest, Incarnation, addons::Moved};

use super::{
    chaos::Chaos,
    dice::{ASSETS, name},
    rig::id,
};
use crate::kernel::{
    pin::policy_in,
    state::{numbers::SlotNo, pin_entry::PinNo},
};

/// The intended content of all assets.
pub(super) struct Contents {
    /// Of assets that the kernel knows; `None` without an intent, or if the type is modelled only.
    known: BTreeMap<AssetId, Option<Digest>>,
    /// Of assets that are not known yet, at their pins.
    early: BTreeMap<AssetId, Digest>,
}

impl Chaos {
    /// The content of every enforced asset, and the content that unknown assets are pinned to.
    pub(super) fn contents(&self) -> Contents {
        let table = &self.rig.kernel.table;
        let enforced = |asset| self.enforced(asset);
        let content = |at| {
            let intent = table.intent(at).and_then(|(asset, _)| enforced(asset));
            Some((table.id(at)?, intent))
        };
        let early = self.rig.kernel.pins.early().iter();
        let early = early.filter_map(|(asset, pin)| match pin {
            Pin::At(at, _) => Some((asset.clone(), enforced(at.asset(asset)?)?)),
            _ => None,
        });
        Contents {
            known: SlotNo::all(table.len()).filter_map(content).collect(),
            early: early.collect(),
        }
    }

    /// R17: the content of a governed asset changes only when its pin is moved.
    pub(super) fn governed_stay(&self, before: Contents, moved: &[AssetId], what: &str) {
        let after = self.contents();
        for at in 0..ASSETS {
            let asset = id(&name(at));
            let newest = self.rig.latest.asset(&asset);
            let governed = newest.as_ref().and_then(policy_in).is_some()
                || self.rig.kernel.table.heads().any(|(policy, head)| {
                    let there = head.asset(&asset);
                    there.as_ref().and_then(policy_in).as_ref() == Some(policy)
                });
            if !governed || moved.contains(&asset) || self.is_old_id(&asset) {
                continue;
            }
            let was = match (before.known.get(&asset), after.known.get(&asset)) {
                (None, None) => continue,
                (Some(known), _) => *known,
                (None, Some(_)) => before.early.get(&asset).copied(),
            };
            let is = after.known.get(&asset).copied().flatten();
            if self.follows_latest(&asset) {
                let newest = newest.and_then(|asset| self.enforced(asset));
                assert_eq!(is, newest, "{asset} does not follow after {what}");
                continue;
            }
            assert_eq!(was, is, "{asset} moved by {what}; newest: {newest:?}");
        }
    }

    /// Whether the asset has no pin of its own, and its group follows the newest incarnation.
    fn follows_latest(&self, asset: &AssetId) -> bool {
        let table = &self.rig.kernel.table;
        let slot = table.find(asset.as_str());
        let newest = table.latest().asset(asset);
        let policy = newest.as_ref().and_then(policy_in);
        let place = policy.and_then(|policy| table.place_of(&policy));
        place.is_some_and(PinNo::is_newest) && !slot.is_some_and(|slot| table.is_pinned(slot))
    }

    /// Whether some incarnation renames the asset. R49: it leaves when its group's rollout moves the new id.
    fn is_old_id(&self, asset: &AssetId) -> bool {
        let renames =
            |at: &Incarnation| !Moved::successors(at.snapshot(), asset.as_str()).is_empty();
        renames(&self.rig.latest) || self.sealed.iter().any(renames)
    }

    /// The content of an asset, unless it is modelled only.
    fn enforced(&self, asset: Asset) -> Option<Digest> {
        let kind = self.rig.kernel.kind_of(asset.type_str());
        kind.map(|_| asset.digest())
    }
}
