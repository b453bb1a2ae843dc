//! Explain: the current answer, as data, to why an asset is or is not being pushed.

use std::fmt;

use control_plane_store::records::Trigger;
use jiff::Timestamp;
use plugin_sdk::{Cause, Change, Delay, Now, Pin};
use prodspec_model::{AssetId, IncarnationNo, TypeName};
use serde::{Deserialize, Serialize};

use super::{
    Kernel,
    clock::wall_at,
    state::{
        attempt::{Attempt, Behind, Phase, Wait},
        numbers::SlotNo,
        people::Interventions,
        slot::{State, flag},
    },
};

/// The state of an asset in the enforcement loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AssetStatus {
    /// The last diff found no difference and no push is in flight.
    Settled,
    /// The asset is in a queue for a diff.
    Queued,
    /// The asset is being compared with production.
    Diffing,
    /// The checks run, or the asset waits for push capacity before them.
    Checking,
    /// A push is admitted or under way.
    Pushing,
    /// The asset waits; see [`Explanation::waiting`].
    Waiting,
    /// The asset left intent without a turndown, or its type has no plugin any more. Its resource is left alone.
    Orphaned,
    /// The asset has no pin yet, and its resource is left alone.
    NotYet,
}

/// Maximum number of blocking assets that are named.
pub const OTHERS: usize = 16;

/// The reason why an asset waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Waiting {
    /// Checks delay the push of the asset.
    Checks(Vec<Delay>),
    /// A diff or push failed, or the plugin's calls are held back; the text is the error.
    Failure(String),
    /// Pushes succeed, and a diff finds the same change afterwards; the text says how often.
    NotConverging(String),
    /// The push is blocked by another push or by a taken claim.
    Others {
        /// The blocking push or claim, as text.
        why: String,
        /// The assets that hold the claim or are being pushed now, at most [`OTHERS`] of them.
        by: Vec<AssetId>,
    },
    /// An operator has to act first; the text says why.
    Operator(String),
    /// The outcome of a push is unknown: it may still be under way.
    UnknownOutcome,
    /// Production is still working on the resource.
    Production,
    /// The asset is in sync until a time that its plugin named.
    Time,
    /// It is not certain that this process still owns the partition.
    Ownership,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checks(delays) => {
                for (nth, Delay { check, reason, .. }) in delays.iter().enumerate() {
                    let before = if nth == 0 { "" } else { "; " };
                    write!(f, "{before}{check}: {reason}")?;
                }
                Ok(())
            }
            Self::Failure(why) | Self::NotConverging(why) | Self::Operator(why) => f.write_str(why),
            Self::Others { why, .. } => f.write_str(why),
            Self::UnknownOutcome => f.write_str("a push may still be under way"),
            Self::Production => f.write_str("production is still working on it"),
            Self::Time => f.write_str("a time that its plugin named"),
            Self::Ownership => f.write_str("this process may not own the partition any more"),
        }
    }
}

/// A push that does not exist: a rollout lets the checks judge it before it moves the pin, or edits the field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prospective {
    /// The change that the push would make.
    pub change: Change,
    /// The delays of the checks against it.
    pub delays: Vec<Delay>,
}

/// The explanation of one asset's current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Id of the asset that is explained.
    pub asset: AssetId,
    /// The name of the asset's type.
    pub type_name: TypeName,
    /// The state of the asset in the loop.
    pub status: AssetStatus,
    /// The incarnation at which the asset is enforced. `None`: the asset has no intent.
    pub incarnation: Option<IncarnationNo>,
    /// Why this incarnation is the pin: `latest`, `pinned`, `not yet`, or the rollout policy that governs the asset.
    pub pin: String,
    /// The cause that a push would have now. `None`: the asset is idle.
    pub cause: Option<Cause>,
    /// The trigger of the last or queued diff of the asset.
    pub trigger: Trigger,
    /// The change that a push would make, by the last diff. `None`: none was found.
    pub change: Option<Change>,
    /// The reason why the asset waits. `None`: it does not wait.
    pub waiting: Option<Waiting>,
    /// A push that would wait, for which a rollout does not move the pin. `None`: no rollout has found one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Prospective>,
    /// The latest time of the next diff. `None`: the asset does not wait for a time.
    pub next_look: Option<Timestamp>,
    /// Number of consecutive failures of diffs and pushes of the asset.
    pub failures: u32,
    /// Commands of operators that apply to the asset: pauses of it, of its type and of the partition, approvals,
    /// overrides.
    pub interventions: Interventions,
}

impl Kernel {
    /// Explains one asset. `None`: enforcement does not know the asset.
    pub fn explain(&self, now: Now, id: &AssetId) -> Option<Explanation> {
        let slot = self.table.find(id.as_str())?;
        let entry = self.table.slot(slot);
        if !entry.has(flag::ORPHAN) && !self.table.has_intent(slot) && entry.pin.is_newest() {
            return None;
        }
        let it = self.attempts.at(entry.attempt);
        let wait = it.and_then(|it| match &it.phase {
            Phase::Waiting(wait) => Some(wait),
            _ => None,
        });
        Some(Explanation {
            asset: id.clone(),
            type_name: self.kinds[entry.kind.index()].config.name.clone(),
            status: self.status_of(slot),
            incarnation: self
                .table
                .intent(slot)
                .map(|(_, incarnation)| incarnation.no()),
            pin: self.why_pinned(slot),
            cause: it.map(|it| it.cause),
            trigger: entry.trigger,
            change: it
                .and_then(|it| it.change.as_deref().cloned())
                .filter(|_| !entry.has(flag::IN_SYNC)),
            waiting: wait
                .map(|wait| self.waiting(slot, wait))
                .or_else(|| self.waits_for_plugin(slot))
                .or_else(|| self.queued_for(now, slot)),
            ahead: self.ahead.newest(now.mono, id).map(|push| Prospective {
                change: (*push.change).clone(),
                delays: self.delays_ahead(now, id, push, &[]),
            }),
            next_look: it.and_then(|it| it.wakes).map(|at| wall_at(now, at)),
            failures: it.map_or(0, |it| it.failures),
            interventions: {
                let type_name = self.kinds[entry.kind.index()].config.name.as_str();
                self.people.interventions(Some((id, type_name)), now.wall)
            },
        })
    }

    /// Whether the asset is enforced, an orphan, or in the newest incarnation.
    pub(crate) fn knows(&self, id: &AssetId) -> bool {
        self.table.find(id.as_str()).is_some() || self.table.latest().asset(id).is_some()
    }

    /// Commands of operators that are in force.
    pub fn interventions(&self, now: Now) -> Interventions {
        self.people.interventions(None, now.wall)
    }

    pub(super) fn waiting(&self, slot: SlotNo, wait: &Wait) -> Waiting {
        match wait {
            Wait::Backoff(why) => Waiting::Failure(why.clone()),
            Wait::NotConverging(why) => Waiting::NotConverging(why.clone()),
            Wait::Delayed(delays, _) => Waiting::Checks(delays.clone()),
            Wait::Parked { why, behind } => Waiting::Others {
                why: why.clone(),
                by: self.in_the_way(slot, behind),
            },
            Wait::Held(why) => Waiting::Operator(why.clone()),
            Wait::Unknown => Waiting::UnknownOutcome,
            Wait::InProgress => Waiting::Production,
            Wait::LookAgain => Waiting::Time,
            Wait::Lease => Waiting::Ownership,
        }
    }

    /// The assets that block `slot` now. They may be others than when `slot` began to wait.
    pub(super) fn in_the_way(&self, slot: SlotNo, behind: &Behind) -> Vec<AssetId> {
        let named = |others: &mut dyn Iterator<Item = SlotNo>| {
            let others = others.filter(|&other| other != slot);
            let ids = others.filter_map(|other| self.table.id(other));
            ids.take(OTHERS).collect()
        };
        match behind {
            Behind::Claim(key) => named(&mut self.claims.holders(key)),
            Behind::Push(other) => {
                let itself = self.table.slot(*other).in_flight().then_some(*other);
                let relies = |it: &&Attempt| it.relies_on.contains(other);
                let relying = self.attempts.iter().filter(relies).map(|it| it.slot);
                named(&mut itself.into_iter().chain(relying))
            }
            Behind::Many => Vec::new(),
        }
    }

    fn why_pinned(&self, slot: SlotNo) -> String {
        match (self.table.pin_of(slot), self.table.follows(slot)) {
            (Pin::At(..), _) => "pinned".into(),
            (Pin::NotYet, _) => "not yet".into(),
            (Pin::Default, None) => "latest".into(),
            (Pin::Default, Some(policy)) => match self.table.head(policy) {
                Some(_) => format!("at the head of `{policy}`, its last completed rollout"),
                None => format!("governed by `{policy}`, which has not rolled the asset out yet"),
            },
        }
    }

    /// The reason why the diff of a queued asset, or the checks of one that waits for a permit, cannot start.
    pub(super) fn queued_for(&self, now: Now, slot: SlotNo) -> Option<Waiting> {
        let entry = self.table.slot(slot);
        let phase = self.attempts.at(entry.attempt).map(|it| &it.phase);
        let kind = &self.kinds[entry.kind.index()];
        let name = &kind.config.name;
        if matches!(phase, Some(Phase::Permit)) && !kind.push_breaker.allows(now.mono) {
            let why = format!("pushes of {name} keep failing and are held back; check its plugin");
            return Some(Waiting::Failure(why));
        }
        if entry.state != State::Queued {
            return None;
        }
        if !self.has_lease(now) {
            return Some(Waiting::Ownership);
        }
        let why = format!(
            "the plugin of {name} keeps failing and its calls are held back; check the plugin"
        );
        (!kind.breaker.allows(now.mono)).then_some(Waiting::Failure(why))
    }

    fn status_of(&self, slot: SlotNo) -> AssetStatus {
        let entry = self.table.slot(slot);
        let phase = self.attempts.at(entry.attempt).map(|it| &it.phase);
        match phase {
            Some(Phase::Journaling(_) | Phase::Pushing | Phase::Continuing) => AssetStatus::Pushing,
            Some(Phase::Checking | Phase::Permit) => AssetStatus::Checking,
            _ if entry.has(flag::ORPHAN) => AssetStatus::Orphaned,
            _ if !self.table.has_intent(slot) => AssetStatus::NotYet,
            _ if self.table.is_settled(slot) && !entry.has(flag::REQUIRED) => AssetStatus::Settled,
            Some(Phase::Diffing) => AssetStatus::Diffing,
            Some(Phase::Waiting(_)) => AssetStatus::Waiting,
            _ if entry.state == State::Queued => AssetStatus::Queued,
            _ => AssetStatus::Diffing,
        }
    }

    /// Ids of all assets that enforcement knows, orphans included, in the order in which they were added.
    pub fn assets(&self) -> impl Iterator<Item = AssetId> {
        SlotNo::all(self.table.len())
            .filter(|&at| {
                let entry = self.table.slot(at);
                entry.location.is_some() || entry.has(flag::ORPHAN) || self.table.has_intent(at)
            })
            .filter_map(|at| self.table.id(at))
    }

    /// Returns whether all assets with an intent are settled at `no` or a newer incarnation, and no governed asset
    /// still waits for a rollout to get there.
    pub fn all_settled_at(&self, no: IncarnationNo) -> bool {
        self.table.latest().no() >= no
            && self.census.unsettled() == 0
            && self.census.behind().is_empty()
    }

    /// Incarnations that retention must keep: the intent of an asset, or named by the records in the store.
    pub fn referenced(&self) -> Vec<IncarnationNo> {
        let mut referenced = self.table.referenced();
        referenced.extend(self.ledger.floor());
        referenced.extend(self.table.last_settled().referenced());
        referenced.extend(self.pins.referenced());
        referenced.extend(self.ledger.named_by_kept());
        referenced.extend(self.attempts.iter().map(|it| it.incarnation.no()));
        referenced.sort();
        referenced.dedup();
        referenced
    }
}
