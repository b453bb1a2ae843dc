//! Cycles and orders in graphs: which nodes reach each other, and a shortest way round. Generators are ordered with it,
//! dependencies validated, and pushes found that wait for each other.
//!
//! The nodes of a graph are numbered from 0; the graph is the list of each node's successors. The library for graphs,
//! petgraph, brings a second version of the hash table, which makes six crates for these two functions.

use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry};

/// The strongly connected components of a graph: sets of nodes that all reach each other. A node on no cycle is a
/// component of its own.
///
/// A component comes after all components that it reaches, so the reversed list is a topological order. The time is linear
/// in nodes and edges (Tarjan's algorithm), and the depth of the graph has no limit. Every successor has to be the number of
/// a node.
///
/// ```
/// use plugin_sdk::graph::components;
///
/// // 0 -> 1 -> 2 -> 1, and 3 -> 0.
/// let found = components(&[vec![1], vec![2], vec![1], vec![0]]);
/// assert_eq!(found, [vec![1, 2], vec![0], vec![3]]);
/// ```
pub fn components(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        successors,
        seen: 0,
        numbers: vec![UNSEEN; successors.len()],
        lowest: vec![UNSEEN; successors.len()],
        open: Vec::new(),
        found: Vec::new(),
    };
    for node in 0..successors.len() {
        if search.numbers[node] == UNSEEN {
            search.from(node);
        }
    }
    search.found
}

/// A shortest cycle through `start` that stays within a component. It begins with `start`, and its last node has an edge
/// to `start`. `None`: there is none.
///
/// ```
/// use plugin_sdk::graph::shortest_cycle;
///
/// let successors = [vec![1], vec![2, 0], vec![0]];
/// assert_eq!(shortest_cycle(&successors, 2, &[0, 1, 2]), Some(vec![2, 0, 1]));
/// assert_eq!(shortest_cycle(&[vec![]], 0, &[0]), None);
/// ```
pub fn shortest_cycle(
    successors: &[Vec<usize>],
    start: usize,
    component: &[usize],
) -> Option<Vec<usize>> {
    let inside: BTreeSet<usize> = component.iter().copied().collect();
    let mut reached_from = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(node) = next.pop_front() {
        for &to in successors[node].iter().filter(|to| inside.contains(to)) {
            if to == start {
                let back = std::iter::successors(Some(node), |at| reached_from.get(at).copied());
                let mut cycle: Vec<usize> = back.collect();
                cycle.reverse();
                return Some(cycle);
            }
            if let Entry::Vacant(new) = reached_from.entry(to) {
                new.insert(node);
                next.push_back(to);
            }
        }
    }
    None
}

/// Number of a node that the search has not seen.
const UNSEEN: usize = 0;
/// Number of a node whose component is complete. It is greater than any other number, so edges to it change no minimum.
const DONE: usize = usize::MAX;

/// A depth-first search for components.
struct Search<'g> {
    successors: &'g [Vec<usize>],
    seen: usize,
    /// The order in which nodes were seen, from 1.
    numbers: Vec<usize>,
    /// The lowest number that each node is known to reach.
    lowest: Vec<usize>,
    /// Seen nodes whose component is not complete.
    open: Vec<usize>,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn from(&mut self, start: usize) {
        let mut path = vec![self.enter(start)];
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            if let Some(&to) = self.successors[node].get(*next) {
                *next += 1;
                match self.numbers[to] {
                    UNSEEN => path.push(self.enter(to)),
                    number => self.lowest[node] = self.lowest[node].min(number),
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                self.lowest[*parent] = self.lowest[*parent].min(self.lowest[node]);
            }
            if self.lowest[node] == self.numbers[node] {
                self.complete(node);
            }
        }
    }

    /// Numbers a node, and returns it with the place of its next successor.
    fn enter(&mut self, node: usize) -> (usize, usize) {
        self.seen += 1;
        self.numbers[node] = self.seen;
        self.lowest[node] = self.seen;
        self.open.push(node);
        (node, 0)
    }

    /// Takes the component whose first node is `first`.
    fn complete(&mut self, first: usize) {
        let number = self.numbers[first];
        let begin = self
            .open
            .partition_point(|&node| self.numbers[node] < number);
        let component = self.open.split_off(begin);
        for &node in &component {
            self.numbers[node] = DONE;
        }
        self.found.push(component);
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// All nodes that a node reaches over one edge or more.
    fn reached(successors: &[Vec<usize>], from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            open.extend(successors[node].iter().filter(|&&to| reached.insert(to)));
        }
        reached
    }

    fn graph() -> impl Strategy<Value = Vec<Vec<usize>>> {
        (1_usize..12).prop_flat_map(|nodes| vec(vec(0..nodes, 0..4), nodes))
    }

    proptest! {
        #[test]
        fn components_are_the_nodes_that_reach_each_other(successors in graph()) {
            let found = components(&successors);
            let reach: Vec<_> = (0..successors.len()).map(|node| reached(&successors, node)).collect();
            let mut place = vec![usize::MAX; successors.len()];
            for (at, component) in found.iter().enumerate() {
                for &node in component {
                    prop_assert_eq!(place[node], usize::MAX, "a node is in two components");
                    place[node] = at;
                }
            }
            for from in 0..successors.len() {
                for to in 0..successors.len() {
                    let mutual = from == to || reach[from].contains(&to) && reach[to].contains(&from);
                    prop_assert_eq!(place[from] == place[to], mutual);
                    prop_assert!(!reach[from].contains(&to) || place[to] <= place[from]);
                }
            }
        }

        #[test]
        fn a_cycle_is_found_if_a_node_reaches_itself(successors in graph()) {
            for component in components(&successors) {
                let start = component[0];
                let cycle = shortest_cycle(&successors, start, &component);
                prop_assert_eq!(cycle.is_some(), reached(&successors, start).contains(&start));
                for pair in cycle.iter().flat_map(|cycle| cycle.windows(2)) {
                    prop_assert!(successors[pair[0]].contains(&pair[1]));
                }
                if let Some(last) = cycle.and_then(|cycle| cycle.last().copied()) {
                    prop_assert!(successors[last].contains(&start));
                }
            }
        }
    }

    #[test]
    fn depth_has_no_limit() {
        let nodes = 100_000;
        let successors: Vec<Vec<usize>> = (0..nodes).map(|node| vec![(node + 1) % nodes]).collect();
        let found = components(&successors);
        assert_eq!(found.len(), 1);
        assert_eq!(
            shortest_cycle(&successors, 7, &found[0]).map(|cycle| cycle.len()),
            Some(nodes)
        );
    }
}
