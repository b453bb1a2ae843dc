//! Workflows on the control socket: the requests and answers, and their handlers.

use std::collections::BTreeMap;

use axum::{
    Json, Router,
    extract::{ConnectInfo, Path, State},
    routing::{get, post},
};
use control_plane::{
    By, Explained, Handle,
    model::AssetId,
    sdk::{Problems, with_causes},
    workflow::{
        CauseOfWait, Drained, Ended, Entry, Execution, ExecutionId, ExecutionPage, ExecutionQuery,
        MachineName, Operation, Outcome, Say, ScheduleState, Start, StateName, WatchState,
        WorkflowName, WorkflowWord,
    },
};
use serde::{Deserialize, Serialize};

use super::{
    Refusal, Said,
    answer::{Answer, Peer, Refused, Shared, spoken},
};

/// Number of ended executions that are read at once.
const PAGE: usize = 1000;

/// The start of an execution, as an operator asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartWorkflow {
    /// The workflow, its key, its input and its labels. For an operation: its name and its key.
    pub start: Start,
    /// The operation to run under the name of the workflow. None: the workflow is a registered one.
    pub operation: Option<Box<Operation>>,
    /// Name and reason given by the operator.
    pub said: Said,
}

/// The execution that a start has begun, or that its key had begun before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// Its id.
    pub id: ExecutionId,
    /// True if this start began it.
    pub new: bool,
    /// How it ended. None: it is live.
    pub outcome: Option<Outcome>,
}

/// An execution with its log. One of `live` and `ended` is there, if the execution is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The execution, if it is live.
    pub live: Option<Execution>,
    /// The execution, if it has ended.
    pub ended: Option<Ended>,
    /// Its log, oldest entry first.
    pub log: Vec<Entry>,
    /// What it waits for, followed to the causes. Empty if it has ended.
    pub followed: Followed,
}

/// What an execution waits for, followed to the causes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Followed {
    /// What is waited for in the end, beside the assets: a time, a person, an answer.
    pub causes: Vec<CauseOfWait>,
    /// The other executions on the way to the causes: children, and holders of claims.
    pub executions: Vec<Execution>,
    /// The assets that the executions wait for, with what enforcement and rollouts say of them.
    pub assets: BTreeMap<AssetId, Explained>,
    /// The problems for which generation is refused, if assets are waited for.
    pub problems: Problems,
    /// Why the waits cannot be followed, for instance because enforcement has stopped. None: they were followed.
    pub failure: Option<String>,
}

/// A word for an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WordToExecution {
    /// Chooses an option of a question.
    Answer {
        /// The machine that asks.
        machine: MachineName,
        /// The option.
        option: StateName,
    },
    /// Cleans up and ends.
    Cancel,
    /// Ends at once, without clean-up.
    Terminate,
    /// Starts nothing more; what is in flight ends.
    Pause,
    /// Ends a pause.
    Resume,
    /// Goes on with the definition that is registered now.
    Redefine,
    /// Sets machines, and all that depend on them, back to their first state.
    Restart(Vec<MachineName>),
    /// Calls a function again that is parked, because the control plane died while it was in flight.
    Replay(MachineName),
    /// Says what has happened in a call or an edit whose outcome is not known.
    Settle {
        /// The machine that made it.
        machine: MachineName,
        /// The outcome of its action.
        outcome: StateName,
    },
    /// Says that a call or an edit whose outcome is not known took no effect, and makes it again.
    Again(MachineName),
    /// Ends the action of a machine with one of its outcomes, without a call.
    Skip {
        /// The machine whose action ends.
        machine: MachineName,
        /// The outcome, one of those that the action declares.
        outcome: StateName,
    },
}

/// A word for a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordToWorkflow {
    /// The workflow.
    pub workflow: WorkflowName,
    /// What it is told.
    pub word: WorkflowWord,
    /// Name and reason given by the operator.
    pub said: Said,
}

impl WordToWorkflow {
    /// Gives the word. `by` finds out who gives it.
    pub(super) async fn give(
        self,
        handle: &Handle,
        by: impl Fn(Said) -> Result<By, Refusal>,
    ) -> Result<(), Refused> {
        let by = by(self.said)?;
        Ok(handle
            .say_to_workflow(&self.workflow, self.word, by)
            .await?)
    }
}

impl From<WordToExecution> for Say {
    fn from(word: WordToExecution) -> Self {
        match word {
            WordToExecution::Answer { machine, option } => Self::answer(machine, option),
            WordToExecution::Cancel => Self::Cancel,
            WordToExecution::Terminate => Self::Terminate,
            WordToExecution::Pause => Self::Pause,
            WordToExecution::Resume => Self::Resume,
            WordToExecution::Redefine => Self::Redefine,
            WordToExecution::Restart(machines) => Self::Restart(machines),
            WordToExecution::Replay(machine) => Self::Replay(machine),
            WordToExecution::Settle { machine, outcome } => Self::settle(machine, outcome),
            WordToExecution::Again(machine) => Self::again(machine),
            WordToExecution::Skip { machine, outcome } => Self::Skip { machine, outcome },
        }
    }
}

/// Returns the routes of this module.
pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/executions", post(start))
        .route("/executions/list", post(executions))
        .route("/executions/{id}", get(execution))
        .route("/ended", get(ended))
        .route("/drained", get(drained))
        .route("/schedules", get(schedules))
        .route("/watches", get(watches))
}

async fn start(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(wanted): Json<StartWorkflow>,
) -> Answer<Begun> {
    let StartWorkflow {
        start,
        operation,
        said,
    } = wanted;
    let by = spoken(peer, said)?;
    let started = match operation {
        None => shared.handle.start(start, by).await?,
        Some(operation) => {
            let no_key =
                || Refusal::Other("an operation needs a key: it runs once for each".into());
            let key = start.key.ok_or_else(no_key)?;
            let run = shared
                .handle
                .run_operation(start.workflow, &operation, key, by);
            run.await?
        }
    };
    Ok(Json(Begun {
        id: started.id,
        new: started.new,
        outcome: started.outcome,
    }))
}

async fn executions(
    State(shared): State<Shared>,
    Json(query): Json<ExecutionQuery>,
) -> Answer<ExecutionPage> {
    Ok(Json(shared.handle.executions(&query).await?))
}

/// Returns all that have ended and are kept, the newest last.
async fn ended(State(shared): State<Shared>) -> Answer<Vec<Ended>> {
    let mut all: Vec<Ended> = Vec::new();
    loop {
        let after = all.last().map(|last| last.id.clone());
        let page = shared
            .handle
            .ended_executions(None, after.as_ref(), PAGE)
            .await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            break;
        }
    }
    all.sort_by_key(|ended| ended.ended);
    Ok(Json(all))
}

async fn drained(State(shared): State<Shared>) -> Answer<Vec<Drained>> {
    Ok(Json(shared.handle.drained().await?))
}

async fn execution(State(shared): State<Shared>, Path(id): Path<String>) -> Answer<Shown> {
    let id: ExecutionId = id
        .parse()
        .map_err(|error| Refusal::Other(format!("{error}")))?;
    let live = shared.handle.execution(&id).await?;
    let ended = match live {
        Some(_) => None,
        None => shared.handle.ended_execution(&id).await?,
    };
    if live.is_none() && ended.is_none() {
        return Err(
            Refusal::Other(format!("there is no execution {id}: see `workflow list`")).into(),
        );
    }
    let log = shared.handle.execution_log(&id).await?;
    let followed = match live {
        Some(_) => follow(&shared.handle, &id).await,
        None => Followed::default(),
    };
    Ok(Json(Shown {
        live,
        ended,
        log,
        followed,
    }))
}

/// Follows what a live execution waits for. A failure is part of the answer: the execution can be shown all the same.
async fn follow(handle: &Handle, id: &ExecutionId) -> Followed {
    match handle.explain_execution(id).await {
        Ok(Some(explained)) => Followed {
            causes: explained.causes,
            // The first one is the execution itself.
            executions: explained.executions.into_iter().skip(1).collect(),
            assets: explained.assets,
            problems: explained.problems,
            failure: None,
        },
        // It has ended meanwhile.
        Ok(None) => Followed::default(),
        Err(error) => Followed {
            failure: Some(with_causes(&error)),
            ..Followed::default()
        },
    }
}

async fn schedules(State(shared): State<Shared>) -> Answer<Vec<ScheduleState>> {
    Ok(Json(shared.handle.schedules().await?))
}

async fn watches(State(shared): State<Shared>) -> Answer<Vec<WatchState>> {
    Ok(Json(shared.handle.watches().await?))
}
