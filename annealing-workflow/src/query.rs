//! Questions for live executions, and their answers page by page.

use std::collections::BTreeMap;

use plugin_sdk::{operation::ExecutionId, workflow::WorkflowName};
use serde::{Deserialize, Serialize};

use crate::{record::Live, view::Execution};

/// Which live executions are asked for, and from which number on. All that is set has to hold of an execution.
///
/// Executions are numbered in the order of their starts, and pages are in that order. Reading page after page gives every
/// execution once that is live and fits throughout, whatever starts and ends meanwhile.
///
/// ```
/// use annealing_workflow::query::{ExecutionQuery, Only};
///
/// // The executions of one application that ask a person something: the first 50, and those after number 7.
/// let query = ExecutionQuery::all().label("app", "shop").only(Only::Asking).limit(50);
/// let next = query.clone().after(7);
/// assert_eq!((query.after, next.after), (0, 7));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ExecutionQuery {
    /// The workflow of the executions. `None`: of all workflows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowName>,
    /// Labels that the executions have, with these values, beside others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What a person has to do for the executions. `None`: it does not matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<Only>,
    /// The number after which the page begins: [`ExecutionPage::next`] of the page before. 0: it begins with the first
    /// execution.
    pub after: u64,
    /// Maximum number of executions in the page: from 1 to [`MAX_LIMIT`](Self::MAX_LIMIT). A number outside counts as the
    /// nearest one inside. Default: [`LIMIT`](Self::LIMIT).
    pub limit: usize,
}

/// What a person has to do for an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Only {
    /// A machine of it asks a question, which a person answers.
    Asking,
    /// A step of it waits for a word about a call: to settle it, or to replay it.
    Parked,
    /// It is paused, by a person or because it reached its maximum number of transitions.
    Paused,
    /// A step of it waits for a function or a workflow that the owner's program does not register.
    Missing,
}

/// Some live executions, in the order of their numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecutionPage {
    /// The executions that fit. There may be none of them in a page that is not the last one.
    pub executions: Vec<Execution>,
    /// The number of the last execution that was looked at, if there are more after it: the next page begins
    /// [after](ExecutionQuery::after) it. `None`: this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

impl Default for ExecutionQuery {
    fn default() -> Self {
        Self {
            workflow: None,
            labels: BTreeMap::new(),
            only: None,
            after: 0,
            limit: Self::LIMIT,
        }
    }
}

impl ExecutionQuery {
    /// Default of [`limit`](Self::limit), in executions per page.
    pub const LIMIT: usize = 100;
    /// Maximum of [`limit`](Self::limit), in executions per page.
    pub const MAX_LIMIT: usize = 1_000;
    /// Maximum number of executions that are looked at for one page (R61). Where few fit, a page may end there.
    pub const VISITS: usize = 20_000;

    /// The first page of all live executions.
    pub fn all() -> Self {
        Self::default()
    }

    /// Leaves out executions of other workflows.
    #[must_use]
    pub fn workflow(mut self, workflow: impl Into<WorkflowName>) -> Self {
        self.workflow = Some(workflow.into());
        self
    }

    /// Leaves out executions without this label, or with another value of it.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Leaves out executions for which a person does not have to do this.
    #[must_use]
    pub fn only(mut self, only: Only) -> Self {
        self.only = Some(only);
        self
    }

    /// Begins after the execution with this number. See [`ExecutionPage::next`].
    #[must_use]
    pub fn after(mut self, number: u64) -> Self {
        self.after = number;
        self
    }

    /// Sets the maximum number of executions in the page.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Whether an execution, live or ended, has the workflow and the labels.
    pub fn names(&self, id: &ExecutionId, live: &Live) -> bool {
        let has = &live.origin.labels;
        let mut labels = self.labels.iter();
        self.workflow.as_ref().is_none_or(|it| *it == id.workflow)
            && labels.all(|(name, value)| has.get(name) == Some(value))
    }
}
