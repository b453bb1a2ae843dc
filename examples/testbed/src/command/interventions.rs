//! Lines about the commands of operators that are in force.

use control_plane::store::records::{AllowedBy, Approval, Override, Pause};

/// Returns the line about a pause.
pub(super) fn paused(pause: &Pause) -> String {
    let until = match pause.until {
        Some(until) => format!("until {until:.0}"),
        None => "until an operator resumes it".into(),
    };
    format!(
        "paused     {}, {until}, by {} since {:.0}",
        pause.scope, pause.by, pause.at
    )
}

/// Returns a line for each approval and override, which wait for the push that uses them up.
pub(super) fn allowed(approvals: &[Approval], overrides: &[Override]) -> Vec<String> {
    let approved = approvals.iter().map(|word| {
        let Approval {
            asset,
            change,
            by,
            until,
            ..
        } = word;
        format!("approved   {asset}: change {change}, until {until:.0}, by {by}")
    });
    let overridden = overrides.iter().map(|word| {
        let Override {
            asset,
            check,
            change,
            by,
            until,
            ..
        } = word;
        format!("override   {asset}: {check}, change {change}, until {until:.0}, by {by}")
    });
    approved.chain(overridden).collect()
}

/// Returns the line about a command that let a push through.
pub(super) fn used(word: &AllowedBy) -> String {
    format!("allowed by {} of {:.0}, by {}", word.word, word.at, word.by)
}
