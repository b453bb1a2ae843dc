//! Begins a rollout when the group has changes to roll out and no live rollout has to end first.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use plugin_sdk::{Cause, Now, Pin, PinStatus, RolloutId, SyncState, Target};
use prodspec_model::{Asset, AssetId, Incarnation, rollout::FirstTurnup};

use super::{
    Bug, Effects, Kernel, Record, Step,
    closure::{Before, Closure},
    live::Live,
};
use crate::{
    policy::target_of,
    record::{Rollout, State, TargetRecord},
};

/// Number of rollouts of a group that are stored. Older records are deleted.
const KEPT: u64 = 32;

/// The assets of a group that a rollout may update.
pub(super) struct Candidates {
    /// The assets to roll out, sorted by id.
    pub(super) targets: Vec<Target>,
    /// Assets whose new content failed before, and assets that wait for one of those.
    pub(super) left_out: Vec<AssetId>,
}

impl Kernel {
    /// Begins a rollout, or rolls the live one back, if that is due.
    pub(super) fn consider(&mut self, now: Now, out: &mut Effects) {
        if self.look && self.is_taken_back() {
            self.take_back(now, out);
        }
        if !self.look || !self.may_begin() {
            return;
        }
        self.look = false;
        if !self.is_due() {
            return;
        }
        let nothing = self.pending.is_empty() && self.pins.is_empty() && !self.has_left;
        if nothing && self.live.is_none() {
            self.left_out.clear();
            return self.follow_from_afar(out);
        }
        let mut found = self.candidates(&self.latest, None);
        self.left_out.clone_from(&found.left_out);
        match (found.targets.is_empty(), found.left_out.is_empty()) {
            (false, _) => {
                let first = |live: &Live| live.rollout.state == State::Running;
                if self.live.as_ref().is_some_and(first) {
                    self.add_moved(None, &mut found);
                }
                self.begin(now, found, out);
            }
            _ if self.live.as_ref().is_some_and(|live| self.is_void(live)) => {
                self.begin(now, found, out);
            }
            (true, true) if self.live.is_none() => self.follow(out),
            _ => {}
        }
    }

    /// R17: whether the newest incarnation reverts everything that the live rollout has moved. If it has moved
    /// nothing: everything that it was going to move.
    fn is_taken_back(&self) -> bool {
        let Some(live) = &self.live else { return false };
        let goes_back = matches!(live.rollout.state, State::RollingBack { .. });
        if goes_back || live.from.is_none() || self.latest.no() <= live.to.no() {
            return false;
        }
        let moved = live.targets.iter().zip(&live.rows);
        let moved = moved.filter(|(_, row)| row.is_some() || !live.has_moved());
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
            let newest = content(&self.latest);
            if newest != before {
                return false;
            }
            differs |= newest != content(&live.to);
        }
        differs
    }

    /// R17: there is one rollout at a time. Incarnations sealed meanwhile are left to the next one, unless this one
    /// has failed.
    fn may_begin(&self) -> bool {
        let Some(live) = &self.live else {
            return true;
        };
        match &live.rollout.state {
            State::Stopped { .. } => true,
            State::RollingBack { .. } => live.is_sent_back(),
            State::Running => self.is_first(live),
            _ => false,
        }
    }

    /// Whether the live rollout is a first turnup at once. A newer incarnation then takes over immediately, so that
    /// one asset that cannot start does not delay its own fix and the other assets.
    pub(super) fn is_first(&self, live: &Live) -> bool {
        let policy = self.policy().unwrap_or_default();
        live.from.is_none() && policy.first_turnup == FirstTurnup::AtOnce
    }

    /// Whether the newest incarnation may take over: it is newer, and changes all content that failed.
    fn is_due(&self) -> bool {
        let Some(live) = &self.live else {
            return true;
        };
        let newer = self.latest.no() > live.to.no();
        let first = live.rollout.state == State::Running && !self.pending.is_empty();
        newer && (first || self.mends(live) || self.planted(Bug::AnyEditMends))
    }

    /// Whether the newest incarnation changes the content of every target that the rollout has moved and that is not
    /// back. If the rollout has moved nothing: of every target.
    fn mends(&self, live: &Live) -> bool {
        let other = |asset: &AssetId| {
            let content = |of: &Incarnation| of.asset(asset).map(|asset| asset.digest());
            content(&self.latest) != content(&live.to)
        };
        let moved = live.targets.iter().zip(&live.rows);
        let mut moved = moved.filter(|(_, row)| row.is_some() || !live.has_moved());
        moved.all(|(target, _)| live.is_back(&target.asset) || other(&target.asset))
    }

    /// Whether every asset that is not back has left the group or intent since, so that no newer incarnation can fix
    /// it here.
    fn is_void(&self, live: &Live) -> bool {
        let moved = live.held().map(|(asset, _)| asset);
        let mut moved = moved.filter(|asset| !live.is_back(asset)).peekable();
        let left = |asset: &AssetId| {
            !self.governs(&self.latest, asset) || self.latest.asset(asset).is_none()
        };
        moved.peek().is_some() && moved.all(left)
    }

    /// Returns the assets to roll out with `to`. Content that failed in the rollout `own` may be rolled out.
    pub(super) fn candidates(&self, to: &Incarnation, own: Option<RolloutId>) -> Candidates {
        let mut found = Candidates {
            targets: Vec::new(),
            left_out: Vec::new(),
        };
        let under_way = self.live.iter().flat_map(|live| live.targets.iter());
        let under_way = under_way.map(|target| &target.asset);
        let ids = self.pending.iter().chain(self.pins.keys());
        let mut ids: Vec<&AssetId> = ids.chain(under_way).collect();
        ids.sort();
        ids.dedup();
        for id in ids {
            let Some(new) = to.asset(id) else { continue };
            if !self.governs(to, id) {
                continue;
            }
            if self.content_in_force(id) == Some(new.digest()) {
                continue;
            }
            if self.has_failed(&new, own) {
                found.left_out.push(id.clone());
            } else {
                found.targets.push(self.target(&new));
            }
        }
        self.leave_out_tied(to, &mut found);
        found
    }

    pub(super) fn target(&self, asset: &Asset) -> Target {
        Target {
            silent: !self.serves(asset),
            ..target_of(asset)
        }
    }

    /// Whether the content of `new` failed in a rollout other than `own`.
    fn has_failed(&self, new: &Asset, own: Option<RolloutId>) -> bool {
        let quarantined = self.quarantine.get(&new.id());
        quarantined.is_some_and(|it| it.has(new.digest(), own))
    }

    /// Adds the assets that the live rollout has moved or inherited: they are part of the rollout that takes over,
    /// even if they already have the new content. Content that failed in the rollout `own` may be rolled out.
    pub(super) fn add_moved(&self, own: Option<RolloutId>, found: &mut Candidates) {
        let Some(live) = &self.live else { return };
        let moved = live.held().map(|(asset, _)| asset);
        let moved = moved.chain(live.inherited.keys());
        let moved = moved.filter(|id| found.left_out.binary_search(id).is_err());
        let moved = moved.filter(|id| self.governs(&self.latest, id));
        let moved = moved.filter_map(|id| self.latest.asset(id));
        let moved = moved.filter(|new| !self.has_failed(new, own));
        found.targets.extend(moved.map(|asset| self.target(&asset)));
        let targets = &mut found.targets;
        targets.sort_by(|one, other| one.asset.cmp(&other.asset));
        targets.dedup_by(|one, other| one.asset == other.asset);
    }

    /// Leaves out the assets that would wait for assets that are left out: assets tied by edges move together or not
    /// at all.
    fn leave_out_tied(&self, to: &Incarnation, found: &mut Candidates) {
        if found.left_out.is_empty() {
            return;
        }
        let failed = found.left_out.iter().filter_map(|id| to.asset(id));
        let mut all = found.targets.clone();
        all.extend(failed.map(|asset| target_of(&asset)));
        all.sort_by(|one, other| one.asset.cmp(&other.asset));
        let closure = Closure::of(&all, |id| self.before(id), to, &self.types);
        let place = |id: &AssetId| all.binary_search_by(|target| target.asset.cmp(id)).ok();
        let failed = found.left_out.iter().filter_map(place);
        let tied = closure.close_back(failed.map(|place| place as u32));
        let tied: BTreeSet<&AssetId> = tied.iter().map(|at| &all[*at as usize].asset).collect();
        found.targets.retain(|target| !tied.contains(&target.asset));
        found.left_out = tied.into_iter().cloned().collect();
    }

    pub(super) fn begin(&mut self, now: Now, found: Candidates, out: &mut Effects) {
        let at = self.clock.at(now);
        let id = self.next;
        self.next = RolloutId(id.0 + 1);
        let mut step = Step::default();
        let rollout = self.rollout(at, id, &found);
        step.records.push(rollout.record());
        let old = self.live.take();
        let inherited = old.map(|old| self.supersede(now, old, id, &found, &mut step, out));
        let (from, to) = (self.head.clone(), self.latest.clone());
        let closure = Closure::of(&found.targets, |id| self.before(id), &to, &self.types);
        if let Some(old) = id.0.checked_sub(KEPT).filter(|old| *old > 0) {
            step.records.push(Record::Forget(RolloutId(old)));
        }
        let mut live = Live::new(
            at,
            rollout,
            from,
            to,
            found.targets,
            found.left_out,
            closure,
        );
        live.inherited = inherited.unwrap_or_default();
        self.live = Some(live);
        self.pending.clear();
        self.has_left = false;
        self.keep_left_out(now, &mut step);
        out.steps.push(step);
        let released = std::mem::take(&mut out.released);
        self.let_go(&released, out);
        out.released = released;
    }

    /// Computes the closure again after the targets, and so their places, have changed.
    pub(super) fn close_anew(&mut self) {
        let Some(live) = &self.live else { return };
        let before = |id: &AssetId| {
            let row = live.place(id).and_then(|place| live.rows[place].as_ref());
            row.map_or_else(|| self.before(id), |row| self.held_to(row.was, id))
        };
        let closure = Closure::of(&live.targets, before, &live.to, &self.types);
        if let Some(live) = &mut self.live {
            live.closure = closure;
        }
    }

    /// Pins assets that are left out to where they are, so that they stay when the group's head moves.
    pub(super) fn keep_left_out(&mut self, now: Now, step: &mut Step) {
        let left_out = self.live.as_ref().map(|live| live.left_out.clone());
        for asset in left_out.unwrap_or_default() {
            if !self.pins.contains_key(&asset) && self.governs(&self.latest, &asset) {
                let goes = self.stays(&asset);
                self.pin(now, &asset, goes, step);
            }
        }
    }

    fn rollout(&self, at: Timestamp, id: RolloutId, found: &Candidates) -> Rollout {
        let mut rollout = Rollout {
            id,
            policy: self.policy.clone(),
            from: self.head.as_ref().map(Incarnation::no),
            to: self.latest.no(),
            state: State::Running,
            started_at: at,
            moved_at: None,
            drawn: None,
            ended_at: None,
            stage: None,
            promoted: None,
            health: None,
            verdicts: Vec::new(),
            // The new rollout continues the time of the one it takes over, so that the order of their moves is kept.
            watched: self
                .live
                .as_ref()
                .map_or(Duration::ZERO, |live| live.rollout.watched),
            unknown: None,
            idle: None,
            history: Vec::new(),
        };
        let many = found.targets.len();
        rollout.note(at, format!("began with {many} targets"), None);
        for asset in found.left_out.iter().take(10) {
            let new = self.latest.asset(asset).map(|new| new.digest());
            let failed = self.quarantine.get(asset).zip(new);
            let failed = failed.and_then(|(failed, new)| failed.find(new, None));
            let why = match failed.map(|failed| failed.reached) {
                Some(true) => "its content failed before",
                Some(false) => "its content was part of a rollout that failed",
                None => "it waits for an asset whose content failed before",
            };
            rollout.note(at, format!("leaves out `{asset}`: {why}"), None);
        }
        rollout
    }

    /// Returns the pin that keeps an asset where its default puts it now.
    pub(super) fn stays(&self, asset: &AssetId) -> Pin {
        match &self.head {
            Some(head) if head.asset(asset).is_some() => Pin::At(head.no(), Cause::Intent),
            _ => Pin::NotYet,
        }
    }

    /// Fix forward: the newer rollout takes over the pins of `old` and remembers where the assets were before it.
    fn supersede(
        &mut self,
        now: Now,
        mut old: Live,
        by: RolloutId,
        found: &Candidates,
        step: &mut Step,
        out: &mut Effects,
    ) -> BTreeMap<AssetId, TargetRecord> {
        let at = self.clock.at(now);
        old.rollout.state = State::Superseded { by };
        old.rollout.ended_at = Some(at);
        old.rollout.note(at, format!("superseded by {by}"), None);
        let all = old.targets.iter().map(|target| target.asset.clone());
        out.released.extend(all);
        let mut inherited = std::mem::take(&mut old.inherited);
        let held = old.held().map(|(asset, row)| (asset.clone(), row.clone()));
        inherited.extend(held);
        // Assets that are no longer intended, or are left out, go back.
        inherited.retain(|asset, row| {
            let kept = found
                .targets
                .binary_search_by(|t| t.asset.cmp(asset))
                .is_ok();
            if !kept {
                step.records.push(Record::Target(asset.clone(), None));
                let newest = self.latest.asset(asset);
                let ours = self.governs(&self.latest, asset);
                if ours || newest.is_none() {
                    let goes = self.goes_back(asset, row.was);
                    self.pin(now, asset, goes, step);
                }
            }
            kept
        });
        step.records.push(old.rollout.record());
        self.last = Some(old.rollout);
        inherited
    }

    /// The newest incarnation changes nothing in the group: makes it the group's head.
    fn follow(&mut self, out: &mut Effects) {
        let to = self.latest.clone();
        let moves = self.head.as_ref().is_none_or(|head| head.no() < to.no());
        let mut step = Step {
            head: moves.then(|| to.clone()),
            ..Step::default()
        };
        self.drop_pins(&to, &mut step);
        self.pending.clear();
        self.left_out.clear();
        self.has_left = false;
        self.head = Some(to);
        out.steps.push(step);
        self.let_others_go(out);
    }

    /// Moves the head to the newest incarnation only from time to time while nothing changes. Until then the head
    /// keeps its incarnation from being removed.
    fn follow_from_afar(&mut self, out: &mut Effects) {
        let Some(head) = &self.head else { return };
        let far = self.latest.no().0.saturating_sub(head.no().0) >= self.config.head_lag;
        if far {
            self.follow(out);
        }
    }

    /// Removes the pins of assets whose content equals that at the new head `to`, or that are absent there: they follow
    /// the head from here on. An asset that is still out of sync keeps its pin and so its cause. Assets that the group
    /// does not govern are not touched.
    pub(super) fn drop_pins(&mut self, to: &Incarnation, step: &mut Step) {
        let same = |id: &AssetId, pin: &PinStatus| match to.asset(id) {
            Some(there) => {
                let on_its_way = matches!(pin.state, SyncState::OutOfSync { .. })
                    && !self.types.is_modelled_only(there.type_str());
                Some(there.digest()) == pin.content && !on_its_way
            }
            None => true,
        };
        let ours = |id: &AssetId| self.governs(&self.latest, id);
        let gone = self.pins.iter();
        let gone = gone.filter(|(id, pin)| same(id, pin) && ours(id));
        let gone: Vec<AssetId> = gone.map(|(id, _)| id.clone()).collect();
        for asset in gone {
            self.pins.remove(&asset);
            self.expected.remove(&asset);
            step.moves.push((asset, Pin::Default));
        }
    }

    /// Returns the pin of an asset, as far as enforcement has reported it.
    pub(super) fn pin_of(&self, asset: &AssetId) -> Pin {
        let pin_status = self.pins.get(asset);
        pin_status.map_or(Pin::Default, |pin_status| pin_status.pin)
    }
}
