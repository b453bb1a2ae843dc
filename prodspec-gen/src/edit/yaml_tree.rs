//! Reads YAML for an edit, with the events of the parser that sources use.

use std::{collections::BTreeSet, ops::Range};

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle, Tag};
use plugin_sdk::Problem;

use super::{
    text::{Lines, line},
    tree::{Anchor, Collection, File, Form, Kind, Node, Slot, Style},
};
use crate::format::{
    Format, Limits, Yaml, is_absent, only_core, scalar_value, too_deep, without_added_break, wrong,
};

/// Reads all documents of `text` with the bytes of their values.
///
/// # Errors
/// The first problem in the text. Merge keys are none.
pub(super) fn read(text: &str, limits: &Limits) -> Result<File, Problem> {
    let read = Yaml::parse(text, limits);
    let (events, comments) = match events(text) {
        Ok(both) => both,
        Err(problem) => return Err(read.err().unwrap_or(problem)),
    };
    let mut reader = Reader {
        text,
        lines: Lines {
            text,
            comments: &comments,
        },
        events: events.into_iter().peekable(),
        limits,
        at: 0,
        merges: false,
    };
    let documents = match (reader.documents(), &read) {
        (Ok(documents), Ok(_)) => documents,
        (Ok(documents), Err(_)) if reader.merges => documents,
        (Err(problem), Ok(_)) => return Err(problem),
        (Err(problem), Err(_)) if reader.merges => return Err(problem),
        (_, Err(problem)) => return Err(problem.clone()),
    };
    Ok(File {
        documents,
        comments,
        read: read
            .ok()
            .map(|nodes| nodes.iter().map(Node::from).collect()),
    })
}

type Events<'t> = Vec<(Event<'t>, Span)>;

/// The events of a text without comments, and the ranges of its comments in order.
fn events(text: &str) -> Result<(Events<'_>, Vec<Range<usize>>), Problem> {
    let options = granit_parser::options! {
        emit_comments: true,
        emit_anchor_events: true,
        max_buffered_comment_events: usize::MAX,
    };
    let (mut events, mut comments) = (Vec::new(), Vec::new());
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((Event::Comment(..), span)) => comments.extend(span.byte_range()),
            Ok(event) => events.push(event),
            Err(error) => {
                let (line, column) = (error.marker().line().max(1), error.marker().col() + 1);
                return Err(wrong(error.info(), line, column));
            }
        }
    }
    comments.sort_by_key(|comment| comment.start);
    Ok((events, comments))
}

/// Makes trees from events, and finds the dashes, colons and headers between them.
struct Reader<'t> {
    text: &'t str,
    lines: Lines<'t>,
    events: std::iter::Peekable<std::vec::IntoIter<(Event<'t>, Span)>>,
    limits: &'t Limits,
    /// The end of what was read.
    at: usize,
    /// Whether a merge key was read.
    merges: bool,
}

/// A key that was read.
struct Key {
    start: usize,
    text: Box<str>,
    quoted: bool,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> (Event<'t>, Span) {
        let end = (Event::StreamEnd, Span::default());
        self.events.next().unwrap_or(end)
    }

    /// Whether the next event is `end`, which ends a collection. If so, it is read.
    fn ends(&mut self, end: &Event<'_>) -> Option<Span> {
        let (_, span) = self.events.next_if(|(event, _)| event == end)?;
        Some(span)
    }

    fn wrong(&self, message: impl std::fmt::Display, at: usize) -> Problem {
        wrong(message, line(self.text, at), self.lines.column(at) + 1)
    }

    fn documents(&mut self) -> Result<Vec<Node>, Problem> {
        let mut documents = Vec::new();
        loop {
            match self.next() {
                (Event::StreamEnd, _) => return Ok(documents),
                (Event::DocumentStart(_, version), span) => {
                    self.at = range(&span).end;
                    if version.is_some_and(|it| (it.major, it.minor) != (1, 2)) {
                        return Err(self.wrong("declares another version than YAML 1.2", self.at));
                    }
                    let absent = |(event, span): &(Event<'_>, Span)| is_absent(event, span);
                    if self.events.next_if(absent).is_none() {
                        documents.push(self.root()?);
                    }
                }
                (_, span) => self.at = range(&span).end.max(self.at),
            }
        }
    }

    fn root(&mut self) -> Result<Node, Problem> {
        let root = self.node(1)?;
        match root.collection() {
            Some(_) => Ok(root),
            None => Err(self.wrong("a document must be a map or a list", root.at.start)),
        }
    }

    fn node(&mut self, depth: usize) -> Result<Node, Problem> {
        let (event, span) = self.next();
        let anchor = self.anchor();
        let properties = union(anchor.as_ref().map(|it| &it.1), span.tag_span().as_ref());
        let anchor = anchor.map(|(anchor, _)| anchor);
        let start = range(&span).start;
        if depth > self.limits.depth {
            let (line, column) = (line(self.text, start), self.lines.column(start) + 1);
            return Err(too_deep(self.limits, line, column));
        }
        if let Some(properties) = &properties {
            self.at = properties.end;
        }
        let at_start = |why: String| self.wrong(why, start);
        let (kind, at, tag) = match event {
            Event::Scalar(text, style, _, tag) => {
                let text = without_added_break(self.text, &text, style, &span);
                let value = scalar_value(text, style, tag.as_deref()).map_err(at_start)?;
                let (style, at) = self.scalar(style, &span)?;
                (Kind::Scalar(style, value), at, tag)
            }
            Event::Alias(id) => {
                let name = self
                    .lines
                    .slice(range(&span))
                    .trim_start_matches('*')
                    .into();
                (Kind::Alias(Anchor { id, name }), range(&span), None)
            }
            Event::SequenceStart(style, _, tag) => {
                only_core(tag.as_deref(), "seq").map_err(at_start)?;
                let (collection, at) = self.list(style, &span, depth)?;
                (Kind::Collection(collection), at, tag)
            }
            Event::MappingStart(style, _, tag) => {
                only_core(tag.as_deref(), "map").map_err(at_start)?;
                let (collection, at) = self.map(style, &span, depth)?;
                (Kind::Collection(collection), at, tag)
            }
            _ => return Err(self.wrong("a value is missing", start)),
        };
        self.at = at.end.max(self.at);
        Ok(Node {
            at,
            properties,
            anchor,
            tag: tag.map(|tag: std::borrow::Cow<'_, Tag>| tag.to_string().into()),
            kind,
        })
    }

    /// The anchor of the value whose event was read, and its bytes.
    fn anchor(&mut self) -> Option<(Anchor, Span)> {
        let is_anchor = |(event, _): &(Event<'_>, Span)| matches!(event, Event::Anchor(..));
        match self.events.next_if(is_anchor)? {
            (Event::Anchor(id, name), span) => {
                let name = name.as_ref().into();
                Some((Anchor { id, name }, span))
            }
            _ => None,
        }
    }

    /// The style of a scalar, and its bytes.
    fn scalar(&self, style: ScalarStyle, span: &Span) -> Result<(Style, Range<usize>), Problem> {
        let at = range(span);
        match style {
            ScalarStyle::Plain if at.is_empty() => Ok((Style::Empty, self.at..self.at)),
            ScalarStyle::Plain => Ok((Style::Plain, at)),
            ScalarStyle::SingleQuoted => Ok((Style::Single, at)),
            ScalarStyle::DoubleQuoted => Ok((Style::Double, at)),
            ScalarStyle::Literal | ScalarStyle::Folded => self.block_scalar(span),
        }
    }

    fn block_scalar(&self, span: &Span) -> Result<(Style, Range<usize>), Problem> {
        let start = self.lines.skip(self.at);
        if !self.lines.has(start, b'|') && !self.lines.has(start, b'>') {
            return Err(self.wrong("cannot find where this block of text begins", start));
        }
        let indicator = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-');
        let after = self.text.as_bytes()[start + 1..].iter();
        let header = start + 1 + after.take_while(|byte| indicator(byte)).count();
        let keep = self.lines.slice(start..header).contains('+');
        let body = self.lines.next(header);
        let mut end = range(span).end.max(body);
        while end > body {
            let first = self
                .lines
                .start(end - usize::from(self.lines.slice(0..end).ends_with('\n')));
            let last = self.lines.slice(first..end);
            let spaces = last.trim_end_matches(['\r', '\n']);
            let blank = spaces.bytes().all(|byte| byte == b' ')
                && span.indent.is_none_or(|indent| spaces.len() <= indent);
            let partial = last.len() == spaces.len() && end < self.text.len();
            if first < body || !blank || (keep && !partial) {
                break;
            }
            end = first;
        }
        let written = self.lines.slice(body..end);
        let written = written.strip_suffix('\n').unwrap_or(written);
        let written = written.strip_suffix('\r').unwrap_or(written);
        let end = if end > body {
            body + written.len()
        } else {
            header
        };
        let style = Style::Block {
            header,
            body,
            indent: span.indent,
            keep,
        };
        Ok((style, start..end))
    }

    fn list(
        &mut self,
        style: StructureStyle,
        span: &Span,
        depth: usize,
    ) -> Result<(Collection, Range<usize>), Problem> {
        let flow = style == StructureStyle::Flow;
        let mut slots: Vec<Slot> = Vec::new();
        if flow {
            self.at = range(span).end;
        }
        let end = loop {
            if let Some(span) = self.ends(&Event::SequenceEnd) {
                break if flow { range(&span).end } else { self.at };
            }
            let mut start = self.lines.skip(self.at);
            if flow {
                start = self.after_comma(start);
                self.at = start;
            } else if self.lines.has(start, b'-') {
                self.at = start + 1;
            } else {
                return Err(self.wrong("cannot find the dash of this item", start));
            }
            let after = Some(self.at);
            let value = self.node(depth + 1)?;
            slots.push(Slot {
                start,
                after,
                key: "".into(),
                quoted: false,
                merge: false,
                value,
            });
        };
        let start = slots.first().filter(|_| !flow).map(|slot| slot.start);
        let collection = Collection {
            map: false,
            form: if flow { Form::Flow } else { Form::Lines },
            slots,
        };
        Ok((collection, start.unwrap_or(range(span).start)..end))
    }

    fn map(
        &mut self,
        style: StructureStyle,
        span: &Span,
        depth: usize,
    ) -> Result<(Collection, Range<usize>), Problem> {
        let flow = style == StructureStyle::Flow;
        let bare = flow && range(span).is_empty();
        let (mut slots, mut keys) = (Vec::<Slot>::new(), BTreeSet::new());
        if flow {
            self.at = range(span).end;
        }
        let end = loop {
            if let Some(span) = self.ends(&Event::MappingEnd) {
                break if flow && !bare {
                    range(&span).end
                } else {
                    self.at
                };
            }
            let key = self.key(flow)?;
            if !keys.insert(key.text.clone()) {
                let message = format!(
                    "the key `{}` appears twice in one map; remove one",
                    key.text
                );
                return Err(self.wrong(message, key.start));
            }
            let colon = self.lines.skip(self.at);
            let after = self.lines.has(colon, b':').then_some(colon + 1);
            self.at = after.unwrap_or(self.at);
            let merge = !key.quoted && &*key.text == "<<";
            self.merges |= merge;
            slots.push(Slot {
                start: key.start,
                after,
                quoted: key.quoted,
                merge,
                key: key.text,
                value: self.node(depth + 1)?,
            });
        };
        let start = slots.first().filter(|_| !flow).map(|slot| slot.start);
        let collection = Collection {
            map: true,
            form: match (flow, bare) {
                (_, true) => Form::Pair,
                (true, _) => Form::Flow,
                _ => Form::Lines,
            },
            slots,
        };
        Ok((collection, start.unwrap_or(range(span).start)..end))
    }

    fn key(&mut self, flow: bool) -> Result<Key, Problem> {
        let mut start = self.lines.skip(self.at);
        if flow {
            start = self.after_comma(start);
        }
        let (event, span) = self.next();
        self.anchor();
        match event {
            Event::Scalar(text, style, ..) if !range(&span).is_empty() => {
                self.at = range(&span).end;
                Ok(Key {
                    start,
                    text: text.as_ref().into(),
                    quoted: style != ScalarStyle::Plain,
                })
            }
            _ => Err(self.wrong(
                "a key must be plain text, not empty, a map, list or alias",
                start,
            )),
        }
    }

    /// The beginning of the next entry, if a comma is at `at`.
    fn after_comma(&self, at: usize) -> usize {
        match self.lines.has(at, b',') {
            true => self.lines.skip(at + 1),
            false => at,
        }
    }
}

fn range(span: &Span) -> Range<usize> {
    span.byte_range().unwrap_or_default()
}

fn union(one: Option<&Span>, other: Option<&Span>) -> Option<Range<usize>> {
    match (one.map(range), other.map(range)) {
        (Some(a), Some(b)) => Some(a.start.min(b.start)..a.end.max(b.end)),
        (a, b) => a.or(b),
    }
}
