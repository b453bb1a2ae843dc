//! What the parsed values of a text look like, for classes of outcomes and for laws.

use plugin_sdk::document::{Node, Value};

/// Counts of the values in a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of all values.
    pub(crate) values: usize,
    /// Most levels, of maps and lists.
    pub(crate) depth: usize,
    /// Bytes of all texts and keys.
    pub(crate) bytes: usize,
    /// Numbers of values by kind.
    kinds: [usize; 7],
}

impl Shape {
    /// The shape of several trees together.
    pub(crate) fn of<'n>(roots: impl IntoIterator<Item = &'n Node>) -> Self {
        let mut shape = Self::default();
        for root in roots {
            shape.add(root, 0);
        }
        shape
    }

    /// The numbers that describe the shape.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        [&[self.values, self.depth, self.bytes][..], &self.kinds].concat()
    }

    fn add(&mut self, node: &Node, above: usize) {
        self.values += 1;
        let kind = match &node.value {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Uint(_) => 3,
            Value::Float(_) => 4,
            Value::String(text) => {
                self.bytes += text.len();
                5
            }
            Value::Sequence(items) => {
                self.depth = self.depth.max(above + 1);
                items.iter().for_each(|item| self.add(item, above + 1));
                6
            }
            Value::Map(entries) => {
                self.depth = self.depth.max(above + 1);
                for (name, value) in entries {
                    self.bytes += name.text.len();
                    self.add(value, above + 1);
                }
                6
            }
        };
        self.kinds[kind] += 1;
    }
}

/// The greatest line of a tree, and the smallest one.
pub(crate) fn lines(root: &Node) -> (u32, u32) {
    let mut found = (root.line, root.line);
    let mut note = |line: u32| found = (found.0.max(line), found.1.min(line));
    match &root.value {
        Value::Sequence(items) => items.iter().map(lines).for_each(|(most, least)| {
            note(most);
            note(least);
        }),
        Value::Map(entries) => entries.iter().for_each(|(name, value)| {
            let (most, least) = lines(value);
            note(name.line);
            note(most);
            note(least);
        }),
        _ => {}
    }
    found
}
