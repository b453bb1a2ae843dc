//! R21: flags a stage without progress after its deadline, and stops it or rolls it back if the policy says so.

use std::time::Duration;

use plugin_sdk::{Now, Until};
use prodspec_model::rollout::OnStall;

use super::{Effects, Kernel, state::live::Live};

/// Deadline of a policy that sets none: 30 minutes.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

impl Kernel {
    /// Measures the time without a move or a settling, and flags the rollout when it is too long.
    pub(super) fn look_at_progress(&mut self, now: Now, out: &mut Effects) {
        let deadline = self.stall_deadline();
        let at = self.clock.at(now);
        let expects = self.expects().is_some();
        let waits = self.waits_for_others();
        let Some(live) = &mut self.live else { return };
        let is_idle = should_get_on(live, at) && !waits;
        if !live.note_idle(is_idle, deadline) {
            return;
        }
        if expects && live.targets().all_settled() {
            // That an asset which came cannot join says nothing against those that are updated.
            return out.steps.push(live.record().into());
        }
        let minutes = deadline.as_secs().div_ceil(60);
        let why = format!("nothing has moved or settled for {minutes} min");
        live.note(at, why.clone(), None);
        self.act_on_stall(now, why, out);
    }

    /// Acts as the policy says. A rollback is only flagged: it has nowhere else to go. The flag is stored in the step
    /// that acts: a restart between two steps would lose the action.
    fn act_on_stall(&mut self, now: Now, why: String, out: &mut Effects) {
        let Some(live) = &self.live else { return };
        let policy = self.group.rollout_policy().unwrap_or_default();
        match policy.on_stall {
            _ if live.is_going_back() => out.steps.push(live.record().into()),
            OnStall::Flag => out.steps.push(live.record().into()),
            OnStall::Stop => self.halt(now, why, out),
            OnStall::RollBack => self.roll_back(now, why, None, out),
        }
    }

    fn stall_deadline(&self) -> Duration {
        let said = self
            .group
            .rollout_policy()
            .ok()
            .and_then(|policy| policy.progress_secs);
        said.map_or(DEADLINE, Duration::from_secs)
    }

    /// Returns the time until the live rollout is flagged. `None`: it makes progress, or was flagged.
    pub(super) fn until_flagged(&self) -> Option<Duration> {
        let live = self.live.as_ref()?;
        live.until_flagged(self.stall_deadline())
    }
}

/// Whether a target should move or settle: the rollout waits neither for a time nor for an operator.
fn should_get_on(live: &Live, now: jiff::Timestamp) -> bool {
    let waits = |until: &Until| match until {
        Until::Time(time) => *time > now,
        Until::Checks { ends, .. } => ends.is_some_and(|time| time > now),
        Until::Person => true,
        _ => false,
    };
    let mut waits_for = live.selecting.waits().iter().map(|wait| wait.until);
    live.is_moving() && !waits_for.any(|until| waits(&until))
}
