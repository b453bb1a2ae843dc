//! Runs of schedules: which slot starts, and what its end means.

mod state;

use control_plane_store::records::By;
use plugin_sdk::{
    Now,
    operation::{Start, StartCause},
    workflow::WorkflowName,
};
use prodspec_model::AssetId;

pub(super) use self::state::Schedules;
use super::{
    DISPATCH, Lane,
    event::{Effects, Refused, Reply},
    intended::{Intended, ScheduleWord},
};
use crate::{
    cron::{Decision, ScheduleRecord},
    operation::{self, Operated},
    view,
};

/// A slot that cannot start.
enum NoStart {
    /// There is no room for one more execution. It is tried again.
    Full,
    /// The operation cannot be run. It is tried again when the asset changes.
    Broken(String),
}

impl Lane {
    /// Takes what intent says of schedules.
    pub(super) fn intended(&mut self, now: Now, intended: Intended) {
        self.schedules
            .told(intended.all, &intended.schedules, now.wall);
        for (asset, wanted) in intended.schedules {
            match wanted {
                Some(wanted) => self.schedules.take(asset, wanted, now.wall),
                None => self.schedules.left(&asset, now.wall),
            }
        }
    }

    /// Goes on with stored schedules. Slots whose executions are not live have ended.
    pub(super) fn restore_schedules(&mut self, stored: Vec<(AssetId, ScheduleRecord)>) {
        for (asset, record) in stored {
            let gone: Vec<_> = record
                .running
                .iter()
                .filter(|slot| self.run_of(&asset, **slot).is_none())
                .copied()
                .collect();
            self.schedules.restore(asset, record, gone);
        }
    }

    /// Decides about the schedules whose time has come.
    pub(super) fn run_schedules(&mut self, now: Now, out: &mut Effects) {
        if self.latest.is_none() {
            return;
        }
        self.schedules.look(now);
        while let Some(asset) = self.schedules.next_due() {
            let again = self.run_schedule(now, &asset, out);
            self.schedules.decided(&asset, now, again);
        }
    }

    /// Starts and cancels what a schedule decides now. Returns a time after which to try again.
    fn run_schedule(
        &mut self,
        now: Now,
        asset: &AssetId,
        out: &mut Effects,
    ) -> Option<std::time::Duration> {
        loop {
            match self.schedules.decide(asset, now.wall)? {
                Decision::Start { slot } => match self.start_slot(now, asset, slot, out) {
                    Ok(over) => self.schedules.started(asset, slot, now.wall, over),
                    Err(NoStart::Full) => return Some(DISPATCH),
                    Err(NoStart::Broken(why)) => {
                        self.schedules.broken(asset, why);
                        return None;
                    }
                },
                Decision::Replace { cancel, .. } => {
                    for slot in cancel {
                        if let Some(no) = self.run_of(asset, slot) {
                            self.replace_run(now, no, out);
                        }
                    }
                    return None;
                }
                _ => return None,
            }
        }
    }

    /// Starts the execution of a slot. Returns whether it has ended already.
    fn start_slot(
        &mut self,
        now: Now,
        asset: &AssetId,
        slot: jiff::Timestamp,
        out: &mut Effects,
    ) -> Result<bool, NoStart> {
        let operated = self.schedules.operated(asset).map_err(NoStart::Broken)?;
        let start = Start::of(name(asset)).key(key(asset, slot));
        let cause = StartCause::Slot {
            schedule: asset.clone(),
            at: slot,
        };
        let by = By::new("control plane", cause.to_string());
        match self.operate(now, start, operated, cause, &by, None, out) {
            Ok(Reply::Started { outcome, .. }) => Ok(outcome.is_some()),
            Ok(_) => Ok(false),
            Err(Refused::TooMany(_)) => Err(NoStart::Full),
            Err(refused) => Err(NoStart::Broken(refused.to_string())),
        }
    }

    /// The live execution of a slot.
    fn run_of(&self, asset: &AssetId, slot: jiff::Timestamp) -> Option<super::ExecutionNo> {
        self.keys
            .get(&(name(asset), key(asset, slot).into()))
            .copied()
    }

    /// Takes a word for a schedule.
    pub(super) fn said_of_schedule(
        &mut self,
        now: Now,
        asset: &AssetId,
        word: ScheduleWord,
        by: &By,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        self.schedules.said(asset, word, by, now.wall)?;
        out.urgent = true;
        Ok(Reply::Taken)
    }

    /// All schedules, sorted by asset.
    pub(super) fn show_schedules(&self, now: Now) -> Vec<view::ScheduleState> {
        let mut all = self.schedules.shown(now.wall);
        for shown in &mut all {
            let slots = self.schedules.running(&shown.asset);
            let runs = slots
                .iter()
                .filter_map(|slot| self.run_of(&shown.asset, *slot));
            shown.running = runs
                .filter_map(|no| Some(self.live.get(&no)?.id.clone()))
                .collect();
        }
        all
    }
}

/// The key of the execution of a slot.
fn key(asset: &AssetId, slot: jiff::Timestamp) -> String {
    format!("{asset}@{slot}")
}

/// The name under which the operation of a schedule runs.
fn name(asset: &AssetId) -> WorkflowName {
    operation::name_of(asset, "cron")
}

/// The operation of a schedule, ready to run. Functions that are not registered are waited for.
fn operated(asset: &AssetId, record: &ScheduleRecord) -> Result<Operated, String> {
    let template = record.wanted.operation().map_err(|error| {
        format!("the operation cannot be read, start the newest program version: {error}")
    })?;
    let workflow =
        operation::compile(&name(asset), &template).map_err(|error| error.to_string())?;
    let digest = operation::digest(&template);
    Ok(Operated { workflow, digest })
}
