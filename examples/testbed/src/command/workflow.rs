//! `workflow`: executions of workflows and operations, and an operator's words to them.

use std::sync::Arc;

use control_plane::{
    model::AssetId,
    workflow::{
        Ended, Execution, ExecutionId, ExecutionQuery, MachineName, Only, Operation, Start,
        StateName, WorkflowName, WorkflowWord,
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    entries::happened,
    followed::{followed, waits_for},
    tell::{self, Signed},
};
use crate::{
    control::{Shown, StartWorkflow, Word, WordToExecution, WordToWorkflow, client::Control},
    place::Place,
    program::Failure,
    voice::{say, say_all, say_json, say_list},
};

/// The subcommands of `workflow`.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Verb {
    /// Start an execution of a workflow, or find the one that the same key has started.
    Start(Begin),
    /// List the live executions in the order of their starts, and what each of them waits for.
    List(List),
    /// Show an execution, live or ended: its machines with what they run or wait for, the log, and the causes of its waits,
    /// followed through other executions, assets and rollouts.
    Explain {
        /// Id of the execution, such as `season-0000000001`.
        id: ExecutionId,
        /// Also print why the actions of the other machines do not begin.
        #[arg(long)]
        all: bool,
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Answer the question of an execution.
    Answer {
        /// Id of the execution.
        id: ExecutionId,
        /// The machine that asks.
        machine: MachineName,
        /// One of its options.
        option: StateName,
        #[command(flatten)]
        signed: Signed,
    },
    /// Drain a workflow: what is live goes on, and what is started waits until `undrain`.
    Drain {
        /// Name of the workflow.
        workflow: WorkflowName,
        #[command(flatten)]
        signed: Signed,
    },
    /// End the drain of a workflow.
    Undrain {
        /// Name of the workflow.
        workflow: WorkflowName,
        #[command(flatten)]
        signed: Signed,
    },
    /// Cancel an execution: what it has done is cleaned up, and nothing else begins. One that is paused cleans up when it is
    /// resumed.
    Cancel {
        /// Id of the execution.
        id: ExecutionId,
        #[command(flatten)]
        signed: Signed,
    },
    /// End an execution at once, without clean-up, as the last resort: calls in flight are abandoned, and `explain` names what
    /// may still take effect.
    Terminate {
        /// Id of the execution.
        id: ExecutionId,
        #[command(flatten)]
        signed: Signed,
    },
    /// Start a run of a schedule now, beside its slots.
    RunNow {
        /// Id of the asset with the schedule.
        asset: AssetId,
        #[command(flatten)]
        signed: Signed,
    },
    /// Pause an execution: nothing more of it starts, and what is in flight ends.
    Pause {
        /// Id of the execution.
        id: ExecutionId,
        #[command(flatten)]
        signed: Signed,
    },
    /// End the pause of an execution, also of one that is paused because it reached its maximum number of transitions.
    Resume {
        /// Id of the execution.
        id: ExecutionId,
        #[command(flatten)]
        signed: Signed,
    },
    /// Let an execution go on with the definition that the running control plane has of its workflow, if its states exist there.
    Redefine {
        /// Id of the execution.
        id: ExecutionId,
        #[command(flatten)]
        signed: Signed,
    },
    /// Set machines of an execution, and all that depend on them, back to their beginning. It may have ended. A cancel is
    /// taken back, unless all these machines clean up.
    Restart {
        /// Id of the execution.
        id: ExecutionId,
        /// The machines to set back.
        #[arg(required = true)]
        machines: Vec<MachineName>,
        #[command(flatten)]
        signed: Signed,
    },
    /// Call a function again that is parked, because the control plane died several times while it was in flight.
    Replay {
        /// Id of the execution.
        id: ExecutionId,
        /// The machine that is parked.
        machine: MachineName,
        #[command(flatten)]
        signed: Signed,
    },
    /// Say what has happened in a call or an edit whose outcome is not known.
    Settle {
        /// Id of the execution.
        id: ExecutionId,
        /// The machine that made it.
        machine: MachineName,
        /// The outcome of its action, such as `done`.
        outcome: StateName,
        #[command(flatten)]
        signed: Signed,
    },
    /// Say that a call or an edit whose outcome is not known took no effect, and make it again.
    Again {
        /// Id of the execution.
        id: ExecutionId,
        /// The machine that made it.
        machine: MachineName,
        #[command(flatten)]
        signed: Signed,
    },
    /// End the action of a machine with an outcome, without a call of its function.
    Skip {
        /// Id of the execution.
        id: ExecutionId,
        /// The machine whose action ends.
        machine: MachineName,
        /// One of the action's outcomes, such as `done`.
        outcome: StateName,
        #[command(flatten)]
        signed: Signed,
    },
}

/// Lists executions: all of them, or only some.
#[derive(Debug, Clone, clap::Args)]
pub struct List {
    /// List those that have ended instead, the newest last.
    #[arg(long)]
    ended: bool,
    /// List only executions of this workflow.
    #[arg(long)]
    workflow: Option<WorkflowName>,
    /// List only executions with this label, such as `app=shop`. It may be given more than once.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// List only live executions for which a person has to do this.
    #[arg(long, value_name = "asking|parked|paused|missing", value_parser = only, conflicts_with = "ended")]
    only: Option<Only>,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

/// What `workflow start` starts.
#[derive(Debug, Clone, clap::Args)]
pub struct Begin {
    /// Name of the workflow. With `--operation`: a name for the operation.
    pub workflow: WorkflowName,
    /// Key of the start: the same key is the same execution. Default: every start is a new execution.
    #[arg(long)]
    pub key: Option<String>,
    /// Input of the execution, as JSON. The functions of an operation have inputs of their own.
    #[arg(long, value_parser = json::<Value>, conflicts_with = "operation")]
    pub input: Option<Value>,
    /// An operation to run, as JSON. It needs a key.
    #[arg(long, value_parser = json::<Box<Operation>>)]
    pub operation: Option<Box<Operation>>,
    /// A label of the execution, such as `app=shop`, by which limits tell it apart. It may be given more than once. An
    /// operation has labels of its own.
    #[arg(
        long = "label",
        value_name = "KEY=VALUE",
        value_parser = label,
        conflicts_with = "operation"
    )]
    pub labels: Vec<(String, String)>,
    #[command(flatten)]
    pub signed: Signed,
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

fn only(text: &str) -> Result<Only, serde_json::Error> {
    serde_json::from_value(text.into())
}

fn label(text: &str) -> Result<(String, String), String> {
    let label = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = label.ok_or("write it like `app=shop`")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Performs a subcommand of `workflow`.
///
/// # Errors
/// When no control plane is running, or it refuses the command.
pub(super) async fn workflow(place: &Place, verb: Verb) -> Result<(), Failure> {
    let (id, word, signed) = match verb {
        Verb::Start(wanted) => return begin(place, wanted).await,
        Verb::List(wanted) => return list(place, wanted).await,
        Verb::Explain { id, all, json } => return explain(place, &id, all, json).await,
        Verb::Answer {
            id,
            machine,
            option,
            signed,
        } => (id, WordToExecution::Answer { machine, option }, signed),
        Verb::Drain { workflow, signed } => {
            return tell_workflow(place, workflow, WorkflowWord::Drain, signed).await;
        }
        Verb::Undrain { workflow, signed } => {
            return tell_workflow(place, workflow, WorkflowWord::Resume, signed).await;
        }
        Verb::RunNow { asset, signed } => {
            let said = signed.into();
            return tell::tell(place, Word::RunNow { asset, said }).await;
        }
        Verb::Terminate { id, signed } => (id, WordToExecution::Terminate, signed),
        Verb::Cancel { id, signed } => (id, WordToExecution::Cancel, signed),
        Verb::Pause { id, signed } => (id, WordToExecution::Pause, signed),
        Verb::Resume { id, signed } => (id, WordToExecution::Resume, signed),
        Verb::Redefine { id, signed } => (id, WordToExecution::Redefine, signed),
        Verb::Restart {
            id,
            machines,
            signed,
        } => (id, WordToExecution::Restart(machines), signed),
        Verb::Replay {
            id,
            machine,
            signed,
        } => (id, WordToExecution::Replay(machine), signed),
        Verb::Settle {
            id,
            machine,
            outcome,
            signed,
        } => (id, WordToExecution::Settle { machine, outcome }, signed),
        Verb::Again {
            id,
            machine,
            signed,
        } => (id, WordToExecution::Again(machine), signed),
        Verb::Skip {
            id,
            machine,
            outcome,
            signed,
        } => (id, WordToExecution::Skip { machine, outcome }, signed),
    };
    let said = signed.into();
    tell::tell(place, Word::Execution { id, word, said }).await
}

async fn tell_workflow(
    place: &Place,
    workflow: WorkflowName,
    word: WorkflowWord,
    signed: Signed,
) -> Result<(), Failure> {
    let said = signed.into();
    let told = WordToWorkflow {
        workflow,
        word,
        said,
    };
    tell::tell(place, Word::Workflow(told)).await
}

async fn begin(place: &Place, wanted: Begin) -> Result<(), Failure> {
    let mut start = Start::of(wanted.workflow).input(wanted.input.unwrap_or_default());
    start.key = wanted.key.map(Into::into);
    start.labels = Arc::new(wanted.labels.into_iter().collect());
    let start = StartWorkflow {
        start,
        operation: wanted.operation,
        said: wanted.signed.into(),
    };
    let begun = Control::find(place).await?.start(&start).await?;
    let state = match (begun.new, &begun.outcome) {
        (true, _) => "started".to_owned(),
        (false, None) => "was started before by this key".to_owned(),
        (false, Some(outcome)) => format!("was started before by this key, and {outcome}"),
    };
    say(format_args!("{} {state}", begun.id));
    Ok(())
}

async fn list(place: &Place, wanted: List) -> Result<(), Failure> {
    let List {
        ended,
        workflow,
        labels,
        only,
        json,
    } = wanted;
    let mut query = ExecutionQuery::all();
    query.workflow = workflow;
    query.labels.extend(labels);
    query.only = only;
    let control = Control::find(place).await?;
    let is_all = query == ExecutionQuery::all();
    let none = |of_all| if is_all { of_all } else { "no execution fits" };
    if ended {
        let mut all = control.ended_executions().await?;
        all.retain(|ended| query.names(&ended.id, &ended.live));
        return Ok(say_list(
            &all,
            json,
            none("no ended execution is kept"),
            states,
        )?);
    }
    let all = control.executions(&query).await?;
    if !json {
        let drained = control.drained().await?.into_iter();
        say_all(drained.map(|it| format!("{} is drained by {}", it.workflow, it.said.by)));
    }
    let lines = |execution: &Execution| {
        let waits = execution.waits();
        let waits = waits
            .map(|(machine, wait)| format!("  {:<12} {}", machine.name.as_str(), waits_for(wait)));
        let start = execution.wait.iter();
        let start = start.map(|wait| format!("  {:<12} {}", "start", waits_for(wait)));
        std::iter::once(heading(execution))
            .chain(start)
            .chain(waits)
            .collect()
    };
    Ok(say_list(&all, json, none("no execution is live"), lines)?)
}

async fn explain(place: &Place, id: &ExecutionId, all: bool, json: bool) -> Result<(), Failure> {
    let shown = Control::find(place).await?.execution(id).await?;
    if json {
        say_json(&shown)?;
        return Ok(());
    }
    let Shown {
        live,
        ended,
        log,
        followed: waits,
    } = shown;
    say_all(live.iter().flat_map(|live| machines(live, all)));
    say_all(ended.iter().flat_map(states));
    say_all(log.iter().map(|entry| {
        let machine = entry.machine.as_ref().map(|name| format!("{name}: "));
        let what = happened(&entry.what);
        format!("  {:.0} {}{what}", entry.at, machine.unwrap_or_default())
    }));
    say_all(followed(&waits));
    Ok(())
}

fn heading(execution: &Execution) -> String {
    let live = &execution.live;
    let mut line = format!(
        "{}, started {:.0} by {}",
        execution.id, live.started, live.origin.by
    );
    if let Some(said) = &live.cancelled {
        line.push_str(&format!(", cancelled by {}", said.by));
    }
    if let Some(said) = &live.paused {
        line.push_str(&format!(", paused by {}", said.by));
    }
    line
}

/// Returns the lines about a live execution. `all`: with the reasons why actions do not begin. In a healthy execution most
/// of them wait for other machines, and those that clean up never begin.
fn machines(execution: &Execution, all: bool) -> Vec<String> {
    let mut idle = 0;
    let mut lines = vec![heading(execution)];
    lines.extend(
        execution
            .wait
            .iter()
            .map(|wait| format!("  {}", waits_for(wait))),
    );
    for machine in &execution.machines {
        let name = machine.name.as_str();
        let mut line = format!("  {name:<12} {}", machine.state);
        if let Some(wait) = &machine.wait {
            line.push_str(&format!(": {}", waits_for(wait)));
        }
        lines.push(line);
        let error = machine.error.iter();
        lines.extend(error.map(|error| format!("    last failure: {error}")));
        let clauses = machine.not_enabled.iter();
        match all {
            true => lines.extend(clauses.map(|clause| format!("    does not begin: {clause}"))),
            false => idle += usize::from(clauses.len() > 0),
        }
    }
    if idle > 0 {
        lines.push(format!("  {idle} of them do not begin: --all says why"));
    }
    lines
}

/// Returns the lines about an execution that has ended.
fn states(ended: &Ended) -> Vec<String> {
    let by = &ended.live.origin.by;
    let mut lines = vec![format!(
        "{} {} {:.0}, started by {by}",
        ended.id, ended.outcome, ended.ended
    )];
    for (machine, state) in &ended.states {
        let why = ended.errors.get(machine).map(|why| format!(": {why}"));
        let name = machine.as_str();
        lines.push(format!("  {name:<12} {state}{}", why.unwrap_or_default()));
    }
    for (machine, open) in &ended.may_take_effect {
        let until = open.until.map(|at| format!(" until {at:.0}"));
        let until = until.unwrap_or_default();
        let what = &open.what;
        lines.push(format!(
            "  may take effect{until}: {machine}, {what}, key {}",
            open.key
        ));
    }
    lines
}
