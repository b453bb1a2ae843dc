//! Trees of values with the byte ranges at which they are written. Anchors, tags and aliases are kept, not resolved.

use std::{borrow::Cow, ops::Range};

use plugin_sdk::document::{self, Step, Value};
use serde_json::Value as Json;

/// A file that was read for an edit.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The documents that have content.
    pub(super) documents: Vec<Node>,
    /// The ranges of all comments, in order.
    pub(super) comments: Vec<Range<usize>>,
    /// The documents as the source reads them. `None`: only a source that allows merge keys can read the file.
    pub(super) read: Option<Vec<Node>>,
}

/// One value, as it is written.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// The bytes of the value. A block scalar begins at its header, a block collection at its first key or dash.
    pub(super) at: Range<usize>,
    /// The bytes of its anchor and tag.
    pub(super) properties: Option<Range<usize>>,
    pub(super) anchor: Option<Anchor>,
    pub(super) tag: Option<Box<str>>,
    pub(super) kind: Kind,
}

/// The anchor of a value.
#[derive(Debug, Clone)]
pub(super) struct Anchor {
    pub(super) id: usize,
    pub(super) name: Box<str>,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// A value that is neither a map nor a list.
    Scalar(Style, Value),
    /// A repetition of an anchored value.
    Alias(Anchor),
    /// A map or a list.
    Collection(Collection),
}

/// How a scalar is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Style {
    /// There is no text: the value is null.
    Empty,
    Plain,
    Single,
    Double,
    /// A block scalar.
    Block {
        /// The end of its header, without a comment.
        header: usize,
        /// The beginning of its first line.
        body: usize,
        /// The indentation of its lines.
        indent: Option<usize>,
        /// Whether line breaks at its end belong to it.
        keep: bool,
    },
}

/// A map or a list.
#[derive(Debug, Clone)]
pub(super) struct Collection {
    pub(super) map: bool,
    pub(super) form: Form,
    pub(super) slots: Vec<Slot>,
}

/// How a map or list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// YAML lines, which are indented alike.
    Lines,
    /// Brackets or braces.
    Flow,
    /// A single entry within the brackets of a YAML list, without braces of its own.
    Pair,
    /// A TOML table with a header, the list of such tables, or the root. The bytes are those of the header.
    Section,
    /// A TOML table that only longer headers or keys name.
    Implied,
    /// A TOML table that is named by the first keys of dotted keys.
    Dotted,
}

/// An entry of a map, or an item of a list.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// The beginning of the entry: of its key, its dash, or its value.
    pub(super) start: usize,
    /// The end of its colon or dash. `None`: it has none.
    pub(super) after: Option<usize>,
    /// The key of an entry. Empty for an item.
    pub(super) key: Box<str>,
    /// Whether the key is quoted.
    pub(super) quoted: bool,
    /// Whether it is a merge key, which adds the entries of its value to the map.
    pub(super) merge: bool,
    pub(super) value: Node,
}

/// A change of one field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    Replace(Json),
    Add(Json),
    Remove,
}

impl Collection {
    /// Whether it is within brackets or braces.
    pub(super) fn flow(&self) -> bool {
        matches!(self.form, Form::Flow | Form::Pair)
    }

    /// The position of the entry or item that `step` names.
    pub(super) fn position(&self, step: &Step) -> Option<usize> {
        match step {
            Step::Key(key) if self.map => self.slots.iter().position(|slot| slot.key == *key),
            step if !self.map => step.position(self.slots.len(), |nth, by| self.name_of(nth, by)),
            _ => None,
        }
    }

    /// Whether several items have the name that `step` gives.
    pub(super) fn has_several(&self, step: &Step) -> bool {
        !self.map && step.is_ambiguous(self.slots.len(), |nth, by| self.name_of(nth, by))
    }

    /// The name that an item has in its field `by`.
    fn name_of(&self, nth: usize, by: &str) -> Option<Cow<'_, str>> {
        let item = self.slots[nth].value.collection().filter(|it| it.map)?;
        let field = item.slots.iter().find(|slot| *slot.key == *by)?;
        match &field.value.kind {
            Kind::Scalar(_, value) => value.as_name(),
            _ => None,
        }
    }

    /// Whether it has a merge key.
    pub(super) fn merges(&self) -> bool {
        self.slots.iter().any(|slot| slot.merge)
    }
}

impl Node {
    pub(super) fn new(kind: Kind, at: Range<usize>) -> Self {
        Self {
            at,
            properties: None,
            anchor: None,
            tag: None,
            kind,
        }
    }

    /// The map or list that the value is.
    pub(super) fn collection(&self) -> Option<&Collection> {
        match &self.kind {
            Kind::Collection(collection) => Some(collection),
            _ => None,
        }
    }

    /// Whether two values are equal, wherever and in whatever style they are written.
    pub(super) fn same(&self, other: &Self) -> bool {
        let name = |anchor: &Option<Anchor>| anchor.as_ref().map(|it| it.name.clone());
        if name(&self.anchor) != name(&other.anchor) || self.tag != other.tag {
            return false;
        }
        match (&self.kind, &other.kind) {
            (Kind::Scalar(_, a), Kind::Scalar(_, b)) => a == b,
            (Kind::Alias(a), Kind::Alias(b)) => a.name == b.name,
            (Kind::Collection(a), Kind::Collection(b)) => {
                let slot = |(a, b): (&Slot, &Slot)| {
                    a.key == b.key && a.merge == b.merge && a.value.same(&b.value)
                };
                a.map == b.map
                    && a.slots.len() == b.slots.len()
                    && a.slots.iter().zip(&b.slots).all(slot)
            }
            _ => false,
        }
    }

    /// Sorts the entries of all maps by their keys.
    pub(super) fn sort(&mut self) {
        if let Kind::Collection(collection) = &mut self.kind {
            collection
                .slots
                .iter_mut()
                .for_each(|slot| slot.value.sort());
            if collection.map {
                collection.slots.sort_by(|a, b| a.key.cmp(&b.key));
            }
        }
    }

    /// Changes the field at `path`. Returns `None` if the field is not there.
    pub(super) fn apply(&mut self, path: &[Step], change: &Change) -> Option<()> {
        let Some((step, rest)) = path.split_first() else {
            let Change::Replace(to) = change else {
                return None;
            };
            self.kind = Self::from(to).kind;
            return Some(());
        };
        let Kind::Collection(collection) = &mut self.kind else {
            return None;
        };
        match (collection.position(step), change, rest) {
            (Some(at), Change::Remove, []) => {
                collection.slots.remove(at);
            }
            (None, Change::Add(to), []) => {
                let key = match step {
                    Step::Key(key) if collection.map => key,
                    step if !collection.map && step.adds_to(collection.slots.len(), to) => "",
                    _ => return None,
                };
                collection.slots.push(Slot::of(key, Self::from(to)));
            }
            (Some(at), ..) => return collection.slots[at].value.apply(rest, change),
            _ => return None,
        }
        Some(())
    }
}

impl Slot {
    fn of(key: &str, value: Node) -> Self {
        Self {
            start: 0,
            after: None,
            key: key.into(),
            quoted: false,
            merge: false,
            value,
        }
    }
}

fn unwritten(map: bool, slots: Vec<Slot>) -> Kind {
    Kind::Collection(Collection {
        map,
        form: Form::Lines,
        slots,
    })
}

/// A tree without positions.
impl From<&Json> for Node {
    fn from(json: &Json) -> Self {
        let kind = match json {
            Json::Array(items) => unwritten(
                false,
                items.iter().map(|it| Slot::of("", it.into())).collect(),
            ),
            Json::Object(entries) => {
                let slot = |(key, value): (&String, &Json)| Slot::of(key, value.into());
                unwritten(true, entries.iter().map(slot).collect())
            }
            scalar => Kind::Scalar(Style::Plain, document::Node::from(scalar.clone()).value),
        };
        Self::new(kind, 0..0)
    }
}

/// A tree without positions.
impl From<&document::Node> for Node {
    fn from(node: &document::Node) -> Self {
        let kind = match &node.value {
            Value::Sequence(items) => unwritten(
                false,
                items.iter().map(|it| Slot::of("", it.into())).collect(),
            ),
            Value::Map(entries) => {
                let slot = |(name, value): &(document::Name, document::Node)| {
                    Slot::of(&name.text, value.into())
                };
                unwritten(true, entries.iter().map(slot).collect())
            }
            scalar => Kind::Scalar(Style::Plain, scalar.clone()),
        };
        Self::new(kind, 0..0)
    }
}
