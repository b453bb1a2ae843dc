//! Whether production is as intended, and if not, why not: from generation, enforcement and rollouts together.

use std::{collections::BTreeMap, fmt};

use annealing_enforcer::{Named, Reason, kernel::OTHERS};
use annealing_strategist::{Rollout, State, View};
use plugin_sdk::Until;
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use crate::handle::Status;

/// Whether production is as intended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsIntended {
    /// Everything is where the sources have it, as far as the last looks tell. Pauses may hold all the same.
    Yes,
    /// It is not, for these reasons.
    No(Vec<WhyNot>),
    /// This process cannot tell, for this reason.
    Unknown(String),
}

/// One reason why production is not as intended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyNot {
    /// What is the matter.
    pub what: Obstacle,
    /// With how many: assets, or problems of the sources.
    pub many: u32,
}

/// What keeps production from being as intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Obstacle {
    /// Enforcement stopped itself.
    Stopped,
    /// The sources make no incarnation: an older one is in force.
    Refused,
    /// Assets that are not settled.
    Unsettled(Reason),
    /// Assets that a rollout leaves where they are: what is intended for them failed before, or they wait for such a one.
    LeftOut,
    /// Assets whose rollout waits for a person.
    AwaitingPerson,
    /// Assets that a rollout has yet to get to.
    RollingOut,
    /// Assets that left intent, and run on.
    Orphaned,
    /// Assets that are in intent, and run on as they are until their rollout gets there.
    LeftRunning,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = self.many;
        match self.what {
            Obstacle::Stopped => f.write_str("enforcement stopped itself"),
            Obstacle::Refused => write!(f, "the sources are not followed: {many} problems"),
            Obstacle::Unsettled(reason) => write!(f, "{many} not settled: {reason}"),
            Obstacle::LeftOut => write!(f, "{many} left out of their rollout"),
            Obstacle::AwaitingPerson => write!(f, "{many} in rollouts that wait for a person"),
            Obstacle::RollingOut => write!(f, "{many} that a rollout has yet to get to"),
            Obstacle::Orphaned => write!(f, "{many} orphaned"),
            Obstacle::LeftRunning => {
                write!(f, "{many} left running until their rollout gets there")
            }
        }
    }
}

/// A policy group that is not at rest with everything where it belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// The policy asset that names the group.
    pub policy: AssetId,
    /// Its newest rollout in a line.
    pub rollout: Option<String>,
    /// Why a person has to act before it goes on, if that is so.
    pub awaits_person: Option<String>,
    /// How many of its targets have not been selected yet.
    pub waiting: u32,
    /// Targets on their way whose push a person or a check holds, each with why: the first
    /// [`OTHERS`](annealing_enforcer::kernel::OTHERS) by id.
    pub held: BTreeMap<AssetId, String>,
    /// Assets that stay where they are, because what is intended failed before, or because they wait for such a one.
    pub left_out: Named,
}

impl GroupStatus {
    /// `None`: the group is at rest, with everything where it belongs.
    pub(crate) fn of(view: &View) -> Option<Self> {
        if !view.live && view.left_out.is_empty() {
            return None;
        }
        let line = |rollout: &Rollout| format!("{} {}", rollout.id, rollout.state);
        let held = view.held.iter().take(OTHERS);
        let mut left_out = view.left_out.clone();
        left_out.sort();
        left_out.truncate(OTHERS);
        Some(Self {
            policy: view.policy.clone(),
            rollout: view.rollout.as_ref().map(line),
            awaits_person: awaits_person(view),
            waiting: count(view.counts.waiting),
            held: held.map(|(id, why)| (id.clone(), why.clone())).collect(),
            left_out: Named {
                many: count(view.left_out.len()),
                first: left_out,
            },
        })
    }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}

fn awaits_person(view: &View) -> Option<String> {
    let rollout = view.rollout.as_ref().filter(|_| view.live)?;
    match &rollout.state {
        State::Paused => {
            let by = rollout.history.iter().rev().find_map(|it| it.by.as_ref());
            Some(by.map_or("paused".into(), |by| format!("paused by {by}")))
        }
        State::Stopped { why } => Some(format!("stopped: {why}")),
        _ => {
            let mut waits = view.waits.iter();
            let wait = waits.find(|wait| matches!(wait.until, Until::Person))?;
            Some(wait.why.clone())
        }
    }
}

impl AsIntended {
    /// What generation, enforcement and rollouts say together.
    pub(crate) fn of(status: &Status) -> Self {
        let mut why = Vec::new();
        let mut add = |what, many| {
            if many > 0 {
                why.push(WhyNot { what, many });
            }
        };
        add(Obstacle::Stopped, u32::from(status.stopped.is_some()));
        if let Some(generation) = &status.generation
            && generation.problems.any_error()
        {
            add(Obstacle::Refused, count(generation.problems.iter().count()));
        }
        if let Some(enforcement) = &status.enforcement {
            for (reason, many) in &enforcement.reasons {
                add(Obstacle::Unsettled(*reason), *many);
            }
            // Those of assets that have no intent are not among the unsettled.
            let counted = enforcement.reasons.get(&Reason::UnknownPush).copied();
            let unknown = count(enforcement.unknown.len());
            let more = unknown.saturating_sub(counted.unwrap_or(0));
            add(Obstacle::Unsettled(Reason::UnknownPush), more);
            let groups = status.groups.iter();
            let left_out = groups.clone().map(|group| group.left_out.many).sum();
            let awaiting = groups.filter(|group| group.awaits_person.is_some());
            let awaiting = awaiting.map(|group| group.waiting).sum();
            let left_running = count(enforcement.left_running.len());
            let others = [left_out, awaiting, left_running].into_iter();
            let rolling = others.fold(enforcement.behind.many, u32::saturating_sub);
            add(Obstacle::LeftOut, left_out);
            add(Obstacle::AwaitingPerson, awaiting);
            add(Obstacle::RollingOut, rolling);
            add(Obstacle::Orphaned, count(enforcement.orphans.len()));
            add(Obstacle::LeftRunning, left_running);
        }
        match (why.is_empty(), unknown(status)) {
            (false, _) => Self::No(why),
            (true, Some(unknown)) => Self::Unknown(unknown.to_owned()),
            (true, None) => Self::Yes,
        }
    }
}

fn unknown(status: &Status) -> Option<&'static str> {
    let Some(generation) = &status.generation else {
        return Some("this process does not own the partition; ask the one that does");
    };
    if generation.incarnation.is_none() {
        return Some("nothing is in force yet");
    }
    let starting = "enforcement has nothing to tell yet; ask again";
    status.enforcement.is_none().then_some(starting)
}
