//! R21: flags a stage without progress after its deadline, and stops it or rolls it back if the policy says so.

use std::time::Duration;

use plugin_sdk::{Now, Until};
use prodspec_model::rollout::OnStall;

use super::{Effects, Kernel, live::Live};
use crate::record::{Lasting, State};

/// Deadline of a policy that sets none: 30 minutes.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

impl Kernel {
    /// Measures the time without a move or a settling, and flags the rollout when it is too long.
    pub(super) fn look_at_progress(&mut self, now: Now, out: &mut Effects) {
        let deadline = self.stall_deadline();
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        let watched = live.rollout.watched;
        if !live.should_get_on(at) {
            live.rollout.idle = None;
            return;
        }
        let began = Lasting {
            since: watched,
            flagged: false,
        };
        let idle = live.rollout.idle.get_or_insert(began);
        if idle.flagged || watched.saturating_sub(idle.since) < deadline {
            return;
        }
        idle.flagged = true;
        let minutes = deadline.as_secs().div_ceil(60);
        let why = format!("nothing has moved or settled for {minutes} min");
        live.rollout.note(at, why.clone(), None);
        self.act_on_stall(now, why, out);
    }

    /// Acts as the policy says. A rollback is only flagged: it has nowhere else to go. The flag is stored in the step
    /// that acts: a restart between two steps would lose the action.
    fn act_on_stall(&mut self, now: Now, why: String, out: &mut Effects) {
        let Some(live) = &self.live else { return };
        let policy = self.policy().unwrap_or_default();
        match policy.on_stall {
            _ if live.back.is_some() => out.steps.push(live.rollout.record().into()),
            OnStall::Flag => out.steps.push(live.rollout.record().into()),
            OnStall::Stop => self.halt(now, why, out),
            OnStall::RollBack => self.roll_back(now, why, None, out),
        }
    }

    fn stall_deadline(&self) -> Duration {
        let said = self.policy().ok().and_then(|policy| policy.progress_secs);
        said.map_or(DEADLINE, Duration::from_secs)
    }

    /// Returns the time until the live rollout is flagged. `None`: it makes progress, or was flagged.
    pub(super) fn until_flagged(&self) -> Option<Duration> {
        let rollout = &self.live.as_ref()?.rollout;
        let idle = rollout.idle.filter(|idle| !idle.flagged)?;
        let gone = rollout.watched.saturating_sub(idle.since);
        Some(self.stall_deadline().saturating_sub(gone))
    }
}

impl Live {
    /// Whether a target should move or settle: the rollout waits neither for a time nor for an operator.
    fn should_get_on(&self, now: jiff::Timestamp) -> bool {
        let waits = |until: &Until| match until {
            Until::Time(time) => *time > now,
            Until::Person => true,
            _ => false,
        };
        let mut waits_for = self.selection.waits.iter().map(|wait| wait.until);
        let moves = matches!(
            self.rollout.state,
            State::Running | State::RollingBack { .. }
        );
        moves && !waits_for.any(|until| waits(&until))
    }
}
