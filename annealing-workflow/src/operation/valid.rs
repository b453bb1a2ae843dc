//! Checks operations and schedules before they are sealed.

use plugin_sdk::{AssetView, Problems, with_causes};
use prodspec_model::operation::{CronOperation, Operation};

use super::{all_problems, name_of};
use crate::cron::{Error, Wanted};

/// Checks that the expression, the time zone and the deadline of a schedule can be used, and that its operation can be run
/// by a control plane with these functions.
///
/// ```
/// use annealing_workflow::operation;
/// use plugin_sdk::AssetType;
/// use prodspec_model::operation::CronOperation;
///
/// let schedules = AssetType::<CronOperation>::new()
///     .modelled_only()
///     .valid(|cron, view, problems| operation::valid(cron, view, problems, |name| name == "reindex"));
/// # let _ = schedules;
/// ```
pub fn valid(
    cron: &CronOperation,
    view: &AssetView<'_>,
    problems: &mut Problems,
    is_registered: impl Fn(&str) -> bool,
) {
    for (field, message) in wrong(cron, is_registered) {
        problems.push(view.problem(message).field(format!("payload.{field}")));
    }
}

/// Checks that an operation which is an asset can be run by a control plane with these functions.
pub fn valid_operation(
    operation: &Operation,
    view: &AssetView<'_>,
    problems: &mut Problems,
    is_registered: impl Fn(&str) -> bool,
) {
    let name = name_of(&view.asset().id(), "operation");
    for (field, problem) in all_problems(&name, operation, is_registered) {
        let problem = view.problem(problem.to_string());
        problems.push(problem.field(format!("payload.{field}")));
    }
}

/// Each field that cannot be used, with a message.
pub(super) fn wrong(
    cron: &CronOperation,
    is_registered: impl Fn(&str) -> bool,
) -> Vec<(String, String)> {
    let schedule = Wanted::of(cron).slots().err().map(|error| {
        let field = match error {
            Error::Zone { .. } => "schedule.zone",
            Error::Deadline => "starting_deadline_secs",
            _ => "schedule.cron",
        };
        (field.to_owned(), with_causes(&error))
    });
    let template = all_problems(&"template".into(), &cron.template, is_registered).into_iter();
    let template =
        template.map(|(field, problem)| (format!("template.{field}"), problem.to_string()));
    schedule.into_iter().chain(template).collect()
}
