//! Commands of operators to a rollout, each with the operator and a reason, and the answers to commands that do not
//! fit.

use plugin_sdk::{Now, RolloutId};
use serde::{Deserialize, Serialize};

use super::{Effects, Kernel, Step};
use crate::record::{By, Failed, State};

/// A command of an operator to the live rollout of a policy group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// Select no more targets. Pushes under way continue, and health is still checked.
    Pause,
    /// Continue a rollout that was paused.
    Resume,
    /// Let the targets that have settled so far pass their gates, baked or not, even if health is unknown.
    Promote,
    /// Stop the rollout and leave all targets where they are.
    Abort,
    /// Retry a rollout that has stopped, is rolling back, or was rolled back: its content is released from
    /// quarantine. If no content of the newest incarnation failed in the last rollout, the content of all earlier
    /// ones is released instead.
    Retry,
    /// Roll back all targets that have moved.
    RollBack,
}

/// Why a command has no effect: a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

impl Kernel {
    pub(super) fn person(
        &mut self,
        now: Now,
        command: Command,
        by: By,
        reply: u64,
        out: &mut Effects,
    ) {
        let answer = self.obey(now, command, by, out);
        out.replies.push((reply, answer));
    }

    fn obey(
        &mut self,
        now: Now,
        command: Command,
        by: By,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        if command == Command::Retry {
            return self.retry(now, by, out);
        }
        let Some(live) = &self.live else {
            return Err(Refused(format!(
                "`{}` has no rollout under way",
                self.policy
            )));
        };
        let state = &live.rollout.state;
        let (id, word) = (live.rollout.id, state.word());
        let fits = match command {
            Command::Pause | Command::Promote => *state == State::Running,
            Command::Resume => *state == State::Paused,
            Command::Abort => matches!(state, State::Running | State::Paused),
            _ => !matches!(state, State::RollingBack { .. }),
        };
        if !fits {
            return Err(Refused(format!("{id} of `{}` is {word}", self.policy)));
        }
        let said = format!("{} says: {}", by.who, by.why);
        match command {
            Command::Pause => self.say(now, State::Paused, "paused", by, out),
            Command::Resume => self.say(now, State::Running, "resumed", by, out),
            Command::Promote => {
                if let Some(live) = &mut self.live {
                    live.rollout.promoted = Some(live.order);
                }
                self.say(now, State::Running, "promoted", by, out);
            }
            Command::Abort => self.stop(now, said, Some(by), out),
            Command::RollBack | Command::Retry => self.roll_back(now, said, Some(by), out),
        }
        Ok(())
    }

    fn say(&mut self, now: Now, state: State, what: &str, by: By, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        live.rollout.state = state;
        live.rollout.note(at, what, Some(by));
        live.look_again(true);
        out.steps.push(live.rollout.record().into());
    }

    /// Retries a rollout: releases its content from quarantine, then continues it or begins a new one.
    fn retry(&mut self, now: Now, by: By, out: &mut Effects) -> Result<(), Refused> {
        match (&self.live, &self.last) {
            (Some(live), _) => match live.rollout.state {
                State::Stopped { .. } => {
                    let id = live.rollout.id;
                    self.forgive(Some(id), out);
                    if let Some(live) = &mut self.live {
                        (live.rollout.health, live.rollout.unknown) = (None, None);
                        // The health check under way was asked for before the retry.
                        (live.judging, live.judge_at) = (None, None);
                    }
                    self.say(now, State::Running, "retried", by, out);
                    Ok(())
                }
                State::RollingBack { .. } => self.turn_forward(now, by, out),
                _ => Err(Refused(format!(
                    "{} of `{}` is {}; only a rollout that stopped, is rolling back or was rolled back can be retried",
                    live.rollout.id,
                    self.policy,
                    live.rollout.state.word()
                ))),
            },
            (None, Some(last)) if !self.quarantine.is_empty() => {
                let mut last = last.clone();
                let its_own = self.has_failed_in(last.id);
                self.forgive(its_own.then_some(last.id), out);
                last.note(self.clock.at(now), "retry requested", Some(by));
                out.steps.push(last.record().into());
                self.last = Some(last);
                Ok(())
            }
            _ => {
                let nothing = format!("`{}` has nothing to retry", self.policy);
                Err(Refused(nothing))
            }
        }
    }

    /// Turns a rollback forward again: a new rollout takes over and remembers where all targets were.
    fn turn_forward(&mut self, now: Now, by: By, out: &mut Effects) -> Result<(), Refused> {
        let id = self.live.as_ref().map(|live| live.rollout.id);
        let mut found = self.candidates(&self.latest, id);
        self.add_moved(id, &mut found);
        let nothing = found.targets.is_empty();
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            // Targets that were not sent back yet would stay at the failed content.
            if nothing && !live.is_sent_back() {
                let why = "no target can go forward now, and some were not sent back yet; retry when all of them were";
                return Err(Refused(why.to_owned()));
            }
            live.rollout.note(at, "retried", Some(by));
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
        let mut all = self.quarantine.iter();
        all.any(|(asset, it)| {
            let newest = self.latest.asset(asset);
            newest.is_some_and(|newest| it.failed_in(id, newest.digest()))
        })
    }

    /// Releases the content that failed in this rollout, or in any rollout if `id` is `None`.
    fn forgive(&mut self, id: Option<RolloutId>, out: &mut Effects) {
        let mut step = Step::default();
        let ours = |failed: &Failed| id.is_none_or(|id| failed.rollout == id);
        let gone = self.release_content(ours, &mut step);
        // The targets of a live rollout are fixed already.
        if self.live.is_none() {
            self.pending.extend(gone.iter().cloned());
        }
        self.look = true;
        out.steps.push(step);
        self.let_go(&gone, out);
    }
}
