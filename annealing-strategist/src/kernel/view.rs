//! A rollout as people see it: how it is, how far, and what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use plane_store::records::{Standing, Stands};
use plugin_sdk::{Direction, Progress, Target, Wait};
use prodspec_model::{AssetId, IncarnationNo};
use serde::{Deserialize, Serialize};

use super::{Kernel, live::Live};
use crate::record::{Rollout, State};

/// One policy group, as it is now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The policy asset that names the group.
    pub policy: AssetId,
    /// The incarnation whose rollout was completed last.
    pub head: Option<IncarnationNo>,
    /// The newest rollout: the one under way, or the last one.
    pub rollout: Option<Rollout>,
    /// Whether it is under way.
    pub live: bool,
    /// Its targets by how far they are. On the way back: those that go back.
    pub counts: Counts,
    /// Every target of it, while it is under way.
    pub targets: Vec<Target>,
    /// What it waits for.
    pub waits: Vec<Wait>,
    /// Assets that some under way wait for, and that it does not move: others' assets, and what it leaves running that is
    /// gone from intent. When those do not come, a person or newer intent has to help.
    pub outside: Vec<AssetId>,
    /// Targets on their way whose push a person or a check holds, each with why.
    pub held: BTreeMap<AssetId, String>,
    /// Assets that stay where they are, because what is intended failed before, or because they wait for such a one.
    pub left_out: Vec<AssetId>,
    /// The time that `since` and `until` of all of these are measured by.
    pub now: Timestamp,
}

/// How a group is once nothing of it moves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rested {
    /// Everything of the group is, well and baked, as the newest incarnation says.
    pub released: bool,
    /// The group's newest rollout, if it ever had one. It may be of an older incarnation, when nothing newer differs, or
    /// when what differs failed before.
    pub rollout: Option<Rollout>,
    /// Assets that stay where they are, because what is intended failed before, or because they wait for such a one.
    pub left_out: Vec<AssetId>,
}

/// Targets by how far they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Not selected yet.
    pub waiting: usize,
    /// On their way.
    pub in_flight: usize,
    /// Updated, and in sync.
    pub updated: usize,
    /// Updated, and drifted since.
    pub drifted: usize,
}

/// Of how many assets under way the names are shown, and of how many that one of them waits for.
const SHOWN: usize = 5;

impl Kernel {
    /// The newest rollout: the one under way, or the last one.
    pub fn newest(&self) -> Option<&Rollout> {
        let live = self.live.as_ref().map(|live| &live.rollout);
        live.or(self.last.as_ref())
    }

    /// Whether the group has heard of incarnation `at`, and nothing of it moves before a person says so or newer intent is
    /// there.
    pub fn rests(&self, at: IncarnationNo) -> bool {
        let live = self.live.as_ref();
        let rests = |live: &Live| matches!(live.rollout.state, State::Stopped { .. });
        self.latest.no() >= at && live.is_none_or(rests)
    }

    /// How the group is, if it [rests](Self::rests).
    pub fn rested(&self) -> Rested {
        let left_out = self.left_out();
        Rested {
            released: self.live.is_none() && left_out.is_empty(),
            rollout: self.newest().cloned(),
            left_out,
        }
    }

    fn left_out(&self) -> Vec<AssetId> {
        match &self.live {
            Some(live) => live.left_out.clone(),
            None => {
                let ours = |id: &&AssetId| self.governs(&self.latest, id);
                self.left_out.iter().filter(ours).cloned().collect()
            }
        }
    }

    /// The group as it is now.
    pub fn view(&self, now: plugin_sdk::Now) -> View {
        let live = self.live.as_ref();
        let targets = live.map(|live| live.on_the_way().to_vec());
        let targets = targets.unwrap_or_default();
        let under_way = live.filter(|live| live.is_moving());
        View {
            policy: self.policy.clone(),
            head: self.head.as_ref().map(|head| head.no()),
            rollout: self.newest().cloned(),
            live: live.is_some(),
            counts: Counts::of(&targets),
            waits: under_way.map(|live| self.waits(live)).unwrap_or_default(),
            outside: under_way.map(|live| self.outside(live)).unwrap_or_default(),
            held: under_way.map(|live| self.held(live)).unwrap_or_default(),
            targets,
            left_out: self.left_out(),
            now: self.clock.at(now),
        }
    }

    fn waits(&self, live: &Live) -> Vec<Wait> {
        let mut waits = live.selection.waits.clone();
        let back = live.direction() == Direction::Back;
        let under_way = |target: &&Target| target.is_under_way() || back && target.is_waiting();
        let names = live.on_the_way().iter().filter(under_way);
        let names = names.map(|target| self.under_way(live, &target.asset));
        let names: Vec<String> = names.take(SHOWN).collect();
        if !names.is_empty() {
            waits.push(Wait {
                why: format!("under way: {}", names.join(", ")),
                until: plugin_sdk::Until::Settled,
            });
        }
        waits
    }

    /// Whom an asset waits for that the rollout does not move.
    fn waits_outside(&self, asset: &AssetId) -> impl Iterator<Item = &AssetId> {
        let waits_for = match self.pins.get(asset).map(|standing| &standing.state) {
            Some(Stands::OutOfSync { waits_for, .. }) => waits_for.as_slice(),
            _ => &[],
        };
        let moved = |id: &AssetId| self.owns(&self.latest, id) && !self.is_left_running(id);
        waits_for.iter().filter(move |id| !moved(id))
    }

    /// Whether it is gone where its pin is, and nothing is done about it.
    fn is_left_running(&self, asset: &AssetId) -> bool {
        let gone =
            |it: &Standing| it.content.is_none() && matches!(it.state, Stands::InSync { .. });
        self.pins.get(asset).is_some_and(gone)
    }

    fn held(&self, live: &Live) -> BTreeMap<AssetId, String> {
        let under_way = live.on_the_way().iter().filter(|t| t.is_under_way());
        let held = under_way.filter_map(|target| {
            let why = self.held_by(&target.asset)?;
            Some((target.asset.clone(), why.to_owned()))
        });
        held.collect()
    }

    /// What holds the push of an asset, beside assets that it waits for.
    fn held_by(&self, asset: &AssetId) -> Option<&str> {
        match self.pins.get(asset).map(|standing| &standing.state) {
            Some(Stands::OutOfSync { why, .. }) => why.as_deref(),
            _ => None,
        }
    }

    fn outside(&self, live: &Live) -> Vec<AssetId> {
        let under_way = live.on_the_way().iter().filter(|t| t.is_under_way());
        let outside = under_way.flat_map(|target| self.waits_outside(&target.asset));
        let outside: BTreeSet<&AssetId> = outside.collect();
        outside.into_iter().cloned().collect()
    }

    /// An asset, and whom it waits for that the rollout does not move.
    fn under_way(&self, live: &Live, asset: &AssetId) -> String {
        let others = self.waits_outside(asset);
        let others = others.map(|id| {
            let why = match () {
                () if live.left_out.contains(id) => ", which is left out",
                () if self.is_left_running(id) => ", which is gone from intent, and left running",
                () => "",
            };
            format!("`{id}`{why}")
        });
        let mut others: Vec<String> = others.take(SHOWN).collect();
        others.extend(self.held_by(asset).map(str::to_owned));
        match others.is_empty() {
            true => asset.to_string(),
            false => format!("{asset} (waits for {})", others.join(" and ")),
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
