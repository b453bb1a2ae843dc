//! The line, stopped and going on, with its law.

use std::time::Duration;

use plugin_sdk::{Cause, Pin};
use prodspec_model::AssetId;

use super::rig::{P, Rig, by, id};
use crate::{
    kernel::{Effects, Event},
    line::StoppedLine,
    record::State,
};

impl Rig {
    /// While the line is stopped, no step moves a pin forward.
    pub(super) fn stands_still(&self, out: &Effects) {
        if self
            .stopped_until
            .is_none_or(|until| until <= self.now.mono)
        {
            return;
        }
        let rollout = self.view().rollout.filter(|it| it.state == State::Running);
        let Some(rollout) = rollout else { return };
        let under_way = |asset: &AssetId| {
            self.plane
                .pins
                .get(asset)
                .is_some_and(|pin| pin.is_at(rollout.to))
        };
        let mut moves = out.steps.iter().flat_map(|step| &step.moves);
        // One that goes back may go to where a rollout that begins in the same step brings the others.
        let goes_back = |pin: &Pin| matches!(pin, Pin::At(_, Cause::Rollback));
        let forward = moves
            .find(|(asset, pin)| pin.is_at(rollout.to) && !goes_back(pin) && !under_way(asset));
        assert_eq!(forward, None, "the line is stopped");
    }

    /// Stops the line for some time. `None`: lets it go on.
    pub(super) fn line(&mut self, stopped: Option<Duration>, except: &[&str]) {
        let line = stopped.map(|time| StoppedLine {
            until: self.now.wall + time,
            except: except.iter().map(|key| id(key)).collect(),
            by: by(),
            at: self.now.wall,
        });
        let until = stopped.map(|time| self.now.mono + time);
        self.stopped_until = until.filter(|_| !except.contains(&P));
        self.plane.line.clone_from(&line);
        self.step(Event::Line(line));
    }
}
