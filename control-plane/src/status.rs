//! The state of a partition: whether production is as intended, and if not, why not. Combines generation, enforcement
//! and rollouts.

use std::{collections::BTreeMap, fmt};

use annealing_enforcer::{Named, Reason, kernel::OTHERS};
use annealing_strategist::{Rollout, View};
use control_plane_store::{owner::ProcessId, records::Stopped};
use prodspec_gen::SealOverride;
use prodspec_model::{AssetId, PartitionId};
use serde::{Deserialize, Serialize};

/// State of a partition, as one process knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Partition of the control plane.
    pub partition: PartitionId,
    /// Process that owns the partition according to the store; `None` if there is none.
    pub owner: Option<ProcessId>,
    /// Set if enforcement stopped itself, with the reason. Nothing is enforced until an operator clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// State of generation; `None` if this process does not own the partition.
    pub generation: Option<prodspec_gen::Status>,
    /// Overrides of guards and external validators that are in force: each lets one seal pass. Empty if this process
    /// does not own the partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guard_overrides: Vec<SealOverride>,
    /// Panics of generation or rollouts in this process. The part that panicked is started again automatically.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_failures: Vec<String>,
    /// State of enforcement; `None` if this process does not own the partition, or if there is nothing to enforce yet.
    pub enforcement: Option<annealing_enforcer::Status>,
    /// Policy groups with a live rollout, or with assets that their rollout left out. Empty if this process does not
    /// own the partition.
    pub groups: Vec<GroupStatus>,
    /// The goals, each with its progress in one line: `7 of 10 have ...`. Empty if this process does not own the partition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub goals: BTreeMap<AssetId, String>,
    /// The declared changes that have not begun, each with the reason. Empty if this process does not own the partition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub undone: BTreeMap<AssetId, String>,
    /// Whether production is as intended, and if not, why not.
    pub intended: AsIntended,
}

/// Whether production is as intended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsIntended {
    /// Production matches the sources, according to the last diffs. Pauses may be in force nevertheless.
    Yes,
    /// Production differs from the sources, for these reasons.
    No(Vec<WhyNot>),
    /// This process does not know, for this reason.
    Unknown(String),
}

impl fmt::Display for AsIntended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => f.write_str("as intended"),
            Self::No(reasons) => {
                f.write_str("not as intended")?;
                for (nth, reason) in reasons.iter().enumerate() {
                    write!(f, "{} {reason}", if nth == 0 { ":" } else { ";" })?;
                }
                Ok(())
            }
            Self::Unknown(reason) => write!(f, "unknown whether as intended: {reason}"),
        }
    }
}

/// One reason why production is not as intended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyNot {
    /// The kind of this reason.
    pub what: Obstacle,
    /// Number of assets concerned, or of problems for [`Obstacle::Refused`].
    pub many: u32,
}

/// A kind of reason why production is not as intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Obstacle {
    /// Enforcement stopped itself because an invariant did not hold.
    Stopped,
    /// The sources make no incarnation, so an older one is in force.
    Refused,
    /// Assets are not settled, for the given reason.
    Unsettled(Reason),
    /// A rollout leaves assets out: their intended content failed before, or they wait for such an asset.
    LeftOut,
    /// Assets wait in a rollout that waits for an operator.
    AwaitingOperator,
    /// Assets wait for their turn in a rollout.
    RollingOut,
    /// Something else changes assets again each time that enforcement repaired them.
    Contested,
    /// Assets left intent, but their resources are still in production.
    Orphaned,
    /// Assets are in intent without a pin, and keep running unchanged until their rollout reaches them.
    LeftRunning,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = self.many;
        match self.what {
            Obstacle::Stopped => f.write_str("enforcement stopped itself"),
            Obstacle::Refused if many == 1 => f.write_str("the sources are refused: 1 problem"),
            Obstacle::Refused => write!(f, "the sources are refused: {many} problems"),
            Obstacle::Unsettled(reason) => write!(f, "{many} not settled: {reason}"),
            Obstacle::LeftOut => write!(f, "{many} left out of their rollout"),
            Obstacle::AwaitingOperator => write!(f, "{many} in rollouts that wait for an operator"),
            Obstacle::RollingOut => write!(f, "{many} not reached by their rollout yet"),
            Obstacle::Contested => write!(
                f,
                "{many} changed by something else each time that they were repaired"
            ),
            Obstacle::Orphaned => write!(f, "{many} orphaned"),
            Obstacle::LeftRunning => {
                write!(f, "{many} left running until their rollout reaches them")
            }
        }
    }
}

/// A policy group with a live rollout, with assets that were left out, or whose way to update is going to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Id of the policy asset that names the group.
    pub policy: AssetId,
    /// The newest rollout of the group in one line; `None` if there was none.
    pub rollout: Option<String>,
    /// Reason why an operator has to act before the rollout continues or completes, as in [`View::awaits_person`].
    /// `None` means that it continues by itself.
    pub awaits_person: Option<String>,
    /// What the rollout waits for, such as the end of a bake or data about health. Of many, the first
    /// [`OTHERS`](annealing_enforcer::kernel::OTHERS).
    #[serde(default)]
    pub waits: Vec<String>,
    /// Number of targets that have not been selected yet.
    pub waiting: u32,
    /// Selected targets whose push is held by an operator or a check, each with the reason. Of many, the first
    /// [`OTHERS`](annealing_enforcer::kernel::OTHERS) by id.
    pub held: BTreeMap<AssetId, String>,
    /// Assets that the rollout leaves out, because their intended content failed before or they wait for such an asset.
    pub left_out: Named,
}

impl GroupStatus {
    /// Summary of the group in `view`. `None` means that it rests as its policy says.
    pub(crate) fn of(view: &View) -> Option<Self> {
        let rests = !view.live && view.left_out.is_empty();
        if rests && view.update_waits.is_none() && view.awaits_person.is_none() {
            return None;
        }
        let line = |rollout: &Rollout| format!("{} {}", rollout.id, rollout.state);
        let held = view.held.iter().take(OTHERS);
        let waits = view.waits.iter().map(|wait| wait.why.clone());
        let update = view.update_waits.iter();
        let update = update.map(|why| format!("the change of the way to update {why}"));
        let mut left_out = view.left_out.clone();
        left_out.sort();
        left_out.truncate(OTHERS);
        Some(Self {
            policy: view.policy.clone(),
            rollout: view.rollout.as_ref().map(line),
            awaits_person: view.awaits_person.clone(),
            waits: waits.chain(update).take(OTHERS).collect(),
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

impl AsIntended {
    /// Combines the states of generation, enforcement and rollouts.
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
            let mut reasons = enforcement.reasons.clone();
            // Unknown pushes of assets without intent are not among the unsettled assets.
            let unknown = reasons.entry(Reason::UnknownPush).or_default();
            *unknown = (*unknown).max(count(enforcement.unknown.len()));
            for (reason, many) in reasons {
                add(Obstacle::Unsettled(reason), many);
            }
            let groups = status.groups.iter();
            let left_out = groups.clone().map(|group| group.left_out.many).sum();
            let awaiting = groups.filter(|group| group.awaits_person.is_some());
            let awaiting = awaiting.map(|group| group.waiting).sum();
            let left_running = count(enforcement.left_running.len());
            let others = [left_out, awaiting, left_running].into_iter();
            let rolling = others.fold(enforcement.behind.many, u32::saturating_sub);
            add(Obstacle::LeftOut, left_out);
            add(Obstacle::AwaitingOperator, awaiting);
            add(Obstacle::RollingOut, rolling);
            add(Obstacle::Contested, enforcement.contested.many);
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
        return Some("this process does not own the partition; ask its owner");
    };
    if generation.incarnation.is_none() {
        return Some("no incarnation is in force yet");
    }
    let starting = "enforcement has not started yet; ask again";
    status.enforcement.is_none().then_some(starting)
}

#[cfg(test)]
mod tests {
    use annealing_enforcer::kernel::UnknownPush;
    use prodspec_model::IncarnationNo;

    use super::*;

    fn enforcement(unsettled: u32, unknown: &[&str]) -> annealing_enforcer::Status {
        let push = |name: &&str| UnknownPush {
            asset: AssetId::new(name).unwrap(),
            next_look: None,
        };
        annealing_enforcer::Status {
            incarnation: IncarnationNo(1),
            assets: unsettled,
            unsettled,
            reasons: [(Reason::UnknownPush, unsettled)].into(),
            behind: Named::default(),
            pauses: Vec::new(),
            approvals: Vec::new(),
            overrides: Vec::new(),
            held: BTreeMap::new(),
            unknown: unknown.iter().map(push).collect(),
            orphans: Vec::new(),
            left_running: Vec::new(),
            turned_down: Vec::new(),
            contested: Named::default(),
            open_breakers: Vec::new(),
        }
    }

    #[test]
    fn r63_pushes_of_unknown_outcome_are_one_obstacle() {
        // The push of `left` has no asset in intent that would count as unsettled.
        for (unsettled, unknown) in [(1, &["a", "left"][..]), (2, &["a"]), (0, &["left"])] {
            let status = Status {
                partition: "test".parse().unwrap(),
                owner: None,
                stopped: None,
                generation: None,
                guard_overrides: Vec::new(),
                task_failures: Vec::new(),
                enforcement: Some(enforcement(unsettled, unknown)),
                groups: Vec::new(),
                goals: BTreeMap::new(),
                undone: BTreeMap::new(),
                intended: AsIntended::Yes,
            };
            let expected = WhyNot {
                what: Obstacle::Unsettled(Reason::UnknownPush),
                many: unsettled.max(unknown.len() as u32),
            };
            assert_eq!(AsIntended::of(&status), AsIntended::No(vec![expected]));
        }
    }

    #[test]
    fn r63_answer_is_shown_in_one_line_with_all_reasons() {
        let why = |what, many| WhyNot { what, many };
        let several = vec![why(Obstacle::Refused, 1), why(Obstacle::RollingOut, 3)];
        let lines = [
            (AsIntended::Yes, "as intended"),
            (
                AsIntended::No(several),
                "not as intended: the sources are refused: 1 problem; 3 not reached by their rollout yet",
            ),
            (
                AsIntended::Unknown("no owner".into()),
                "unknown whether as intended: no owner",
            ),
        ];
        for (intended, line) in lines {
            assert_eq!(intended.to_string(), line);
        }
    }
}
