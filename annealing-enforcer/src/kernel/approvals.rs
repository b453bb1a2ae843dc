//! Approvals of changes by people, one by one and in sets (R12, R110).

use std::collections::BTreeMap;

use control_plane_store::records::{Approval, Ended};
use jiff::Timestamp;
use plugin_sdk::{Approved, By, Change, CheckName, Delay, Now};
use prodspec_model::{AssetId, Digest};
use serde::{Deserialize, Serialize};

use super::{
    Kernel,
    command::is_to_come,
    event::Effects,
    state::{
        attempt::Attempt,
        numbers::SlotNo,
        people::{People, Waiver},
    },
};

/// Maximum number of sets that a refusal lists.
const NAMED: usize = 8;

/// Changes that wait for approvals by one policy, and are equal but for their assets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalSet {
    /// The digest of all members: asset and change of each, sorted. It names exactly this set.
    pub digest: Digest,
    /// The check whose policy asks for the approvals.
    pub check: CheckName,
    /// The change of the first member.
    pub change: Change,
    /// The members, each with the digest of its change.
    pub members: BTreeMap<AssetId, Digest>,
}

impl ApprovalSet {
    fn new(check: CheckName, change: Change, members: BTreeMap<AssetId, Digest>) -> Self {
        let lines = members
            .iter()
            .map(|(id, change)| format!("{id} {change}\n"));
        Self {
            digest: Digest::of(lines.collect::<String>().as_bytes()),
            check,
            change,
            members,
        }
    }
}

impl Kernel {
    pub(super) fn approve(
        &mut self,
        now: Now,
        asset: AssetId,
        change: Digest,
        until: Option<Timestamp>,
        by: By,
        out: &mut Effects,
    ) -> Result<(), String> {
        // An earlier approval of the change shows that it waits for some: the checks run again after each.
        let is_asked = self
            .people
            .approvals(&asset, change, now.wall)
            .next()
            .is_some()
            || self.is_ahead(now, &asset, change, Delay::awaits_approval);
        let slot = match is_asked {
            true => self.known(&asset)?,
            false => self.has_change(&asset, change)?,
        };
        if !is_asked && !self.destroys(slot) && !self.awaits_approval(slot) {
            return Err(format!(
                "change {change} of `{asset}` needs no approval: it destroys nothing, and no policy waits for one"
            ));
        }
        is_to_come(now, until)?;
        self.ahead.check_again(now.mono, &asset);
        let approval = Approval {
            asset,
            change,
            by,
            at: now.wall,
            until: People::until(now.wall, until),
            used: None,
            replaced: None,
        };
        self.let_through(Waiver::Approval(approval), out);
        self.asked(now, slot);
        Ok(())
    }

    /// R110: approves all changes of a set, which must be as it was when the person saw it.
    pub(super) fn approve_set(
        &mut self,
        now: Now,
        (set, size): (Digest, usize),
        until: Option<Timestamp>,
        by: By,
        out: &mut Effects,
    ) -> Result<(), String> {
        let sets = self.awaiting_approval(now);
        let named = sets
            .iter()
            .find(|it| it.digest == set && it.members.len() == size);
        let Some(named) = named else {
            let present = sets.iter().take(NAMED).map(|it| {
                let (size, set) = (it.members.len(), it.digest.short());
                format!("{set} ({size} of {})", it.check)
            });
            let present: Vec<String> = present.collect();
            return Err(format!(
                "no set of {size} changes with the digest {set} waits for approvals now; there are: {}",
                present.join(", ")
            ));
        };
        for (asset, change) in named.members.clone() {
            self.approve(now, asset, change, until, by.clone(), out)?;
        }
        Ok(())
    }

    /// The changes that wait for approvals by policies, those of rollouts that have not moved yet included. Equal changes of one
    /// policy are one set.
    pub fn awaiting_approval(&self, now: Now) -> Vec<ApprovalSet> {
        let mut sets: BTreeMap<(CheckName, String), (Change, BTreeMap<AssetId, Digest>)> =
            BTreeMap::new();
        let mut add = |id: AssetId, change: &Change, delays: &[Delay]| {
            for delay in delays.iter().filter(|it| it.awaits_approval()) {
                let of = (delay.check.clone(), kind_of(change));
                let (_, members) = sets
                    .entry(of)
                    .or_insert_with(|| (change.clone(), BTreeMap::new()));
                members.insert(id.clone(), change.digest);
            }
        };
        for (id, push) in self.ahead.all(now.mono) {
            add(id.clone(), &push.change, &push.verdict.delays);
        }
        for it in self.attempts.iter() {
            if let (Some(delays), Some(change), Some(id)) =
                (it.delays(), &it.change, self.table.id(it.slot))
            {
                add(id, change, delays);
            }
        }
        let sets = sets.into_iter();
        sets.map(|((check, _), (change, members))| ApprovalSet::new(check, change, members))
            .collect()
    }

    /// The approvals of a change that count now (R110).
    pub(super) fn approvals(&self, now: Now, asset: &AssetId, change: Digest) -> Vec<Approved> {
        let given = self.people.approvals(asset, change, now.wall);
        let given = given.map(|it| Approved {
            by: it.by.who.as_str().into(),
            at: it.at,
        });
        given.collect()
    }

    /// R110: ends the approvals of an asset that has settled. A later change needs new ones, even if it is the same.
    pub(super) fn end_approvals(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        if self.people.has_no_approval() {
            return;
        }
        let Some(id) = self.table.id(slot) else {
            return;
        };
        let ended = Ended {
            by: By::new("the enforcer", format!("`{id}` has settled")),
            at: now.wall,
        };
        // An approval that came before a rollout moves is of another change.
        let ahead: Vec<Digest> = self
            .ahead
            .of(now.mono, &id)
            .map(|it| it.change.digest)
            .collect();
        let is_over = |change: &Digest| !ahead.contains(change);
        for approval in self.people.end_approvals(&id, is_over, &ended) {
            self.record_word(approval, out);
        }
    }

    /// Whether an asset waits for approvals.
    fn awaits_approval(&self, slot: SlotNo) -> bool {
        let at = self.table.slot(slot).attempt;
        let delays = self.attempts.at(at).and_then(Attempt::delays);
        delays.is_some_and(|all| all.iter().any(Delay::awaits_approval))
    }

    /// Whether a rollout tried a push with this change, and a delay is such.
    pub(super) fn is_ahead(
        &self,
        now: Now,
        asset: &AssetId,
        change: Digest,
        such: impl Fn(&Delay) -> bool,
    ) -> bool {
        let mut ahead = self.ahead.of(now.mono, asset);
        ahead.any(|push| push.change.digest == change && push.verdict.delays.iter().any(&such))
    }
}

/// The part of a change that is equal for equal changes of different assets.
fn kind_of(change: &Change) -> String {
    let fields = change.fields.iter().filter(|it| !it.volatile);
    let fields: Vec<_> = fields.map(|it| (&it.path, &it.from, &it.to)).collect();
    match fields.is_empty() {
        true => change.summary.clone(),
        false => serde_json::to_string(&fields).unwrap_or_default(),
    }
}
