//! File formats. They parse text into trees with positions, strictly and in bounded time. Needs the feature
//! `files`.
//!
//! All formats refuse duplicate keys, numbers that are not finite or do not fit 64 bits, nesting and alias expansion
//! beyond the limits, a root that is neither a map nor a list, and, unless the text is declared as rendered, templates.
//!
//! A template is recognized by an unquoted value that begins with `{{`, by a line that begins with `{{-`, and by `{{` in
//! an unquoted key or in the name of a document; `{%` and `<%` count as well. `{{ x }}` inside a text is text.

mod dialect;
mod json;
mod number;
mod parsing;
mod scalar;
pub(crate) mod template;
mod toml;
mod yaml;

use std::cell::Cell;

use plugin_sdk::{
    Document, Problem, Problems,
    document::{Name, Node, Value},
};

pub use dialect::{Dialect, Scalar};
pub use json::Json;
pub(crate) use parsing::{Origin, Parsing};
pub(crate) use scalar::{only_core, value as scalar_value};
pub use toml::Toml;
pub use yaml::{Yaml, parse_dialect};
pub(crate) use yaml::{is_absent, without_added_break};

/// The limits of a file, checked before and during parsing, and whether it is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a file, in bytes. 16 MiB by default.
    pub bytes: u64,
    /// Maximum nesting, in levels. 64 by default.
    pub depth: usize,
    /// Maximum size of all aliases of a file after expansion: bytes of text plus 64 bytes for each value. 16 MiB by
    /// default.
    pub expansion: usize,
    /// Whether the text is the output of a renderer, in which expressions like `{{ x }}` are text wherever the format
    /// allows them. False by default: what looks like a template that was not rendered is refused. Sources set it with
    /// [`Files::rendered`](crate::file::Files::rendered); [`Exec`](crate::Exec) always does.
    pub rendered: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            depth: 64,
            expansion: 16 << 20,
            rendered: false,
        }
    }
}

/// A file format for [`Files`](crate::file::Files).
pub trait Format: Send + Sync + 'static {
    /// The name of the format, for messages.
    const NAME: &'static str;
    /// The extensions of files of this format, without the dot.
    const EXTENSIONS: &'static [&'static str];
    /// The line that marks the end of a file, for sources that require it. `None`: not necessary, because a file of
    /// this format that was cut off does not parse.
    const END: Option<&'static str>;

    /// Parses all documents of `text` that have content. No document if there are only comments.
    ///
    /// # Errors
    /// The first problem in the text, with its line and column.
    fn parse(text: &str, limits: &Limits) -> Result<Vec<Node>, Problem>;

    /// Parses all documents of a file that is not text. `None`, the default: files of this format are text in UTF-8, for
    /// [`parse`](Self::parse).
    fn parse_bytes(bytes: &[u8], limits: &Limits) -> Option<Result<Vec<Node>, Problem>> {
        let _ = (bytes, limits);
        None
    }

    /// Gives a document the name that its content has in this format, with [`Document::known_as`]. By default it has
    /// none, and is known by its place.
    ///
    /// # Errors
    /// When the content must have a name and has none, or a name that looks like a template in a text that is not
    /// [`rendered`](Limits::rendered).
    fn named(document: Document, limits: &Limits) -> Result<Document, Problems> {
        let _ = limits;
        Ok(document)
    }
}

pub(crate) fn wrong(message: impl std::fmt::Display, line: usize, column: usize) -> Problem {
    let number = |at| u32::try_from(at).unwrap_or(u32::MAX);
    Problem::new(message).at("", number(line), number(column))
}

pub(crate) fn too_deep(limits: &Limits, line: usize, column: usize) -> Problem {
    let message = format!("nested deeper than {} levels; flatten it", limits.depth);
    wrong(message, line, column)
}

/// Checks that the root of a document is a map or a list. A scalar that was cut off could be a shorter, valid scalar.
fn check_root(node: Node) -> Result<Node, Problem> {
    let (line, column) = (node.line as usize, node.column as usize);
    match node.value {
        Value::Map(_) | Value::Sequence(_) => Ok(node),
        Value::Null => Err(wrong(
            "the document is null; remove it or give it content",
            line,
            column,
        )),
        _ => Err(wrong("a document must be a map or a list", line, column)),
    }
}

/// Checks that no key appears twice, in O(n log n) for any keys.
fn check_unique(entries: &[(Name, Node)]) -> Result<(), Problem> {
    // Nearly all maps are small; comparing all pairs needs no memory.
    if entries.len() <= 8 {
        let mut pairs = entries.iter().enumerate().flat_map(|(at, (name, _))| {
            entries[..at].iter().map(move |(before, _)| (before, name))
        });
        return match pairs.find(|(before, name)| before.text == name.text) {
            None => Ok(()),
            Some((before, name)) => Err(twice(before, name)),
        };
    }
    let mut names: Vec<&Name> = entries.iter().map(|(name, _)| name).collect();
    names.sort_by(|a, b| (&a.text, a.line, a.column).cmp(&(&b.text, b.line, b.column)));
    match names.windows(2).find(|pair| pair[0].text == pair[1].text) {
        None => Ok(()),
        Some(pair) => Err(twice(pair[0], pair[1])),
    }
}

/// A key that appears once more in one map.
fn twice(first: &Name, again: &Name) -> Problem {
    let message = format!(
        "the key `{}` appears twice in one map, first in line {}; remove one",
        first.text, first.line
    );
    wrong(message, again.line as usize, again.column as usize)
}

/// The offsets at which the lines of a text begin, for parsers that report byte offsets only.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
    /// The line of the last offset that was asked for. Parsers ask for offsets that mostly rise.
    last: Cell<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self {
            text,
            starts: std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect(),
            last: Cell::new(1),
        }
    }

    /// The line and column of a byte offset, counted from 1. The column counts characters; more than 4,096 bytes into a
    /// line it counts bytes, so that a file with a single long line does not take quadratic time.
    fn at(&self, offset: usize) -> (usize, usize) {
        let line = self.line(offset);
        let start = self.starts[line - 1];
        let column = match self.text.get(start..offset) {
            Some(before) if before.len() <= 4096 => before.chars().count(),
            _ => offset - start,
        };
        (line, column + 1)
    }

    /// The line of an offset, looked for first among the few lines from the last one on.
    fn line(&self, offset: usize) -> usize {
        let last = self.last.get();
        let near = &self.starts[last - 1..self.starts.len().min(last + 4)];
        let ahead = near.iter().take_while(|start| **start <= offset).count();
        let line = match (1..near.len()).contains(&ahead) {
            true => last - 1 + ahead,
            false => self.starts.partition_point(|start| *start <= offset),
        };
        self.last.set(line);
        line
    }

    fn wrong(&self, message: impl std::fmt::Display, offset: usize) -> Problem {
        let (line, column) = self.at(offset);
        wrong(message, line, column)
    }

    fn node(&self, value: Value, offset: usize) -> Node {
        let (line, column) = self.at(offset);
        node(value, line, column)
    }

    fn name(&self, text: &str, offset: usize) -> Name {
        let Node { line, column, .. } = self.node(Value::Null, offset);
        Name {
            line,
            column,
            text: text.into(),
        }
    }
}

fn node(value: Value, line: usize, column: usize) -> Node {
    let number = |at| u32::try_from(at).unwrap_or(u32::MAX);
    Node {
        line: number(line),
        column: number(column),
        value,
    }
}

#[cfg(test)]
mod tests;
