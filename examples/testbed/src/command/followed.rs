//! What an execution waits for, followed to the causes, as text. It is the last part of `workflow explain`.

use std::collections::BTreeSet;

use control_plane::workflow::{CauseOfWait, Execution, Wait};

use super::ask;
use crate::control::Followed;

/// Returns a line for each cause, for each other execution and each asset on the way to the causes, and for each problem of
/// generation that they wait for.
pub(super) fn followed(followed: &Followed) -> Vec<String> {
    let causes = followed.causes.iter().map(cause);
    let executions = followed.executions.iter().map(execution);
    let assets: Vec<String> = followed.assets.values().flat_map(ask::chain).collect();
    // Several assets may wait for the same one.
    let mut seen = BTreeSet::new();
    let assets = assets.iter().filter(|line| seen.insert(line.as_str()));
    let assets = assets.map(|line| format!("asset      {line}"));
    let problems = followed.problems.iter();
    let problems = problems.map(|problem| format!("refused    {problem}"));
    let failure = followed.failure.iter();
    let failure = failure.map(|why| format!("unknown    the causes cannot be found: {why}"));
    causes
        .chain(executions)
        .chain(assets)
        .chain(problems)
        .chain(failure)
        .collect()
}

fn cause(cause: &CauseOfWait) -> String {
    let machine = cause.machine.as_ref().map(|name| format!(" {name}"));
    format!(
        "cause      {}{}: {}",
        cause.execution,
        machine.unwrap_or_default(),
        waits_for(&cause.wait)
    )
}

fn execution(execution: &Execution) -> String {
    let start = execution.wait.iter().map(waits_for);
    let machines = execution.waits();
    let machines = machines.map(|(machine, wait)| format!("{}: {}", machine.name, waits_for(wait)));
    let waits: Vec<String> = start.chain(machines).collect();
    let waits = match waits.is_empty() {
        true => "waits for nothing".to_owned(),
        false => waits.join("; "),
    };
    format!("execution  {}: {waits}", execution.id)
}

/// Returns what a machine or a start waits for, since when and until when.
pub(super) fn waits_for(wait: &Wait) -> String {
    let look = wait.next_look.map(|at| format!(", until {at:.0}"));
    format!(
        "{}, since {:.0}{}",
        wait.why,
        wait.since,
        look.unwrap_or_default()
    )
}
