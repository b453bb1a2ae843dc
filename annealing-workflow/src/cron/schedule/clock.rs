//! What a wall clock that goes back means for a schedule.

use jiff::Timestamp;

use super::{SECOND, Schedule};

impl Schedule {
    /// Corrects the state if `now` is before the time of the last decision. The clock ran ahead then, or it is behind
    /// now, which nothing here can tell: slots that it closed are open again at their time, and started ones stay
    /// started.
    pub(super) fn correct(&mut self, now: Timestamp) {
        if now < self.record.decided_at {
            // Edits and pauses have happened by now, whatever the clock said.
            self.record.from = self.record.from.min(now);
            let before_newest = self.slots.newest_by(now).map(|slot| slot - SECOND);
            // Among what is forgotten could be the newest slot. Later ones open at their time.
            let forgotten = self.record.started.forgotten.map(|slot| slot.min(now));
            let reopened = before_newest
                .max(forgotten)
                .map_or(self.record.from, |at| at.max(self.record.from));
            self.move_to(reopened.min(self.record.closed_to), now);
        }
        if let Some(paused) = self.record.paused.as_mut().filter(|it| now < it.since) {
            // The pause began before `now`: what has opened by now fell into it, as far as can be told.
            paused.since = now;
            self.record.from = now;
            self.close(now, now);
        }
    }
}
