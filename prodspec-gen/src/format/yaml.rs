//! YAML 1.2, parsed with the events of granit-parser (the parser of serde-saphyr). Trees are built only up to the
//! limits. `scalar` gives the values of scalars.

use std::collections::BTreeMap;

use granit_parser::{
    ErrorKind, Event, Marker, Options, Parser, ScalarStyle, Span, StrInput, Tag, YamlVersion,
};
use plugin_sdk::{
    Problem,
    document::{Name, Node, Value},
};

use super::{
    Format, Limits, check_root, check_unique,
    dialect::{Dialect, Merge, Scalar},
    node,
    scalar::{self, only_core},
    template, too_deep, wrong,
};

/// The YAML format. A file has one or more documents.
#[derive(Debug, Clone, Copy)]
pub struct Yaml;

impl Format for Yaml {
    const NAME: &'static str = "YAML";
    const EXTENSIONS: &'static [&'static str] = &["yaml", "yml"];
    const END: Option<&'static str> = Some("...");

    fn parse(text: &str, limits: &Limits) -> Result<Vec<Node>, Problem> {
        parse(text, limits, None)
    }
}

/// Parses all documents of `text` that have content in a dialect of YAML. No document if there are only comments.
///
/// # Errors
/// The first problem in the text, with its line and column.
pub fn parse_dialect(
    text: &str,
    limits: &Limits,
    dialect: &dyn Dialect,
) -> Result<Vec<Node>, Problem> {
    parse(text, limits, Some(dialect))
}

fn parse(text: &str, limits: &Limits, dialect: Option<&dyn Dialect>) -> Result<Vec<Node>, Problem> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    Builder {
        text,
        events: Parser::new_from_str_with_options(text, options),
        limits,
        dialect,
        anchors: BTreeMap::new(),
        expanded: 0,
    }
    .documents()
}

/// Builds trees from events.
struct Builder<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    limits: &'t Limits,
    /// How scalars, keys and merge keys are read. `None`: as in YAML 1.2.
    dialect: Option<&'t dyn Dialect>,
    anchors: BTreeMap<usize, Anchored>,
    expanded: usize,
}

/// A value with an anchor, which aliases can repeat.
#[derive(Clone)]
struct Anchored {
    node: Node,
    size: Size,
}

/// The cost of a value each time it is repeated.
#[derive(Clone, Copy, Default)]
struct Size {
    bytes: usize,
    depth: usize,
}

impl Size {
    /// The size of a collection after an inner value is added.
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
                    _ => template::explain(self.text, self.limits, at(error.info(), mark), true),
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
                (Event::DocumentStart(_, version), span) => {
                    self.check_version(version, &span.start)?;
                    let (event, span) = self.next()?;
                    if !is_absent(&event, &span) {
                        documents.push(check_root(self.node(event, span, 1)?.0)?);
                    }
                }
                _ => {}
            }
        }
    }

    /// Refuses every declared version except 1.2, because values can mean something else in it. `start` is the start of
    /// the document, after its directives.
    fn check_version(&self, version: Option<YamlVersion>, start: &Marker) -> Result<(), Problem> {
        let Some(YamlVersion { major, minor }) =
            version.filter(|it| (it.major, it.minor) != (1, 2))
        else {
            return Ok(());
        };
        let until = (1..).zip(self.text.lines()).take(line(start));
        let directive = until.filter(|(_, line)| line.starts_with("%YAML")).last();
        let message = format!(
            "declares YAML {major}.{minor}, but is read as YAML 1.2, in which `yes`, `0400` and others can have other values; write the values for YAML 1.2 and remove this line"
        );
        Err(wrong(
            message,
            directive.map_or(line(start), |(line, _)| line),
            1,
        ))
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
                self.check_rendered(style, &span)?;
                let text = without_added_break(self.text, &text, style, &span);
                let value = match self.dialect {
                    None => scalar::value(text, style, tag.as_deref()),
                    Some(dialect) => {
                        let scalar = (text, style, tag.as_deref());
                        dialect.value(&Scalar::of(scalar, &span, self.text))
                    }
                };
                let value = value.map_err(|why| at(why, &start))?;
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

    /// Refuses an unquoted scalar that was not rendered.
    fn check_rendered(&self, style: ScalarStyle, span: &Span) -> Result<(), Problem> {
        let written = span.byte_range().and_then(|range| self.text.get(range));
        let (ScalarStyle::Plain, Some(written), false) = (style, written, self.limits.rendered)
        else {
            return Ok(());
        };
        match template::unrendered(written) {
            Some(open) => Err(at(template::refusal(open), &span.start)),
            None => Ok(()),
        }
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
        let mut merges = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                check_unique(&entries)?;
                return Ok((Merge::all(merges, entries), size));
            }
            if self.is_merge(&event, &span) {
                let merge = self.merge(depth, entries.len(), &mut size)?;
                merges.push(merge);
                continue;
            }
            let name = self.key(event, &span)?;
            let (event, span) = self.next()?;
            let (value, inner) = self.node(event, span, depth + 1)?;
            size = size.around(inner);
            size.bytes = size.bytes.saturating_add(name.text.len());
            entries.push((name, value));
        }
    }

    /// Whether the key is a merge key of the dialect.
    fn is_merge(&self, event: &Event<'_>, span: &Span) -> bool {
        let merges = |dialect: &dyn Dialect| match event {
            Event::Scalar(text, style, _, tag) => {
                let scalar = (&**text, *style, tag.as_deref());
                dialect.merges(&Scalar::of(scalar, span, self.text))
            }
            _ => false,
        };
        self.dialect.is_some_and(merges)
    }

    /// Reads the value of a merge key that comes after `after` entries: a map, or a list of maps. Their size is added.
    fn merge(&mut self, depth: usize, after: usize, size: &mut Size) -> Result<Merge, Problem> {
        let (event, span) = self.next()?;
        let start = span.start;
        let is_list = matches!(event, Event::SequenceStart(..));
        let (node, inner) = self.node(event, span, depth + 1)?;
        // The entries are one level higher than in their own map.
        *size = size.around(inner);
        Merge::of(node, is_list, after)
            .ok_or_else(|| at("a merge key takes a map or a list of maps", &start))
    }

    fn key(&self, event: Event<'_>, span: &Span) -> Result<Name, Problem> {
        let start = &span.start;
        if let Event::Scalar(text, ScalarStyle::Plain, ..) = &event
            && !self.limits.rendered
            && let Some(open) = template::expression(text)
        {
            return Err(at(template::refusal(open), start));
        }
        if let (Some(dialect), Event::Scalar(text, style, _, tag)) = (self.dialect, &event) {
            let scalar = (&**text, *style, tag.as_deref());
            let key = dialect.key(&Scalar::of(scalar, span, self.text));
            let text = key.map_err(|why| at(why, start))?;
            let (line, column) = (number_of(line(start)), number_of(column(start)));
            return Ok(Name { line, column, text });
        }
        match event {
            Event::Scalar(text, style, _, tag) => {
                check_key(&text, style, tag.as_deref()).map_err(|why| at(why, start))?;
                Ok(Name {
                    line: number_of(line(start)),
                    column: number_of(column(start)),
                    text: text.into(),
                })
            }
            _ => {
                let problem = at("a key must be plain text, not a map, list or alias", start);
                Err(template::explain(self.text, self.limits, problem, false))
            }
        }
    }

    fn alias(
        &mut self,
        anchor: usize,
        start: &Marker,
        depth: usize,
    ) -> Result<(Node, Size), Problem> {
        let Some(Anchored { size, .. }) = self.anchors.get(&anchor) else {
            return Err(at(
                "an alias must not be inside the value that it repeats",
                start,
            ));
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

    /// Adds the size of an anchored or repeated value to the expansion, before the value is copied.
    ///
    /// # Errors
    /// When the expansion exceeds its limit.
    fn expand(&mut self, size: Size, start: &Marker) -> Result<(), Problem> {
        self.expanded = self.expanded.saturating_add(size.bytes);
        if self.expanded <= self.limits.expansion {
            return Ok(());
        }
        let limit = self.limits.expansion;
        let message = format!(
            "anchors and aliases of this file expand to more than {limit} bytes; use fewer aliases"
        );
        Err(at(message, start))
    }
}

/// The text of a scalar of `whole`, without the line break that the parser adds to a block scalar at the end of a file that
/// does not end with a line break.
pub(crate) fn without_added_break<'s>(
    whole: &str,
    text: &'s str,
    style: ScalarStyle,
    span: &Span,
) -> &'s str {
    let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
    if !block || span.end.byte_offset() != Some(whole.len()) {
        return text;
    }
    let (Some(without), Some(at)) = (text.strip_suffix('\n'), whole.rfind(['\n', '\r'])) else {
        return text;
    };
    let (tail, last) = (
        &whole[at + 1..],
        without.rsplit('\n').next().unwrap_or_default(),
    );
    let added = match span.indent {
        Some(indent) => tail.len() > indent,
        // The scalar has only spaces: its last line is longer than its indentation, or it has no complete line.
        None if !last.is_empty() => tail.len() > last.len() && tail.ends_with(last),
        None => without.is_empty() && line(&span.end) == line(&span.start) + 1,
    };
    if added { without } else { text }
}

/// The tag of merge keys in YAML 1.1.
const MERGE: &str = "tag:yaml.org,2002:merge";

/// Checks that a scalar can be a key, and that its tag holds. The key is its text, whatever the value.
fn check_key(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<(), String> {
    let is_text = tag.is_some_and(|tag| tag.core_suffix() == Some("str"));
    let is_merge = tag.is_none_or(|tag| format!("{}{}", tag.handle(), tag.suffix()) == MERGE);
    if style != ScalarStyle::Plain || is_text {
        return scalar::value(text, style, tag).map(drop);
    }
    match text {
        "<<" if is_merge => {
            Err("merge keys are not YAML 1.2; write the fields out, or quote the key".into())
        }
        "" | "~" | "null" => Err("a key must not be empty or null; quote it if it is text".into()),
        _ if tag.is_some() => scalar::value(text, style, tag).map(drop),
        _ => Ok(()),
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

/// Whether a document is empty or has only comments. The parser reports it as a null of length 0.
pub(crate) fn is_absent(event: &Event<'_>, span: &Span) -> bool {
    matches!(event, Event::Scalar(_, ScalarStyle::Plain, 0, None))
        && span.start.index() == span.end.index()
}
