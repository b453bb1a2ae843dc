//! Standings of followed assets: what the kernel knows of an asset, as data for engines beside the ownership.

use plugin_sdk::{Now, Relation, Standing, SyncState, standing::Reason};
use prodspec_model::{AssetId, Incarnation, addons::Moved};

use super::{
    Kernel,
    event::{Effects, News},
    pinned::held_by,
    state::{
        attempt::{Phase, Wait},
        numbers::SlotNo,
        slot::flag,
    },
};

impl Kernel {
    /// Follows an asset: from now on, [`News::Followed`] reports it when its standing has changed. Returns its present
    /// standing. The asset need not exist. Followed several times, it has to be unfollowed as often.
    pub fn follow(&mut self, id: &AssetId) -> Standing {
        let slot = self.table.find(id.as_str());
        self.followed.follow(id, slot);
        let standing = self.standing(self.schedule.now(), id);
        // Other followers are told of news at the end of a step.
        if self.followed.told(id).is_none() {
            self.followed.tell(id, standing.clone());
        }
        standing
    }

    /// Ends one call of [`Kernel::follow`].
    pub fn unfollow(&mut self, id: &AssetId) {
        self.followed.unfollow(id);
    }

    /// Reports the followed assets whose standing this step has changed.
    pub(super) fn tell_followed(&mut self, now: Now, out: &mut Effects) {
        let mut news = Vec::new();
        for id in self.followed.take_touched() {
            let standing = self.standing(now, &id);
            let told = self.followed.told(&id);
            if told.is_none_or(|told| !told.same_as(&standing)) {
                self.followed.tell(&id, standing.clone());
                news.push((id, standing));
            }
        }
        if !news.is_empty() {
            out.feed.push(News::Followed(news));
        }
    }

    /// Returns the standing of an asset, as a change of what was told before.
    pub(super) fn standing(&self, now: Now, id: &AssetId) -> Standing {
        let mut standing = self.standing_now(now, id);
        if let Some(told) = self.followed.told(id) {
            let slot = self.table.find(id.as_str());
            let is_pinned = slot.is_some_and(|slot| self.pins.of(slot).is_some());
            carry_over(told, &mut standing, is_pinned);
        }
        standing
    }

    fn standing_now(&self, now: Now, id: &AssetId) -> Standing {
        #[cfg(test)]
        STANDINGS.set(STANDINGS.get() + 1);
        match self.table.find(id.as_str()) {
            Some(slot) => self.standing_of(now, slot, id),
            None => self.standing_without_slot(now, id),
        }
    }

    /// The standing of an asset that is not enforced, or that enforcement does not know.
    fn standing_without_slot(&self, now: Now, id: &AssetId) -> Standing {
        let nothing = SyncState::InSync { since: now.wall };
        let asset = self.table.latest().asset(id);
        let relation = match asset {
            Some(_) => Relation::ModelledOnly,
            None => Relation::Absent,
        };
        let mut standing = Standing::new(relation, nothing);
        standing.pin = self.pins.early_of(id);
        standing.moved_to = self.moved_to(id);
        standing.content = asset.map(|asset| asset.digest());
        standing
    }

    fn standing_of(&self, now: Now, slot: SlotNo, id: &AssetId) -> Standing {
        let intent = self.table.intent(slot);
        let content = match &intent {
            Some((asset, _)) => Some(asset.digest()),
            None => self.table.content(slot),
        };
        let in_flight = self.table.slot(slot).in_flight();
        let relation = match (&intent, content) {
            (Some(_), _) => Relation::Enforced,
            (None, Some(_)) if !in_flight => Relation::ModelledOnly,
            _ => Relation::LeftAlone,
        };
        let state = match self.pins.of(slot) {
            Some(stand) => stand.state.clone(),
            None if intent.is_some() => self.own_state(now, slot),
            None => SyncState::InSync { since: now.wall },
        };
        let mut standing = Standing::new(relation, state);
        standing.pin = self.table.pin_of(slot).by_number();
        standing.content = content;
        standing.is_behind = self.census.is_behind(slot);
        if let Some((_, incarnation)) = intent {
            let settled = self.table.is_settled(slot) && !self.counts_as_unsettled(slot);
            let settled = settled && standing.state.is_in_sync();
            standing.reason = (!settled).then(|| self.own_reason(slot));
            let reached = self.table.slot(slot).has(flag::REACHED);
            standing.in_sync_at = reached.then(|| incarnation.no());
        }
        if relation == Relation::LeftAlone {
            standing.moved_to = self.moved_to(id);
        }
        standing
    }

    /// The state of an enforced asset without a pin of its own.
    fn own_state(&self, now: Now, slot: SlotNo) -> SyncState {
        let since = now.wall;
        if self.table.is_settled(slot) {
            return SyncState::InSync { since };
        }
        let it = self.attempts.at(self.table.slot(slot).attempt);
        let phase = it.map(|it| &it.phase);
        let awaits_person = matches!(phase, Some(Phase::Waiting(Wait::Held(_))));
        let (waits_for, why) = match it.map(|it| (&it.phase, it.unhealthy)) {
            Some((Phase::Waiting(Wait::Backoff(why)), true)) => {
                let why = why.clone();
                return SyncState::Unhealthy { why };
            }
            Some((Phase::Waiting(Wait::Delayed(delays, _)), _)) => held_by(delays),
            Some((
                Phase::Waiting(Wait::Backoff(why) | Wait::NotConverging(why) | Wait::Held(why)),
                _,
            )) => (Vec::new(), Some(why.clone())),
            Some((Phase::Waiting(Wait::Parked { why, .. }), _)) => (Vec::new(), Some(why.clone())),
            _ => (Vec::new(), None),
        };
        SyncState::OutOfSync {
            since,
            waits_for,
            why,
            awaits_person,
        }
    }

    /// The reason why an asset is not settled, without what holds all assets of its type or of the partition.
    pub(super) fn own_reason(&self, slot: SlotNo) -> Reason {
        let Some(it) = self.attempts.at(self.table.slot(slot).attempt) else {
            return Reason::Looking;
        };
        match &it.phase {
            _ if self.is_unknown(it) => Reason::UnknownPush,
            Phase::Journaling(_) | Phase::Pushing | Phase::Continuing => Reason::UnderWay,
            Phase::Waiting(Wait::InProgress) => Reason::UnderWay,
            Phase::Waiting(Wait::Lease) => Reason::Ownership,
            Phase::Waiting(Wait::Held(_)) => Reason::Held,
            Phase::Waiting(Wait::Backoff(_)) => Reason::Failed,
            Phase::Waiting(Wait::NotConverging(_)) => Reason::NotConverging,
            Phase::Waiting(Wait::Delayed(..)) => Reason::Delayed,
            Phase::Waiting(Wait::Parked { .. }) => Reason::Others,
            _ => Reason::Looking,
        }
    }

    /// R49: notes that assets may have changed of which a changed asset says, or said, that it continues them.
    pub(super) fn touch_old_ids(&mut self, older: &Incarnation, newer: &Incarnation) {
        if self.followed.is_empty() {
            return;
        }
        let (older, newer) = (older.snapshot(), newer.snapshot());
        let changes = older.diff_locations(newer).into_iter();
        for place in changes.filter(|place| place.changed) {
            let before = place.before.and_then(|at| older.at(at));
            let after = place.after.and_then(|at| newer.at(at));
            for asset in before.into_iter().chain(after) {
                if let Some(from) = Moved::source_of(&asset) {
                    self.followed.touch_id(from.as_str());
                }
            }
        }
    }

    /// R49: the id under which an asset continues that the newest incarnation does not have.
    fn moved_to(&self, id: &AssetId) -> Option<AssetId> {
        let newest = self.table.latest().snapshot();
        let successor = Moved::successor(newest, id.as_str());
        successor
            .filter(|_| newest.get(id.as_str()).is_none())
            .map(|asset| asset.id())
    }
}

/// Carries over what the kernel does not keep: since when an asset without a pin of its own is in its state, and the id
/// under which a renamed asset continues after its addon was removed.
fn carry_over(told: &Standing, new: &mut Standing, is_pinned: bool) {
    use SyncState::{InSync, OutOfSync};
    match (&told.state, &mut new.state) {
        (InSync { since: then }, InSync { since })
        | (OutOfSync { since: then, .. }, OutOfSync { since, .. })
            if !is_pinned =>
        {
            *since = *then;
        }
        _ => {}
    }
    if matches!(new.relation, Relation::LeftAlone | Relation::Absent) {
        new.moved_to = new.moved_to.take().or_else(|| told.moved_to.clone());
    }
}

#[cfg(test)]
thread_local! {
    /// Number of standings that this thread computed.
    pub(crate) static STANDINGS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
