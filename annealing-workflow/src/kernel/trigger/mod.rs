//! Schedules and watches: operations that assets start. This is what both have in common.

mod state;

use std::sync::Arc;

use jiff::Timestamp;
use plugin_sdk::{
    By, Now,
    operation::{ExecutionId, Start, StartCause},
    workflow::WorkflowName,
};
use prodspec_model::{
    AssetId,
    operation::{History, Operation},
};

pub(super) use self::state::{Touched, Trigger, Triggers};
use super::{
    ExecutionNo, Lane,
    event::{Effects, Record, Reply},
    intended::ScheduleWord,
    operate::Operating,
    refused::Refused,
};
use crate::{
    definition::Outcome,
    operation::{self, Operated},
    record::{Changed, Entry, Subject, What},
};

/// A run that cannot start.
pub(super) enum NoStart {
    /// There is no room for one more execution. It is tried again.
    Full,
    /// The chain of causes is too long: a loop of starts.
    Loop(Refused),
    /// The operation cannot be run. It is tried again when the asset changes.
    Broken(String),
}

/// The execution of a run.
pub(super) struct Begun {
    pub(super) id: ExecutionId,
    /// How it has ended already. `None`: it is live.
    pub(super) outcome: Option<Outcome>,
}

/// A run to start.
pub(super) struct Run {
    /// The operation that it performs.
    pub(super) operated: Operated,
    /// The key of its execution.
    pub(super) key: Arc<str>,
    pub(super) cause: StartCause,
    /// The executions and watches that led to it, the nearest last.
    pub(super) chain: Vec<String>,
    /// The assets that it is about, for a watch.
    pub(super) changed: Option<Changed>,
    /// How many runs are kept when they have ended.
    pub(super) history: History,
}

/// The entry of the feed about something that happened to a trigger.
pub(super) fn told(asset: &AssetId, at: Timestamp, what: What) -> Record {
    let entry = Entry {
        at,
        machine: None,
        what,
    };
    Record::Told(Subject::Asset(asset.clone()), entry)
}

/// The entry of the feed about a word for a trigger.
pub(super) fn said(asset: &AssetId, at: Timestamp, word: ScheduleWord, by: &By) -> Record {
    let word = word.to_string();
    let by = by.clone();
    told(asset, at, What::Said { word, by })
}

/// The entry of the feed about a trigger that stops because its asset is turned down.
pub(super) fn turned_down(asset: &AssetId, at: Timestamp) -> Record {
    let word = "turned down".to_owned();
    let by = By::new("control plane", "its asset has the addon Turndown");
    told(asset, at, What::Said { word, by })
}

impl Lane {
    /// Starts the execution of a run of `asset`.
    pub(super) fn start_run(
        &mut self,
        now: Now,
        asset: &AssetId,
        run: Run,
        by: &By,
        out: &mut Effects,
    ) -> Result<Begun, NoStart> {
        let operating = Operating {
            start: Start::of(name(asset)).key(run.key),
            operation: run.operated,
            cause: run.cause,
            chain: run.chain,
            changed: run.changed,
            history: Some(run.history),
        };
        match self.operate(now, operating, by, None, out) {
            Ok(Reply::Started { id, outcome, .. }) => Ok(Begun { id, outcome }),
            Ok(_) => Err(NoStart::Broken("the start was not answered".to_owned())),
            Err(Refused::TooMany(_)) => Err(NoStart::Full),
            Err(refused @ Refused::Loop { .. }) => Err(NoStart::Loop(refused)),
            Err(refused) => Err(NoStart::Broken(refused.to_string())),
        }
    }

    /// Tells a trigger that is new of the live runs of its asset: it was there before, and was acknowledged.
    pub(super) fn adopt_runs(&mut self, asset: &AssetId) {
        let name = name(asset);
        let keys = self.keys.range((name.clone(), "".into())..);
        let runs = keys.take_while(|((workflow, _), _)| *workflow == name);
        let runs = runs.filter_map(|((_, key), no)| {
            let run = self.live.get(no)?;
            let cause = run.live.origin.cause.clone();
            Some((cause, key.clone(), run.about.changed.clone()))
        });
        for (cause, key, changed) in runs.collect::<Vec<_>>() {
            self.revived(&cause, &key, changed.as_ref());
        }
    }

    /// The live execution of a run of `asset`.
    pub(super) fn run_of(&self, asset: &AssetId, key: &str) -> Option<ExecutionNo> {
        self.keys.get(&(name(asset), key.into())).copied()
    }
}

/// The name under which the operation of a schedule or a watch runs.
fn name(asset: &AssetId) -> WorkflowName {
    operation::name_of(asset, "run")
}

/// The operation of an asset, ready to run. Functions that are not registered are waited for.
fn operated(
    asset: &AssetId,
    template: Result<Operation, serde_json::Error>,
) -> Result<Operated, String> {
    let template = template.map_err(|error| {
        format!("the operation cannot be read, start the newest program version: {error}")
    })?;
    let workflow =
        operation::compile(&name(asset), &template).map_err(|error| error.to_string())?;
    Ok(Operated::of(workflow, &template))
}
