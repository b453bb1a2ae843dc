//! Schedules in the world: what intent has, and the runs of slots that are stored.

use plugin_sdk::operation::{ExecutionId, StartCause};
use prodspec_model::{AssetId, operation::CronOperation};

use super::{stored::Stored, *};
use crate::{cron::Wanted, record::Ended, view};

impl Stored {
    pub(super) fn ended(&self) -> Vec<&Ended> {
        self.ended.values().collect()
    }

    /// The reasons of the executions that are live.
    pub(super) fn live_causes(&self) -> Vec<StartCause> {
        self.live
            .values()
            .map(|live| live.origin.cause.clone())
            .collect()
    }

    /// All executions, with their reasons.
    pub(super) fn causes(&self) -> Vec<(ExecutionId, StartCause)> {
        let live = self.live.iter();
        let ended = self.ended.iter().map(|(id, ended)| (id, &ended.live));
        live.chain(ended)
            .map(|(id, live)| (id.clone(), live.origin.cause.clone()))
            .collect()
    }
}

impl World {
    /// Intent has this schedule from now on, or none of this asset.
    pub(super) fn intended(&mut self, asset: &str, wanted: Option<&CronOperation>) {
        let id = AssetId::new(asset).unwrap();
        match wanted {
            Some(wanted) => drop(self.intent.insert(id.clone(), Wanted::of(wanted))),
            None => drop(self.intent.remove(&id)),
        }
        let schedules = [(id, wanted.map(Wanted::of))].into();
        let intended = Intended {
            schedules,
            ..Intended::default()
        };
        self.step(Event::Intended(Box::new(intended)));
    }

    /// Tells a new owner what intent has.
    pub(super) fn tell(&mut self) {
        let known = self.intent.clone().into_iter();
        let schedules = known.map(|(asset, wanted)| (asset, Some(wanted))).collect();
        let watches = self.watches.clone().into_iter();
        let watches = watches.map(|(asset, wanted)| (asset, Some(wanted)));
        let intended = Intended {
            all: true,
            schedules,
            watches: watches.collect(),
            ..Intended::default()
        };
        self.step(Event::Intended(Box::new(intended)));
    }

    pub(super) fn schedules(&mut self) -> Vec<view::ScheduleState> {
        match self.hear(Command::ShowSchedules) {
            Reply::Schedules(all) => all,
            other => panic!("{other:?}"),
        }
    }
}
