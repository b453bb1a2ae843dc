//! The cells' journals: what changed, in which order, on whose word.

use std::{collections::BTreeMap, fs, time::Duration};

use super::{
    broken::{Held, broken, ensure},
    eyes::JOB,
};
use crate::{
    place::Place,
    production::api::{By, Change, Line},
};

/// How far each journal was at some moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Mark(BTreeMap<String, usize>);

/// Every journal from its beginning, by cell.
pub(super) fn journals(place: &Place) -> Held<BTreeMap<String, Vec<Line>>> {
    let mut all = BTreeMap::new();
    for name in place.cell_names()? {
        let text = fs::read_to_string(place.cell(&name).join("journal.jsonl")).unwrap_or_default();
        // A line that a killed cell has torn took no effect.
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        all.insert(name, lines.collect());
    }
    Ok(all)
}

/// How far they are now.
pub(super) fn mark(place: &Place) -> Held<Mark> {
    let lengths = journals(place)?.into_iter();
    Ok(Mark(
        lengths.map(|(name, lines)| (name, lines.len())).collect(),
    ))
}

/// What was written since.
pub(super) fn since(place: &Place, mark: &Mark) -> Held<BTreeMap<String, Vec<Line>>> {
    let mut all = journals(place)?;
    for (name, lines) in &mut all {
        let known = mark.0.get(name).copied().unwrap_or(0);
        lines.drain(..known.min(lines.len()));
    }
    Ok(all)
}

/// What was asked for since, effective calls only.
pub(super) fn asked(place: &Place, mark: &Mark) -> Held<Vec<Line>> {
    let lines = since(place, mark)?.into_values().flatten();
    let mut asked: Vec<Line> = lines.filter(|line| line.change == Change::Spec).collect();
    asked.sort_by_key(|line| line.at_micros);
    Ok(asked)
}

/// The incarnation that an owner's line is about.
pub(super) fn incarnation(line: &Line) -> Option<&str> {
    match &line.by {
        By::Owner { incarnation, .. } => incarnation.as_deref(),
        _ => None,
    }
}

/// Nothing was asked for.
pub(super) fn nothing_asked(place: &Place, mark: &Mark) -> Held {
    let asked = asked(place, mark)?;
    ensure(asked.is_empty(), || format!("the journals have {asked:?}"))
}

/// Each of these resources was asked for exactly once, by an owner, for one incarnation; nothing else was.
pub(super) fn asked_once_each(place: &Place, mark: &Mark, expected: &[(String, String)]) -> Held {
    let asked = asked(place, mark)?;
    let mut found: Vec<(String, String)> = asked
        .iter()
        .map(|line| (line.cell.clone(), line.resource.clone()))
        .collect();
    found.sort();
    let mut wanted = expected.to_vec();
    wanted.sort();
    ensure(found == wanted, || {
        format!("changed were {found:?}, expected {wanted:?}")
    })?;
    let mut incarnations: Vec<_> = asked.iter().map(incarnation).collect();
    incarnations.dedup();
    ensure(incarnations.len() == 1 && incarnations[0].is_some(), || {
        format!("more than one incarnation: {incarnations:?}")
    })
}

/// From the first thing that was asked for to the last.
pub(super) fn first_to_last_asked(place: &Place, mark: &Mark) -> Held<Duration> {
    let asked = asked(place, mark)?;
    let at = |line: Option<&Line>| line.map_or(0, |line| line.at_micros);
    let span = at(asked.last()).saturating_sub(at(asked.first()));
    Ok(Duration::from_micros(span))
}

/// The name under which a cluster's job stands in its journal.
pub(super) fn job_resource() -> String {
    format!("jobs/{JOB}")
}

/// At every instant, in every cell: what the balancer lets through fits what the job guarantees. What a person's hand
/// took away is excused until it is put back.
pub(super) fn demand_fits_capacity(place: &Place) -> Held<usize> {
    let mut instants = 0;
    for (name, lines) in journals(place)? {
        let (mut capacity, mut demand, mut by_hand) = (0, 0, false);
        for line in &lines {
            if line.resource == "cell" {
                // A cell comes back empty.
                (capacity, demand, by_hand) = (0, 0, false);
            }
            if line.change != Change::Capacity || name == crate::model::GLOBAL_CELL {
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
                return broken(format_args!("{demand} over {capacity}: {line:?}"));
            }
        }
    }
    Ok(instants)
}
