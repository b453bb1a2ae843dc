//! Walks through the nodes of one level of a tree from left to right, starting at any key.

use super::{node::Node, pack::Location, table::Packs};

/// The node at which [`Walk::seek`] would start, and its location, without the path to it.
pub(super) fn seek<'a>(
    packs: &'a Packs,
    root: Location,
    level: u8,
    key: &[u8],
) -> (Location, Node<'a>) {
    let (mut at, mut node) = (root, packs.node(root));
    while node.level() > level {
        at = node.location(node.find(key).0.min(node.count() - 1));
        node = packs.node(at);
    }
    (at, node)
}

/// A position among the nodes of one level.
#[derive(Debug, Clone)]
pub(super) struct Walk<'a> {
    packs: &'a Packs,
    root: Location,
    level: u8,
    /// The inner nodes above the position, from the root, each with the index of the entry that leads to it.
    path: Vec<(Node<'a>, usize)>,
    at: Location,
    node: Node<'a>,
    /// The entry of the present node above the position of the walk one level below. `None`: not known.
    through: Option<usize>,
}

impl<'a> Walk<'a> {
    /// Starts at the first node of `level` that has a key not below `key`. If all keys are below it, starts at the last
    /// node.
    pub(super) fn seek(packs: &'a Packs, root: Location, level: u8, key: &[u8]) -> Self {
        let mut walk = Self {
            packs,
            root,
            level,
            path: Vec::with_capacity(8),
            at: root,
            node: packs.node(root),
            through: None,
        };
        walk.descend(|node| node.find(key).0.min(node.count() - 1));
        walk
    }

    /// Moves to the node at which [`Walk::seek`] would start for `key`. That node must not be before the present one.
    pub(super) fn seek_on(&mut self, key: &[u8]) {
        // Go up until the key is not above the last entry of the node, or until the root.
        while let Some((node, _)) = self.path.pop() {
            let nth = node.find(key).0;
            if nth < node.count() || self.path.is_empty() {
                self.enter(node, nth.min(node.count() - 1));
                break;
            }
        }
        self.descend(|node| node.find(key).0.min(node.count() - 1));
    }

    /// The walk one level up, at the parent of the present node. `None`: the present node is the root.
    pub(super) fn above(&self) -> Option<Self> {
        let mut above = self.clone();
        above.level += 1;
        let (node, nth) = above.path.pop()?;
        (above.node, above.through) = (node, Some(nth));
        above.at = match above.path.last() {
            Some((node, nth)) => node.location(*nth),
            None => self.root,
        };
        Some(above)
    }

    /// The node at the present position.
    pub(super) fn node(&self) -> Node<'a> {
        self.node
    }

    /// The index of the first entry of the present node whose key is not below `key`. Valid only for the first key that
    /// is looked up at this position.
    pub(super) fn find_first(&self, key: &[u8]) -> usize {
        self.through.unwrap_or_else(|| self.node.find(key).0)
    }

    /// The location of the present node.
    pub(super) fn at(&self) -> Location {
        self.at
    }

    /// Whether the present node is the last one of its level.
    pub(super) fn is_last(&self) -> bool {
        self.path.iter().all(|(node, nth)| nth + 1 == node.count())
    }

    /// Moves to the next node. At the last node, does not move and returns false.
    pub(super) fn advance(&mut self) -> bool {
        if self.is_last() {
            return false;
        }
        while let Some((node, nth)) = self.path.pop() {
            if nth + 1 < node.count() {
                self.enter(node, nth + 1);
                break;
            }
        }
        self.descend(|_| 0);
        true
    }

    fn enter(&mut self, node: Node<'a>, nth: usize) {
        self.through = None;
        self.path.push((node, nth));
        self.at = node.location(nth);
        self.node = self.packs.node(self.at);
    }

    fn descend(&mut self, choose: impl Fn(Node<'a>) -> usize) {
        while self.node.level() > self.level {
            self.enter(self.node, choose(self.node));
        }
    }
}
