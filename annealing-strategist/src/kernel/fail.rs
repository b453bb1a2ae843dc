//! R22: a rollout fails or is stopped: what happens to it and to its content.

use plugin_sdk::{Cause, Now};
use prodspec_model::{AssetId, rollout::OnUnhealthy};

use super::{Bug, Effects, Kernel, Record, Step, planted};
use crate::record::{By, Failed, State};

impl Kernel {
    /// The updated targets are unhealthy: rolls back or stops, as the policy says.
    pub(super) fn fail(&mut self, now: Now, why: String, out: &mut Effects) {
        let policy = self.group.rollout_policy().unwrap_or_default();
        match policy.on_unhealthy {
            OnUnhealthy::RollBack => self.roll_back(now, why, None, out),
            OnUnhealthy::Stop => self.stop(now, why, None, out),
        }
    }

    /// R22: continues a first turnup at once without the target whose push is unhealthy. That target stops, and its
    /// content is quarantined.
    pub(super) fn leave_behind(&mut self, now: Now, place: usize, why: String, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        let asset = live.leave_behind(place);
        live.note(at, format!("continues without `{asset}`: {why}"), None);
        let (rollout, content) = (
            live.id(),
            live.contents().asset(&asset).map(|it| it.digest()),
        );
        let mut step = Step::default();
        if let Some(content) = content {
            let reached = true;
            let failed = Failed {
                rollout,
                to: live.to().no(),
                content,
                reached,
            };
            step.records.push(self.quarantine.add(&asset, failed));
        }
        step.records.push(Record::Target(asset.clone(), None));
        let goes = self.group.default_pin(&asset, Cause::Intent);
        self.pin(now, &asset, goes, &mut step);
        self.close_anew();
        if let Some(live) = &mut self.live {
            live.selecting.look_again(true);
            step.records.push(live.record());
        }
        out.steps.push(step);
    }

    /// Computes the closure again after the targets, and so their places, have changed.
    pub(super) fn close_anew(&mut self) {
        let Some(live) = &self.live else { return };
        let before = |id: &AssetId| {
            let place = live.targets().place(id);
            let row = place.and_then(|place| live.targets().row(place));
            row.map_or_else(|| self.before(id), |row| self.held_to(row.was, id))
        };
        let closure = self.closure(live.targets().all(), before, live.contents());
        if let Some(live) = &mut self.live {
            live.targets_mut().set_closure(closure);
        }
    }

    /// Stops the rollout: nothing moves until an operator gives a command or newer intent arrives.
    pub(super) fn stop(&mut self, now: Now, why: String, by: Option<By>, out: &mut Effects) {
        let failed = by.is_none();
        self.turn(now, State::Stopped { why }, by, failed, out);
    }

    /// Stops the rollout without quarantining its content, because it has not failed.
    pub(super) fn halt(&mut self, now: Now, why: String, out: &mut Effects) {
        self.turn(now, State::Stopped { why }, None, false, out);
    }

    pub(super) fn turn(
        &mut self,
        now: Now,
        mut state: State,
        by: Option<By>,
        failed: bool,
        out: &mut Effects,
    ) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        state.shorten();
        let what = state.to_string();
        live.enter(at, state, what, by);
        let record = live.record();
        let mut step = Step::default();
        if failed && !planted(Bug::NoQuarantine) {
            self.quarantine_all(&mut step);
        }
        step.records.push(record);
        self.pending.look();
        out.steps.push(step);
    }

    /// Quarantines all content of the rollout. That of targets that it has not reached only waits for a fix.
    fn quarantine_all(&mut self, step: &mut Step) {
        let Some(live) = &self.live else { return };
        let (rollout, targets, to) = (
            live.id(),
            live.targets().all().clone(),
            live.contents().clone(),
        );
        let reached = live.reached();
        for (place, target) in (0..).zip(targets.iter()) {
            let Some(asset) = to.asset(&target.asset) else {
                continue;
            };
            let failed = Failed {
                rollout,
                to: to.no(),
                content: asset.digest(),
                reached: reached.binary_search(&place).is_ok(),
            };
            step.records.push(self.quarantine.add(&asset.id(), failed));
        }
    }
}
