//! What commands of operators do to a rollout.

use plugin_sdk::Now;

use super::{Command, Effects, Kernel, Refused, state::live::Live};
use crate::record::{By, State};

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
            Command::Pause | Command::Resume => state.paused(command == Command::Pause).is_some(),
            Command::Promote => *state == State::Running,
            Command::Abort | Command::HandOver => live.is_watched(),
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
        let turned = state.paused(command == Command::Pause);
        let said = format!("{} says: {}", by.who, by.why);
        match command {
            Command::Pause | Command::Resume => {
                let what = match command {
                    Command::Pause => "paused",
                    _ => "resumed",
                };
                let state = turned.unwrap_or(State::Running);
                self.say(now, state, what, by, out);
            }
            Command::Promote => {
                if let Some(live) = &mut self.live {
                    live.promote();
                }
                self.say(now, State::Running, "promoted", by, out);
            }
            Command::Abort => self.stop(now, said, Some(by), out),
            Command::HandOver => return self.hand_over(now, by, out),
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
