//! The strategist's kernel, one per policy group: select, update, validate, and roll back. It is pure.
//!
//! Start reading at `step`. The live rollout is in `live`; `begin` and `end` begin and end it; `update` acts on
//! selections, `judge` on verdicts; `back` is the rollback.

mod back;
mod bake_clock;
mod begin;
mod closure;
mod end;
mod event;
mod judge;
mod live;
mod moving;
mod people;
mod recover;
mod stall;
#[cfg(test)]
mod tests;
mod update;
mod verdict;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use plugin_sdk::{AssetTypes, Mono, Now, Pin, PinStatus, RolloutId, SyncState};
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo, rollout::RolloutPolicy};

pub use crate::group::Heads;
pub use event::{Call, Effects, Event, Record, Step};
pub use people::{Command, Refused};
pub use recover::Recovered;
pub use view::{Counts, GroupOutcome, View};

use crate::{
    config::Config,
    group::{governs, headed_by, policy_of},
    record::{Quarantined, Rollout},
};
use bake_clock::BakeClock;
use closure::Before;
use live::Live;
use moving::Moving;

/// A guard that can be left out, to show that tests notice. Only with the feature `planted-bugs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// R20: an asset that is in sync at any pin counts as updated.
    UpdatedAtAnyPin,
    /// R22: only settled targets are rolled back.
    RollBackSettledOnly,
    /// R21: unknown health passes a gate.
    UnknownIsHealthy,
    /// R21: a verdict of any age passes a gate.
    OldVerdict,
    /// R22: a rollback uses the cause `Intent`, which checks hold up.
    RollBackAsIntent,
    /// R18: targets that were selected before are selected again.
    SelectTwice,
    /// R22: failed content is not quarantined.
    NoQuarantine,
    /// R22: the first target that moved goes back first.
    BackFirstFirst,
    /// R17: any newer incarnation supersedes a failed rollout.
    AnyEditMends,
    /// R18: a selection counts although its input has changed since.
    VoidSelection,
    /// R19: a selection does not include the assets that its targets wait for.
    NotClosed,
    /// After a crash, targets with a record count as moved, whatever their pins are.
    TrustRows,
    /// R21: an unhealthy verdict counts as healthy.
    IgnoreUnhealthy,
    /// R21: a rollout completes as soon as all targets were selected.
    CompletesEarly,
    /// A rollback ends as soon as all targets were sent back.
    BackTooSoon,
    /// A rollback never comes to its end.
    NeverBack,
    /// A rollout that an operator paused or aborted goes on.
    IgnorePause,
    /// R21: after a takeover, a bake also ends when the time since the rollout began on the former owner's wall clock is
    /// long enough.
    WallClockBase,
}

/// The kernel of one policy group: decides which pins move when.
#[derive(Debug)]
pub struct Kernel {
    policy: AssetId,
    config: Config,
    types: Arc<AssetTypes>,
    clock: BakeClock,
    latest: Incarnation,
    head: Option<Incarnation>,
    /// The heads of all groups, including this one's as the other groups see it.
    heads: Heads,
    /// The group's assets that have a pin of their own, as reported or requested.
    pins: BTreeMap<AssetId, PinStatus>,
    /// Requested moves of pins that were not reported yet. Reports of other pins are outdated until then.
    expected: BTreeMap<AssetId, Moving>,
    quarantine: BTreeMap<AssetId, Quarantined>,
    /// Assets that may differ between the group's head and the newest incarnation.
    pending: BTreeSet<AssetId>,
    /// Whether an asset has left the group and may still name it at the head.
    has_left: bool,
    /// Whether something has changed that may begin a rollout.
    look: bool,
    live: Option<Live>,
    /// While no rollout is live: the assets that stay where they are because their intended content failed before.
    left_out: Vec<AssetId>,
    /// The newest rollout before the live one.
    last: Option<Rollout>,
    next: RolloutId,
    calls: u64,
}

impl control_plane_runtime::Kernel for Kernel {
    type Event = Event;
    type Effects = Effects;

    fn step(&mut self, now: Now, event: Event, out: &mut Effects) {
        self.watch(now);
        match event {
            Event::Took {
                latest,
                changed,
                come,
            } if latest.no() >= self.latest.no() => {
                self.took(now, latest, changed, out);
                self.statuses_changed(now, come, out);
            }
            Event::Took { .. } => {}
            Event::Statuses(pin_statuses) => self.statuses_changed(now, pin_statuses, out),
            Event::Selected { call, answer } => self.selected(now, call, answer, out),
            Event::Judged { call, answer } => self.judged(now, call, answer, out),
            Event::Command { command, by, reply } => self.person(now, command, by, reply, out),
            Event::Heads(heads) => self.others_moved(heads, out),
            Event::Tick => {}
        }
        self.go_on(now, out);
        self.look_at_progress(now, out);
        self.remember_time(now, out);
    }
}

impl Kernel {
    /// Returns when the kernel needs an [`Event::Tick`] if nothing else happens. `None`: it needs none.
    pub fn next_wake(&self) -> Option<Mono> {
        let live = self.live.as_ref()?;
        let judge = live.judge_at.filter(|_| live.judging.is_none());
        let remember = live.remember_at.filter(|_| live.is_timed());
        let stall = live.stall_at;
        let all = [live.wake, judge, remember, stall];
        all.into_iter().flatten().min()
    }

    /// Returns the policy asset that names the group.
    pub fn policy_asset(&self) -> &AssetId {
        &self.policy
    }

    /// Returns the incarnation whose rollout completed last. `None`: no rollout has completed.
    pub fn head(&self) -> Option<&Incarnation> {
        self.head.as_ref()
    }

    /// Returns the incarnations that the group uses, which retention must spare.
    pub fn referenced(&self) -> Vec<IncarnationNo> {
        let live = self.live.iter();
        let rolled = live
            .clone()
            .flat_map(|live| [live.from.as_ref(), Some(&live.to)]);
        let heads = rolled.flatten().chain(&self.head).map(Incarnation::no);
        let was = live.flat_map(|live| {
            let rows = live.rows.iter().flatten().map(|row| row.was);
            rows.chain(live.inherited.values().map(|row| row.was))
        });
        let pins = was.chain(self.pins.values().map(|pin_status| pin_status.pin));
        let pins = pins.filter_map(|pin| pin.incarnation());
        let all: BTreeSet<IncarnationNo> = heads.chain(pins).collect();
        all.into_iter().collect()
    }

    /// R17: whether the group governs an asset as of `newest`, even if another group's rollout still holds the asset.
    pub fn names(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        governs(&self.policy, self.head.as_ref(), &self.heads, newest, asset)
    }

    /// Whether the group governs an asset, and the asset has not left it.
    pub(super) fn governs(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        let away = |live: &Live| live.away.contains(asset);
        self.names(newest, asset) && !self.live.as_ref().is_some_and(away)
    }

    /// Whether the live rollout holds an asset's pin, or will move it, as of `newest`. An asset that left the group
    /// before its turn is not held: another rollout may hold it.
    pub fn owns(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        let Some(live) = &self.live else { return false };
        let moved = live.place(asset).map(|at| live.rows[at].is_some());
        moved.is_some_and(|moved| moved || self.governs(newest, asset))
    }

    /// Whether the group holds or governs an asset.
    pub(super) fn has(&self, asset: &AssetId) -> bool {
        self.owns(&self.latest, asset) || self.governs(&self.latest, asset)
    }

    /// Whether the live rollout holds an asset that belongs to the group of `policy` now. That group has to wait for
    /// it.
    pub fn keeps_from(&self, policy: &AssetId) -> bool {
        let live = self.live.iter().filter(|live| live.keeps_others);
        let mut held = live.flat_map(Live::held).map(|(asset, _)| asset);
        let named = |asset: &AssetId| self.latest.asset(asset).as_ref().and_then(policy_of);
        held.any(|asset| named(asset).as_ref() == Some(policy))
    }

    fn look_for_others(&mut self, assets: &[AssetId]) {
        let other =
            |asset: &&AssetId| self.owns(&self.latest, asset) && !self.names(&self.latest, asset);
        let found = assets.iter().any(|asset| other(&asset));
        if let Some(live) = &mut self.live {
            live.keeps_others |= found;
        }
    }

    /// Advances the watched time of the live rollout.
    fn watch(&mut self, now: Now) {
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            live.rollout.watched = live.watched(at);
        }
    }

    /// R21: stores the watched time at intervals, so that the next owner continues bakes from there.
    fn remember_time(&mut self, now: Now, out: &mut Effects) {
        let again = now.mono + self.config.remember_every;
        let flagged = self.until_flagged().map(|wait| now.mono + wait);
        if let Some(live) = &mut self.live {
            live.stall_at = flagged;
        }
        let Some(live) = self.live.as_mut().filter(|live| live.is_timed()) else {
            return;
        };
        let id = live.rollout.id;
        let is = |record: &Record| matches!(record, Record::Rollout(it) if it.id == id);
        let written = out.steps.iter().flat_map(|step| &step.records).any(is);
        let due = live.remember_at.is_some_and(|at| at <= now.mono);
        if due && !written {
            out.steps.push(live.rollout.record().into());
        }
        if due || written || live.remember_at.is_none() {
            live.remember_at = Some(again);
        }
    }

    /// Does everything that follows from the present state.
    fn go_on(&mut self, now: Now, out: &mut Effects) {
        self.consider(now, out);
        self.progress(now, out);
    }

    /// Lets go of every asset that the group no longer governs, after its head has moved.
    fn let_others_go(&mut self, out: &mut Effects) {
        let inherited = self.live.iter().flat_map(|live| live.inherited.keys());
        let all: Vec<AssetId> = self.pins.keys().chain(inherited).cloned().collect();
        self.let_go(&all, out);
    }

    /// Another group's head has moved: lets go of assets that belong to that group now.
    fn others_moved(&mut self, heads: Heads, out: &mut Effects) {
        self.heads = heads;
        let gone = |asset: &&AssetId| !self.has(asset);
        let gone: Vec<AssetId> = self.pins.keys().filter(gone).cloned().collect();
        self.let_go(&gone, out);
        out.released.extend(gone);
    }

    /// Takes in a newer incarnation. `changed` are the assets of the group that it may change.
    fn took(&mut self, now: Now, latest: Incarnation, changed: Vec<AssetId>, out: &mut Effects) {
        let policy = |of: &Incarnation| of.asset(&self.policy).map(|asset| asset.digest());
        let swapped = policy(&self.latest) != policy(&latest);
        self.latest = latest;
        self.came_back(&changed);
        self.look_for_others(&changed);
        self.pending.extend(changed.iter().cloned());
        self.let_go(&changed, out);
        self.look = true;
        match &mut self.live {
            Some(live) if swapped => live.look_again(true),
            Some(_) => {}
            // No rollout measures time: start over from the wall clock, which may have been corrected.
            None => self.clock = BakeClock::new(now),
        }
    }

    /// Takes in pin statuses of the group's assets.
    fn statuses_changed(
        &mut self,
        now: Now,
        pin_statuses: Vec<(AssetId, PinStatus)>,
        out: &mut Effects,
    ) {
        for (asset, pin_status) in pin_statuses {
            // R17: enforcement pins no asset that has left every group, even if a pin was requested.
            if pin_status.pin == Pin::Default && !self.governs(&self.latest, &asset) {
                self.expected.remove(&asset);
            }
            if self.is_late(&asset, pin_status.pin) {
                self.was_there(&asset, pin_status.pin, out);
                continue;
            }
            self.stood(now, &asset, &pin_status, out);
            // The pin status may have made the asset's pin move, so it is outdated already.
            if self.moves_from(&asset, pin_status.pin) {
                continue;
            }
            let is = (pin_status.pin, pin_status.content);
            let arrived = matches!(pin_status.state, SyncState::InSync { .. });
            self.look |= arrived && is.0 != Pin::Default && self.live.is_none();
            let was = match pin_status.pin {
                Pin::Default => self.pins.remove(&asset),
                _ => self.pins.insert(asset, pin_status),
            };
            let was = was.map_or((Pin::Default, is.1), |was| (was.pin, was.content));
            self.look |= !was.0.same_place(&is.0) || was.1 != is.1;
        }
    }

    /// Whether a report with this pin is from before the asset's pin moved.
    fn is_late(&mut self, asset: &AssetId, pin: Pin) -> bool {
        let Some(expected) = self.expected.get_mut(asset) else {
            return false;
        };
        expected.reported(pin);
        if expected.is_over() {
            self.expected.remove(asset);
        }
        self.moves_from(asset, pin) && !self.planted(Bug::UpdatedAtAnyPin)
    }

    /// Whether a request to move the asset's pin elsewhere has not been reported yet.
    fn moves_from(&self, asset: &AssetId, pin: Pin) -> bool {
        let expected = self.expected.get(asset);
        expected.is_some_and(|moving| moving.leaves(pin))
    }

    /// Forgets the pins of those of `assets` that belong to another group now. Assets of no group lose their pins.
    fn let_go(&mut self, assets: &[AssetId], out: &mut Effects) {
        let mut step = Step::default();
        for asset in assets {
            if self.has(asset) {
                continue;
            }
            self.expected.remove(asset);
            self.pending.remove(asset);
            self.has_left = true;
            if self.live.as_mut().is_some_and(|live| live.leaves(asset)) {
                step.records.push(Record::Target(asset.clone(), None));
            }
            let newest = self.latest.asset(asset);
            let another = newest.as_ref().and_then(policy_of);
            let another = another.or_else(|| headed_by(&self.heads, &self.policy, asset));
            if self.pins.remove(asset).is_some() && another.is_none() {
                step.moves.push((asset.clone(), Pin::Default));
            }
            if self.quarantine.remove(asset).is_some() {
                step.records.push(Record::Quarantine(asset.clone(), None));
            }
        }
        out.steps.push(step);
    }

    /// Returns the content that enforcement holds an asset to: by its own pin, or by the group's head.
    fn content_in_force(&self, asset: &AssetId) -> Option<Digest> {
        match self.pins.get(asset) {
            Some(pin_status) => pin_status.content,
            None => self.head.as_ref()?.asset(asset).map(|a| a.digest()),
        }
    }

    /// Returns the policy at the newest incarnation. It is read at every use.
    fn policy(&self) -> Result<RolloutPolicy, String> {
        let Some(asset) = self.latest.asset(&self.policy) else {
            return Err(format!(
                "{} has no policy asset `{}`; restore it, or let its assets refer to another",
                self.latest.id(),
                self.policy
            ));
        };
        asset
            .payload()
            .map_err(|error| format!("the policy `{}` cannot be read: {error}", self.policy))
    }

    /// Moves one pin, and expects a report of it.
    fn pin(&mut self, now: Now, asset: &AssetId, pin: Pin, step: &mut Step) {
        step.moves.push((asset.clone(), pin));
        if pin == Pin::Default {
            self.pins.remove(asset);
            self.expected.remove(asset);
            return;
        }
        let since = self.clock.at(now);
        let content = self.content_at(pin, asset);
        let state = SyncState::OutOfSync {
            since,
            waits_for: Vec::new(),
            why: None,
        };
        let from = self.pin_of(asset);
        let expected = self.expected.entry(asset.clone());
        expected.or_insert_with(|| Moving::from(from)).then(pin);
        let pin_status = PinStatus {
            pin,
            content,
            state,
        };
        self.pins.insert(asset.clone(), pin_status);
    }

    /// Returns the content of an asset at an incarnation that the kernel has loaded.
    fn content_at(&self, pin: Pin, asset: &AssetId) -> Option<Digest> {
        let there = self.at_hand(pin.incarnation()?)?.asset(asset);
        there.map(|asset| asset.digest())
    }

    fn at_hand(&self, no: IncarnationNo) -> Option<&Incarnation> {
        let to = self.live.as_ref().map(|live| &live.to);
        let all = [Some(&self.latest), self.head.as_ref(), to];
        all.into_iter().flatten().find(|of| of.no() == no)
    }

    /// Returns the content that an asset is held to now.
    fn before(&self, asset: &AssetId) -> Before {
        self.held_to(self.pin_of(asset), asset)
    }

    /// Returns the content that an asset is held to by `pin`.
    fn held_to(&self, pin: Pin, asset: &AssetId) -> Before {
        let at = match pin {
            Pin::At(no, _) => match self.at_hand(no) {
                Some(at) => Some(at),
                None => return Before::Unknown,
            },
            Pin::NotYet => None,
            Pin::Default => self.head.as_ref(),
        };
        let there = at.and_then(|at| at.asset(asset));
        there.map_or(Before::Nothing, Before::Asset)
    }

    fn call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// Whether a guard is left out on purpose.
    #[cfg_attr(not(feature = "planted-bugs"), allow(clippy::unused_self))]
    fn planted(&self, bug: Bug) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.config.planted == Some(bug);
        #[cfg(not(feature = "planted-bugs"))]
        {
            let _ = bug;
            false
        }
    }
}
