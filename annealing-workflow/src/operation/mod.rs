//! Operations: pipelines of functions, as workflows.
//!
//! An [`Operation`] compiles to a workflow with one machine per step, one after the other, and a last machine that makes
//! what the steps have gathered in one edit. So claims, restarts, history and explanations are those of workflows.
//!
//! ```
//! use annealing_workflow::operation::compile;
//! use prodspec_model::operation::{Operation, PipelineStep, Power};
//!
//! let grow = Operation::pipeline([
//!     PipelineStep::new("measure", "peak-usage"),
//!     PipelineStep::new("grow", "grow-elsewhere"),
//! ])
//! .may([Power::edit("manifest.yaml", "clusters.*.replicas")]);
//! let workflow = compile(&"grow".into(), &grow)?;
//! let names: Vec<_> = workflow.numbers().map(|it| workflow.machine(it).name.as_str()).collect();
//! assert_eq!(names, ["measure", "grow", "edit-sources"]);
//! # Ok::<(), annealing_workflow::operation::Error>(())
//! ```

mod error;
#[cfg(test)]
mod tests;
mod valid;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use plugin_sdk::{
    operation::{FunctionInfo, Limit, Powers, Start},
    workflow::{Machine, MachineName, StateName, WorkflowName, any, is},
};
use prodspec_model::{
    AssetId, Digest,
    operation::{Operation, Power},
};

pub use self::{
    error::{Error, Problem},
    valid::{valid, valid_operation},
};
use crate::definition::Workflow;

/// The machine that makes the gathered edits. No step can have this name.
pub const EDIT: &str = "edit-sources";

/// Compiles an operation to a workflow named `name`.
///
/// # Errors
/// All problems of the operation: no steps, two steps with one name, a name of a wrong form, a power that cannot be read,
/// labels over their limits.
pub fn compile(name: &WorkflowName, operation: &Operation) -> Result<Workflow, Error> {
    let problems = problems(operation).into_iter();
    let problems: Vec<Problem> = problems.map(|(_, problem)| problem).collect();
    if !problems.is_empty() {
        return Err(Error::new(name, problems));
    }
    let mut workflow = Workflow::new(name.clone());
    let mut before: Option<MachineName> = None;
    let steps = operation.pipeline.iter().map(|step| &*step.name);
    for step in &operation.pipeline {
        let mut machine = Machine::calls(&*step.name, &step.function)
            .input(step.input.clone())
            .gathers()
            .may(operation.may.iter().cloned());
        if let Some(limit) = step.retry_limit {
            machine = machine.retry_limit(limit);
        }
        if let Some(before) = before.replace(MachineName::from(&*step.name)) {
            machine = machine.when(is(before, StateName::DONE));
        }
        workflow = workflow.machine(machine);
    }
    let mut edit = Machine::edits(EDIT, steps.clone())
        .blast_radius(operation.blast_radius.unwrap_or(Operation::BLAST_RADIUS));
    if let Some(before) = before {
        edit = edit.when(is(before, StateName::DONE));
    }
    let mut bad = Vec::new();
    if let Some(seconds) = operation.settle_secs {
        edit = edit.settles(Duration::from_secs(seconds));
        let ends = [
            StateName::OVERWRITTEN,
            StateName::ROLLED_BACK,
            StateName::EXPIRED,
        ];
        bad.push(is(EDIT, ends));
    }
    let workflow = workflow.machine(edit).ends_well(is(EDIT, StateName::DONE));
    let workflow = match bad.is_empty() {
        true => workflow,
        false => workflow.ends_badly(any(bad)),
    };
    workflow
        .build()
        .map_err(|error| Error::new(name, vec![Problem::Workflow(error)]))
}

/// What is wrong with an operation by itself, each with the place. Empty: it can be compiled, unless it is over a limit of
/// workflows.
fn problems(operation: &Operation) -> Vec<(String, Problem)> {
    let mut problems = Vec::new();
    if operation.pipeline.is_empty() {
        problems.push(("pipeline".to_owned(), Problem::Empty));
    }
    let mut names = BTreeSet::new();
    for (at, step) in operation.pipeline.iter().enumerate() {
        let mut problem = |problem| problems.push((format!("pipeline[{at}].name"), problem));
        if let Err(invalid) = MachineName::new(&step.name) {
            problem(Problem::Name(invalid));
        }
        if step.name == EDIT {
            problem(Problem::Reserved);
        }
        if !names.insert(&step.name) {
            problem(Problem::Duplicate(step.name.clone()));
        }
    }
    for (at, power) in operation.may.iter().enumerate() {
        if let Err(invalid) = Powers::read([power]) {
            problems.push((format!("may[{at}]"), Problem::Power(invalid)));
        }
    }
    if let Err(over) = Limit::check_labels(&operation.labels) {
        problems.push(("labels".to_owned(), Problem::Labels(over)));
    }
    problems
}

/// The steps of an operation whose functions are not registered, each with the place.
fn unknown_functions(
    operation: &Operation,
    is_registered: impl Fn(&str) -> bool,
) -> Vec<(String, Problem)> {
    let steps = operation.pipeline.iter().enumerate();
    let unknown = steps.filter(|(_, step)| !is_registered(&step.function));
    let unknown = unknown.map(|(at, step)| {
        let problem = Problem::Function {
            step: step.name.clone(),
            function: step.function.clone(),
        };
        (format!("pipeline[{at}].function"), problem)
    });
    unknown.collect()
}

/// The steps whose functions declare powers of which the operation grants none, each with the place.
fn powerless<'f>(
    operation: &Operation,
    function: impl Fn(&str) -> Option<&'f FunctionInfo>,
) -> Vec<(String, Problem)> {
    let steps = operation.pipeline.iter().enumerate();
    let powerless = steps.filter(|(_, step)| {
        let may = function(&step.function).map(|info| &info.may[..]);
        let may = may.unwrap_or_default();
        let granted = may.iter().any(|power| grants(&operation.may, power));
        !may.is_empty() && !granted
    });
    let powerless = powerless.map(|(at, step)| {
        let problem = Problem::NotGranted {
            step: step.name.clone(),
            function: step.function.clone(),
        };
        (format!("pipeline[{at}].function"), problem)
    });
    powerless.collect()
}

/// Whether an operation with the powers `may` grants some of `power`. Patterns of fields are not compared.
fn grants(may: &[Power], power: &Power) -> bool {
    may.iter().any(|granted| match (granted, power) {
        (Power::Edit { source, .. }, Power::Edit { source: other, .. }) => source == other,
        (granted, power) => granted == power,
    })
}

/// The problems of the template of a schedule or a watch with the functions that are registered, each with the place.
pub(crate) fn template_problems<'f>(
    template: &Operation,
    function: impl Fn(&str) -> Option<&'f FunctionInfo>,
) -> impl Iterator<Item = (String, String)> {
    let name = WorkflowName::from("template");
    let mut all = all_problems(&name, template, |name| function(name).is_some());
    all.extend(powerless(template, function));
    let all = all.into_iter();
    all.map(|(field, problem)| (format!("template.{field}"), problem.to_string()))
}

/// All problems of an operation, each with the place in it: also functions that are not registered, and limits of
/// workflows.
fn all_problems(
    name: &WorkflowName,
    operation: &Operation,
    is_registered: impl Fn(&str) -> bool,
) -> Vec<(String, Problem)> {
    let mut all = problems(operation);
    if all.is_empty()
        && let Err(error) = compile(name, operation)
    {
        let over = error.problems.into_iter();
        all.extend(over.map(|problem| ("pipeline".to_owned(), problem)));
    }
    all.extend(unknown_functions(operation, is_registered));
    all
}

/// An operation that is ready to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Operated {
    /// The workflow that the operation compiles to.
    pub workflow: Workflow,
    /// The digest of the operation as it was asked for.
    pub digest: Digest,
    /// The labels of its executions.
    pub labels: Arc<BTreeMap<String, String>>,
}

impl Operated {
    /// Makes an operation ready to run.
    ///
    /// # Errors
    /// All problems of the operation, functions that are not registered included.
    pub(crate) fn new(
        name: &WorkflowName,
        operation: &Operation,
        is_registered: impl Fn(&str) -> bool,
    ) -> Result<Self, Error> {
        let compiled = compile(name, operation);
        let unknown = unknown_functions(operation, is_registered).into_iter();
        let unknown: Vec<Problem> = unknown.map(|(_, problem)| problem).collect();
        match compiled {
            Ok(workflow) if unknown.is_empty() => Ok(Self::of(workflow, operation)),
            Ok(_) => Err(Error::new(name, unknown)),
            Err(mut error) => {
                error.problems.extend(unknown);
                Err(error)
            }
        }
    }

    /// The operation that compiles to `workflow`, without a look at its functions.
    pub(crate) fn of(workflow: Workflow, operation: &Operation) -> Self {
        Self {
            workflow,
            digest: digest(operation),
            labels: Arc::new(operation.labels.clone()),
        }
    }

    /// A start of the operation, with its labels. Labels that the start has itself are kept.
    pub(crate) fn labelled(&self, mut start: Start) -> Start {
        if start.labels.is_empty() {
            start.labels = self.labels.clone();
            return start;
        }
        let labels = Arc::make_mut(&mut start.labels);
        for (name, value) in self.labels.iter() {
            labels.entry(name.clone()).or_insert_with(|| value.clone());
        }
        start
    }
}

/// The digest of an operation's content.
pub(crate) fn digest(operation: &Operation) -> Digest {
    let json = serde_json::to_vec(operation).unwrap_or_default();
    Digest::of(&json)
}

/// The name under which the operation of an asset runs: its id, with dots for other characters, after `prefix` if it does
/// not begin with a letter or a digit.
pub(crate) fn name_of(asset: &AssetId, prefix: &str) -> WorkflowName {
    let allowed = |it: char| it.is_ascii_alphanumeric() || "-._".contains(it);
    let id = asset.as_str();
    let prefix = match id.starts_with(|it: char| it.is_ascii_alphanumeric()) {
        true => "",
        false => prefix,
    };
    let all = prefix.chars().chain(id.chars());
    let name = all.map(|it| if allowed(it) { it } else { '.' });
    let name: String = name.take(plugin_sdk::workflow::MAX_NAME).collect();
    WorkflowName::from(&*name)
}
