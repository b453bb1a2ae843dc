//! What people may say to a rollout, each with who and why, and what is answered when it does not fit.

use plugin_sdk::{Now, RolloutId};
use serde::{Deserialize, Serialize};

use super::{Effects, Kernel, Record, Step};
use crate::record::{By, State};

/// A person's word on the group's rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// Select nothing more. Pushes under way go on; health is still watched.
    Pause,
    /// Go on after a pause.
    Resume,
    /// What has settled so far may go on, baked or not, though health be unknown.
    Promote,
    /// Stop for good, and leave everything where it is.
    Abort,
    /// Try again what stopped, goes back or was rolled back: its content is forgiven. That of rollouts before it is when
    /// nothing that is intended failed in the last one.
    Retry,
    /// Everything that moved goes back.
    RollBack,
}

/// Why a word has no effect.
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

    /// What failed is forgiven: the rollout goes on, or begins anew.
    fn retry(&mut self, now: Now, by: By, out: &mut Effects) -> Result<(), Refused> {
        match (&self.live, &self.last) {
            (Some(live), _) => match live.rollout.state {
                State::Stopped { .. } => {
                    let id = live.rollout.id;
                    self.forgive(Some(id), out);
                    if let Some(live) = &mut self.live {
                        (live.rollout.health, live.rollout.unknown) = (None, None);
                        // What is being looked at was asked for before.
                        (live.judging, live.judge_at) = (None, None);
                    }
                    self.say(now, State::Running, "tried again", by, out);
                    Ok(())
                }
                State::RollingBack { .. } => self.turn_forward(now, by, out),
                _ => Err(Refused(format!(
                    "{} of `{}` is {}; only what stopped, goes back or was rolled back is tried again",
                    live.rollout.id,
                    self.policy,
                    live.rollout.state.word()
                ))),
            },
            (None, Some(last)) if !self.quarantine.is_empty() => {
                let mut last = last.clone();
                let its_own = self.has_failed_in(last.id);
                self.forgive(its_own.then_some(last.id), out);
                last.note(self.clock.at(now), "to be tried again", Some(by));
                out.steps.push(last.record().into());
                self.last = Some(last);
                Ok(())
            }
            _ => {
                let nothing = format!("`{}` has nothing to try again", self.policy);
                Err(Refused(nothing))
            }
        }
    }

    /// What is on its way back, or waits for that, goes forward again: a new rollout takes over, and remembers where
    /// everything was.
    fn turn_forward(&mut self, now: Now, by: By, out: &mut Effects) -> Result<(), Refused> {
        let id = self.live.as_ref().map(|live| live.rollout.id);
        let mut found = self.candidates(&self.latest, id);
        self.add_moved(id, &mut found);
        let nothing = found.targets.is_empty();
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            // What was not sent back yet would stay with what failed.
            if nothing && !live.is_sent_back() {
                let why = "nothing of it can go forward now, and not all of it was sent back yet";
                return Err(Refused(why.to_owned()));
            }
            live.rollout.note(at, "tried again", Some(by));
        }
        self.forgive(id, out);
        match nothing {
            true => self.went_back(now, out),
            false => self.begin(now, found, out),
        }
        Ok(())
    }

    /// Whether anything that is intended failed in this rollout.
    fn has_failed_in(&self, id: RolloutId) -> bool {
        let mut all = self.quarantine.iter();
        all.any(|(asset, it)| {
            let newest = self.latest.asset(asset);
            newest.is_some_and(|newest| it.failed_in(id, newest.digest()))
        })
    }

    /// Content that failed in this rollout, or in any, may be rolled out again.
    fn forgive(&mut self, id: Option<RolloutId>, out: &mut Effects) {
        let mut step = Step::default();
        let over = self.live.is_none();
        let mut gone = Vec::new();
        self.quarantine.retain(|asset, quarantined| {
            let before = quarantined.failed.len();
            quarantined
                .failed
                .retain(|failed| id.is_some_and(|id| failed.rollout != id));
            let left = quarantined.failed.len();
            if left < before {
                let kept = (left > 0).then(|| quarantined.clone());
                step.records.push(Record::Quarantine(asset.clone(), kept));
                gone.push(asset.clone());
                // A rollout under way has its targets already.
                over.then(|| self.pending.insert(asset.clone()));
            }
            left > 0
        });
        self.look = true;
        out.steps.push(step);
        self.let_go(&gone, out);
    }
}
