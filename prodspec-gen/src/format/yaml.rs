//! YAML 1.2, core schema, from the events of granit-parser (the parser beneath serde-saphyr): trees are built only as
//! far as the limits allow.

use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Marker, Options, Parser, ScalarStyle, Span, StrInput, Tag};
use plugin_sdk::{
    Problem,
    document::{Name, Node, Value},
};

use super::{Format, Limits, check_root, check_unique, node, number, too_deep, wrong};

/// YAML files with one document or several.
#[derive(Debug, Clone, Copy)]
pub struct Yaml;

impl Format for Yaml {
    const NAME: &'static str = "YAML";
    const EXTENSIONS: &'static [&'static str] = &["yaml", "yml"];
    const END: Option<&'static str> = Some("...");

    fn parse(text: &str, limits: &Limits) -> Result<Vec<Node>, Problem> {
        let mut options = Options::default();
        options.set_emit_comments(false);
        Builder {
            events: Parser::new_from_str_with_options(text, options),
            limits,
            anchors: BTreeMap::new(),
            expanded: 0,
        }
        .documents()
    }
}

/// Builds trees from events.
struct Builder<'t> {
    events: Parser<'t, StrInput<'t>>,
    limits: &'t Limits,
    anchors: BTreeMap<usize, Anchored>,
    expanded: usize,
}

/// A value that aliases may repeat.
#[derive(Clone)]
struct Anchored {
    node: Node,
    size: Size,
}

/// What a value costs where it is repeated.
#[derive(Clone, Copy, Default)]
struct Size {
    bytes: usize,
    depth: usize,
}

impl Size {
    /// A value around others.
    fn around(self, inner: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(inner.bytes),
            depth: self.depth.max(inner.depth + 1),
        }
    }
}

impl<'t> Builder<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Problem> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let mark = error.marker();
                Err(match error.kind() {
                    ErrorKind::RecursionLimitExceeded => {
                        too_deep(self.limits, line(mark), column(mark))
                    }
                    _ => at(error.info(), mark),
                })
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn documents(&mut self) -> Result<Vec<Node>, Problem> {
        let mut documents = Vec::new();
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(documents),
                (Event::DocumentStart(..), _) => {
                    let (event, span) = self.next()?;
                    documents.push(check_root(self.node(event, span, 1)?.0)?);
                }
                _ => {}
            }
        }
    }

    fn node(
        &mut self,
        event: Event<'t>,
        span: Span,
        depth: usize,
    ) -> Result<(Node, Size), Problem> {
        if depth > self.limits.depth {
            return Err(too_deep(
                self.limits,
                line(&span.start),
                column(&span.start),
            ));
        }
        let start = span.start;
        let (value, anchor, size) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref()).map_err(|why| at(why, &start))?;
                let size = Size {
                    bytes: 64 + text.len(),
                    depth: 1,
                };
                (value, anchor, size)
            }
            Event::SequenceStart(_, anchor, tag) => {
                only_core(tag.as_deref(), "seq").map_err(|why| at(why, &start))?;
                let (items, size) = self.items(depth)?;
                (Value::Sequence(items), anchor, size)
            }
            Event::MappingStart(_, anchor, tag) => {
                only_core(tag.as_deref(), "map").map_err(|why| at(why, &start))?;
                let (entries, size) = self.entries(depth)?;
                check_unique(&entries)?;
                (Value::Map(entries), anchor, size)
            }
            Event::Alias(anchor) => return self.alias(anchor, &start, depth),
            _ => return Err(at("a value is missing", &start)),
        };
        let node = node(value, line(&start), column(&start));
        if anchor > 0 {
            self.expand(size, &start)?;
            let node = node.clone();
            self.anchors.insert(anchor, Anchored { node, size });
        }
        Ok((node, size))
    }

    fn items(&mut self, depth: usize) -> Result<(Vec<Node>, Size), Problem> {
        let (mut items, mut size) = (
            Vec::new(),
            Size {
                bytes: 64,
                depth: 1,
            },
        );
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok((items, size));
            }
            let (item, inner) = self.node(event, span, depth + 1)?;
            size = size.around(inner);
            items.push(item);
        }
    }

    fn entries(&mut self, depth: usize) -> Result<(Vec<(Name, Node)>, Size), Problem> {
        let (mut entries, mut size) = (
            Vec::new(),
            Size {
                bytes: 64,
                depth: 1,
            },
        );
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok((entries, size));
            }
            let name = key(event, &span.start)?;
            let (event, span) = self.next()?;
            let (value, inner) = self.node(event, span, depth + 1)?;
            size = size.around(inner);
            size.bytes = size.bytes.saturating_add(name.text.len());
            entries.push((name, value));
        }
    }

    fn alias(
        &mut self,
        anchor: usize,
        start: &Marker,
        depth: usize,
    ) -> Result<(Node, Size), Problem> {
        let Some(Anchored { size, .. }) = self.anchors.get(&anchor) else {
            return Err(at("an alias must not stand inside what it repeats", start));
        };
        let size = *size;
        self.expand(size, start)?;
        if depth + size.depth - 1 > self.limits.depth {
            return Err(too_deep(self.limits, line(start), column(start)));
        }
        let mut node = self.anchors[&anchor].node.clone();
        (node.line, node.column) = (number_of(line(start)), number_of(column(start)));
        Ok((node, size))
    }

    /// Counts what aliases cost, before anything is copied.
    fn expand(&mut self, size: Size, start: &Marker) -> Result<(), Problem> {
        self.expanded = self.expanded.saturating_add(size.bytes);
        if self.expanded <= self.limits.expansion {
            return Ok(());
        }
        let limit = self.limits.expansion;
        let message = format!(
            "anchors and aliases of this file expand to more than {limit} bytes; write less by alias"
        );
        Err(at(message, start))
    }
}

fn at(message: impl std::fmt::Display, mark: &Marker) -> Problem {
    wrong(message, line(mark), column(mark))
}

fn line(mark: &Marker) -> usize {
    mark.line().max(1)
}

fn column(mark: &Marker) -> usize {
    mark.col() + 1
}

fn number_of(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn key(event: Event<'_>, start: &Marker) -> Result<Name, Problem> {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<" => Err(at(
            "merge keys are not YAML 1.2; write the fields out, or quote the key",
            start,
        )),
        Event::Scalar(text, ScalarStyle::Plain, ..) if matches!(&*text, "" | "~" | "null") => {
            Err(at("a key must have a name; quote it if this is one", start))
        }
        Event::Scalar(text, ..) => Ok(Name {
            line: number_of(line(start)),
            column: number_of(column(start)),
            text: text.into(),
        }),
        _ => Err(at(
            "a key must be plain text, not a map, list or alias",
            start,
        )),
    }
}

/// The value of a scalar by the core schema.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    match (style, tag.map(Tag::core_suffix)) {
        (ScalarStyle::Plain, None) => plain(text),
        (_, None | Some(Some("str"))) => Ok(Value::String(text.into())),
        (_, Some(Some("int" | "float" | "bool" | "null"))) => plain(text),
        (_, Some(_)) => Err("a tag that is not of the core schema; remove it".to_owned()),
    }
}

fn only_core(tag: Option<&Tag>, suffix: &str) -> Result<(), String> {
    match tag {
        Some(tag) if tag.core_suffix() != Some(suffix) => {
            Err("a tag that is not of the core schema; remove it".to_owned())
        }
        _ => Ok(()),
    }
}

fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        let digits = text
            .strip_prefix(prefix)
            .filter(|digits| !digits.is_empty());
        if let Some(digits) = digits.filter(|digits| digits.chars().all(|c| c.is_digit(radix))) {
            return number::integer(digits, radix);
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return number::integer(text, 10);
    }
    if matches!(
        unsigned,
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
    ) {
        return Err(format!(
            "{text} is not a finite number; leave the field out, or quote it if it is text"
        ));
    }
    let numeric = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.contains(|c: char| c.is_ascii_digit())
        && unsigned
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if numeric && text.parse::<f64>().is_ok() {
        return number::float(text);
    }
    Ok(Value::String(text.into()))
}
