//! Target selection: decides which targets of a rollout may be updated now. It is stateless: the request contains
//! everything that the decision depends on.

mod ahead;
mod census;
mod domains;
mod list;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationId, rollout::RolloutPolicy};
use serde::{Deserialize, Serialize};

use crate::{error::BoxError, health::Health, reader::IncarnationReader, rollout::RolloutId};

pub use ahead::ChecksAhead;
pub use census::{Census, Tally};
pub use domains::Domains;
pub use list::TargetList;

/// An asset that a rollout has to move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Id of the asset to move.
    pub asset: AssetId,
    /// The failure domains that the asset can hurt, its own cluster first. Empty: none in particular, or all of them.
    pub domains: Arc<[Arc<str>]>,
    /// Whether the asset has no signals: it is not enforced, or is being turned down. Its state tells nothing about the
    /// health of other targets.
    #[serde(default)]
    pub silent: bool,
    /// Whether the asset came, or was turned down, when the rollout was live already. Only the last gate waits for it, and its turn is that of
    /// its domain, but not before the first stage is over. If all targets are late, none counts as late.
    #[serde(default)]
    pub late: bool,
    /// Position of this target's last settling among all settlings of the rollout, from 1. Zero: it has not settled.
    #[serde(default)]
    pub order: u64,
    /// How far the rollout of this target is.
    pub progress: Progress,
}

impl Target {
    /// The failure domain with which the target is rolled out: the first of `domains`. `None`: none in particular, or
    /// all of them.
    pub fn domain(&self) -> Option<&str> {
        self.domains.first().map(|domain| &**domain)
    }

    /// Whether the target waits to be selected.
    pub fn is_waiting(&self) -> bool {
        self.progress == Progress::Waiting
    }

    /// Whether the target was selected and is not in sync now.
    pub fn is_under_way(&self) -> bool {
        !self.is_waiting() && self.settled().is_none()
    }

    /// The time since which the target is updated and in sync. `None`: it is not.
    pub fn settled(&self) -> Option<Timestamp> {
        match self.progress {
            Progress::Updated { at } => Some(at),
            _ => None,
        }
    }
}

/// How far the rollout of a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// The target was not selected yet.
    Waiting,
    /// The target was selected and is not in sync yet.
    InFlight {
        /// Time at which the target was selected.
        since: Timestamp,
    },
    /// The target is updated, and was in sync at its last diff.
    Updated {
        /// Time since which the target is in sync.
        at: Timestamp,
    },
    /// The target was in sync and has drifted since.
    Drifted {
        /// Time since which the target differs.
        since: Timestamp,
    },
}

/// The direction in which a rollout moves its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Targets move to the new incarnation.
    Forward,
    /// Targets move back to the earlier incarnation.
    Back,
}

/// Asks a policy which targets of a rollout may be updated now.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SelectRequest {
    /// Id of the rollout that asks.
    pub rollout: RolloutId,
    /// Id of the policy asset. A team can read its own addons there.
    pub policy_asset: AssetId,
    /// The policy as it is now. It may change between calls.
    pub policy: Arc<RolloutPolicy>,
    /// The incarnation that the rollout started from. `None`: a first turnup.
    pub from: Option<IncarnationId>,
    /// The new incarnation that the rollout moves its targets to.
    pub to: IncarnationId,
    /// Whether targets are moved to the new incarnation or back.
    pub direction: Direction,
    /// All targets, sorted by id. [`Selection::now`] refers to them by index.
    pub targets: TargetList,
    /// The last verdict on the health of the updated targets. `None`: there is no verdict yet.
    pub health: Option<Health>,
    /// An operator promoted the rollout: all targets that had settled by then may pass their gate, that is all with a
    /// [`Target::order`] up to this number. `None`: the rollout was not promoted.
    pub promoted: Option<u64>,
    /// Targets that must not be selected now, by index in ascending order: another change bakes in their domains, or
    /// checks would delay their pushes.
    #[serde(default)]
    pub not_now: Vec<u32>,
    /// Wall-clock time of the request.
    pub now: Timestamp,
    /// Reads assets of `to`. Not serialized.
    #[serde(skip)]
    pub reader: IncarnationReader,
    /// Asks the checks about targets before they are selected. Not serialized.
    #[serde(skip)]
    pub checks: ChecksAhead,
}

impl SelectRequest {
    /// Makes a request for the way forward of a first turnup, with the default policy and without a health verdict. The
    /// strategist makes such requests; so do previews and tests of policies.
    pub fn new(
        rollout: RolloutId,
        policy_asset: AssetId,
        to: IncarnationId,
        targets: TargetList,
        now: Timestamp,
    ) -> Self {
        Self {
            rollout,
            policy_asset,
            policy: Arc::default(),
            from: None,
            to,
            direction: Direction::Forward,
            targets,
            health: None,
            promoted: None,
            not_now: Vec::new(),
            now,
            reader: IncarnationReader::default(),
            checks: ChecksAhead::default(),
        }
    }

    /// Sets the policy as it is now.
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Arc<RolloutPolicy>>) -> Self {
        self.policy = policy.into();
        self
    }

    /// Sets the incarnation that the rollout started from. `None`: a first turnup.
    #[must_use]
    pub fn from(mut self, from: impl Into<Option<IncarnationId>>) -> Self {
        self.from = from.into();
        self
    }

    crate::setters! {
        /// Sets whether targets are moved to the new incarnation or back.
        direction: Direction,
    }

    /// Whether the rollout has to be gradual. False on the way back, in an emergency, and at a first turnup that the
    /// policy allows at once.
    pub fn is_cautious(&self) -> bool {
        use prodspec_model::rollout::FirstTurnup;
        let first = self.from.is_none() && self.policy.first_turnup == FirstTurnup::AtOnce;
        self.direction == Direction::Forward && self.policy.emergency.is_none() && !first
    }
}

impl fmt::Debug for SelectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectRequest")
            .field("rollout", &self.rollout)
            .field("policy", &self.policy)
            .field("direction", &self.direction)
            .field("targets", &self.targets)
            .field("health", &self.health)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// The answer of a policy: the targets that may be updated now, and what the other targets wait for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Selection {
    /// Indexes into [`SelectRequest::targets`] in ascending order. Each refers to a target that waits.
    pub now: Vec<u32>,
    /// The reasons why other targets wait.
    pub waits: Vec<Wait>,
    /// Name of the rollout's current stage for operators, such as `canary in eu`. `None`: the policy names no stage.
    pub stage: Option<String>,
    /// Indexes of the targets whose health decides whether the stage is over. Empty: the health of all updated targets
    /// decides.
    pub validate: Vec<u32>,
}

impl Selection {
    /// Selects the targets at these indexes into [`SelectRequest::targets`], in ascending order.
    pub fn of(indexes: impl IntoIterator<Item = u32>) -> Self {
        Self {
            now: indexes.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Keeps only the selected indexes for which `keep` returns true.
    #[must_use]
    pub fn narrowed(mut self, mut keep: impl FnMut(u32) -> bool) -> Self {
        self.now.retain(|&place| keep(place));
        self
    }

    /// Keeps only the selected targets of `request` for which `keep` returns true.
    #[must_use]
    pub fn retain(self, request: &SelectRequest, mut keep: impl FnMut(&Target) -> bool) -> Self {
        self.narrowed(|place| request.targets.get(place as usize).is_some_and(&mut keep))
    }

    /// Adds a reason for which targets wait, for operators, and the condition that ends the wait.
    #[must_use]
    pub fn waiting(mut self, why: impl Into<String>, until: Until) -> Self {
        let why = why.into();
        let wait = Wait { why, until };
        if !self.waits.contains(&wait) {
            self.waits.push(wait);
        }
        self
    }

    /// Adds `name` to the stage: after the name that a layer beneath gave, if there is one.
    #[must_use]
    pub fn at_stage(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.stage = Some(match self.stage {
            Some(inner) => format!("{inner}, {name}"),
            None => name,
        });
        self
    }
}

/// One reason why targets of a rollout wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Why the targets wait, for operators.
    pub why: String,
    /// The condition that ends the wait.
    pub until: Until,
}

/// The condition that ends a wait. The selection is repeated whenever the rollout changes, whatever the condition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Until {
    /// This wall-clock time is reached.
    Time(Timestamp),
    /// The targets that were moved settle.
    Settled,
    /// A healthy verdict arrives, from evidence up to this time or later.
    Healthy {
        /// End of the bake, wall-clock time.
        since: Timestamp,
    },
    /// The checks delay pushes of the targets no longer. They run again at the time `again`.
    Checks {
        /// Wall-clock time at which the checks run again.
        again: Timestamp,
        /// Wall-clock time at which the delays end, if their end is known.
        ends: Option<Timestamp>,
    },
    /// The policy changes, or an operator gives a command.
    Person,
    /// The selection succeeds: the last one failed, and the strategist repeats it.
    Retry,
}

/// Chooses the targets of a rollout that may be updated now.
///
/// Laws, which `conformance::select` (feature `testing`) tests: only targets that wait are chosen; a layer chooses
/// among the targets that the selection beneath it chose; every target is chosen in the end, if time passes, everything
/// is healthy and no hold exists.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{BoxError, SelectRequest, Selection, TargetSelection};
///
/// /// Selects one target after the other, by name.
/// struct OneByOne;
///
/// #[async_trait]
/// impl TargetSelection for OneByOne {
///     async fn select(&self, request: SelectRequest) -> Result<Selection, BoxError> {
///         let under_way = request.targets.iter().any(|target| target.is_under_way());
///         let next = (0..).zip(request.targets.iter()).find(|(_, target)| target.is_waiting());
///         Ok(Selection::of(next.filter(|_| !under_way).map(|(index, _)| index)))
///     }
/// }
/// ```
#[async_trait]
pub trait TargetSelection: Send + Sync + 'static {
    /// Chooses the targets that may be updated now.
    ///
    /// # Errors
    /// If the policy cannot decide. No target is selected then.
    async fn select(&self, request: SelectRequest) -> Result<Selection, BoxError>;
}
