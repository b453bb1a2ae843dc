//! The problems of an operation.

use std::fmt;

use plugin_sdk::{
    operation::{InvalidPower, OverLimit},
    with_causes,
    workflow::{InvalidName, WorkflowName},
};

use crate::definition;

/// An operation that cannot be run, with every problem found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The name of the operation.
    pub operation: WorkflowName,
    /// The problems, at least one.
    pub problems: Vec<Problem>,
}

impl Error {
    pub(crate) fn new(operation: &WorkflowName, problems: Vec<Problem>) -> Self {
        let operation = operation.clone();
        Self {
            operation,
            problems,
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<String> = self.problems.iter().map(ToString::to_string).collect();
        let problems = problems.join("; ");
        write!(
            f,
            "the operation `{}` is refused: {problems}",
            self.operation
        )
    }
}

/// One reason for which an operation is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The pipeline has no step.
    #[error("it has no step; add one")]
    Empty,
    /// The name of a step has a wrong form.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A step has the name of the machine that makes the edits.
    #[error("a step is named `{name}`, as the machine that makes the edits; rename it", name = super::EDIT)]
    Reserved,
    /// Two steps have one name.
    #[error("more than one step is named `{0}`; rename all but one")]
    Duplicate(String),
    /// The pattern of a power cannot be read.
    #[error("{}", with_causes(.0))]
    Power(InvalidPower),
    /// It has too many labels, or one that is too long.
    #[error(transparent)]
    Labels(OverLimit),
    /// A step calls a function that is not registered.
    #[error(
        "the step `{step}` calls `{function}`, which is not registered; register it with `.function(..)`"
    )]
    Function {
        /// Name of the step that calls the function.
        step: String,
        /// The function that is missing.
        function: String,
    },
    /// A step calls a function with powers of which the operation grants none.
    #[error(
        "the step `{step}` calls `{function}`, and no power of that is granted; add one that it declares to `may`"
    )]
    NotGranted {
        /// Name of the step that calls the function.
        step: String,
        /// Name of the function whose powers are not granted.
        function: String,
    },
    /// A limit of workflows is exceeded, or an action has a value that it cannot have.
    #[error(transparent)]
    Workflow(definition::Error),
}
