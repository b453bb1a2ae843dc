//! The request for a judgement of health: the assets of a rollout that are evaluated, and since when.

use std::fmt;

use jiff::Timestamp;
use prodspec_model::{AssetId, Digest, IncarnationId};
use serde::{Deserialize, Serialize};

use super::{Finding, Health, Judgement};
use crate::{reader::IncarnationReader, rollout::RolloutId};

/// Asks a health validator whether the updated assets of a rollout are healthy.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HealthRequest {
    /// Id of the rollout whose health is judged.
    pub rollout: RolloutId,
    /// The incarnation that the rollout started from. `None`: a first turnup, nothing was in production before.
    pub from: Option<IncarnationId>,
    /// The new incarnation that the rollout moves its targets to.
    pub to: IncarnationId,
    /// Name of the rollout's current stage. `None`: the policy names no stage.
    pub stage: Option<String>,
    /// Digest of the rollout's policy asset as it is now. `None`: intent does not contain the policy asset any more.
    pub policy: Option<Digest>,
    /// Assets that have settled at the new incarnation, each with the time at which it did. A validator needs evidence
    /// of each of them; without it, the judgement is [`Judgement::Unknown`].
    pub updated: Vec<Watched>,
    /// Assets that were moved and have not settled yet, or have drifted, each with the time since which this holds.
    /// They may run the new content, the old content or a mix. Bad signals count; missing signals do not.
    pub under_way: Vec<Watched>,
    /// Other assets that the moved assets can hurt: assets of the same policy group in the same failure domains (the
    /// whole group, if a moved asset names no domain), and assets connected with a moved asset by an edge. The time of
    /// each is when the last asset of `updated` settled or, if none has, when the first asset of `under_way` was moved.
    pub neighbours: Vec<Watched>,
    /// Some targets that the rollout has not moved, to compare the updated ones with: at most 256, drawn by a hash of their ids, each
    /// with the time since which it is as it was before. Empty: all have moved.
    #[serde(default)]
    pub control: Vec<Watched>,
    /// Wall-clock time at which the rollout moved its first asset. `None`: no asset was moved yet. A neighbour that was
    /// unhealthy before this time does not count against the rollout.
    #[serde(default)]
    pub began: Option<Timestamp>,
    /// The assets of `updated` whose health decides whether the stage is over, if the policy names such targets
    /// ([`Selection::validate`](crate::Selection::validate)). A validator compares them with the other updated assets.
    /// `None`: the health of all updated assets decides.
    pub decisive: Option<Vec<AssetId>>,
    /// Wall-clock time of the request.
    pub now: Timestamp,
    /// Reads assets of `to`. Not serialized.
    #[serde(skip)]
    pub reader: IncarnationReader,
    /// Reads the newest assets in intent, such as health policies. Not serialized.
    #[serde(skip)]
    pub newest: IncarnationReader,
}

impl HealthRequest {
    /// Makes a request as the strategist does; tests of validators use it too. All lists are empty, all optional fields
    /// are `None`, and the reader finds no asset.
    pub fn new(rollout: RolloutId, to: IncarnationId, now: Timestamp) -> Self {
        Self {
            rollout,
            from: None,
            to,
            stage: None,
            policy: None,
            updated: Vec::new(),
            under_way: Vec::new(),
            neighbours: Vec::new(),
            control: Vec::new(),
            began: None,
            decisive: None,
            now,
            reader: IncarnationReader::default(),
            newest: IncarnationReader::default(),
        }
    }

    /// Sets the incarnation that the rollout started from. `None`: a first turnup.
    #[must_use]
    pub fn from(mut self, from: impl Into<Option<IncarnationId>>) -> Self {
        self.from = from.into();
        self
    }

    /// Sets the name of the rollout's current stage.
    #[must_use]
    pub fn stage(mut self, stage: impl Into<Option<String>>) -> Self {
        self.stage = stage.into();
        self
    }

    /// Sets the digest of the rollout's policy asset.
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Option<Digest>>) -> Self {
        self.policy = policy.into();
        self
    }

    crate::setters! {
        /// Sets the assets that have settled at the new incarnation.
        updated: Vec<Watched>,
        /// Sets the assets that were moved and are not settled.
        under_way: Vec<Watched>,
        /// Sets the other assets that the moved assets can hurt.
        neighbours: Vec<Watched>,
        /// Sets the targets that have not moved, to compare with.
        control: Vec<Watched>,
    }

    /// Sets the wall-clock time at which the rollout moved its first asset.
    #[must_use]
    pub fn began(mut self, began: impl Into<Option<Timestamp>>) -> Self {
        self.began = began.into();
        self
    }

    /// Sets the assets of `updated` whose health decides whether the stage is over.
    #[must_use]
    pub fn decisive(mut self, decisive: impl Into<Option<Vec<AssetId>>>) -> Self {
        self.decisive = decisive.into();
        self
    }

    crate::setters! {
        /// Sets the reader of the assets of `to`.
        reader: IncarnationReader,
        /// Sets the reader of the newest assets in intent.
        newest: IncarnationReader,
    }

    /// A healthy verdict without findings, from evidence up to now.
    pub fn healthy(&self) -> Health {
        Health::healthy(self.now)
    }

    /// A verdict with one finding, from evidence up to now. The summary is a line for operators.
    ///
    /// ```
    /// # use plugin_sdk::{Health, HealthRequest, Judgement};
    /// # fn validate(request: HealthRequest) -> Health {
    /// request.found(Judgement::Unhealthy, "3 of 5 tasks crash").because(serde_json::json!({ "crashing": 3 }))
    /// # }
    /// ```
    pub fn found(&self, judgement: Judgement, summary: impl Into<String>) -> Health {
        Health::found(self.now, Finding::new(judgement, summary))
    }
}

/// An asset in production whose signals are evaluated. Assets that are not enforced, or are being turned down, have no
/// signals and are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Watched {
    /// Id of the asset to evaluate.
    pub asset: AssetId,
    /// Wall-clock time from which evidence counts. Older evidence is ignored.
    pub since: Timestamp,
}

impl Watched {
    /// An asset whose evidence counts from the wall-clock time `since`.
    pub fn new(asset: AssetId, since: Timestamp) -> Self {
        Self { asset, since }
    }
}

impl fmt::Debug for HealthRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthRequest")
            .field("rollout", &self.rollout)
            .field("stage", &self.stage)
            .field("updated", &self.updated)
            .field("under_way", &self.under_way)
            .field("neighbours", &self.neighbours)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
