//! `plan`: shows what would happen to each asset.

use control_plane::enforcer::Outcome;

use super::interventions::allowed;
use crate::{
    control::client::Control,
    place::Place,
    program::Failure,
    voice::{say, say_all},
};

/// Prints what would happen to each asset that is not in sync, and the totals.
///
/// # Errors
/// When no control plane is running.
pub(super) async fn plan(place: &Place) -> Result<(), Failure> {
    let plan = Control::find(place).await?.plan().await?;
    if let Some(stopped) = &plan.stopped {
        say(format_args!("STOPPED   enforcement {stopped}"));
    }
    for prospect in &plan.assets {
        let change = prospect.change.as_ref();
        let what = change.map_or("", |change| change.summary.as_str());
        let outcome = outcome(prospect.outcome);
        say(format_args!(
            "{outcome:<9} {:<14} {what}",
            prospect.asset.as_str()
        ));
        if !prospect.why.is_empty() {
            say(format_args!("{:<9} {:<14}   {}", "", "", prospect.why));
        }
        let words = allowed(&prospect.approvals, &prospect.overrides);
        say_all(
            words
                .iter()
                .map(|word| format!("{:<9} {:<14}   {word}", "", "")),
        );
    }
    let counts = OUTCOMES.map(|it| format!("{} {}", plan.count(it), outcome(it)));
    say(format_args!(
        "{}; {} in sync, {} modelled only",
        counts.join(", "),
        plan.in_sync,
        plan.modelled_only
    ));
    Ok(())
}

const OUTCOMES: [Outcome; 5] = [
    Outcome::Now,
    Outcome::InTurn,
    Outcome::Held,
    Outcome::Leaves,
    Outcome::Destroys,
];

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Now => "now",
        Outcome::InTurn => "in turn",
        Outcome::Held => "held",
        Outcome::Leaves => "leaves",
        Outcome::Destroys => "destroys",
        _ => "other",
    }
}
