//! Checks operations and schedules before they are sealed.

use plugin_sdk::{AssetView, Problems, operation::FunctionInfo, with_causes};
use prodspec_model::operation::{CronOperation, Operation};

use super::{all_problems, name_of, powerless, template_problems};
use crate::cron::{Error, Wanted};

/// Checks that the expression, the time zone and the deadline of a schedule can be used, and that its operation can be run
/// by a control plane with these functions.
///
/// ```
/// use annealing_workflow::operation;
/// use plugin_sdk::{AssetType, operation::FunctionInfo};
/// use prodspec_model::operation::CronOperation;
///
/// let reindex = FunctionInfo::new("reindex");
/// let schedules = AssetType::<CronOperation>::new()
///     .modelled_only()
///     .valid(move |cron, view, problems| {
///         operation::valid(cron, view, problems, |name| (name == "reindex").then_some(&reindex));
///     });
/// # let _ = schedules;
/// ```
pub fn valid<'f>(
    cron: &CronOperation,
    view: &AssetView<'_>,
    problems: &mut Problems,
    function: impl Fn(&str) -> Option<&'f FunctionInfo>,
) {
    for (field, message) in wrong(cron, function) {
        problems.push(view.problem(message).field(format!("payload.{field}")));
    }
}

/// Checks that an operation which is an asset can be run by a control plane with these functions.
pub fn valid_operation<'f>(
    operation: &Operation,
    view: &AssetView<'_>,
    problems: &mut Problems,
    function: impl Fn(&str) -> Option<&'f FunctionInfo>,
) {
    let name = name_of(&view.asset().id(), "operation");
    let mut all = all_problems(&name, operation, |name| function(name).is_some());
    all.extend(powerless(operation, function));
    for (field, problem) in all {
        let problem = view.problem(problem.to_string());
        problems.push(problem.field(format!("payload.{field}")));
    }
}

/// Each field that cannot be used, with a message.
pub(super) fn wrong<'f>(
    cron: &CronOperation,
    function: impl Fn(&str) -> Option<&'f FunctionInfo>,
) -> Vec<(String, String)> {
    let schedule = Wanted::of(cron).slots().err().map(|error| {
        let field = match error {
            Error::Zone { .. } => "schedule.zone",
            Error::Deadline => "starting_deadline_secs",
            _ => "schedule.cron",
        };
        (field.to_owned(), with_causes(&error))
    });
    let template = template_problems(&cron.template, function);
    schedule.into_iter().chain(template).collect()
}
