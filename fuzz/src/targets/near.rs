//! Where a text may change when one field is edited: from the lines of that field to the next value after it.

use plugin_sdk::document::{FieldPath, Node, Step, Value};
use prodspec_gen::edit::Edit;

/// The kind of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Another value.
    Replaced,
    /// The field goes.
    Removed,
    /// The field is new.
    Added,
}

impl Change {
    /// The kind of this edit.
    pub(crate) fn of(edit: &Edit) -> Self {
        match (&edit.was, &edit.to) {
            (None, _) => Self::Added,
            (_, None) => Self::Removed,
            _ => Self::Replaced,
        }
    }
}

/// A position in a text: line and column.
type Position = (u32, u32);

/// The positions of all values and keys of a text, each with the document and path of its value.
#[derive(Debug)]
pub(crate) struct Places(Vec<(Position, usize, FieldPath)>);

/// The lines of a text, from and to, in which it may change; all before and after stay. Lines count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The first line that may change.
    pub(crate) first: u32,
    /// The last line that may change.
    pub(crate) last: u32,
}

impl Places {
    /// The positions in the documents of a text.
    pub(crate) fn of(documents: &[Node]) -> Self {
        let mut places = Self(Vec::new());
        for (nth, root) in documents.iter().enumerate() {
            places.add(nth, FieldPath::default(), root);
        }
        places
    }

    fn add(&mut self, document: usize, path: FieldPath, node: &Node) {
        match &node.value {
            Value::Map(entries) => {
                for (name, value) in entries {
                    let path = path.clone().key(name.text.clone());
                    self.0
                        .push(((name.line, name.column), document, path.clone()));
                    self.add(document, path, value);
                }
            }
            Value::Sequence(items) => {
                for (nth, item) in items.iter().enumerate() {
                    self.add(document, path.clone().index(nth), item);
                }
            }
            _ => {}
        }
        self.0.push(((node.line, node.column), document, path));
    }

    /// Where a field may change. `None`: its values are scattered, such as those of a table with several headers or of an
    /// alias.
    pub(crate) fn place(&self, document: usize, path: &FieldPath, change: Change) -> Option<Place> {
        let field = match change {
            Change::Added => path.split_last()?.0,
            _ => path.clone(),
        };
        let is_inside = |(_, nth, at): &&(Position, usize, FieldPath)| {
            *nth == document && field.is_prefix_of(at)
        };
        let inside = || {
            self.0
                .iter()
                .filter(is_inside)
                .map(|(position, ..)| *position)
        };
        let (first, last) = (inside().min()?, inside().max()?);
        let outside = || {
            self.0
                .iter()
                .filter(move |place| !is_inside(place))
                .map(|(position, ..)| *position)
        };
        if outside().any(|position| first < position && position <= last) {
            return None;
        }
        let lines = outside().map(|(line, _)| line);
        let before = lines.filter(|line| *line < first.0).max();
        let after = outside()
            .filter(|position| *position > last)
            .map(|(line, _)| line)
            .min();
        Some(Place {
            first: match (change, path.steps().last()) {
                // Comments above a field go with it, and an empty map or list is left where the last entry was. The dash
                // of an item can be lines above it.
                (Change::Removed, _) | (Change::Replaced, Some(Step::Index(_))) => {
                    before.unwrap_or(1)
                }
                _ => first.0,
            },
            last: after.unwrap_or(u32::MAX),
        })
    }
}

impl Place {
    /// Whether `after` is `before` with changes in these lines only.
    pub(crate) fn holds(&self, before: &str, after: &str) -> bool {
        let strange = |text: &str| {
            text.replace("\r\n", "\n")
                .contains(['\r', '\u{85}', '\u{2028}', '\u{2029}'])
        };
        if strange(before) {
            return true; // Lines may be counted otherwise.
        }
        let lines: Vec<&str> = before.split_inclusive('\n').collect();
        let count = |line: u32| (line as usize).min(lines.len());
        let start: usize = lines[..count(self.first.saturating_sub(1))]
            .iter()
            .map(|line| line.len())
            .sum();
        let end: usize = lines[count(self.last)..]
            .iter()
            .map(|line| line.len())
            .sum();
        let long_enough = after.len() >= start + end;
        long_enough
            && after.starts_with(&before[..start])
            && after.ends_with(&before[before.len() - end..])
    }
}
