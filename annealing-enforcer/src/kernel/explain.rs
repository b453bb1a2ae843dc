//! Explain: a current answer for every asset to "why is it, or is it not, being pushed", as data.

use jiff::Timestamp;
use plane_store::records::Trigger;
use plugin_sdk::{Cause, Change, Delay, Now};
use prodspec_model::{AssetId, IncarnationNo, TypeName};
use serde::{Deserialize, Serialize};

use super::{
    Kernel,
    event::Pin,
    iteration::{Behind, Iteration, Phase, Wait},
    people::Words,
    slot::{State, flag},
    waiting::wall_at,
};

/// Where an asset is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AssetStatus {
    /// Production is as intended.
    Settled,
    /// To be looked at.
    Queued,
    /// Being compared.
    Diffing,
    /// Being checked.
    Checking,
    /// Being pushed.
    Pushing,
    /// Waiting; see [`Explanation::waiting`].
    Waiting,
    /// It left intent, and is left alone.
    Orphaned,
    /// It has no pin yet, and is left alone.
    NotYet,
}

/// How many of those who are in an asset's way are named.
pub const OTHERS: usize = 16;

/// What a waiting asset waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Waiting {
    /// Checks delay it.
    Checks(Vec<Delay>),
    /// It failed.
    Failure(String),
    /// Another push or a claim is in its way.
    Others {
        /// Which it is.
        why: String,
        /// Who holds the claim, or is being pushed, now: the first [`OTHERS`] of them.
        by: Vec<AssetId>,
    },
    /// A person has to act.
    Person(String),
    /// A push may still be under way.
    UnknownOutcome,
    /// Work on it is under way in production.
    Production,
    /// Intent that falls due by time.
    Time,
    /// This process does not own the partition for sure.
    Ownership,
}

/// One asset, explained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Which asset.
    pub asset: AssetId,
    /// Its type.
    pub type_name: TypeName,
    /// Where it is.
    pub status: AssetStatus,
    /// The incarnation that is its intent, if it has one.
    pub incarnation: Option<IncarnationNo>,
    /// Why that one: `latest`, `pinned`, `not yet`, or which rollout policy governs it.
    pub pin: String,
    /// Why it would be pushed.
    pub cause: Option<Cause>,
    /// Why it was looked at last.
    pub trigger: Trigger,
    /// What a push would change, as of the last diff.
    pub change: Option<Change>,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// When it is looked at again at the latest.
    pub next_look: Option<Timestamp>,
    /// Consecutive failures.
    pub failures: u32,
    /// What people said that concerns it: pauses of it, of its type and of the partition, approvals, overrides.
    pub words: Words,
}

impl Kernel {
    /// Explains one asset.
    pub fn explain(&self, now: Now, id: &AssetId) -> Option<Explanation> {
        let slot = self.table.find(id.as_str())?;
        let entry = self.table.slot(slot);
        if !entry.has(flag::ORPHAN) && !self.table.has_intent(slot) && entry.pin == 0 {
            return None;
        }
        let it = self.iterations.at(entry.iteration);
        let wait = it.and_then(|it| match &it.phase {
            Phase::Waiting(wait) => Some(wait),
            _ => None,
        });
        Some(Explanation {
            asset: id.clone(),
            type_name: self.kinds[entry.kind as usize].config.name.clone(),
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
                .or_else(|| self.queued_for(now, slot)),
            next_look: it.and_then(|it| it.wakes).map(|at| wall_at(now, at)),
            failures: it.map_or(0, |it| it.failures),
            words: {
                let type_name = self.kinds[entry.kind as usize].config.name.as_str();
                self.people.words(Some((id, type_name)), now.wall)
            },
        })
    }

    /// What people said that still holds.
    pub fn words(&self, now: Now) -> Words {
        self.people.words(None, now.wall)
    }

    pub(super) fn waiting(&self, slot: u32, wait: &Wait) -> Waiting {
        match wait {
            Wait::Backoff(why) => Waiting::Failure(why.clone()),
            Wait::Delayed(delays, _) => Waiting::Checks(delays.clone()),
            Wait::Parked { why, behind } => Waiting::Others {
                why: why.clone(),
                by: self.in_the_way(slot, behind),
            },
            Wait::Held(why) => Waiting::Person(why.clone()),
            Wait::Unknown => Waiting::UnknownOutcome,
            Wait::InProgress => Waiting::Production,
            Wait::LookAgain => Waiting::Time,
            Wait::Lease => Waiting::Ownership,
        }
    }

    /// Who is in the way of `slot` now: that may have become somebody else since it was parked.
    pub(super) fn in_the_way(&self, slot: u32, behind: &Behind) -> Vec<AssetId> {
        let named = |others: &mut dyn Iterator<Item = u32>| {
            let others = others.filter(|&other| other != slot);
            let ids = others.filter_map(|other| self.table.id(other));
            ids.take(OTHERS).collect()
        };
        match behind {
            Behind::Claim(key) => named(&mut self.claims.holders(key)),
            Behind::Push(other) => {
                let itself = self.table.slot(*other).in_flight().then_some(*other);
                let relies = |it: &&Iteration| it.relies_on.contains(other);
                let relying = self.iterations.iter().filter(relies).map(|it| it.slot);
                named(&mut itself.into_iter().chain(relying))
            }
            Behind::Many => Vec::new(),
        }
    }

    fn why_pinned(&self, slot: u32) -> String {
        match (self.table.pin_of(slot), self.table.follows(slot)) {
            (Pin::At(..), _) => "pinned".into(),
            (Pin::NotYet, _) => "not yet".into(),
            (Pin::Default, None) => "latest".into(),
            (Pin::Default, Some(policy)) => match self.table.head(policy) {
                Some(_) => format!("where the last rollout of `{policy}` went"),
                None => format!("governed by `{policy}`, which has not rolled it out yet"),
            },
        }
    }

    /// What keeps a queued asset from being looked at, or from being checked.
    pub(super) fn queued_for(&self, now: Now, slot: u32) -> Option<Waiting> {
        let entry = self.table.slot(slot);
        let phase = self.iterations.at(entry.iteration).map(|it| &it.phase);
        let kind = &self.kinds[entry.kind as usize];
        let name = &kind.config.name;
        if matches!(phase, Some(Phase::Permit)) && !kind.push_breaker.allows(now.mono) {
            let why = format!("pushes of {name} only fail: they are held back; look at its plugin");
            return Some(Waiting::Failure(why));
        }
        if entry.state != State::Queued {
            return None;
        }
        if !self.has_lease(now) {
            return Some(Waiting::Ownership);
        }
        let why = format!("the plugin of {name} only fails: calls are held back; look at it");
        (!kind.breaker.allows(now.mono)).then_some(Waiting::Failure(why))
    }

    fn status_of(&self, slot: u32) -> AssetStatus {
        let entry = self.table.slot(slot);
        let phase = self.iterations.at(entry.iteration).map(|it| &it.phase);
        match phase {
            Some(Phase::Journaling(_) | Phase::Pushing | Phase::Continuing) => AssetStatus::Pushing,
            Some(Phase::Checking | Phase::Permit) => AssetStatus::Checking,
            _ if entry.has(flag::ORPHAN) => AssetStatus::Orphaned,
            _ if !self.table.has_intent(slot) => AssetStatus::NotYet,
            _ if self.table.is_settled(slot) => AssetStatus::Settled,
            Some(Phase::Diffing) => AssetStatus::Diffing,
            Some(Phase::Waiting(_)) => AssetStatus::Waiting,
            _ if entry.state == State::Queued => AssetStatus::Queued,
            _ => AssetStatus::Diffing,
        }
    }

    /// Every asset that has a slot, orphans included, in the order in which they came.
    pub fn assets(&self) -> impl Iterator<Item = AssetId> {
        (0..self.table.len())
            .filter(|&at| {
                let entry = self.table.slot(at);
                entry.location.is_some() || entry.has(flag::ORPHAN) || self.table.has_intent(at)
            })
            .filter_map(|at| self.table.id(at))
    }

    /// Whether everything that has an intent is settled at `no` or a newer incarnation, and no rollout has yet to bring
    /// a governed asset there.
    pub fn all_settled_at(&self, no: IncarnationNo) -> bool {
        self.table.latest().no() >= no && self.unsettled == 0 && self.behind.is_empty()
    }

    /// Whether one asset is settled at `no` or a newer incarnation. Modelled-only assets always are. `None`: nobody has
    /// ever heard of it there.
    pub fn is_settled_at(&self, id: &AssetId, no: IncarnationNo) -> Option<bool> {
        if self.table.latest().no() < no {
            return Some(false);
        }
        match self.table.find(id.as_str()) {
            Some(slot) => {
                let settled = self.table.is_settled(slot) || self.table.is_modelled_only(slot);
                Some(settled && !self.behind.contains(&slot))
            }
            None => self.table.latest().asset(id).map(|_| true),
        }
    }

    /// Incarnations that may not be collected: somebody's intent, or what the store's records speak of.
    pub fn cited(&self) -> Vec<IncarnationNo> {
        let mut cited = self.table.cited();
        cited.extend(self.floor);
        cited.extend(self.last_settled.cited());
        cited.extend(self.early_pins.values().filter_map(|pin| match pin {
            Pin::At(incarnation, _) => Some(incarnation.no()),
            _ => None,
        }));
        cited.extend(self.iterations.iter().map(|it| it.incarnation.no()));
        cited.sort();
        cited.dedup();
        cited
    }
}
