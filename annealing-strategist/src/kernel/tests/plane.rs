//! A toy enforcer and a toy store: stored records, pins, and the content of production.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use plugin_sdk::{AssetTypes, Cause, GroupHead, Pin, RolloutId, Standing, SyncState};
use prodspec_model::{Asset, AssetId, Digest, Incarnation, IncarnationNo};

use crate::{
    group::{governs, policy_of},
    kernel::{Heads, Record, Step},
    line::StoppedLine,
    record::{Quarantined, Rollout, State, TargetRecord},
};

/// A report of enforcement.
#[derive(Debug, Clone)]
pub(super) enum Fed {
    Took(Incarnation, Vec<AssetId>),
    Stands(AssetId, Standing),
}

/// The part of a step that became durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Nothing,
    Records,
    Head,
    SomeMoves,
    All,
}

#[derive(Debug)]
pub(super) struct Plane {
    pub(super) policy: AssetId,
    pub(super) types: Arc<AssetTypes>,
    pub(super) now: Timestamp,
    pub(super) all: BTreeMap<IncarnationNo, Incarnation>,
    pub(super) latest: Incarnation,
    pub(super) head: Option<GroupHead<Incarnation>>,
    /// The heads of other groups.
    pub(super) heads: Heads,
    /// Set while the line is stopped.
    pub(super) line: Option<StoppedLine>,
    pub(super) pins: BTreeMap<AssetId, Pin>,
    found: BTreeMap<AssetId, SyncState>,
    production: BTreeMap<AssetId, Digest>,
    pub(super) rollouts: BTreeMap<RolloutId, Rollout>,
    pub(super) rows: BTreeMap<AssetId, TargetRecord>,
    pub(super) quarantine: BTreeMap<AssetId, Quarantined>,
    pub(super) feed: VecDeque<Fed>,
    /// Every move, in order.
    pub(super) moves: Vec<(AssetId, Pin)>,
    forward: BTreeSet<(RolloutId, AssetId)>,
    /// The content that moved assets had before.
    was: BTreeMap<AssetId, Option<Digest>>,
    /// Assets that moved, but whose previous content is lost.
    lost: BTreeSet<AssetId>,
    /// Assets that are going to be pushed.
    pub(super) restless: Vec<AssetId>,
}

impl Plane {
    pub(super) fn new(policy: AssetId, types: Arc<AssetTypes>, first: Incarnation) -> Self {
        Self {
            policy,
            types,
            now: Timestamp::UNIX_EPOCH,
            all: [(first.no(), first.clone())].into(),
            latest: first,
            head: None,
            heads: Heads::default(),
            line: None,
            pins: BTreeMap::new(),
            found: BTreeMap::new(),
            production: BTreeMap::new(),
            rollouts: BTreeMap::new(),
            rows: BTreeMap::new(),
            quarantine: BTreeMap::new(),
            feed: VecDeque::new(),
            moves: Vec::new(),
            forward: BTreeSet::new(),
            was: BTreeMap::new(),
            lost: BTreeSet::new(),
            restless: Vec::new(),
        }
    }

    pub(super) fn is_governed(&self, id: &AssetId) -> bool {
        let named = self.latest.asset(id).as_ref().and_then(policy_of);
        named.is_some() || self.is_ours(id)
    }

    /// Returns the incarnation that the group's assets have by default.
    pub(super) fn head(&self) -> Option<&Incarnation> {
        match self.head.as_ref()? {
            GroupHead::At(head) => Some(head),
            GroupHead::Latest => Some(&self.latest),
            GroupHead::Unknown => None,
        }
    }

    /// Whether an asset follows the newest incarnation although a policy governs it.
    fn follows(&self, id: &AssetId) -> bool {
        self.is_ours(id) && matches!(self.head, Some(GroupHead::Latest))
    }

    fn is_ours(&self, id: &AssetId) -> bool {
        let head = self.head();
        governs(&self.policy, head, &self.heads, &self.latest, id)
    }

    fn by_default(&self, id: &AssetId) -> Option<(Asset, IncarnationNo)> {
        let of = match self.is_governed(id) {
            true if self.is_ours(id) => self.head()?,
            // The other group never completes a rollout.
            true => return None,
            false => &self.latest,
        };
        Some((of.asset(id)?, of.no()))
    }

    /// Returns the asset and incarnation that production is held to.
    pub(super) fn intent(&self, id: &AssetId) -> Option<(Asset, IncarnationNo)> {
        match self.pins.get(id).copied() {
            Some(Pin::At(no, _)) => Some((self.all[&no].asset(id)?, no)),
            Some(Pin::NotYet) => None,
            Some(Pin::Default) | None => self.by_default(id),
        }
    }

    pub(super) fn content(&self, id: &AssetId) -> Option<Digest> {
        self.intent(id).map(|(asset, _)| asset.digest())
    }

    pub(super) fn is_enforced(&self, id: &AssetId) -> bool {
        let known = self.latest.asset(id).or_else(|| Some(self.intent(id)?.0));
        known.is_none_or(|asset| !self.types.is_modelled_only(asset.type_str()))
    }

    fn standing(&self, id: &AssetId) -> Standing {
        let since = self.now;
        let pin = self.pins.get(id).copied();
        let content = self.content(id);
        let in_sync = content.is_none() || content == self.production.get(id).copied();
        let found = self.found.get(id).cloned();
        let state = found.unwrap_or(match in_sync {
            true => SyncState::InSync { since },
            false => out_of_sync(since, &[]),
        });
        Standing::at(pin.unwrap_or(Pin::Default), content, state)
    }

    pub(super) fn standings(&self) -> Vec<(AssetId, Standing)> {
        let pinned = self.pins.keys().filter(|id| self.is_enforced(id));
        pinned.map(|id| (id.clone(), self.standing(id))).collect()
    }

    /// Returns the standings of all durable pins, enforced or not.
    pub(super) fn all_pins(&self) -> Vec<(AssetId, Standing)> {
        let mut all = Vec::new();
        for id in self.pins.keys() {
            let mut standing = self.standing(id);
            if !self.is_enforced(id) {
                let since = self.now;
                standing.state = SyncState::InSync { since };
            }
            all.push((id.clone(), standing));
        }
        all
    }

    fn tell(&mut self, id: &AssetId) {
        if self.is_enforced(id) {
            let standing = self.standing(id);
            self.feed.push_back(Fed::Stands(id.clone(), standing));
        }
    }

    fn keep_in_place(&mut self, id: &AssetId, was: Option<(Asset, IncarnationNo)>) {
        // Modelled-only assets are not pinned here, and not reported.
        if !self.is_enforced(id) {
            return;
        }
        let pin = was.map_or(Pin::NotYet, |(_, no)| Pin::At(no, Cause::Intent));
        self.pins.insert(id.clone(), pin);
        self.tell(id);
    }

    pub(super) fn publish(&mut self, newer: Incarnation) {
        self.all.insert(newer.no(), newer.clone());
        let changes = self.latest.snapshot().diff(newer.snapshot());
        let ids: Vec<AssetId> = changes.iter().map(|change| change.id()).collect();
        self.regovern(&ids, |plane| plane.latest = newer.clone());
        self.restless.extend(ids.iter().cloned());
        self.feed.push_back(Fed::Took(newer, ids));
    }

    /// Makes a step durable, or a part of it.
    pub(super) fn apply(&mut self, step: Step, part: Part) {
        if part == Part::Nothing {
            return;
        }
        step.records
            .into_iter()
            .for_each(|record| self.write(record));
        if part >= Part::Head
            && let Some(head) = step.head
        {
            self.move_head(head);
        }
        let moves = match part {
            Part::Nothing | Part::Records | Part::Head => 0,
            Part::SomeMoves => step.moves.len() / 2,
            Part::All => step.moves.len(),
        };
        for (id, goes) in step.moves.into_iter().take(moves) {
            self.audit(&id, goes);
            self.move_pin(&id, goes);
            self.moves.push((id, goes));
        }
    }

    fn write(&mut self, record: Record) {
        match record {
            Record::Rollout(rollout) => {
                self.judge_end(&rollout);
                self.rollouts.insert(rollout.id, *rollout);
            }
            Record::Forget(id) => drop(self.rollouts.remove(&id)),
            Record::Target(id, Some(row)) => drop(self.rows.insert(id, row)),
            Record::Target(id, None) => {
                let row = self.rows.remove(&id);
                // One that was left behind is tried again when an operator says so.
                if let Some(row) = row
                    && self.has_failed_in(row.rollout, &id)
                {
                    self.forward.remove(&(row.rollout, id.clone()));
                }
                self.was.remove(&id);
                self.lost.remove(&id);
            }
            Record::Quarantine(id, Some(row)) => drop(self.quarantine.insert(id, row)),
            Record::Quarantine(id, None) => drop(self.quarantine.remove(&id)),
        }
    }

    fn has_failed_in(&self, rollout: RolloutId, id: &AssetId) -> bool {
        let failed = self
            .quarantine
            .get(id)
            .into_iter()
            .flat_map(|it| &it.failed);
        let mut failed = failed.map(|failed| failed.rollout);
        failed.any(|other| other == rollout)
    }

    /// R22: checks that all assets that moved have their previous content.
    fn judge_end(&self, rollout: &Rollout) {
        if let State::RolledBack { .. } = rollout.state {
            // Assets that are no longer governed may have any content.
            let held = |id: &&AssetId| {
                self.is_enforced(id) && self.is_governed(id) && !self.lost.contains(*id)
            };
            let heard = |(id, row): &(&AssetId, &TargetRecord)| !self.is_unheard(id, row);
            let told = self.rows.iter().filter(heard).map(|(id, _)| id);
            for id in told.filter(held) {
                let was = self.was.get(id).copied();
                let back = was.is_none_or(|was| was == self.content(id));
                assert!(back, "{id} did not go back");
            }
        }
    }

    /// The pin of an asset that left the group and came back while its pin moved is reported once. After a crash that
    /// pin is lost, and the asset goes back to where the group has it.
    pub(super) fn forget_unheard(&mut self) {
        let on = self.rows.iter().filter(|(_, row)| row.back_at.is_none());
        let unheard = on.filter(|(id, row)| self.is_unheard(id, row) || self.is_elsewhere(id, row));
        let unheard: Vec<AssetId> = unheard.map(|(id, _)| id.clone()).collect();
        self.lost.extend(unheard);
    }

    /// Whether an asset with a record is neither at its previous pin nor at that of any rollout.
    fn is_elsewhere(&self, id: &AssetId, row: &TargetRecord) -> bool {
        let Some(no) = self.pins.get(id).and_then(Pin::incarnation) else {
            return false;
        };
        let rolled = self.rollouts.values().any(|rollout| rollout.to == no);
        let rolled = rolled || row.to == Some(no);
        !row.was.is_at(no) && !rolled
    }

    /// Whether a report of the asset's previous pin has not been delivered yet.
    fn is_unheard(&self, asset: &AssetId, row: &TargetRecord) -> bool {
        let to = row.to.unwrap_or(self.rollouts[&row.rollout].to);
        let told = self.feed.iter().filter_map(|fed| match fed {
            Fed::Stands(id, stood) if id == asset => Some(stood.pin),
            _ => None,
        });
        let told: Vec<Pin> = told.collect();
        let moved = told.iter().position(|pin| pin.is_at(to));
        let before = &told[..moved.unwrap_or(0)];
        before.iter().any(|pin| !pin.same_place(&row.was))
    }

    fn move_head(&mut self, head: GroupHead<Incarnation>) {
        let ids: BTreeSet<AssetId> = self
            .all
            .values()
            .flat_map(|of| of.snapshot().iter())
            .map(|asset| asset.id())
            .collect();
        self.regovern(&ids, |plane| plane.head = Some(head));
    }

    /// Changes what governs assets. Governed assets keep their content; those that leave every group lose their pins.
    fn regovern<'a>(
        &mut self,
        ids: impl IntoIterator<Item = &'a AssetId>,
        change: impl FnOnce(&mut Self),
    ) {
        let was = |id: &'a AssetId| (id, self.is_governed(id), self.content(id), self.intent(id));
        let was: Vec<_> = ids.into_iter().map(was).collect();
        change(self);
        for (id, governed, content, intent) in was {
            let pinned = self.pins.contains_key(id);
            match self.is_governed(id) {
                true if pinned || self.follows(id) => {}
                true if self.content(id) != content => self.keep_in_place(id, intent),
                false if pinned && governed => {
                    self.pins.remove(id);
                    // A kernel that is told too late uses the pin that the asset had from the group.
                    self.lost.insert(id.clone());
                    self.forward.retain(|(_, other)| other != id);
                    self.found.remove(id);
                    self.tell(id);
                }
                _ => {}
            }
        }
    }

    /// R17, R22: checks that no asset moves forward twice in one rollout, or to quarantined content.
    fn audit(&mut self, id: &AssetId, goes: Pin) {
        let row = self.rows.get(id);
        let (Pin::At(no, Cause::Intent), Some(row)) = (goes, row) else {
            return;
        };
        let rollout = row.rollout;
        let to = row.to.unwrap_or(self.rollouts[&rollout].to);
        if row.back_at.is_some() || to != no {
            return;
        }
        let content = self.all[&no].asset(id).map(|asset| asset.digest());
        let failed = self
            .quarantine
            .get(id)
            .filter(|failed| content.is_some_and(|content| failed.has(content, None)));
        assert!(failed.is_none(), "{id} is moved to quarantined content");
        if self.is_governed(id) {
            let before = self.content(id);
            self.was.entry(id.clone()).or_insert(before);
        } else {
            // The asset left while its pin was being moved: it has no previous content from the group.
            self.lost.insert(id.clone());
        }
        let first = self.forward.insert((rollout, id.clone()));
        assert!(first, "{id} is moved twice");
    }

    fn move_pin(&mut self, id: &AssetId, goes: Pin) {
        let before = self.content(id);
        if goes != Pin::Default && !self.is_governed(id) {
            self.pins.remove(id);
            self.found.remove(id);
            self.forward.retain(|(_, other)| other != id);
            let standing = self.standing(id);
            return self.feed.push_back(Fed::Stands(id.clone(), standing));
        }
        if goes == Pin::Default {
            let Some(pin) = self.pins.remove(id) else {
                return;
            };
            if self.is_governed(id) && !self.follows(id) && self.content(id) != before {
                self.pins.insert(id.clone(), pin);
            } else {
                self.found.remove(id);
            }
            return self.tell(id);
        }
        let known = |no| self.all.contains_key(&no);
        assert!(goes.incarnation().is_none_or(known));
        self.pins.insert(id.clone(), goes);
        let since = self.now;
        let state = match self.content(id) {
            None => SyncState::InSync { since },
            Some(_) => out_of_sync(since, &[]),
        };
        self.found.insert(id.clone(), state);
        self.tell(id);
        self.restless.push(id.clone());
    }

    /// An operator removes a pin by hand.
    pub(super) fn unpin(&mut self, id: &AssetId) {
        self.pins.remove(id);
        self.forward.retain(|(_, other)| other != id);
        self.tell(id);
    }

    /// Pushes an asset and reports the diff that follows.
    pub(super) fn settle(&mut self, id: &AssetId) {
        let Some(content) = self.content(id) else {
            return;
        };
        let same = self.production.insert(id.clone(), content) == Some(content);
        let since = self.now;
        let news = SyncState::InSync { since };
        let known = matches!(self.found.get(id), Some(SyncState::InSync { .. }));
        if self.pins.contains_key(id) && !(same && known) {
            self.found.insert(id.clone(), news);
            self.tell(id);
        }
    }

    pub(super) fn drift(&mut self, id: &AssetId) {
        self.production.remove(id);
        if self.pins.contains_key(id) && self.content(id).is_some() {
            let since = self.now;
            self.found.insert(id.clone(), out_of_sync(since, &[]));
            self.tell(id);
            self.restless.push(id.clone());
        }
    }

    /// Checks delay the push of an asset until these assets have settled.
    pub(super) fn delay(&mut self, id: &AssetId, waits_for: &[&AssetId]) {
        self.found
            .insert(id.clone(), out_of_sync(self.now, waits_for));
        self.tell(id);
    }

    /// An operator or a check holds the push of an asset.
    pub(super) fn hold(&mut self, id: &AssetId, because: &str) {
        let mut state = out_of_sync(self.now, &[]);
        if let SyncState::OutOfSync {
            why, awaits_person, ..
        } = &mut state
        {
            (*why, *awaits_person) = (Some(because.to_owned()), true);
        }
        self.found.insert(id.clone(), state);
        self.tell(id);
    }

    pub(super) fn is_pushed(&self, id: &AssetId) -> bool {
        self.pins.contains_key(id)
            && matches!(self.found.get(id), Some(SyncState::OutOfSync { .. }))
    }

    pub(super) fn fail_push(&mut self, id: &AssetId) {
        let why = "it crashes".to_owned();
        self.found.insert(id.clone(), SyncState::Unhealthy { why });
        self.tell(id);
        self.restless.push(id.clone());
    }

    pub(super) fn newest(&self) -> Option<&Rollout> {
        self.rollouts.values().next_back()
    }
}

fn out_of_sync(since: Timestamp, waits_for: &[&AssetId]) -> SyncState {
    SyncState::OutOfSync {
        since,
        waits_for: waits_for.iter().copied().cloned().collect(),
        why: None,
        awaits_person: false,
    }
}
