//! Entries of the logs of executions, as text.

use std::fmt::Display;

use control_plane::{model::AssetId, workflow::What};

/// Maximum number of assets, and of fields, that a line of the log names.
const NAMED: usize = 5;

/// Returns an entry of the log as text.
pub(super) fn happened(what: &What) -> String {
    match what {
        What::Started(by) => format!("started by {by}"),
        What::Moved { from, to } => format!("{from} -> {to}"),
        What::Failed { attempt, why } => format!("attempt {attempt} failed: {why}"),
        What::Unknown { attempt, why } => {
            format!("the outcome of attempt {attempt} is unknown: {why}")
        }
        What::Interrupted { attempt, deaths } => {
            format!(
                "attempt {attempt} was in flight when the control plane ended, {deaths} in a row"
            )
        }
        What::HandedOver { attempt } => {
            format!("attempt {attempt} was in flight when the control plane ended in order")
        }
        What::Edited {
            edits,
            assets,
            left_alone,
            ..
        } => edited(edits, assets, left_alone),
        What::Parked(why) => format!("parked: {why}"),
        What::Said { word, by } => format!("{word}, by {by}"),
        What::Redefined { from, to } => format!("definition {to}, before {from}"),
        What::Note(note) => note.clone(),
        What::Ended(outcome) => format!("ended: {outcome}"),
        other => format!("{other:?}"),
    }
}

fn edited(edits: &[String], assets: &[AssetId], left_alone: &[String]) -> String {
    let mut text = format!("edited {}", edits.join("; "));
    if !assets.is_empty() {
        text.push_str(&format!("; changes {}", some(assets)));
    }
    if !left_alone.is_empty() {
        text.push_str(&format!("; left alone: {}", some(left_alone)));
    }
    text
}

/// Returns the first names, and the number of names that are not listed.
fn some(names: &[impl Display]) -> String {
    let first: Vec<String> = names.iter().take(NAMED).map(ToString::to_string).collect();
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_of_an_edit_names_assets_and_fields_that_were_left_alone() {
        let assets = (0..7).map(|n| AssetId::new(&format!("job/{n}")).unwrap());
        let assets: Vec<AssetId> = assets.collect();
        let mut what = What::Edited {
            edits: vec!["a: 1 -> 2".into(), "b: 1 -> 2".into()],
            assets,
            changes: Vec::new(),
            left_alone: vec!["b: 1 -> 2".into()],
        };
        assert_eq!(
            happened(&what),
            "edited a: 1 -> 2; b: 1 -> 2; changes job/0, job/1, job/2, job/3, job/4 and 2 more; left alone: b: 1 -> 2"
        );
        if let What::Edited {
            assets, left_alone, ..
        } = &mut what
        {
            assets.clear();
            left_alone.clear();
        }
        assert_eq!(happened(&what), "edited a: 1 -> 2; b: 1 -> 2");
    }
}
