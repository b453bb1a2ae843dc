//! R17: whether the newest incarnation may take over from the live rollout, and how it does.

use std::collections::BTreeMap;

use plugin_sdk::{Now, RolloutId};
use prodspec_model::{AssetId, Incarnation, rollout::FirstTurnup};

use super::{
    Bug, Effects, Kernel, Record, Refused, Step,
    candidates::Candidates,
    planted,
    state::{closure::Before, live::Live},
};
use crate::record::{By, State, TargetRecord};

impl Kernel {
    /// R17: whether the newest incarnation reverts everything that the live rollout has moved. If it has moved
    /// nothing: everything that it was going to move.
    pub(super) fn is_taken_back(&self) -> bool {
        let Some(live) = &self.live else { return false };
        let goes_back = matches!(live.state(), State::RollingBack { .. });
        if goes_back || live.from().is_none() || self.group.latest().no() <= live.to().no() {
            return false;
        }
        let moved = live.targets().with_rows();
        let moved = moved
            .filter(|(target, row)| !target.late && (row.is_some() || !live.targets().has_moved()));
        let mut differs = false;
        for (target, row) in moved {
            let content = |of: &Incarnation| of.asset(&target.asset).map(|it| it.digest());
            let before = match row {
                Some(row) => self.held_to(row.was, &target.asset),
                None => self.before(&target.asset),
            };
            let before = match before {
                Before::Asset(asset) => Some(asset.digest()),
                Before::Nothing => None,
                Before::Unknown => return false,
            };
            let newest = content(self.group.latest());
            if newest != before {
                return false;
            }
            differs |= newest != content(live.contents());
        }
        differs
    }

    /// R17: there is one rollout at a time. Incarnations sealed meanwhile are left to the next one, unless this one
    /// has failed.
    pub(super) fn may_begin(&self) -> bool {
        let Some(live) = &self.live else {
            return true;
        };
        match live.state() {
            State::Stopped { .. } => true,
            State::RollingBack { .. } => live.targets().is_sent_back(),
            State::Running => self.is_first(live),
            _ => false,
        }
    }

    /// Whether the live rollout is a first turnup at once. A newer incarnation then takes over immediately, so that
    /// one asset that cannot start does not delay its own fix and the other assets.
    pub(super) fn is_first(&self, live: &Live) -> bool {
        let policy = self.group.rollout_policy().unwrap_or_default();
        live.from().is_none() && policy.first_turnup == FirstTurnup::AtOnce
    }

    /// Whether the newest incarnation may take over: it is newer, and changes all content that failed.
    pub(super) fn is_due(&self) -> bool {
        let Some(live) = &self.live else {
            return true;
        };
        let newer = self.group.latest().no() > live.to().no();
        let first = *live.state() == State::Running && !self.pending.has_no_assets();
        newer && (first || self.mends(live) || planted(Bug::AnyEditMends))
    }

    /// Whether the newest incarnation changes the content of every target that the rollout has moved and that is not
    /// back. If the rollout has moved nothing: of every target.
    fn mends(&self, live: &Live) -> bool {
        let other = |asset: &AssetId| {
            let content = |of: &Incarnation| of.asset(asset).map(|asset| asset.digest());
            content(self.group.latest()) != content(live.contents())
        };
        let moved = live.targets().with_rows();
        let mut moved = moved
            .filter(|(target, row)| !target.late && (row.is_some() || !live.targets().has_moved()));
        moved.all(|(target, _)| live.targets().is_back(&target.asset) || other(&target.asset))
    }

    /// Whether every asset that is not back has left the group or intent since, so that no newer incarnation can fix
    /// it here.
    pub(super) fn is_void(&self, live: &Live) -> bool {
        let moved = live.targets().held().map(|(asset, _)| asset);
        let mut moved = moved
            .filter(|asset| !live.targets().is_back(asset))
            .peekable();
        let left = |asset: &AssetId| {
            !self.governs(self.group.latest(), asset) || self.group.latest().asset(asset).is_none()
        };
        moved.peek().is_some() && moved.all(left)
    }

    /// An operator does not wait for the end of the live rollout: the newest incarnation takes over now.
    pub(super) fn hand_over(&mut self, now: Now, by: By, out: &mut Effects) -> Result<(), Refused> {
        let Some(live) = &self.live else {
            return Ok(());
        };
        let of = format!("{} of `{}`", live.id(), self.group.policy());
        if self.is_change {
            let why = "sets fields; hand it over with the other values of the same fields";
            return Err(Refused(format!("{of} {why}")));
        }
        let is_newer = self.group.latest().no() > live.to().no();
        let to = self.group.latest().id().to_string();
        if !is_newer || !self.begin_instead(now, &to, by, out) {
            let why = "has nothing newer to hand over to; to undo it, roll it back";
            return Err(Refused(format!("{of} {why}")));
        }
        Ok(())
    }

    /// Begins the rollout of the newest incarnation in the place of the live one. Returns whether there is anything to roll
    /// out.
    fn begin_instead(&mut self, now: Now, to: &str, by: By, out: &mut Effects) -> bool {
        let mut found = self.candidates(self.group.latest(), None);
        self.add_moved(None, &mut found);
        if found.targets.is_empty() {
            return false;
        }
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            live.note(at, format!("handed over to {to}"), Some(by));
        }
        self.begin(now, found, out);
        true
    }

    /// An operator gives the change other values of its fields: the incarnation with these takes over now.
    pub(super) fn handed_over(
        &mut self,
        now: Now,
        (latest, to): (Incarnation, &str),
        by: By,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let policy = self.group.policy().clone();
        let refused = |why: &str| Err(Refused(format!("the change `{policy}` {why}")));
        match self.live.as_ref().map(Live::state) {
            None => return refused("is over; begin one with another name"),
            Some(State::RollingBack { .. }) => {
                return refused("goes back; begin one with another name when it has ended");
            }
            Some(_) => {}
        }
        let before = self.group.latest().clone();
        self.group.take(latest);
        if !self.begin_instead(now, to, by, out) {
            self.group.take(before);
            return refused("has no target that these values change; to undo it, roll it back");
        }
        Ok(())
    }

    /// Fix forward: the newer rollout takes over the pins of `old` and remembers where the assets were before it.
    pub(super) fn supersede(
        &mut self,
        now: Now,
        mut old: Live,
        by: RolloutId,
        found: &Candidates,
        step: &mut Step,
        out: &mut Effects,
    ) -> BTreeMap<AssetId, TargetRecord> {
        let at = self.clock.at(now);
        old.superseded(at, by);
        let all = old.targets().all().iter();
        out.released.extend(all.map(|target| target.asset.clone()));
        let moved = old.moved();
        let moved = moved.map(|(asset, row)| (asset.clone(), row.clone()));
        let mut inherited: BTreeMap<AssetId, TargetRecord> = moved.collect();
        // Assets that are no longer intended, or are left out, go back.
        inherited.retain(|asset, row| {
            let kept = found
                .targets
                .binary_search_by(|t| t.asset.cmp(asset))
                .is_ok();
            if !kept {
                step.records.push(Record::Target(asset.clone(), None));
                let newest = self.group.latest().asset(asset);
                let ours = self.governs(self.group.latest(), asset);
                if ours || newest.is_none() {
                    let goes = self.goes_back(asset, row.was);
                    self.pin(now, asset, goes, step);
                }
            }
            kept
        });
        step.records.push(old.record());
        self.past.keep(old.into_rollout());
        inherited
    }
}
