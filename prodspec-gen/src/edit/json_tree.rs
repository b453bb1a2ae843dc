//! Reads JSON for an edit, with the parser that sources use.

use jiter::{Jiter, JiterResult, Peek};
use plugin_sdk::{
    Problem,
    document::{self, Value},
};

use super::{
    text::{Lines, line},
    tree::{Collection, File, Form, Kind, Node, Slot, Style},
};
use crate::format::{Format, Json, Limits, wrong};

/// Reads the document of `text` with the bytes of its values.
///
/// # Errors
/// The first problem in the text.
pub(super) fn read(text: &str, limits: &Limits) -> Result<File, Problem> {
    let read = Json::parse(text, limits)?;
    let mut reader = Reader {
        lines: Lines {
            text,
            comments: &[],
        },
        tokens: Jiter::new(text.as_bytes()),
    };
    let mut documents = Vec::new();
    for root in &read {
        let node = reader
            .tokens
            .peek()
            .and_then(|peek| reader.node(peek, root));
        documents.push(node.map_err(|error| wrong(&error.error_type, line(text, error.index), 1))?);
    }
    Ok(File {
        documents,
        comments: Vec::new(),
        read: Some(read.iter().map(Node::from).collect()),
    })
}

/// Finds the bytes of values that were parsed before.
struct Reader<'t> {
    lines: Lines<'t>,
    tokens: Jiter<'t>,
}

impl Reader<'_> {
    /// The value that begins with `peek`, which was parsed as `node`.
    fn node(&mut self, peek: Peek, node: &document::Node) -> JiterResult<Node> {
        let start = self.tokens.current_index();
        let kind = match &node.value {
            Value::Map(entries) => self.map(entries)?,
            Value::Sequence(items) => self.list(items)?,
            scalar => {
                self.tokens.known_skip(peek)?;
                let style = match scalar {
                    Value::String(_) => Style::Double,
                    _ => Style::Plain,
                };
                Kind::Scalar(style, scalar.clone())
            }
        };
        Ok(Node::new(kind, start..self.tokens.current_index()))
    }

    fn map(&mut self, entries: &[(document::Name, document::Node)]) -> JiterResult<Kind> {
        let mut slots = Vec::with_capacity(entries.len());
        let mut before = self.tokens.current_index() + 1;
        let mut more = self.tokens.known_object()?.is_some();
        for (name, node) in entries {
            if !more {
                break;
            }
            let mut start = self.lines.skip(before);
            if self.lines.has(start, b',') {
                start = self.lines.skip(start + 1);
            }
            let after = Some(self.tokens.current_index());
            let peek = self.tokens.peek()?;
            let value = self.node(peek, node)?;
            slots.push(slot(start, after, &name.text, value));
            before = self.tokens.current_index();
            more = self.tokens.next_key()?.is_some();
        }
        Ok(collection(true, slots))
    }

    fn list(&mut self, items: &[document::Node]) -> JiterResult<Kind> {
        let mut slots = Vec::with_capacity(items.len());
        let mut next = self.tokens.known_array()?;
        for node in items {
            let Some(peek) = next else {
                break;
            };
            let value = self.node(peek, node)?;
            slots.push(slot(value.at.start, Some(value.at.start), "", value));
            next = self.tokens.array_step()?;
        }
        Ok(collection(false, slots))
    }
}

fn slot(start: usize, after: Option<usize>, key: &str, value: Node) -> Slot {
    Slot {
        start,
        after,
        key: key.into(),
        quoted: true,
        merge: false,
        value,
    }
}

fn collection(map: bool, slots: Vec<Slot>) -> Kind {
    Kind::Collection(Collection {
        map,
        form: Form::Flow,
        slots,
    })
}
