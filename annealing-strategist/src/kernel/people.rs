//! Commands of operators to a rollout, each with the operator and a reason, and the answers to commands that do not
//! fit.

use plugin_sdk::Now;
use serde::{Deserialize, Serialize};

use super::{Effects, Kernel, state::live::Live};
use crate::record::{By, State};

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
                self.group.policy()
            )));
        };
        let state = live.state();
        let (id, word) = (live.id(), state.word());
        let fits = match command {
            Command::Pause | Command::Promote => *state == State::Running,
            Command::Resume => *state == State::Paused,
            Command::Abort => matches!(state, State::Running | State::Paused),
            _ => !matches!(state, State::RollingBack { .. }),
        };
        if !fits {
            return Err(Refused(format!(
                "{id} of `{}` is {word}",
                self.group.policy()
            )));
        }
        if let Some(why) = vain(command, live) {
            let policy = self.group.policy();
            return Err(Refused(format!("{id} of `{policy}` {why}")));
        }
        let said = format!("{} says: {}", by.who, by.why);
        match command {
            Command::Pause => self.say(now, State::Paused, "paused", by, out),
            Command::Resume => self.say(now, State::Running, "resumed", by, out),
            Command::Promote => {
                if let Some(live) = &mut self.live {
                    live.promote();
                }
                self.say(now, State::Running, "promoted", by, out);
            }
            Command::Abort => self.stop(now, said, Some(by), out),
            Command::RollBack | Command::Retry => self.roll_back(now, said, Some(by), out),
        }
        Ok(())
    }

    pub(super) fn say(&mut self, now: Now, state: State, what: &str, by: By, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        live.enter(at, state, what, Some(by));
        out.steps.push(live.record().into());
    }
}

/// Why a command would change nothing, although the state of the rollout allows it, and which one would.
fn vain(command: Command, live: &Live) -> Option<&'static str> {
    let goes_on = matches!(live.state(), State::Running | State::Paused);
    let has_moved = live.targets().has_moved() || !live.inherited().is_empty();
    match command {
        // A rollout that has stopped ends by this.
        Command::RollBack if goes_on && !has_moved => {
            Some("has moved no target, so there is nothing to roll back; abort it to stop it here")
        }
        Command::Promote if live.targets().order() == 0 => Some(
            "has no target that has settled, so there is nothing to promote; ask again when one has",
        ),
        _ => None,
    }
}
