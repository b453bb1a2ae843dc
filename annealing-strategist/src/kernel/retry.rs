//! Retries a rollout at the command of an operator: its content is released from quarantine (R22).

use plugin_sdk::{Now, RolloutId};

use super::{Effects, Kernel, Refused, Step};
use crate::record::{By, Failed, State};

impl Kernel {
    /// Retries a rollout: releases its content from quarantine, then continues it or begins a new one.
    pub(super) fn retry(&mut self, now: Now, by: By, out: &mut Effects) -> Result<(), Refused> {
        match (&self.live, self.past.last()) {
            (Some(live), _) => match live.state() {
                State::Stopped { .. } => {
                    let id = live.id();
                    self.forgive(Some(id), out);
                    if let Some(live) = &mut self.live {
                        live.forget_health();
                    }
                    self.say(now, State::Running, "retried", by, out);
                    Ok(())
                }
                State::RollingBack { .. } => self.turn_forward(now, by, out),
                _ => Err(Refused(format!(
                    "{} of `{}` is {}; only a rollout that stopped, is rolling back or was rolled back can be retried",
                    live.id(),
                    self.group.policy(),
                    live.state().word()
                ))),
            },
            (None, Some(last)) if !self.quarantine.is_empty() => {
                let mut last = last.clone();
                let its_own = self.has_failed_in(last.id);
                self.forgive(its_own.then_some(last.id), out);
                last.note(self.clock.at(now), "retry requested", Some(by));
                out.steps.push(last.record().into());
                self.past.keep(last);
                Ok(())
            }
            _ => {
                let nothing = format!("`{}` has nothing to retry", self.group.policy());
                Err(Refused(nothing))
            }
        }
    }

    /// Turns a rollback forward again: a new rollout takes over and remembers where all targets were.
    fn turn_forward(&mut self, now: Now, by: By, out: &mut Effects) -> Result<(), Refused> {
        let id = self.live.as_ref().map(|live| live.id());
        let mut found = self.candidates(self.group.latest(), id);
        self.add_moved(id, &mut found);
        let nothing = found.targets.is_empty();
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            // Targets that were not sent back yet would stay at the failed content.
            if nothing && !live.targets().is_sent_back() {
                let why = "no target can go forward now, and some were not sent back yet; retry when all of them were";
                return Err(Refused(why.to_owned()));
            }
            live.note(at, "retried", Some(by));
        }
        self.forgive(id, out);
        match nothing {
            true => self.went_back(now, out),
            false => self.begin(now, found, out),
        }
        Ok(())
    }

    /// Whether content of the newest incarnation failed in this rollout.
    fn has_failed_in(&self, id: RolloutId) -> bool {
        let mut failed = self.quarantine.failed_in(id, self.group.latest());
        failed.next().is_some()
    }

    /// Releases the content that failed in this rollout, or in any rollout if `id` is `None`.
    fn forgive(&mut self, id: Option<RolloutId>, out: &mut Effects) {
        let mut step = Step::default();
        let ours = |failed: &Failed| id.is_none_or(|id| failed.rollout == id);
        let gone = self.quarantine.release(ours, &mut step.records);
        // The targets of a live rollout are fixed already.
        if self.live.is_none() {
            self.pending.add(gone.iter().cloned());
        }
        self.pending.look();
        out.steps.push(step);
        self.let_go(&gone, out);
    }
}
