//! The strategist's kernel: one per policy group. Select, update, validate; and back. Pure.
//!
//! Start reading at `step`. What a group's rollout is made of is in `live`; when one begins and ends in `begin` and
//! `end`; what follows from a selection in `update`, from a verdict in `judge`; the way back in `back`.

mod back;
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
mod steady;
#[cfg(test)]
mod tests;
mod update;
mod verdict;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use plane_store::records::{Standing, StandingPin, Stands};
use plugin_sdk::{AssetTypes, Mono, Now, RolloutId};
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo, rollout::RolloutPolicy};

pub use crate::group::Heads;
pub use event::{Call, Effects, Event, Goes, Record, Step};
pub use people::{Command, Refused};
pub use recover::Recovered;
pub use view::{Counts, Rested, View};

use crate::{
    config::Config,
    group::{governs, headed_by, policy_of},
    record::{Quarantined, Rollout},
};
use closure::Before;
use live::Live;
use moving::Moving;
use steady::Steady;

/// A guard that can be left out, to see that tests notice. Only with the feature `planted-bugs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// R20: what is in sync for any pin counts as updated.
    UpdatedAtAnyPin,
    /// R22: only what settled goes back.
    RollBackSettledOnly,
    /// R21: unknown health passes a gate.
    UnknownIsHealthy,
    /// R21: a verdict passes a gate whenever it was made.
    OldVerdict,
    /// R22: what goes back goes for the cause `Intent`, which checks hold up.
    RollBackAsIntent,
    /// R18: what was selected before is selected again.
    SelectTwice,
    /// R22: failed content is not remembered.
    NoQuarantine,
    /// R22: what moved first goes back first.
    BackFirstFirst,
    /// R17: any newer incarnation supersedes what failed.
    AnyEditMends,
    /// R18: a selection counts though what it went by has changed.
    VoidSelection,
    /// R19: what is selected does not take with it whom it needs.
    NotClosed,
    /// What was to be moved counts as moved after a crash, whatever its pin says.
    TrustRows,
    /// R21: unhealthy passes for healthy.
    IgnoreUnhealthy,
    /// R21: a rollout is over as soon as everything was selected.
    CompletesEarly,
    /// A rollback is over as soon as everything was sent back.
    BackTooSoon,
    /// A rollback never ends.
    NeverBack,
    /// What a person paused or aborted goes on.
    IgnorePause,
}

/// Decides, for one policy group, which pins move when.
#[derive(Debug)]
pub struct Kernel {
    policy: AssetId,
    config: Config,
    types: Arc<AssetTypes>,
    clock: Steady,
    latest: Incarnation,
    head: Option<Incarnation>,
    /// The heads of all groups, this one's as others see it.
    heads: Heads,
    /// The group's assets that have a pin of their own, as far as heard.
    pins: BTreeMap<AssetId, Standing>,
    /// Pins that were asked for and not heard of yet, oldest first: what is said of others meanwhile is late.
    expected: BTreeMap<AssetId, Moving>,
    quarantine: BTreeMap<AssetId, Quarantined>,
    /// Assets that may differ between the group's head and the newest incarnation.
    pending: BTreeSet<AssetId>,
    /// An asset has left the group, and the head may still claim it.
    has_left: bool,
    /// Something changed that a rollout may begin for.
    look: bool,
    live: Option<Live>,
    /// While none is live: who stays where it is, because what is intended failed before.
    left_out: Vec<AssetId>,
    /// The rollout before the one that is live.
    last: Option<Rollout>,
    next: RolloutId,
    calls: u64,
}

impl plane_runtime::Kernel for Kernel {
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
                self.stands(now, come, out);
            }
            Event::Took { .. } => {}
            Event::Stands(standings) => self.stands(now, standings, out),
            Event::Selected { call, answer } => self.selected(now, call, answer, out),
            Event::Judged { call, answer } => self.judged(now, call, answer, out),
            Event::Person { command, by, reply } => self.person(now, command, by, reply, out),
            Event::Heads(heads) => self.others_moved(heads, out),
            Event::Tick => {}
        }
        self.go_on(now, out);
        self.look_at_progress(now, out);
        self.remember_time(now, out);
    }
}

impl Kernel {
    /// When the kernel wants an [`Event::Tick`], if nothing else happens.
    pub fn next_wake(&self) -> Option<Mono> {
        let live = self.live.as_ref()?;
        let judge = live.judge_at.filter(|_| live.judging.is_none());
        let remember = live.remember_at.filter(|_| live.is_timed());
        let stall = live.stall_at;
        let all = [live.wake, judge, remember, stall];
        all.into_iter().flatten().min()
    }

    /// The group's policy asset.
    pub fn policy_asset(&self) -> &AssetId {
        &self.policy
    }

    /// The incarnation whose rollout was completed last.
    pub fn head(&self) -> Option<&Incarnation> {
        self.head.as_ref()
    }

    /// The incarnations that retention must spare.
    pub fn cited(&self) -> Vec<IncarnationNo> {
        let live = self.live.iter();
        let rolled = live
            .clone()
            .flat_map(|live| [live.from.as_ref(), Some(&live.to)]);
        let heads = rolled.flatten().chain(&self.head).map(Incarnation::no);
        let was = live.flat_map(|live| {
            let rows = live.rows.iter().flatten().map(|row| row.was);
            rows.chain(live.inherited.values().map(|row| row.was))
        });
        let pins = was.chain(self.pins.values().map(|standing| standing.pin));
        let pins = pins.filter_map(|pin| match pin {
            StandingPin::At(no) => Some(no),
            _ => None,
        });
        let all: BTreeSet<IncarnationNo> = heads.chain(pins).collect();
        all.into_iter().collect()
    }

    /// R17: whether the group governs an asset, as of `newest`; whether or not another one's rollout still holds it.
    pub fn names(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        governs(&self.policy, self.head.as_ref(), &self.heads, newest, asset)
    }

    /// Whether it governs an asset that has not left it, as far as it was told.
    pub(super) fn governs(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        let away = |live: &Live| live.away.contains(asset);
        self.names(newest, asset) && !self.live.as_ref().is_some_and(away)
    }

    /// Whether the live rollout holds an asset's pin, or is going to, as of `newest`. What has left the group before its
    /// turn is not held: it may be another rollout's by now.
    pub fn owns(&self, newest: &Incarnation, asset: &AssetId) -> bool {
        let Some(live) = &self.live else { return false };
        let moved = live.place(asset).map(|at| live.rows[at].is_some());
        moved.is_some_and(|moved| moved || self.governs(newest, asset))
    }

    /// Whether it holds, or governs, an asset.
    pub(super) fn has(&self, asset: &AssetId) -> bool {
        self.owns(&self.latest, asset) || self.governs(&self.latest, asset)
    }

    /// Whether its rollout holds anything that is by now of the group of `policy`, which has its turn after that.
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

    /// Time goes on for the live rollout.
    fn watch(&mut self, now: Now) {
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            live.rollout.watched = live.watched(at);
        }
    }

    /// R21: how long a rollout was watched is written down now and then: the next owner's bakes go on from there.
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

    /// Whatever follows from how things are now.
    fn go_on(&mut self, now: Now, out: &mut Effects) {
        self.consider(now, out);
        self.progress(now, out);
    }

    /// Lets go of every asset that the group does not govern any more: its head has moved.
    fn let_others_go(&mut self, out: &mut Effects) {
        let inherited = self.live.iter().flat_map(|live| live.inherited.keys());
        let all: Vec<AssetId> = self.pins.keys().chain(inherited).cloned().collect();
        self.let_go(&all, out);
    }

    /// Another group's head has moved: an asset that this one governed may be its own from here on.
    fn others_moved(&mut self, heads: Heads, out: &mut Effects) {
        self.heads = heads;
        let gone = |asset: &&AssetId| !self.has(asset);
        let gone: Vec<AssetId> = self.pins.keys().filter(gone).cloned().collect();
        self.let_go(&gone, out);
        out.released.extend(gone);
    }

    /// A newer incarnation: `changed` are the group's assets that it may change.
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
            // Nothing is measured by it now: a clock that was set right counts from here on.
            None => self.clock = Steady::new(now),
        }
    }

    /// What enforcement says of the group's assets.
    fn stands(&mut self, now: Now, standings: Vec<(AssetId, Standing)>, out: &mut Effects) {
        for (asset, standing) in standings {
            // R17: enforcement pins nothing that has left every group, whatever was asked for.
            if standing.pin == StandingPin::Default && !self.governs(&self.latest, &asset) {
                self.expected.remove(&asset);
            }
            if self.is_late(&asset, standing.pin) {
                self.was_there(&asset, standing.pin, out);
                continue;
            }
            self.stood(now, &asset, &standing, out);
            // What was found may have moved its pin: it is there no longer.
            if self.moves_from(&asset, standing.pin) {
                continue;
            }
            let is = (standing.pin, standing.content);
            let arrived = matches!(standing.state, Stands::InSync { .. });
            self.look |= arrived && is.0 != StandingPin::Default && self.live.is_none();
            let was = match standing.pin {
                StandingPin::Default => self.pins.remove(&asset),
                _ => self.pins.insert(asset, standing),
            };
            let was = was.map_or((StandingPin::Default, is.1), |was| (was.pin, was.content));
            self.look |= was != is;
        }
    }

    /// Whether what is said of an asset with this pin is from before its pin moved.
    fn is_late(&mut self, asset: &AssetId, pin: StandingPin) -> bool {
        let Some(expected) = self.expected.get_mut(asset) else {
            return false;
        };
        expected.heard(pin);
        if expected.is_over() {
            self.expected.remove(asset);
        }
        self.moves_from(asset, pin) && !self.planted(Bug::UpdatedAtAnyPin)
    }

    /// Whether the pin of an asset was asked to move elsewhere, and nobody has heard of that yet.
    fn moves_from(&self, asset: &AssetId, pin: StandingPin) -> bool {
        let expected = self.expected.get(asset);
        expected.is_some_and(|moving| moving.leaves(pin))
    }

    /// Forgets the pins of those of `assets` that are another group's by now. Those that are no group's go without.
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
                step.moves.push((asset.clone(), Goes::Default));
            }
            if self.quarantine.remove(asset).is_some() {
                step.records.push(Record::Quarantine(asset.clone(), None));
            }
        }
        out.steps.push(step);
    }

    /// The content that production is held to: by the asset's own pin, or by the group's head.
    fn content_in_force(&self, asset: &AssetId) -> Option<Digest> {
        match self.pins.get(asset) {
            Some(standing) => standing.content,
            None => self.head.as_ref()?.asset(asset).map(|a| a.digest()),
        }
    }

    /// The policy as it is now, read at every use.
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

    /// Moves one pin, and expects to hear of it.
    fn pin(&mut self, now: Now, asset: &AssetId, goes: Goes, step: &mut Step) {
        let pin = match &goes {
            Goes::At(no, _) => StandingPin::At(*no),
            Goes::NotYet => StandingPin::NotYet,
            Goes::Default => {
                self.pins.remove(asset);
                self.expected.remove(asset);
                step.moves.push((asset.clone(), goes));
                return;
            }
        };
        let since = self.clock.at(now);
        let content = self.content_at(pin, asset);
        let state = Stands::OutOfSync {
            since,
            waits_for: Vec::new(),
            why: None,
        };
        let from = self.pin_of(asset);
        let expected = self.expected.entry(asset.clone());
        expected.or_insert_with(|| Moving::from(from)).then(pin);
        let standing = Standing {
            pin,
            content,
            state,
        };
        self.pins.insert(asset.clone(), standing);
        step.moves.push((asset.clone(), goes));
    }

    /// The content of an asset at an incarnation that the kernel has at hand.
    fn content_at(&self, pin: StandingPin, asset: &AssetId) -> Option<Digest> {
        let StandingPin::At(no) = pin else {
            return None;
        };
        let there = self.at_hand(no)?.asset(asset);
        there.map(|asset| asset.digest())
    }

    fn at_hand(&self, no: IncarnationNo) -> Option<&Incarnation> {
        let to = self.live.as_ref().map(|live| &live.to);
        let all = [Some(&self.latest), self.head.as_ref(), to];
        all.into_iter().flatten().find(|of| of.no() == no)
    }

    /// What an asset is held to now.
    fn before(&self, asset: &AssetId) -> Before {
        self.held_to(self.pin_of(asset), asset)
    }

    /// What an asset is held to by `pin`.
    fn held_to(&self, pin: StandingPin, asset: &AssetId) -> Before {
        let at = match pin {
            StandingPin::At(no) => match self.at_hand(no) {
                Some(at) => Some(at),
                None => return Before::Unknown,
            },
            StandingPin::NotYet => None,
            StandingPin::Default => self.head.as_ref(),
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
