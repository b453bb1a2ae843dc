//! The order of generators: first those that make a type, then those that amend it, then those that consume it. Last
//! come those that are called for assets of any type.

use std::sync::Arc;

use petgraph::{
    algo::{astar, toposort},
    graph::{DiGraph, NodeIndex},
    visit::EdgeRef,
};
use plugin_sdk::generate::{GeneratorInfo, Unit};

use super::{Stage, error::Error};

/// Sorts `stages` by their dependencies. Stages that do not depend on each other stay in the order in which they were
/// added.
pub(super) fn order(stages: Vec<Stage>) -> Result<Vec<Stage>, Error> {
    let (last, stages): (Vec<Stage>, Vec<Stage>) = stages
        .into_iter()
        .partition(|stage| stage.info.unit == Unit::AnyAsset);
    let infos: Vec<&GeneratorInfo> = stages.iter().map(|stage| &stage.info).collect();
    let graph = graph(&infos);
    let sorted = toposort(&graph, None).map_err(|cycle| Error::Cycle {
        path: path(&graph, &infos, cycle.node_id()),
    })?;
    let mut places: Vec<Option<Stage>> = stages.into_iter().map(Some).collect();
    Ok(sorted
        .into_iter()
        .filter_map(|node| places[node.index()].take())
        .chain(last)
        .collect())
}

/// The graph with an edge from each generator to the generators that must run after it. The edge names the type that is
/// the reason.
fn graph(infos: &[&GeneratorInfo]) -> DiGraph<(), Arc<str>> {
    let mut graph = DiGraph::new();
    let nodes: Vec<NodeIndex> = infos.iter().map(|_| graph.add_node(())).collect();
    for first in 0..infos.len() {
        for second in 0..infos.len() {
            if let Some(type_name) = reason(infos, first, second) {
                graph.add_edge(nodes[first], nodes[second], type_name.clone());
            }
        }
    }
    graph
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

/// A readable description of a shortest cycle through `node`.
fn path(graph: &DiGraph<(), Arc<str>>, infos: &[&GeneratorInfo], node: NodeIndex) -> String {
    let step = |from: NodeIndex, to: NodeIndex| {
        let reason = graph
            .edges_connecting(from, to)
            .next()
            .map_or("?", |edge| edge.weight());
        format!(
            "`{}` gives {reason} to `{}`",
            infos[from.index()].name,
            infos[to.index()].name
        )
    };
    let back = |first: NodeIndex| {
        let (_, nodes) = astar(graph, first, |at| at == node, |_| 1, |_| 0)?;
        let steps = nodes.windows(2).map(|pair| step(pair[0], pair[1]));
        Some(
            std::iter::once(step(node, first))
                .chain(steps)
                .collect::<Vec<_>>(),
        )
    };
    graph
        .edges(node)
        .filter_map(|edge| back(edge.target()))
        .min_by_key(Vec::len)
        .map_or_else(
            || infos[node.index()].name.to_string(),
            |steps| steps.join(", "),
        )
}
