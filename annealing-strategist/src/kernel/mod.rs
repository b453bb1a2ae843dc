//! The strategist's kernel, one per policy group: select, update, validate, and roll back. It is pure.
//!
//! Start reading at `step`. The live rollout is in `live`; `begin` and `end` begin and end it; `update` acts on
//! selections, `judge` on verdicts; `back` is the rollback.

mod back;
mod begin;
mod end;
mod event;
mod judge;
mod people;
mod recover;
mod stall;
mod state;
#[cfg(test)]
mod tests;
mod update;
mod view;

use std::{collections::BTreeSet, sync::Arc};

use plugin_sdk::{AssetTypes, Mono, Now, Pin, PinStatus, SyncState};
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo};

pub use crate::group::Heads;
pub use event::{Call, Effects, Event, Record, Step};
pub use people::{Command, Refused};
pub use recover::Recovered;
pub use view::{Counts, GroupOutcome, View};

pub use crate::bug::Bug;

use crate::{config::Config, group::policy_of};
use state::{
    bake_clock::BakeClock, closure::Before, group::Group, live::Live, past::Past, pending::Pending,
    pins::Pins, quarantine::Quarantine,
};

/// The kernel of one policy group: decides which pins move when.
#[derive(Debug)]
pub struct Kernel {
    config: Config,
    types: Arc<AssetTypes>,
    clock: BakeClock,
    group: Group,
    pins: Pins,
    quarantine: Quarantine,
    pending: Pending,
    live: Option<Live>,
    past: Past,
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
            } if latest.no() >= self.group.latest().no() => {
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
        self.live.as_ref()?.next_wake()
    }

    /// Returns the policy asset that names the group.
    pub fn policy_asset(&self) -> &AssetId {
        self.group.policy()
    }

    /// Returns the incarnation whose rollout completed last. `None`: no rollout has completed.
    pub fn head(&self) -> Option<&Incarnation> {
        self.group.head()
    }

    /// Returns the incarnations that the group uses, which retention must spare.
    pub fn referenced(&self) -> Vec<IncarnationNo> {
        let live = self.live.iter();
        let rolled = live.clone().flat_map(|live| [live.from(), Some(live.to())]);
        let heads = rolled.flatten().chain(self.group.head());
        let heads = heads.map(Incarnation::no);
        let was = live.flat_map(|live| {
            let moved = live.moved();
            moved.map(|(_, row)| row.was)
        });
        let pins = was.filter_map(|pin| pin.incarnation());
        let pins = pins.chain(self.pins.referenced());
        let all: BTreeSet<IncarnationNo> = heads.chain(pins).collect();
        all.into_iter().collect()
    }

    /// R17: whether the group governs an asset as of `newest`, even if another group's rollout still holds the asset.
    pub fn names(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        self.group.names(newest, asset)
    }

    /// Whether the group governs an asset, and the asset has not left it.
    pub(super) fn governs(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        let away = |live: &Live| live.is_away(asset);
        self.names(newest, asset) && !self.live.as_ref().is_some_and(away)
    }

    /// Whether the live rollout holds an asset's pin, or will move it, as of `newest`. An asset that left the group
    /// before its turn is not held: another rollout may hold it.
    pub fn owns(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        let Some(live) = &self.live else { return false };
        let Some(place) = live.targets().place(asset) else {
            return false;
        };
        live.targets().row(place).is_some() || self.governs(newest, asset)
    }

    /// Whether the group holds or governs an asset.
    pub(super) fn has(&self, asset: &AssetId) -> bool {
        self.owns(self.group.latest(), asset) || self.governs(self.group.latest(), asset)
    }

    /// Whether the live rollout holds an asset that belongs to the group of `policy` now. That group has to wait for
    /// it.
    pub fn keeps_from(&self, policy: &AssetId) -> bool {
        let live = self.live.iter().filter(|live| live.keeps_others());
        let mut held = live
            .flat_map(|live| live.targets().held())
            .map(|(asset, _)| asset);
        let named = |asset: &AssetId| {
            self.group
                .latest()
                .asset(asset)
                .as_ref()
                .and_then(policy_of)
        };
        held.any(|asset| named(asset).as_ref() == Some(policy))
    }

    fn look_for_others(&mut self, assets: &[AssetId]) {
        let other = |asset: &&AssetId| {
            self.owns(self.group.latest(), asset) && !self.names(self.group.latest(), asset)
        };
        let found = assets.iter().any(|asset| other(&asset));
        if let Some(live) = self.live.as_mut().filter(|_| found) {
            live.keep_others();
        }
    }

    /// Advances the watched time of the live rollout.
    fn watch(&mut self, now: Now) {
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            live.watched_until(at);
        }
    }

    /// R21: stores the watched time at intervals, so that the next owner continues bakes from there.
    fn remember_time(&mut self, now: Now, out: &mut Effects) {
        let flagged = self.until_flagged().map(|wait| now.mono + wait);
        let Some(live) = &mut self.live else { return };
        live.watch.flag_at(flagged);
        if !live.is_timed() {
            return;
        }
        let id = live.id();
        let is = |record: &Record| matches!(record, Record::Rollout(it) if it.id == id);
        let written = out.steps.iter().flat_map(|step| &step.records).any(is);
        let every = self.config.remember_every;
        if live.watch.remember(now.mono, every, written) {
            out.steps.push(live.record().into());
        }
    }

    /// Does everything that follows from the present state.
    fn go_on(&mut self, now: Now, out: &mut Effects) {
        self.consider(now, out);
        self.progress(now, out);
    }

    /// Lets go of every asset that the group no longer governs, after its head has moved.
    fn let_others_go(&mut self, out: &mut Effects) {
        let inherited = self.live.iter().flat_map(|live| live.inherited().keys());
        let all: Vec<AssetId> = self.pins.assets().chain(inherited).cloned().collect();
        self.let_go(&all, out);
    }

    /// Another group's head has moved: lets go of assets that belong to that group now.
    fn others_moved(&mut self, heads: Heads, out: &mut Effects) {
        self.group.hear(heads);
        let gone = |asset: &&AssetId| !self.has(asset);
        let gone: Vec<AssetId> = self.pins.assets().filter(gone).cloned().collect();
        self.let_go(&gone, out);
        out.released.extend(gone);
    }

    /// Takes in a newer incarnation. `changed` are the assets of the group that it may change.
    fn took(&mut self, now: Now, latest: Incarnation, changed: Vec<AssetId>, out: &mut Effects) {
        let swapped = self.group.take(latest);
        self.came_back(&changed);
        self.look_for_others(&changed);
        self.pending.add(changed.iter().cloned());
        self.let_go(&changed, out);
        self.pending.look();
        match &mut self.live {
            Some(live) if swapped => live.selecting.look_again(true),
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
            if pin_status.pin == Pin::Default && !self.governs(self.group.latest(), &asset) {
                self.pins.forget_moves(&asset);
            }
            if self.is_late(&asset, pin_status.pin) {
                self.was_there(&asset, pin_status.pin, out);
                continue;
            }
            self.stood(now, &asset, &pin_status, out);
            // The pin status may have made the asset's pin move, so it is outdated already.
            if self.pins.moves_from(&asset, pin_status.pin) {
                continue;
            }
            let arrived = matches!(pin_status.state, SyncState::InSync { .. });
            let arrived = arrived && pin_status.pin != Pin::Default && self.live.is_none();
            if self.pins.report(asset, pin_status) || arrived {
                self.pending.look();
            }
        }
    }

    /// Whether a report with this pin is from before the asset's pin moved.
    fn is_late(&mut self, asset: &AssetId, pin: Pin) -> bool {
        self.pins.confirm(asset, pin);
        self.pins.moves_from(asset, pin) && !self.planted(Bug::UpdatedAtAnyPin)
    }

    /// Forgets the pins of those of `assets` that belong to another group now. Assets of no group lose their pins.
    fn let_go(&mut self, assets: &[AssetId], out: &mut Effects) {
        let mut step = Step::default();
        for asset in assets {
            if self.has(asset) {
                continue;
            }
            self.pending.left(asset);
            if self.live.as_mut().is_some_and(|live| live.leaves(asset)) {
                step.records.push(Record::Target(asset.clone(), None));
            }
            if self.pins.forget(asset) && self.group.named_by(asset).is_none() {
                step.moves.push((asset.clone(), Pin::Default));
            }
            step.records.extend(self.quarantine.forget(asset));
        }
        out.steps.push(step);
    }

    /// Returns the content that enforcement holds an asset to: by its own pin, or by the group's head.
    fn content_in_force(&self, asset: &AssetId) -> Option<Digest> {
        match self.pins.status(asset) {
            Some(pin_status) => pin_status.content,
            None => self.group.content_at_head(asset),
        }
    }

    /// Moves one pin, and expects a report of it.
    fn pin(&mut self, now: Now, asset: &AssetId, pin: Pin, step: &mut Step) {
        step.moves.push((asset.clone(), pin));
        if pin == Pin::Default {
            self.pins.forget(asset);
            return;
        }
        let since = self.clock.at(now);
        let content = self.content_at(pin, asset);
        let state = SyncState::OutOfSync {
            since,
            waits_for: Vec::new(),
            why: None,
        };
        let pin_status = PinStatus {
            pin,
            content,
            state,
        };
        self.pins.request(asset, pin_status);
    }

    /// Returns the content of an asset at an incarnation that the kernel has loaded.
    fn content_at(&self, pin: Pin, asset: &AssetId) -> Option<Digest> {
        let there = self.at_hand(pin.incarnation()?)?.asset(asset);
        there.map(|asset| asset.digest())
    }

    fn at_hand(&self, no: IncarnationNo) -> Option<&Incarnation> {
        let to = self.live.as_ref().map(|live| live.to());
        let to = to.filter(|to| to.no() == no);
        self.group.at(no).or(to)
    }

    /// Returns the content that an asset is held to now.
    fn before(&self, asset: &AssetId) -> Before {
        self.held_to(self.pins.of(asset), asset)
    }

    /// Returns the content that an asset is held to by `pin`.
    fn held_to(&self, pin: Pin, asset: &AssetId) -> Before {
        let at = match pin {
            Pin::At(no, _) => match self.at_hand(no) {
                Some(at) => Some(at),
                None => return Before::Unknown,
            },
            Pin::NotYet => None,
            Pin::Default => self.group.head(),
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
