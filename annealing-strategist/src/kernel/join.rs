//! R18: assets that come while the rollout of a change is live join it.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::{Now, Target, Until, Wait};
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationId, IncarnationNo, incarnation::Header,
};

use super::{Effects, Kernel};
use crate::policy::{Gate, gate_of};

/// Maximum number of assets that are named in one line.
const NAMED: usize = 5;

/// An asset that comes while the rollout of a change is live.
#[derive(Debug, Clone)]
pub struct Joins {
    /// The asset without the change.
    pub before: Asset,
    /// The asset with the change.
    pub after: Asset,
}

impl Kernel {
    /// The assets that have come and may join the live rollout now.
    pub fn expected(&self) -> impl Iterator<Item = &AssetId> {
        let forward = self.live.as_ref().is_some_and(|live| live.is_watched());
        self.expected.iter().filter(move |_| forward)
    }

    /// Takes in that assets have come that may join the live rollout, and that others will not. The rollout ends when all
    /// that may have joined.
    pub(super) fn came(
        &mut self,
        now: Now,
        come: Vec<AssetId>,
        gone: &[AssetId],
        out: &mut Effects,
    ) {
        for asset in gone {
            if self.expected.remove(asset)
                && let Some(live) = &mut self.live
            {
                live.selecting.look_again(false);
            }
        }
        if come.is_empty() || self.admits(now) {
            return self.expected.extend(come);
        }
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            let what = format!("leaves out {}: too late", some(&come));
            live.note(at, what, None);
            out.steps.push(live.record().into());
        }
    }

    /// Returns why the rollout does not end although all its targets are updated. `None`: it does.
    pub(super) fn expects(&self) -> Option<Wait> {
        let expected: Vec<AssetId> = self.expected().cloned().collect();
        (!expected.is_empty()).then(|| Wait {
            why: format!("{} came, and will be updated too", some(&expected)),
            until: Until::Retry,
        })
    }

    /// Whether an asset that comes now may join the live rollout: its last gate is not open for the targets that were there
    /// when it began. Otherwise it might never end.
    pub fn admits(&self, now: Now) -> bool {
        // One that goes back may go forward again.
        if !self.live.as_ref().is_some_and(|live| live.is_watched()) {
            return true;
        }
        // It does not end before the line goes on.
        if self.stopped_line(now).is_some() {
            return true;
        }
        let Ok(request) = self.request(now) else {
            return true;
        };
        let first = request.targets.census().first();
        if !request.is_cautious() {
            return !first.is_settled();
        }
        let bake = Duration::from_secs(request.policy.bake_secs);
        gate_of(first, &request, bake) != Gate::Open
    }

    /// Adds assets to the rollout of a change. `ties`: all assets that move together.
    pub(super) fn joined(
        &mut self,
        now: Now,
        joins: &[Joins],
        ties: Vec<Vec<AssetId>>,
        out: &mut Effects,
    ) {
        self.ties = ties;
        let put = |of: &Incarnation, assets| edited(of, of.no(), assets, &[]);
        let before = |of: &Incarnation| put(of, joins.iter().map(|it| it.before.clone()).collect());
        let after = |of: &Incarnation| put(of, joins.iter().map(|it| it.after.clone()).collect());
        self.group.widen(before, after);
        let ids: Vec<AssetId> = joins.iter().map(|it| it.after.id()).collect();
        self.pending.add(ids.iter().cloned());
        self.late.extend(ids.iter().cloned());
        self.expected.retain(|id| !ids.contains(id));
        let targets: Vec<Target> = joins.iter().map(|it| self.target(&it.after)).collect();
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        live.widen(before, after);
        for id in &ids {
            live.comes_back(id);
        }
        // After a turn to the way back, only the next rollout updates them.
        if live.is_going_back() {
            return;
        }
        live.note(at, format!("{} came and joined", some(&ids)), None);
        live.join(targets);
        out.steps.push(live.record().into());
        self.close_anew();
    }

    /// A rollout begins: nothing came after that.
    pub(super) fn none_is_late(&mut self, targets: &mut [Target]) {
        self.late = BTreeSet::new();
        for target in targets {
            target.late = false;
        }
    }
}

/// Names some of these assets.
pub(super) fn some(assets: &[AssetId]) -> String {
    let named = assets.iter().take(NAMED).map(|id| format!("`{id}`"));
    let named = named.collect::<Vec<_>>().join(", ");
    match assets.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// An incarnation that exists only for a change: another one with these contents, and without these assets.
pub(crate) fn edited(
    of: &Incarnation,
    no: IncarnationNo,
    put: Vec<Asset>,
    gone: &[AssetId],
) -> Incarnation {
    let snapshot = of.snapshot().edit(no, put, gone);
    let id = IncarnationId::new(of.id().partition.clone(), no);
    let header = Header::new(id, None, &snapshot, of.header().sealed_at);
    Incarnation::new(header, snapshot)
}
