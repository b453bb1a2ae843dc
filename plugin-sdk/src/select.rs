//! Target selection: which targets of a rollout may be updated now. Stateless: everything it goes by is in the request.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use prodspec_model::{AssetId, IncarnationId, rollout::RolloutPolicy};
use serde::{Deserialize, Serialize};

use crate::{error::BoxError, health::Health, reader::IncarnationReader};

/// Names one rollout of its policy group. Later ones are greater.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RolloutId(pub u64);

impl fmt::Display for RolloutId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rollout {}", self.0)
    }
}

/// An asset whose content the rollout changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Which asset.
    pub asset: AssetId,
    /// The failure domains that it can hurt, its own cluster first. Empty: none in particular, or all of them.
    pub domains: Arc<[Arc<str>]>,
    /// It has no signals: nobody enforces it, or it is being turned down. How it does says nothing of the others.
    #[serde(default)]
    pub silent: bool,
    /// Which settling of its rollout its last one was, counted from one. Zero: it has not settled.
    #[serde(default)]
    pub order: u64,
    /// How far it is.
    pub progress: Progress,
}

impl Target {
    /// The domain that it is rolled out with. `None`: none in particular, or all of them.
    pub fn domain(&self) -> Option<&str> {
        self.domains.first().map(|domain| &**domain)
    }

    /// Whether it can still be selected.
    pub fn is_waiting(&self) -> bool {
        self.progress == Progress::Waiting
    }

    /// Whether it had its turn, and is not in sync as updated.
    pub fn is_under_way(&self) -> bool {
        !self.is_waiting() && self.settled().is_none()
    }

    /// Since when it is updated and as updated in sync. `None`: it is not.
    pub fn settled(&self) -> Option<Timestamp> {
        match self.progress {
            Progress::Updated { at } => Some(at),
            _ => None,
        }
    }
}

/// How far a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Not selected yet.
    Waiting,
    /// Selected, and not yet in sync.
    InFlight {
        /// When it was selected.
        since: Timestamp,
    },
    /// In sync, as last found.
    Updated {
        /// Since when.
        at: Timestamp,
    },
    /// It was in sync, and has drifted since.
    Drifted {
        /// Since when.
        since: Timestamp,
    },
}

/// Which way a rollout goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To what is new.
    Forward,
    /// Back to what was.
    Back,
}

/// Which targets may be updated now?
#[derive(Clone, Serialize, Deserialize)]
pub struct SelectRequest {
    /// Which rollout.
    pub rollout: RolloutId,
    /// The policy asset, for addons of a team's own on it.
    pub policy_asset: AssetId,
    /// The policy as it is now; it may change from call to call.
    pub policy: Arc<RolloutPolicy>,
    /// What was. `None`: the first turnup.
    pub from: Option<IncarnationId>,
    /// What is new.
    pub to: IncarnationId,
    /// Which way.
    pub direction: Direction,
    /// Every target, sorted by id. [`Selection::now`] names them by their place here.
    pub targets: Arc<Vec<Target>>,
    /// What is known of the updated part's health. `None`: nothing yet.
    pub health: Option<Health>,
    /// A person let everything that had settled by then go on: every target whose [`Target::order`] is not greater.
    pub promoted: Option<u64>,
    /// The wall clock.
    pub now: Timestamp,
    /// Reads `to`; travels beside the data.
    #[serde(skip)]
    pub reader: IncarnationReader,
}

impl SelectRequest {
    /// Whether there is anything to be careful about: not on the way back, in an emergency, or when nothing was there.
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

/// What may be updated now, and what the rest waits for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Selection {
    /// Places in [`SelectRequest::targets`], rising, each of a target that waits.
    pub now: Vec<u32>,
    /// What the rest waits for.
    pub waits: Vec<Wait>,
    /// What the rollout is at, for people: `canary in eu`, say.
    pub stage: Option<String>,
    /// The targets whose health decides whether the stage is over, by place. Empty: every one updated.
    pub validate: Vec<u32>,
}

impl Selection {
    /// Leaves only what `keep` wants.
    #[must_use]
    pub fn narrowed(mut self, mut keep: impl FnMut(u32) -> bool) -> Self {
        self.now.retain(|&place| keep(place));
        self
    }

    /// Adds something that the rest waits for.
    #[must_use]
    pub fn waiting(mut self, wait: Wait) -> Self {
        if !self.waits.contains(&wait) {
            self.waits.push(wait);
        }
        self
    }

    /// Names what the rollout is at, around what a layer beneath called it.
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

/// Something that a rollout waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Why, for people.
    pub why: String,
    /// What ends it.
    pub until: Until,
}

/// What ends a wait. Whatever it says, the selection is made again when anything about the rollout changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Until {
    /// This time.
    Time(Timestamp),
    /// Targets under way settle.
    Settled,
    /// A verdict that things are healthy, from evidence up to this time or later.
    Healthy {
        /// The end of the bake.
        since: Timestamp,
    },
    /// Somebody changes the policy, or says something.
    Person,
}

/// Chooses the targets of a rollout that may be updated now.
///
/// Laws, which `conformance::select` (feature `testing`) tests: only targets that wait are chosen; a layer chooses from
/// what the selection beneath it chose; with time passing, everything healthy and no hold, every target is chosen in
/// the end.
///
/// ```
/// use async_trait::async_trait;
/// use plugin_sdk::{BoxError, SelectRequest, Selection, TargetSelection};
///
/// /// One after the other, by name.
/// struct OneByOne;
///
/// #[async_trait]
/// impl TargetSelection for OneByOne {
///     async fn select(&self, request: SelectRequest) -> Result<Selection, BoxError> {
///         let under_way = request.targets.iter().any(|t| !t.is_waiting() && t.settled().is_none());
///         let next = request.targets.iter().position(|t| t.is_waiting()).filter(|_| !under_way);
///         Ok(Selection { now: next.map(|at| at as u32).into_iter().collect(), ..Selection::default() })
///     }
/// }
/// ```
#[async_trait]
pub trait TargetSelection: Send + Sync + 'static {
    /// Which targets may be updated now.
    async fn select(&self, request: SelectRequest) -> Result<Selection, BoxError>;
}
