//! The strategist's kernel, one per policy group: select, update, validate, and roll back. It is pure.
//!
//! Start reading at `step`. `state` holds the data with its invariants; the other modules are the transitions, named
//! after the steps of a rollout: `begin` and `end` begin and end it; `select` asks which targets may move, `update` moves
//! them, `settle` sees them settle, `judge` checks their health; `fail` and `back` undo it.

mod apart;
mod back;
mod begin;
mod candidates;
mod command;
mod course;
mod end;
mod event;
mod explain;
mod fail;
mod follow;
mod health_request;
mod incarnation;
mod join;
mod judge;
mod membership;
mod newer;
mod people;
mod pin;
mod recover;
mod recovered;
mod retention;
mod retry;
mod revive;
mod select;
mod settle;
mod stall;
mod standing;
mod state;
mod takeover;
#[cfg(test)]
mod tests;
mod update;
mod view;
mod watch;

use std::{collections::BTreeSet, sync::Arc};

use control_plane_runtime::Steady;
use plugin_sdk::{AssetTypes, GroupHead, Mono, Now, Target};
use prodspec_model::{AssetId, Incarnation};

#[cfg(feature = "planted-bugs")]
pub use crate::bug::plant;
use crate::bug::planted;
pub use apart::{Domain, Taken};
pub use command::{Command, Refused};
pub use event::{Call, Effects, Event, Record, Step};
pub use join::Joins;
pub(crate) use join::edited;
pub use recovered::Recovered;
pub use view::{Counts, GroupOutcome, View};
pub use {crate::bug::Bug, crate::group::Heads};

use crate::config::Config;
use state::{
    closure::{Before, Closure},
    group::Group,
    live::Live,
    past::Past,
    pending::Pending,
    pins::Pins,
    quarantine::Quarantine,
};

/// The kernel of one policy group: decides which pins move when.
#[derive(Debug)]
pub struct Kernel {
    config: Config,
    types: Arc<AssetTypes>,
    clock: Steady,
    group: Group,
    pins: Pins,
    quarantine: Quarantine,
    pending: Pending,
    live: Option<Live>,
    past: Past,
    /// Assets that move together, beside those that edges tie.
    ties: Vec<Vec<AssetId>>,
    /// Assets that came while the live rollout was live.
    late: BTreeSet<AssetId>,
    /// The domains that other changes have taken.
    taken: Taken,
    /// The domains that the last selection would have entered without them.
    wanted: BTreeSet<Domain>,
    /// Targets that the next selection leaves out, by place.
    not_now: Vec<u32>,
    /// Whether the selection under way leaves some out.
    asked_apart: bool,
    /// Assets that have come and will join the live rollout.
    expected: BTreeSet<AssetId>,
    /// Whether changes are live on assets of the group.
    has_changes: bool,
    /// Whether this is the rollout of a change.
    is_change: bool,
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
            } if latest.no() >= self.group.latest().no() || self.live.is_none() => {
                self.took(now, latest, changed, out);
                self.standings_changed(now, come, out);
            }
            Event::Took { .. } => {}
            Event::Sealed { newest, changed } => self.sealed(newest, &changed, out),
            Event::Standings(standings) => self.standings_changed(now, standings, out),
            Event::Selected { call, answer } => self.selected(now, call, answer, out),
            Event::Judged { call, answer } => self.judged(now, call, answer, out),
            Event::Command { command, by, reply } => self.person(now, command, by, reply, out),
            Event::Heads(heads) => self.others_moved(heads, out),
            Event::Changes(are_live) => {
                self.pending.look();
                self.has_changes = are_live;
            }
            Event::Line(line) => self.line_changed(now, line),
            Event::Taken(taken) => self.others_bake(taken),
            Event::TakenBack => self.other_is_back(now, out),
            Event::Came { come, gone } => self.came(now, come, &gone, out),
            Event::Joined { joins, ties } => self.joined(now, &joins, ties, out),
            Event::HandedOver {
                latest,
                to,
                by,
                reply,
            } => {
                let answer = self.handed_over(now, (latest, &to), by, out);
                out.replies.push((reply, answer));
            }
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

    /// Returns the head of the group. `None`: no rollout has completed.
    pub fn head(&self) -> Option<&GroupHead<Incarnation>> {
        self.group.stored_head()
    }

    /// Returns the incarnation that is rolled out. `None`: no rollout is live.
    pub fn rolls_out(&self) -> Option<&Incarnation> {
        Some(self.live.as_ref()?.to())
    }

    /// Does everything that follows from the present state.
    fn go_on(&mut self, now: Now, out: &mut Effects) {
        self.consider(now, out);
        self.progress(now, out);
    }

    /// R19: returns which of `targets` move with which, between their contents `before` and at `to`.
    fn closure(
        &self,
        targets: &[Target],
        before: impl Fn(&AssetId) -> Before,
        to: &Incarnation,
    ) -> Closure {
        let mut closure = Closure::of(targets, before, to, &self.types);
        for tied in &self.ties {
            closure.tie(targets, tied);
        }
        closure
    }

    fn call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }
}
