//! A rollout as operators see it: its state, its progress, and what it waits for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use plugin_sdk::{Progress, Target, Until, Wait};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, rollout::Update};
use serde::{Deserialize, Serialize};

use super::{Kernel, state::live::Live};
use crate::{
    line::StoppedLine,
    record::{Rollout, State},
};

/// The present state of one policy group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The policy asset that names the group.
    pub policy: AssetId,
    /// The incarnation whose rollout completed last, or the newest one if the assets follow that. `None`: no rollout has
    /// completed.
    pub head: Option<IncarnationNo>,
    /// How the assets are updated now.
    #[serde(default)]
    pub update: Update,
    /// The reason why the assets are not updated as the policy says. `None`: they are.
    #[serde(default)]
    pub update_waits: Option<String>,
    /// The newest rollout: the live one, or the last one. `None`: the group never had one.
    pub rollout: Option<Rollout>,
    /// Whether that rollout is live.
    pub live: bool,
    /// The number of targets by progress. During a rollback: of the targets that go back.
    pub counts: Counts,
    /// All targets of the live rollout; during a rollback, those that go back. Empty: none is live.
    pub targets: Vec<Target>,
    /// The conditions that the live rollout waits for.
    pub waits: Vec<Wait>,
    /// Set while the line is stopped and the live rollout stands still because of it.
    #[serde(default)]
    pub stopped_line: Option<StoppedLine>,
    /// Why an operator has to act before the live rollout goes on or completes: it is paused, stopped or on hold, a
    /// target waits for a command, or its health has been unknown, or its targets idle, for too long. `None`: it goes on
    /// by itself, or none is live.
    #[serde(default)]
    pub awaits_person: Option<String>,
    /// Assets that targets under way wait for and that the rollout does not move: assets of other groups, and assets
    /// that are gone from intent and left running. If those do not change, an operator or newer intent has to help.
    pub outside: Vec<AssetId>,
    /// Targets under way whose push is held by an operator or a check, each with the reason.
    pub held: BTreeMap<AssetId, String>,
    /// Assets that stay where they are because their intended content failed before, or because they wait for one of
    /// those.
    pub left_out: Vec<AssetId>,
    /// The time of this view, on the clock of all its `since` and `until`.
    pub now: Timestamp,
}

impl View {
    /// Whether no target moves before an operator acts: the rollout is paused, stopped or on hold.
    pub fn is_on_hold(&self) -> bool {
        let state = self.rollout.as_ref().map(|rollout| &rollout.state);
        let stands = matches!(
            state,
            Some(State::Paused | State::Stopped { .. } | State::RollingBack { paused: true, .. })
        );
        let mut waits = self.waits.iter();
        self.live && (stands || waits.any(|wait| wait.until == Until::Person))
    }
}

/// The state of a policy group that has come to rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Whether all assets of the group are updated to the newest incarnation, healthy and baked.
    pub released: bool,
    /// The group's newest rollout. It may be of an older incarnation, if nothing has changed since or the changed
    /// content failed before. `None`: the group never had one.
    pub rollout: Option<Rollout>,
    /// Assets that stay where they are because their intended content failed before, or because they wait for one of
    /// those.
    pub left_out: Vec<AssetId>,
}

/// The number of targets by progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Targets that are not selected yet.
    pub waiting: usize,
    /// Targets that were selected and have not settled.
    pub in_flight: usize,
    /// Targets that are updated and in sync.
    pub updated: usize,
    /// Targets that were updated and have drifted since.
    pub drifted: usize,
}

impl Kernel {
    /// Returns the newest rollout: the live one, or the last one. `None`: the group never had one.
    pub fn newest(&self) -> Option<&Rollout> {
        let live = self.live.as_ref().map(Live::rollout);
        live.or(self.past.last())
    }

    /// The newest incarnation that the group has taken in.
    pub(crate) fn latest(&self) -> &Incarnation {
        self.group.latest()
    }

    /// Whether the group has taken in incarnation `at`, and none of its pins moves until an operator gives a command
    /// or newer intent arrives.
    pub fn rests(&self, at: IncarnationNo) -> bool {
        let live = self.live.as_ref();
        let rests = |live: &Live| matches!(live.state(), State::Stopped { .. });
        self.group.latest().no() >= at && live.is_none_or(rests)
    }

    /// Whether the rollouts of the group's assets are changes, by edits.
    pub(crate) fn is_by_edits(&self) -> bool {
        self.group.follows_latest()
    }

    /// Returns the state of the group at rest. Call it if the group [rests](Self::rests).
    pub fn rested(&self) -> GroupOutcome {
        let left_out = self.left_out();
        GroupOutcome {
            released: self.live.is_none() && left_out.is_empty(),
            rollout: self.newest().cloned(),
            left_out,
        }
    }

    fn left_out(&self) -> Vec<AssetId> {
        match &self.live {
            Some(live) => live.left_out().to_vec(),
            None => {
                let ours = |id: &&AssetId| self.governs(self.group.latest(), id);
                self.pending
                    .left_out()
                    .iter()
                    .filter(ours)
                    .cloned()
                    .collect()
            }
        }
    }

    /// Returns the present state of the group.
    pub fn view(&self, now: plugin_sdk::Now) -> View {
        let live = self.live.as_ref();
        let targets = live.map(|live| live.targets().on_the_way().to_vec());
        let targets = targets.unwrap_or_default();
        let under_way = live.filter(|live| live.is_moving());
        View {
            policy: self.group.policy().clone(),
            head: self.group.head().map(|head| head.no()),
            update: match self.group.follows_latest() {
                true => Update::Edits,
                false => Update::Pins,
            },
            update_waits: self.keeps_update(),
            rollout: self.newest().cloned(),
            live: live.is_some(),
            counts: Counts::of(&targets),
            waits: under_way.map(|live| self.waits(live)).unwrap_or_default(),
            stopped_line: self.stopped_line(now).cloned(),
            awaits_person: match live {
                Some(live) => self.awaits_person(live),
                None => self.group.is_unknown().then(|| {
                    "a newer program version has set the head of the group to one that this version does not know; start \
                     the newer version"
                        .to_owned()
                }),
            },
            outside: under_way.map(|live| self.outside(live)).unwrap_or_default(),
            held: under_way.map(|live| self.held(live)).unwrap_or_default(),
            targets,
            left_out: self.left_out(),
            now: self.clock.at(now),
        }
    }
}

impl Counts {
    fn of(targets: &[Target]) -> Self {
        let mut counts = Self::default();
        for target in targets {
            *match target.progress {
                Progress::Waiting => &mut counts.waiting,
                Progress::InFlight { .. } => &mut counts.in_flight,
                Progress::Updated { .. } => &mut counts.updated,
                Progress::Drifted { .. } => &mut counts.drifted,
            } += 1;
        }
        counts
    }
}
