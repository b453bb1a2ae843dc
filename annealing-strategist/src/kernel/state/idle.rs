//! R21: how long a rollout makes no progress, in its record.

use std::time::Duration;

use crate::record::{Lasting, Rollout};

impl Rollout {
    /// Notes whether the rollout is idle. Returns whether it has been idle for `deadline`, once each time.
    pub(super) fn note_idle(&mut self, is_idle: bool, deadline: Duration) -> bool {
        if !is_idle {
            self.idle = None;
            return false;
        }
        let began = Lasting {
            since: self.watched,
            flagged: false,
        };
        let idle = self.idle.get_or_insert(began);
        let news = !idle.flagged && self.watched.saturating_sub(idle.since) >= deadline;
        idle.flagged |= news;
        news
    }

    /// Returns the time until the rollout is flagged after being idle for `deadline`. `None`: it makes progress, or was
    /// flagged.
    pub(super) fn until_flagged(&self, deadline: Duration) -> Option<Duration> {
        let idle = self.idle.filter(|idle| !idle.flagged)?;
        let gone = self.watched.saturating_sub(idle.since);
        Some(deadline.saturating_sub(gone))
    }
}
