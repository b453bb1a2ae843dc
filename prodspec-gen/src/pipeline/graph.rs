//! The order of generators: first those that make a type, then those that amend it, then those that consume it. Last
//! come those that are called for assets of any type.

use std::sync::Arc;

use plugin_sdk::{
    generate::{GeneratorInfo, Unit},
    graph::{components, shortest_cycle},
};

use super::{Stage, error::Error};

/// Sorts `stages` by their dependencies. Stages that do not depend on each other stay in the order in which they were
/// added.
pub(super) fn order(stages: Vec<Stage>) -> Result<Vec<Stage>, Error> {
    let (last, stages): (Vec<Stage>, Vec<Stage>) = stages
        .into_iter()
        .partition(|stage| stage.info.unit == Unit::AnyAsset);
    let infos: Vec<&GeneratorInfo> = stages.iter().map(|stage| &stage.info).collect();
    let successors = successors(&infos);
    let found = components(&successors);
    for component in found.iter().rev() {
        if let Some(cycle) = cycle(&successors, component) {
            let path = path(&infos, &cycle);
            return Err(Error::Cycle { path });
        }
    }
    let mut places: Vec<Option<Stage>> = stages.into_iter().map(Some).collect();
    Ok(found
        .into_iter()
        .rev()
        .flatten()
        .filter_map(|node| places[node].take())
        .chain(last)
        .collect())
}

/// For each generator, the generators that must run after it.
fn successors(infos: &[&GeneratorInfo]) -> Vec<Vec<usize>> {
    let all = 0..infos.len();
    let after = |first| {
        let after = all.clone();
        let after = after.filter(|second| reason(infos, first, *second).is_some());
        after.collect()
    };
    all.clone().map(after).collect()
}

/// A shortest cycle through the first generator of a component. `None`: it has no cycle.
fn cycle(successors: &[Vec<usize>], component: &[usize]) -> Option<Vec<usize>> {
    let first = *component.iter().min()?;
    shortest_cycle(successors, first, component)
}

/// The type because of which `first` must run before `second`. `None`: it need not.
///
/// Both can be the same generator. A generator that consumes a type that it makes depends on itself. A generator that
/// makes more assets of the type that it is called for does not.
fn reason<'i>(infos: &[&'i GeneratorInfo], first: usize, second: usize) -> Option<&'i Arc<str>> {
    let (before, after) = (infos[first], infos[second]);
    let consumed = after
        .uses()
        .find(|wanted| before.makes.contains(wanted) || before.amends() == Some(wanted));
    let called_for = after.amends().filter(|wanted| {
        let in_turn = before.amends() == Some(wanted) && first < second;
        let made = before.makes.contains(wanted);
        first != second && (made || in_turn && !after.makes.contains(wanted))
    });
    consumed.or(called_for)
}

/// A readable description of a cycle.
fn path(infos: &[&GeneratorInfo], cycle: &[usize]) -> String {
    let next = cycle.iter().cycle().skip(1);
    let steps = cycle.iter().zip(next).map(|(&from, &to)| {
        let reason = reason(infos, from, to).map_or("?", |type_name| type_name);
        let (from, to) = (&infos[from].name, &infos[to].name);
        format!("`{from}` gives {reason} to `{to}`")
    });
    steps.collect::<Vec<_>>().join(", ")
}
