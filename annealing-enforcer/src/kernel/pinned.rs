//! Findings about assets with a pin of their own, for the readers of feeds that follow all of these. Only a diff that
//! started after the pin moved shows that an asset is in sync there (R20).

use plugin_sdk::{Delay, Now, Recheck, Standing, SyncState};
use prodspec_model::AssetId;

use super::{
    Kernel,
    event::{Effects, News},
    state::{attempt::Phase, numbers::SlotNo, pins::Stand, slot::flag},
};
use crate::bug::Bug;

/// Maximum number of blockers reported per asset. Further ones follow once these have settled.
const TOLD: usize = 64;

impl Kernel {
    /// Starts anew after the strategist moved the asset's pin: earlier findings do not count.
    pub(super) fn restart_stand(&mut self, now: Now, slot: SlotNo) {
        if self.table.is_pinned(slot) {
            let entry = self.table.slot(slot);
            // Without an intent there is nothing to diff.
            let nothing = !self.table.has_intent(slot) && !entry.in_flight();
            let old = entry.has(flag::IN_SYNC) && self.planted(Bug::SettledBeforePin);
            let stand = Stand {
                after: entry.n,
                confirmed: nothing,
                state: if nothing || old {
                    SyncState::InSync { since: now.wall }
                } else {
                    SyncState::out_of_sync(now.wall)
                },
                unhealthy: None,
            };
            self.pins.put(slot, stand);
        } else if !self.pins.forget(slot) {
            return;
        }
        self.report_pinned(slot);
    }

    /// Keeps the findings after the kernel itself pinned the asset where it was.
    pub(super) fn keep_stand(&mut self, now: Now, slot: SlotNo) {
        let entry = self.table.slot(slot);
        let confirmed = entry.has(flag::IN_SYNC) || !self.table.has_intent(slot);
        let since = now.wall;
        let stand = Stand {
            after: entry.n.wrapping_sub(1),
            confirmed,
            state: match confirmed {
                true => SyncState::InSync { since },
                false => SyncState::out_of_sync(since),
            },
            unhealthy: None,
        };
        self.pins.put(slot, stand);
        self.report_pinned(slot);
    }

    /// Notes that a diff found the asset in sync. Returns whether that confirms a moved pin.
    pub(super) fn report_in_sync(&mut self, now: Now, slot: SlotNo) -> bool {
        if self.pins.is_empty() {
            return false;
        }
        let at = self.table.slot(slot).attempt;
        let run = self.attempts.at(at).map(|it| it.run);
        let planted = self.planted(Bug::SettledBeforePin);
        let Some(stand) = self.pins.of_mut(slot) else {
            return false;
        };
        let after = |run: u32| run.wrapping_sub(stand.after).cast_signed() > 0;
        if !planted && !stand.confirmed && !run.is_some_and(after) {
            return false;
        }
        let news = !std::mem::replace(&mut stand.confirmed, true);
        if !stand.state.is_in_sync() {
            stand.state = SyncState::InSync { since: now.wall };
            self.report_pinned(slot);
        }
        news
    }

    /// Confirms the pin of an asset without an intent and without a push in flight: there is nothing to diff.
    pub(super) fn report_not_enforced(&mut self, now: Now, slot: SlotNo) {
        let Some(stand) = self.pins.of_mut(slot) else {
            return;
        };
        stand.confirmed = true;
        if !stand.state.is_in_sync() {
            stand.state = SyncState::InSync { since: now.wall };
            self.report_pinned(slot);
        }
    }

    pub(super) fn report_out_of_sync(&mut self, now: Now, slot: SlotNo) {
        if let Some(stand) = self.pins.of_mut(slot)
            && stand.state.is_in_sync()
        {
            stand.state = SyncState::out_of_sync(now.wall);
            self.report_pinned(slot);
        }
    }

    /// Notes the assets for which the checks make the asset wait: none if it may be pushed.
    pub(super) fn report_waiting(&mut self, slot: SlotNo, delays: &[Delay]) {
        let Some(stand) = self.pins.of_mut(slot) else {
            return;
        };
        let SyncState::OutOfSync {
            waits_for,
            why,
            awaits_person,
            ..
        } = &mut stand.state
        else {
            return;
        };
        let (named, held) = held_by(delays);
        let was_held = std::mem::take(awaits_person);
        if *waits_for != named || *why != held || was_held {
            (*waits_for, *why) = (named, held);
            self.report_pinned(slot);
        }
    }

    /// Notes that an operator has to act before the asset is pushed.
    pub(super) fn report_held(&mut self, slot: SlotNo, because: &str) {
        let Some(stand) = self.pins.of_mut(slot) else {
            return;
        };
        let SyncState::OutOfSync {
            why, awaits_person, ..
        } = &mut stand.state
        else {
            return;
        };
        if why.as_deref() != Some(because) || !*awaits_person {
            (*why, *awaits_person) = (Some(because.to_owned()), true);
            self.report_pinned(slot);
        }
    }

    /// Notes that the asset's own health check failed a push to its present pin. That is recorded, because a later diff
    /// in sync says nothing about health.
    pub(super) fn report_unhealthy(
        &mut self,
        now: Now,
        slot: SlotNo,
        why: String,
        out: &mut Effects,
    ) {
        let entry = self.table.slot(slot);
        let moved = |it: &super::state::attempt::Attempt| it.pin != entry.pin;
        if self.attempts.at(entry.attempt).is_none_or(moved) {
            return;
        }
        if let Some(stand) = self.pins.of_mut(slot) {
            stand.unhealthy = Some(why.clone());
            stand.state = SyncState::Unhealthy { why };
            self.report_pinned(slot);
            self.remember(now, slot, out);
        }
    }

    /// Forgets the health of the former push, as another one begins.
    pub(super) fn forget_unhealthy(&mut self, slot: SlotNo) {
        if let Some(stand) = self.pins.of_mut(slot) {
            stand.unhealthy = None;
        }
    }

    pub(super) fn unhealthy(&self, slot: SlotNo) -> Option<&String> {
        self.pins.of(slot)?.unhealthy.as_ref()
    }

    /// Whether a moved pin needs a diff that no call under way will bring.
    pub(super) fn awaits_look(&self, slot: SlotNo) -> bool {
        let entry = self.table.slot(slot);
        let it = self.attempts.at(entry.attempt);
        let diffing = it.is_some_and(|it| matches!(it.phase, Phase::Diffing));
        (entry.has(flag::IN_SYNC) || diffing) && self.pins.is_confirmed(slot) == Some(false)
    }

    /// Reports the standing of a pinned asset, or of one that has just lost its pin, at the end of the step.
    pub(super) fn report_pinned(&mut self, slot: SlotNo) {
        self.followed.touch(slot);
        if let Some(id) = self.table.id(slot) {
            self.followed.touch_pinned(id);
        }
    }

    /// Reports the touched assets with a pin of their own, as they stand now.
    pub(super) fn tell_pinned(&mut self, now: Now, out: &mut Effects) {
        let touched = self.followed.take_pinned();
        if touched.is_empty() {
            return;
        }
        let standing = |id: AssetId| (id.clone(), self.standing(now, &id));
        let standings = touched.into_iter().map(standing).collect();
        out.feed.push(News::Pinned(standings));
    }

    /// Returns the standings of all assets with a pin of their own.
    pub fn pinned(&self) -> Vec<(AssetId, Standing)> {
        let ids = self.pins.slots().filter_map(|slot| self.table.id(slot));
        let now = self.schedule.now();
        let standing = |id: AssetId| (id.clone(), self.standing(now, &id));
        ids.map(standing).collect()
    }

    /// Returns the same for a new reader. An unhealthy asset is reported as unhealthy first, whatever was found since.
    pub fn follow_pinned(&mut self) -> Vec<(AssetId, Standing)> {
        for slot in self.pins.show_unhealthy() {
            self.followed.touch(slot);
        }
        self.pinned()
    }
}

/// Returns the assets for which checks make an asset wait, and the first other reason.
pub(super) fn held_by(delays: &[Delay]) -> (Vec<AssetId>, Option<String>) {
    let held = |delay: &&Delay| !matches!(delay.recheck, Recheck::WhenSettled(_));
    let held = delays.iter().find(held);
    let held = held.map(|delay| format!("{}: {}", delay.check, delay.reason));
    let named = delays.iter().filter_map(|delay| match &delay.recheck {
        Recheck::WhenSettled(other) => Some(other.clone()),
        _ => None,
    });
    let mut named: Vec<AssetId> = named.collect();
    named.sort();
    named.dedup();
    named.truncate(TOLD);
    (named, held)
}
