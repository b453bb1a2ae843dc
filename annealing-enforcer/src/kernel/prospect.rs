//! Prospects for plans: the future of each asset if nothing changes except by the decisions of now.
//!
//! For a plan, a kernel diffs all assets, and no push is called. A push that this kernel has admitted would begin now.

use std::collections::{BTreeMap, VecDeque};

use control_plane_store::records::{Approval, Override};
use plugin_sdk::{Cause, Change, Delay, Now, Recheck};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use super::{
    Kernel,
    explain::Waiting,
    state::{
        attempt::{Attempt, Phase, Wait},
        numbers::SlotNo,
        slot::{Class, Trigger, flag},
    },
};

/// The effect that enforcement would have on an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The asset is pushed at once.
    Now,
    /// The asset is pushed later: after pushes of other assets, at its turn at a rate, or when its rollout reaches it.
    InTurn,
    /// The asset is not pushed until something else changes: a check, a pause, a command of an operator, a failing
    /// plugin.
    Held,
    /// The incarnation does not have the asset: its resource is left alone, at once or when its rollout reaches it.
    Leaves,
    /// The push is destructive and waits for an approval of this change.
    Destroys,
}

/// One asset in a plan that is not as intended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prospect {
    /// Id of the asset that the row is about.
    pub asset: AssetId,
    /// The effect that enforcement would have.
    pub outcome: Outcome,
    /// The reason why it is not pushed at once. Empty for [`Outcome::Now`].
    pub why: String,
    /// The cause of its push. `None`: no push is due.
    pub cause: Option<Cause>,
    /// The change that a push would make. `None`: none was found.
    pub change: Option<Change>,
    /// The delays of checks against a push now.
    pub delays: Vec<Delay>,
    /// Approvals of changes of the asset that no push has used up.
    pub approvals: Vec<Approval>,
    /// Overrides of checks for changes of the asset that no push has used up.
    pub overrides: Vec<Override>,
    /// The policy whose rollout has not moved the asset to the newest incarnation yet. `None`: there is no such
    /// rollout.
    pub policy: Option<AssetId>,
}

/// A prospect with the assets that it waits for, if it waits for nothing else.
struct Row {
    prospect: Prospect,
    behind: Option<Vec<AssetId>>,
}

impl Kernel {
    /// Requests a diff of every asset, whatever earlier diffs found.
    pub(crate) fn look_at_all(&mut self, now: Now) {
        self.table.last_settled_mut().look_at_all();
        for slot in SlotNo::all(self.table.len()) {
            if !self.table.has_intent(slot) {
                continue;
            }
            // An asset that waits with a changed intent is also diffed for drift from its former content (R6).
            let why = match self.table.last_settled().of(slot) {
                Some(_) => Trigger::RetryDue,
                None => Trigger::DriftScan,
            };
            self.trigger(now, slot, why, Class::Drift);
        }
    }

    /// Returns all assets that are not as intended, by id, and the number of assets that are in sync.
    pub(crate) fn prospects(&self, now: Now) -> (Vec<Prospect>, usize) {
        let mut rows = BTreeMap::new();
        let mut in_sync = 0;
        for slot in SlotNo::all(self.table.len()) {
            let Some(id) = self.table.id(slot).filter(|_| !self.table.is_free(slot)) else {
                continue;
            };
            match self.row(now, slot, id) {
                Some(row) => drop(rows.insert(row.prospect.asset.clone(), row)),
                None => in_sync += usize::from(self.table.has_intent(slot)),
            }
        }
        follow_waits(&mut rows);
        let words = self.people.interventions(None, now.wall);
        for word in words.approvals {
            if let Some(row) = rows.get_mut(&word.asset) {
                row.prospect.approvals.push(word);
            }
        }
        for word in words.overrides {
            if let Some(row) = rows.get_mut(&word.asset) {
                row.prospect.overrides.push(word);
            }
        }
        let prospects = rows.into_values().map(|row| row.prospect);
        (prospects.collect(), in_sync)
    }

    /// Whether an operator has approved the change of an asset and the approval is not spent.
    pub(crate) fn is_approved(&self, now: Now, asset: &AssetId, change: &Change) -> bool {
        let word = self.people.approvals(asset, change.digest, now.wall).next();
        word.is_some()
    }

    /// Returns the row of one asset. `None`: it is as intended, or no action is due.
    fn row(&self, now: Now, slot: SlotNo, asset: AssetId) -> Option<Row> {
        let entry = self.table.slot(slot);
        let it = self.attempts.at(entry.attempt);
        let behind = self.census.is_behind(slot);
        let mut prospect = Prospect {
            asset,
            outcome: Outcome::InTurn,
            why: String::new(),
            cause: None,
            change: None,
            delays: Vec::new(),
            approvals: Vec::new(),
            overrides: Vec::new(),
            policy: self.policy_of(slot).filter(|_| behind),
        };
        let row = |prospect, behind| Some(Row { prospect, behind });
        if self.is_left(slot) {
            if self.new_id_of(&prospect.asset).is_some() {
                return None;
            }
            prospect.outcome = Outcome::Leaves;
            prospect.why =
                "the asset left intent and its resource is left alone; turn it down or acknowledge the orphan"
                    .into();
            return row(prospect, None);
        }
        let settled = self.table.is_settled(slot) || !self.table.has_intent(slot);
        if settled && !entry.in_flight() {
            let policy = prospect.policy.clone()?;
            prospect.why = format!("waits for its turn in the rollout of `{policy}`");
            if entry.location.is_none() {
                prospect.outcome = Outcome::Leaves;
            }
            return row(prospect, None);
        }
        let Some(it) = it else {
            let waiting = self.queued_for(now, slot);
            (prospect.outcome, prospect.why) = (Outcome::Held, why(waiting.as_ref()));
            return row(prospect, None);
        };
        prospect.cause = Some(it.cause);
        prospect.change = it.change.as_deref().cloned();
        let waits = self.foresee(now, it, &mut prospect);
        row(prospect, waits)
    }

    /// Whether the asset is an orphan that the newest incarnation does not have.
    fn is_left(&self, slot: SlotNo) -> bool {
        let entry = self.table.slot(slot);
        entry.has(flag::ORPHAN) && entry.location.is_none() && !self.table.has_intent(slot)
    }

    /// Foresees the outcome of an asset in the loop. Returns the assets that it waits for, if it waits for nothing
    /// else.
    fn foresee(&self, now: Now, it: &Attempt, prospect: &mut Prospect) -> Option<Vec<AssetId>> {
        let held_back = self.queued_for(now, it.slot);
        let (outcome, why, waits) = match &it.phase {
            Phase::Journaling(_) | Phase::Pushing | Phase::Continuing => {
                (Outcome::Now, String::new(), None)
            }
            Phase::Permit if held_back.is_none() => {
                let why = "waits for push capacity of its plugin".into();
                (Outcome::InTurn, why, None)
            }
            Phase::Waiting(wait) => {
                if let Wait::Delayed(delays, _) = wait {
                    prospect.delays.clone_from(delays);
                }
                let (outcome, waits) = self.after_wait(it.slot, wait);
                let waiting = self.waiting(it.slot, wait);
                (outcome, why(Some(&waiting)), waits)
            }
            _ => (Outcome::Held, why(held_back.as_ref()), None),
        };
        (prospect.outcome, prospect.why) = (outcome, why);
        if outcome == Outcome::Now || !self.lacks_approval(now, it, prospect) {
            return waits;
        }
        prospect.outcome = Outcome::Destroys;
        None
    }

    /// Returns whether a wait ends by itself, and the assets that it waits for.
    fn after_wait(&self, slot: SlotNo, wait: &Wait) -> (Outcome, Option<Vec<AssetId>>) {
        match wait {
            Wait::Delayed(..) if self.claims.rates.has_turn(&slot) => (Outcome::InTurn, None),
            Wait::Delayed(delays, _) => (Outcome::Held, settling(delays)),
            Wait::Parked { behind, .. } => match self.in_the_way(slot, behind) {
                others if others.is_empty() => (Outcome::InTurn, None),
                others => (Outcome::Held, Some(others)),
            },
            _ => (Outcome::Held, None),
        }
    }

    /// R12: whether the push is destructive and no operator has approved it.
    fn lacks_approval(&self, now: Now, it: &Attempt, prospect: &Prospect) -> bool {
        let config = &self.kinds[self.table.slot(it.slot).kind.index()].config;
        let never = self.config.observe_only || config.observe_only;
        if never || (it.turndown && !config.turndown) {
            return false;
        }
        let change = prospect.change.as_ref();
        change.is_some_and(|change| {
            let destroys = it.turndown || change.effects.destructive;
            destroys && !self.is_approved(now, &prospect.asset, change)
        })
    }
}

/// Returns the assets that have to settle first, if nothing else delays the push. No push ends the wait at a dead end.
fn settling(delays: &[Delay]) -> Option<Vec<AssetId>> {
    let settles = |delay: &Delay| match &delay.recheck {
        Recheck::WhenSettled(other) if delay.dead_end().is_none() => Some(other.clone()),
        _ => None,
    };
    delays.iter().map(settles).collect()
}

/// Gives a turn to the assets that only wait for pushes which begin now or in their turn.
fn follow_waits(rows: &mut BTreeMap<AssetId, Row>) {
    let mut waiters: BTreeMap<AssetId, Vec<AssetId>> = BTreeMap::new();
    let mut missing: BTreeMap<AssetId, usize> = BTreeMap::new();
    for (id, row) in &*rows {
        for other in row.behind.iter().flatten() {
            waiters.entry(other.clone()).or_default().push(id.clone());
            *missing.entry(id.clone()).or_default() += 1;
        }
    }
    let moves = |row: &Row| matches!(row.prospect.outcome, Outcome::Now | Outcome::InTurn);
    let moving = rows.iter().filter(|(_, row)| moves(row));
    let mut moving: VecDeque<AssetId> = moving.map(|(id, _)| id.clone()).collect();
    while let Some(id) = moving.pop_front() {
        for waiter in waiters.remove(&id).unwrap_or_default() {
            let Some(left) = missing.get_mut(&waiter) else {
                continue;
            };
            *left -= 1;
            if *left == 0
                && let Some(row) = rows.get_mut(&waiter)
            {
                row.prospect.outcome = Outcome::InTurn;
                moving.push_back(waiter);
            }
        }
    }
}

fn why(waiting: Option<&Waiting>) -> String {
    let said = |delay: &Delay| format!("{}: {}", delay.check, delay.reason);
    match waiting {
        Some(Waiting::Checks(delays)) => delays.iter().map(said).collect::<Vec<_>>().join("; "),
        Some(
            Waiting::Failure(why)
            | Waiting::NotConverging(why)
            | Waiting::Others { why, .. }
            | Waiting::Operator(why),
        ) => why.clone(),
        Some(Waiting::UnknownOutcome) => "a push of the asset may still be under way".into(),
        Some(Waiting::Production) => "production is still working on the asset".into(),
        _ => "the asset was not compared with production".into(),
    }
}
