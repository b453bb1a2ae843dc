//! Evidence from the journals of the cells: the changes of production, their order and their causes.

use std::{collections::BTreeMap, time::Duration};

use super::broken::{Held, broken, ensure};
use crate::{
    place::Place,
    production::{
        GLOBAL_CELL, JOB,
        api::{By, Change, Line},
        files::lines,
    },
};

/// The number of lines of each journal at one point in time.
#[derive(Debug, Clone, Default)]
pub struct Mark(BTreeMap<String, usize>);

/// Returns all lines of all journals, by cell.
pub fn journals(place: &Place) -> Held<BTreeMap<String, Vec<Line>>> {
    let mut all = BTreeMap::new();
    for name in place.cell_names()? {
        let lines = lines(&place.cell(&name).join("journal.jsonl"));
        all.insert(name, lines);
    }
    Ok(all)
}

/// Returns the current number of lines of each journal.
pub fn mark(place: &Place) -> Held<Mark> {
    let lengths = journals(place)?.into_iter();
    Ok(Mark(
        lengths.map(|(name, lines)| (name, lines.len())).collect(),
    ))
}

/// Returns the lines written since `mark`, by cell.
pub fn since(place: &Place, mark: &Mark) -> Held<BTreeMap<String, Vec<Line>>> {
    let mut all = journals(place)?;
    for (name, lines) in &mut all {
        let known = mark.0.get(name).copied().unwrap_or(0);
        lines.drain(..known.min(lines.len()));
    }
    Ok(all)
}

/// Returns the changes of wanted states since `mark`, in order of time.
pub fn asked(place: &Place, mark: &Mark) -> Held<Vec<Line>> {
    let lines = since(place, mark)?.into_values().flatten();
    let mut asked: Vec<Line> = lines.filter(|line| line.change == Change::Spec).collect();
    asked.sort_by_key(|line| line.at_micros);
    Ok(asked)
}

/// Returns the incarnation of a line that was caused by an owner.
fn incarnation(line: &Line) -> Option<&str> {
    match &line.by {
        By::Owner { incarnation, .. } => incarnation.as_deref(),
        _ => None,
    }
}

/// Expects that no wanted state has changed since `mark`.
pub fn nothing_asked(place: &Place, mark: &Mark) -> Held {
    let asked = asked(place, mark)?;
    ensure(asked.is_empty(), || {
        format!("unexpected changes in the journals: {asked:?}")
    })
}

/// Expects that since `mark` the wanted state of each `expected` resource was changed exactly once, by an owner and for
/// the same incarnation, and that no other wanted state was changed. Resources are given as cell and name.
pub fn asked_once_each(place: &Place, mark: &Mark, expected: &[(String, String)]) -> Held {
    let asked = asked(place, mark)?;
    let mut found: Vec<(String, String)> = asked
        .iter()
        .map(|line| (line.cell.clone(), line.resource.clone()))
        .collect();
    found.sort();
    let mut wanted = expected.to_vec();
    wanted.sort();
    ensure(found == wanted, || {
        format!("changed: {found:?}, expected: {wanted:?}")
    })?;
    let mut incarnations: Vec<_> = asked.iter().map(incarnation).collect();
    incarnations.dedup();
    ensure(incarnations.len() == 1 && incarnations[0].is_some(), || {
        format!("expected changes for one incarnation, found {incarnations:?}")
    })
}

/// Returns the time between the first and the last change of a wanted state since `mark`.
pub fn first_to_last_asked(place: &Place, mark: &Mark) -> Held<Duration> {
    let asked = asked(place, mark)?;
    let at = |line: Option<&Line>| line.map_or(0, |line| line.at_micros);
    let span = at(asked.last()).saturating_sub(at(asked.first()));
    Ok(Duration::from_micros(span))
}

/// Returns the resource name of a cluster's job in its journal.
pub fn job_resource() -> String {
    format!("jobs/{JOB}")
}

/// Expects that at every instant the capacity of each cluster's balancer was at most that of its job. An excess caused
/// by a change by hand is excused until it is repaired. Returns the number of instants checked.
pub fn demand_fits_capacity(place: &Place) -> Held<usize> {
    let mut instants = 0;
    for (name, lines) in journals(place)? {
        let (mut capacity, mut demand, mut by_hand) = (0, 0, false);
        for line in &lines {
            if line.resource == "cell" {
                // A restarted cell is empty.
                (capacity, demand, by_hand) = (0, 0, false);
            }
            if line.change != Change::Capacity || name == GLOBAL_CELL {
                continue;
            }
            instants += 1;
            let to = line.to.as_u64().unwrap_or(0);
            match line.resource.as_str() {
                "balancer" => demand = to,
                _ => capacity = to,
            }
            by_hand = demand > capacity && (by_hand || line.by == By::Hand);
            if demand > capacity && !by_hand {
                return broken(format_args!(
                    "demand of {demand} above the capacity of {capacity}: {line:?}"
                ));
            }
        }
    }
    Ok(instants)
}
