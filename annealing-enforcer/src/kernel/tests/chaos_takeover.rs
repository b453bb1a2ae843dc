//! Takeovers in `chaos`: the next owner recovers from the records that were durable, as from a store.

use std::collections::BTreeMap;

use control_plane_store::records::Orphaned;
use plugin_sdk::{FencingToken, GroupHead, Pin};
use prodspec_model::{Incarnation, IncarnationNo};

use super::{
    chaos::{Chaos, follow_all},
    dice::kinds,
    rig::Rig,
};
use crate::kernel::{AtFloor, Record, Recovered};

impl Chaos {
    /// A new owner recovers from the durable records.
    pub(super) fn take_over(&mut self) {
        let before = (self.durable == self.rig.recorded).then(|| self.contents());
        let lost = (self.rig.recorded - self.durable) as usize;
        let kept = self.rig.records.len() - lost;
        self.rig.records.truncate(kept);
        let recovered = self.recovered();
        self.token += 1;
        let records = std::mem::take(&mut self.rig.records);
        let (config, now) = (self.rig.config.clone(), self.rig.now);
        let latest = self.rig.latest.clone();
        self.rig = Rig::recover(config, kinds(), FencingToken(self.token), recovered, now);
        self.rig.latest = latest;
        self.reported = follow_all(&mut self.rig);
        if let Some(before) = before {
            self.governed_stay(before, &[], "a takeover");
        }
        (self.found, self.durable) = (records.len(), 0);
        self.rig.records.splice(0..0, records);
        self.stamps.clear();
        self.rig.kernel.check_invariants(self.rig.now);
    }

    /// What a store holds after the records written so far.
    fn recovered(&self) -> Recovered {
        let (mut assets, mut orphans) = (BTreeMap::new(), BTreeMap::new());
        let (mut pins, mut heads) = (BTreeMap::new(), BTreeMap::new());
        let newest = self.rig.latest.clone();
        let mut recovered = Recovered::nothing(newest.clone());
        for record in &self.rig.records {
            match record.clone() {
                Record::Asset(asset, state) => drop(assets.insert(asset, state)),
                Record::Orphan(asset, state) => drop(orphans.insert(asset, state)),
                Record::Floor(floor) => {
                    let (sealed, types) = (self.sealed_as(floor.incarnation), floor.types);
                    let at = |incarnation| AtFloor { incarnation, types };
                    recovered.floor = sealed.map(at);
                }
                Record::Pause(_) | Record::Approval(_) | Record::Override(_) => {}
                Record::Pin(asset, pin) => drop(pins.insert(asset, pin)),
                Record::Head(policy, no) => drop(heads.insert(policy, no)),
                Record::Taken(no) => recovered.latest = self.sealed_as(no).unwrap(),
                Record::Owned(owned) => recovered.owned = owned,
                Record::Decision(..) | Record::Renamed(..) | Record::Gone(_) => {}
            }
        }
        recovered.newer = (recovered.latest.no() < newest.no()).then_some(newest);
        let some = |(asset, state): (_, Option<_>)| Some((asset, state?));
        recovered.assets = assets.into_iter().filter_map(some).collect();
        recovered.interventions = self.rig.words();
        let kept = self.sealed.iter().map(|it| (it.no(), it.clone()));
        recovered.named = kept.collect();
        let with_last = |orphan: Orphaned| {
            let last = self.sealed_as(orphan.last);
            (orphan, last)
        };
        let orphans = orphans.into_values().flatten();
        recovered.orphans = orphans.map(with_last).collect();
        let head = |(policy, head)| {
            let head = match head {
                GroupHead::At(no) => GroupHead::At(self.sealed_as(no)?),
                GroupHead::Latest => GroupHead::Latest,
                GroupHead::Unknown => return None,
            };
            Some((policy, head))
        };
        recovered.heads = heads.into_iter().filter_map(head).collect();
        let pins = pins.into_iter();
        recovered.pins = pins
            .filter_map(|(asset, pin)| Some((asset, self.pin_of(pin)?)))
            .collect();
        recovered
    }

    /// The sealed incarnation of this number.
    fn sealed_as(&self, no: IncarnationNo) -> Option<Incarnation> {
        self.sealed.iter().find(|sealed| sealed.no() == no).cloned()
    }

    /// A durable pin with its incarnation, None for one that a store drops.
    fn pin_of(&self, pin: Pin) -> Option<Pin<Incarnation>> {
        match pin {
            Pin::At(no, cause) => Some(Pin::At(self.sealed_as(no)?, cause)),
            Pin::NotYet => Some(Pin::NotYet),
            Pin::Default => None,
        }
    }
}
