//! R21: measures the time for which the live rollout is watched, and stores it.

use plugin_sdk::Now;

use super::{Effects, Kernel, Record};

impl Kernel {
    /// Advances the watched time of the live rollout.
    pub(super) fn watch(&mut self, now: Now) {
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            live.watched_until(at);
        }
    }

    /// R21: stores the watched time at intervals, so that the next owner continues bakes from there.
    pub(super) fn remember_time(&mut self, now: Now, out: &mut Effects) {
        let flagged = self.until_flagged().map(|wait| now.mono + wait);
        let Some(live) = &mut self.live else { return };
        live.watch.flag_at(flagged);
        if !live.is_timed() {
            return;
        }
        let id = live.id();
        let is = |record: &Record| matches!(record, Record::Rollout(it) if it.id == id);
        let written = out.steps.iter().flat_map(|step| &step.records).any(is);
        let every = self.config.remember_every;
        if live.watch.remember(now.mono, every, written) {
            out.steps.push(live.record().into());
        }
    }
}
