//! Reads TOML for an edit: values as sources read them, positions from `toml_edit`, comments from the parser of both.

use plugin_sdk::{
    Problem,
    document::{self, FieldPath, Value},
};
use toml_edit::{Document, InlineTable, Item, Key, Table};
use toml_parser::{Source, lexer::TokenKind};

use super::{
    text::{Lines, line},
    tree::{Collection, File, Form, Kind, Node, Slot, Style},
};
use crate::format::{Format, Limits, Toml, wrong};

/// Reads the document of `text` with the bytes of its values.
///
/// # Errors
/// The first problem in the text.
pub(super) fn read(text: &str, limits: &Limits) -> Result<File, Problem> {
    let read = Toml::parse(text, limits)?;
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(error.message(), line(text, at), 1)
    })?;
    let tokens = Source::new(text).lex();
    let comments = tokens.filter(|token| token.kind() == TokenKind::Comment);
    let comments = comments.map(|token| token.span().start()..token.span().end());
    let comments: Vec<_> = comments.collect();
    let reader = Reader {
        lines: Lines {
            text,
            comments: &comments,
        },
    };
    let root = |root: &document::Node| reader.table(document.as_table(), root, 0);
    let documents = read.iter().filter_map(root).collect::<Vec<_>>();
    if documents.len() != read.len() {
        return Err(wrong("cannot find where the values are written", 1, 1));
    }
    Ok(File {
        documents,
        comments,
        read: Some(read.iter().map(Node::from).collect()),
    })
}

struct Reader<'t> {
    lines: Lines<'t>,
}

/// The readers return `None` when a value has no position, which text that was parsed always has.
impl Reader<'_> {
    /// A table, which the source reads as `read`. `named` is where its name is.
    fn table(&self, table: &Table, read: &document::Node, named: usize) -> Option<Node> {
        let form = match (table.is_dotted(), table.is_implicit()) {
            (true, _) => Form::Dotted,
            (_, true) => Form::Implied,
            _ => Form::Section,
        };
        let mut slots = Vec::new();
        for (name, item) in table.iter() {
            let (key, _) = table.get_key_value(name)?;
            let read = read.at(&FieldPath::default().key(name))?;
            slots.push(self.slot(key, self.item(item, read, key.span()?.start)?)?);
        }
        let at = match form {
            Form::Section => table.span()?,
            _ => named..named,
        };
        Some(Node::new(collection(true, form, slots), at))
    }

    fn slot(&self, key: &Key, value: Node) -> Option<Slot> {
        let own = value.collection().is_none_or(|of| of.flow());
        let start = match own {
            // A key begins its line, with the keys before its dots.
            true => {
                let first = self.lines.start(key.span()?.start);
                let indent = self.lines.slice(first..key.span()?.start);
                first + indent.len() - indent.trim_start().len()
            }
            false => value.at.start,
        };
        Some(slot(start, key.get(), value))
    }

    fn item(&self, item: &Item, read: &document::Node, named: usize) -> Option<Node> {
        match item {
            Item::None => None,
            Item::Value(value) => self.value(value, read),
            Item::Table(table) => self.table(table, read, named),
            Item::ArrayOfTables(tables) => {
                let mut slots = Vec::new();
                for (nth, table) in tables.iter().enumerate() {
                    let read = read.at(&FieldPath::default().index(nth))?;
                    let item = self.table(table, read, named)?;
                    slots.push(slot(item.at.start, "", item));
                }
                let at = slots
                    .first()
                    .map_or(named..named, |slot| slot.value.at.clone());
                Some(Node::new(collection(false, Form::Section, slots), at))
            }
        }
    }

    fn value(&self, value: &toml_edit::Value, read: &document::Node) -> Option<Node> {
        let at = value.span()?;
        match value {
            toml_edit::Value::Array(array) => {
                let mut slots = Vec::new();
                for (nth, item) in array.iter().enumerate() {
                    let read = read.at(&FieldPath::default().index(nth))?;
                    let item = self.value(item, read)?;
                    slots.push(slot(item.at.start, "", item));
                }
                Some(Node::new(collection(false, Form::Flow, slots), at))
            }
            toml_edit::Value::InlineTable(table) => self.inline(table, read, at),
            _ => {
                let written = self.lines.slice(at.clone());
                let style = match &read.value {
                    Value::String(_) if written.starts_with('\'') => Style::Single,
                    Value::String(_) => Style::Double,
                    _ => Style::Plain,
                };
                Some(Node::new(Kind::Scalar(style, read.value.clone()), at))
            }
        }
    }

    fn inline(
        &self,
        table: &InlineTable,
        read: &document::Node,
        mut at: std::ops::Range<usize>,
    ) -> Option<Node> {
        let mut slots = Vec::new();
        for (name, _) in table.iter() {
            let (key, item) = table.get_key_value(name)?;
            let read = read.at(&FieldPath::default().key(name))?;
            let value = self.value(item.as_value()?, read)?;
            at.end = at.end.max(value.at.end);
            slots.push(slot(key.span()?.start, name, value));
        }
        let form = match table.is_dotted() {
            true => Form::Implied,
            false => Form::Flow,
        };
        Some(Node::new(collection(true, form, slots), at))
    }
}

fn collection(map: bool, form: Form, slots: Vec<Slot>) -> Kind {
    Kind::Collection(Collection { map, form, slots })
}

fn slot(start: usize, key: &str, value: Node) -> Slot {
    Slot {
        start,
        after: Some(value.at.start),
        key: key.into(),
        quoted: false,
        merge: false,
        value,
    }
}
