//! Edits a tree, level by level from the leaves up. Every node that an operation affects is written again, and its new
//! location is an operation on its parent.

use std::borrow::Cow;

use super::{
    chunk::Chunker,
    node::{Node, Tree},
    pack::Location,
    table::Packs,
    walk::Walk,
    write::Writer,
};

/// An operation on one entry of a level. A sorted list of operations edits the level.
#[derive(Debug, Clone)]
pub(super) struct Op<'k> {
    pub(super) key: Cow<'k, [u8]>,
    pub(super) to: To,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// Adds an entry with this key.
    Put(Location),
    /// Removes the entry with this key.
    Remove,
    /// Changes the location of the first entry that is not below the key. Keys do not change, and so neither do the
    /// boundaries of nodes.
    Move(Location),
    /// Copies the node of the first entry that is not below the key to the new pack.
    Touch,
}

/// The tree to edit, and the writer of the new pack.
pub(super) struct Rewrite<'w, 'a> {
    pub(super) tree: Tree,
    pub(super) packs: &'a Packs,
    pub(super) writer: &'w mut Writer<'a>,
}

impl Rewrite<'_, '_> {
    /// Edits the tree at `root` by the sorted `ops` on its leaves and the sorted `touches`, each with its level.
    /// Returns the new root.
    pub(super) fn run<'k>(
        &mut self,
        root: Option<Location>,
        mut ops: Vec<Op<'k>>,
        touches: &[(u8, Op<'k>)],
    ) -> Option<Location> {
        let mut level = 0;
        let mut start = None;
        if let Some(root) = root {
            let height = self.packs.node(root).level();
            while level <= height {
                if join(&mut ops, touches, level) {
                    start = None;
                }
                if let Some(first) = ops.first() {
                    let seek = || Walk::seek(self.packs, root, level, &first.key);
                    let walk = start.take().unwrap_or_else(seek);
                    start = walk.above();
                    ops = self.level(walk, &ops);
                } else if touches.iter().all(|(at, _)| *at < level) {
                    return Some(root);
                }
                level += 1;
            }
        }
        let located = ops.into_iter().filter_map(|op| match op.to {
            To::Put(at) | To::Move(at) => Some((op.key, at)),
            To::Remove | To::Touch => None,
        });
        let root = self.build(level, located.collect());
        root.map(|root| self.lowest(root))
    }

    /// Builds the levels from `level` upwards on top of `entries`, until one entry is left.
    fn build(
        &mut self,
        mut level: u8,
        mut entries: Vec<(Cow<'_, [u8]>, Location)>,
    ) -> Option<Location> {
        while entries.len() > 1 || level == 0 && !entries.is_empty() {
            let mut chunker = Chunker::new(self.tree, level);
            let mut above = Vec::with_capacity(entries.len() / 16 + 1);
            for (key, at) in &entries {
                above.extend(chunker.push(self.writer, key, *at));
            }
            above.extend(chunker.finish(self.writer));
            entries = above
                .into_iter()
                .map(|(key, at)| (Cow::Owned(key), at))
                .collect();
            level += 1;
        }
        entries.pop().map(|(_, at)| at)
    }

    /// The lowest node that contains all entries. It is the root of a tree that is built from the same content at once.
    fn lowest(&mut self, mut root: Location) -> Location {
        loop {
            let node = self.writer.node_at(root);
            if node.level() == 0 || node.count() > 1 {
                return root;
            }
            let child = node.location(0);
            self.writer.bury(root);
            root = child;
        }
    }

    /// Edits one level, from the node that the first operation affects. Returns the operations on the level above.
    fn level<'k>(&mut self, mut walk: Walk<'_>, ops: &[Op<'k>]) -> Vec<Op<'k>> {
        let mut above = Vec::new();
        let mut rest = ops;
        loop {
            let (mine, after) = split(&walk, rest, 1);
            let shifts = |op: &Op<'_>| matches!(op.to, To::Move(_) | To::Touch);
            if mine.iter().all(shifts) {
                above.push(self.shift(&walk, mine));
                rest = after;
            } else {
                rest = self.cut_anew(&mut walk, rest, &mut above);
            }
            match rest.first() {
                Some(next) => walk.seek_on(&next.key),
                None => return above,
            }
        }
    }

    /// Writes the present node again, with some entries at other locations.
    fn shift<'k>(&mut self, walk: &Walk<'_>, mine: &[Op<'k>]) -> Op<'k> {
        let node = walk.node();
        let find = |(nth, op): (usize, &Op<'_>)| match op.to {
            To::Move(to) if nth == 0 => Some((walk.find_first(&op.key), to)),
            To::Move(to) => Some((node.find(&op.key).0, to)),
            _ => None,
        };
        let moves = mine.iter().enumerate().filter_map(find);
        let at = self.writer.moved(node, moves);
        self.writer.bury(walk.at());
        Op {
            key: mine[0].key.clone(),
            to: To::Move(at),
        }
    }

    /// Divides the present node and the nodes after it again, until a new boundary is an old boundary. Returns the
    /// operations that are left.
    fn cut_anew<'o, 'k>(
        &mut self,
        walk: &mut Walk<'_>,
        ops: &'o [Op<'k>],
        above: &mut Vec<Op<'k>>,
    ) -> &'o [Op<'k>] {
        let mut chunker = Chunker::new(self.tree, walk.node().level());
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        let (mut rest, mut sure) = (ops, 1);
        loop {
            let (mine, after) = split(walk, rest, sure);
            (rest, sure) = (after, 0);
            self.writer.bury(walk.at());
            gone.push(self.merge(walk.node(), mine, &mut chunker, &mut come));
            if chunker.is_empty() || !walk.advance() {
                break;
            }
        }
        come.extend(chunker.finish(self.writer));
        replace(gone, come, above);
        rest
    }

    /// Passes the entries of `node`, with `ops` applied, to the chunker. Returns the last key that the node had before.
    fn merge(
        &mut self,
        node: Node<'_>,
        ops: &[Op<'_>],
        chunker: &mut Chunker,
        come: &mut Vec<(Vec<u8>, Location)>,
    ) -> Vec<u8> {
        let mut ops = ops.iter().peekable();
        let mut keys = node.keys();
        let mut nth = 0;
        while let Some(key) = keys.next() {
            let mut at = Some(node.location(nth));
            nth += 1;
            while let Some(op) = ops.next_if(|op| *op.key <= *key) {
                match op.to {
                    To::Put(new) => come.extend(chunker.push(self.writer, &op.key, new)),
                    To::Move(new) => at = Some(new),
                    To::Remove => at = None,
                    To::Touch => {}
                }
            }
            if let Some(at) = at {
                come.extend(chunker.push(self.writer, key, at));
            }
        }
        for op in ops {
            if let To::Put(new) = op.to {
                come.extend(chunker.push(self.writer, &op.key, new));
            }
        }
        keys.last()
    }
}

/// Adds the touches of one level to its operations. Returns whether the level has any touches.
fn join<'k>(ops: &mut Vec<Op<'k>>, touches: &[(u8, Op<'k>)], level: u8) -> bool {
    let before = ops.len();
    let here = touches.iter().filter(|(at, _)| *at == level);
    ops.extend(here.map(|(_, op)| op.clone()));
    let any = ops.len() > before;
    if any {
        ops.sort_by(|a, b| a.key.cmp(&b.key));
    }
    any
}

/// Splits `ops` into the operations on the present node and the rest. The first `sure` operations are known to be on
/// the present node.
fn split<'o, 'k>(walk: &Walk<'_>, ops: &'o [Op<'k>], sure: usize) -> (&'o [Op<'k>], &'o [Op<'k>]) {
    let node = walk.node();
    let beyond = |op: &Op<'_>| node.find(&op.key).0 == node.count();
    let end = match ops[sure..].iter().position(beyond) {
        Some(end) if !walk.is_last() => sure + end,
        _ => ops.len(),
    };
    ops.split_at(end)
}

/// Appends the operations that replace the entries `gone` of the level above by `come`. Both are sorted.
fn replace<'k>(gone: Vec<Vec<u8>>, come: Vec<(Vec<u8>, Location)>, above: &mut Vec<Op<'k>>) {
    let mut gone = gone.into_iter().peekable();
    let mut op = |key: Vec<u8>, to| {
        above.push(Op {
            key: Cow::Owned(key),
            to,
        });
    };
    for (key, at) in come {
        while let Some(old) = gone.next_if(|old| *old < key) {
            op(old, To::Remove);
        }
        match gone.next_if(|old| *old == key) {
            Some(_) => op(key, To::Move(at)),
            None => op(key, To::Put(at)),
        }
    }
    for old in gone {
        op(old, To::Remove);
    }
}
