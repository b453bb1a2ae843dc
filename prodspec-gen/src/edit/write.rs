//! Writes values as text: scalars, flow collections, and lines of block collections.

use granit_parser::ScalarStyle;
use plugin_sdk::document::Value;
use serde_json::Value as Json;

use super::tree::Style;
use crate::format::scalar_value;

/// The format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Yaml,
    Json,
    Toml,
}

/// How values within one line are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Inline {
    pub(super) dialect: Dialect,
    /// Whether the place is within brackets or braces, where commas end a plain text.
    pub(super) flow: bool,
    /// Whether YAML texts and keys are quoted, as those beside them are.
    pub(super) quoted: bool,
}

/// How lines are indented.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The spaces from a map to a map within it.
    pub(super) step: usize,
    /// The spaces from a map to the dashes of a list within it.
    pub(super) dash: usize,
}

impl Inline {
    /// A value within one line.
    pub(super) fn value(self, json: &Json) -> String {
        let inner = Self { flow: true, ..self };
        match json {
            Json::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| inner.value(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Json::Object(entries) => {
                let entry = |(key, value): (&String, &Json)| inner.entry(key, value);
                let entries: Vec<String> = entries.iter().map(entry).collect();
                match self.dialect {
                    Dialect::Toml if !entries.is_empty() => format!("{{ {} }}", entries.join(", ")),
                    _ => format!("{{{}}}", entries.join(", ")),
                }
            }
            Json::String(text) if self.plain(text) => text.clone(),
            Json::String(text) => quoted(text),
            scalar => scalar.to_string(),
        }
    }

    /// A value that replaces a scalar of a style, which it keeps if possible.
    pub(super) fn in_style(self, json: &Json, style: &Style) -> String {
        match (json, style) {
            (Json::String(text), Style::Single) if is_printable(text) => match self.dialect {
                Dialect::Toml if text.contains('\'') => quoted(text),
                Dialect::Toml => format!("'{text}'"),
                _ => format!("'{}'", text.replace('\'', "''")),
            },
            (Json::String(text), Style::Single | Style::Double) => quoted(text),
            _ => self.value(json),
        }
    }

    /// An entry of a map within one line.
    pub(super) fn entry(self, key: &str, value: &Json) -> String {
        let separator = match self.dialect {
            Dialect::Toml => " = ",
            _ => ": ",
        };
        format!("{}{separator}{}", self.key(key), self.value(value))
    }

    /// The key of an entry.
    pub(super) fn key(self, key: &str) -> String {
        let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let plain = match self.dialect {
            Dialect::Toml => !key.is_empty() && key.chars().all(bare),
            _ => self.plain(key),
        };
        if plain { key.to_owned() } else { quoted(key) }
    }

    /// Whether a text is written without quotes.
    fn plain(self, text: &str) -> bool {
        self.dialect == Dialect::Yaml && !self.quoted && reads_back(text, self.flow)
    }
}

/// A text in double quotes, with the escapes that JSON and YAML have in common.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other if is_plain(other) => quoted.push(other),
            other => quoted.push_str(&format!("\\u{:04x}", u32::from(other))),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a character needs no escape.
pub(super) fn is_plain(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// Whether a text is one line without characters that need an escape.
fn is_printable(text: &str) -> bool {
    text.chars().all(is_plain)
}

/// Whether a text without quotes is read back as this text, by this reader and by readers of YAML 1.1.
fn reads_back(text: &str, flow: bool) -> bool {
    let Some(first) = text.chars().next() else {
        return false;
    };
    let begins = !matches!(
        first,
        '-' | '?'
            | ':'
            | ','
            | '['
            | ']'
            | '{'
            | '}'
            | '#'
            | '&'
            | '*'
            | '!'
            | '|'
            | '>'
            | '\''
            | '"'
            | '%'
            | '@'
            | '`'
            | '='
            | '<'
    );
    let inside = !text.contains(": ") && !text.contains(" #") && !text.ends_with(':');
    let brackets = flow && text.contains([',', '[', ']', '{', '}', ':', '?']);
    begins
        && inside
        && !brackets
        && text.trim() == text
        && is_printable(text)
        && !is_other_in_1_1(text)
        && scalar_value(text, ScalarStyle::Plain, None) == Ok(Value::String(text.into()))
}

/// Whether a reader of YAML 1.1 takes a text for a boolean, number or time.
fn is_other_in_1_1(text: &str) -> bool {
    let word = text.to_ascii_lowercase();
    if matches!(&*word, "y" | "n" | "yes" | "no" | "on" | "off") || text.starts_with("...") {
        return true;
    }
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let numeric = |it: &str| {
        it.bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'_' | b':' | b'.' | b'-'))
    };
    let begins = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let date = text.len() >= 8
        && text.as_bytes()[4] == b'-'
        && text.starts_with(|c: char| c.is_ascii_digit());
    begins
        && (date
            || word.starts_with("0b")
            || word.starts_with("0x")
            || (numeric(unsigned) && unsigned.contains(['_', ':'])))
}

impl Layout {
    /// The lines of an entry, relative to its own column.
    pub(super) fn entry(self, key: &str, value: &Json, inline: Inline) -> Vec<String> {
        if !is_block(value) {
            return vec![inline.entry(key, value)];
        }
        let indent = " ".repeat(self.within(value));
        let inner = self.value(value, inline);
        std::iter::once(format!("{}:", inline.key(key)))
            .chain(inner.into_iter().map(|line| format!("{indent}{line}")))
            .collect()
    }

    /// The lines of an item, relative to the column of its dash.
    pub(super) fn item(self, value: &Json, inline: Inline) -> Vec<String> {
        let lines = self.value(value, inline).into_iter().enumerate();
        let prefixed = lines.map(|(nth, line)| match nth {
            0 => format!("- {line}"),
            _ => format!("  {line}"),
        });
        prefixed.collect()
    }

    /// The lines of a value, relative to its own column.
    pub(super) fn value(self, json: &Json, inline: Inline) -> Vec<String> {
        match json {
            Json::Array(items) if is_block(json) => items
                .iter()
                .flat_map(|item| self.item(item, inline))
                .collect(),
            Json::Object(entries) if is_block(json) => entries
                .iter()
                .flat_map(|(key, value)| self.entry(key, value, inline))
                .collect(),
            other => vec![inline.value(other)],
        }
    }

    /// The spaces from a map to a collection within it.
    pub(super) fn within(self, value: &Json) -> usize {
        if value.is_array() {
            self.dash
        } else {
            self.step
        }
    }
}

impl Default for Layout {
    fn default() -> Self {
        Self { step: 2, dash: 2 }
    }
}

/// Whether a value is written in lines of its own: a map or a list that is not empty.
pub(super) fn is_block(json: &Json) -> bool {
    match json {
        Json::Array(items) => !items.is_empty(),
        Json::Object(entries) => !entries.is_empty(),
        _ => false,
    }
}
