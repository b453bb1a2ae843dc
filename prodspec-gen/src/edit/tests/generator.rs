//! Generates YAML texts as people write them, with the lines and bytes of each field.

use std::ops::Range;

use proptest::{collection::vec, prelude::*};

use super::samples::{FLOW_SCALARS, KEYS, LINES, SCALARS};

/// A text, and its fields.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) fields: Vec<Field>,
    /// Whether it has anchors.
    pub(super) shared: bool,
}

/// The text only: the fields are long.
impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

/// One field of a text.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) document: u32,
    pub(super) path: String,
    /// The lines of the field, from 0, without comments above.
    pub(super) lines: Range<usize>,
    /// The bytes of a value within one line.
    pub(super) bytes: Option<Range<usize>>,
    /// Whether it is a map (`Some(true)`) or a list.
    pub(super) map: Option<bool>,
}

#[derive(Debug, Clone)]
enum Item {
    /// A scalar as it is written. A line break in it is indented.
    Scalar(&'static str),
    Block {
        header: &'static str,
        lines: Vec<&'static str>,
    },
    Flow(Box<Flow>),
    Map(Vec<Entry>),
    List(Vec<Entry>),
    Alias(usize),
}

#[derive(Debug, Clone)]
enum Flow {
    Scalar(&'static str),
    Map(Vec<(usize, Flow)>, bool),
    List(Vec<Flow>, bool),
}

#[derive(Debug, Clone)]
struct Entry {
    key: usize,
    above: u8,
    comment: bool,
    own_line: bool,
    anchor: bool,
    merge: bool,
    gap: usize,
    value: Item,
}

fn flow() -> impl Strategy<Value = Flow> {
    let scalar = prop::sample::select(&FLOW_SCALARS[..]).prop_map(Flow::Scalar);
    scalar.prop_recursive(2, 8, 3, |inner| {
        let entry = (0..KEYS.len(), inner.clone());
        prop_oneof![
            (vec(entry, 0..4), any::<bool>())
                .prop_map(|(entries, lines)| Flow::Map(entries, lines)),
            (vec(inner, 0..4), any::<bool>()).prop_map(|(items, lines)| Flow::List(items, lines)),
        ]
    })
}

fn leaf() -> impl Strategy<Value = Item> {
    let lines = vec(prop::sample::select(&LINES[..]), 1..4);
    let header = prop::sample::select(vec!["|", "|-", ">", ">-", "|+"]);
    prop_oneof![
        6 => prop::sample::select(&SCALARS[..]).prop_map(Item::Scalar),
        1 => (header, lines).prop_map(|(header, mut lines)| {
            lines.insert(0, "begin");
            lines.push("end");
            Item::Block { header, lines }
        }),
        1 => flow().prop_map(|flow| Item::Flow(Box::new(flow))),
        1 => any::<usize>().prop_map(Item::Alias),
    ]
}

fn entry(value: impl Strategy<Value = Item>) -> impl Strategy<Value = Entry> {
    let place = (
        any::<bool>(),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.1),
    );
    (0..KEYS.len(), 0_u8..8, place, 1_usize..4, value).prop_map(
        |(key, above, (comment, own_line, anchor, merge), gap, value)| Entry {
            key,
            above,
            comment,
            own_line,
            anchor,
            merge,
            gap: if gap == 3 { 2 } else { 1 },
            value,
        },
    )
}

fn collection(item: impl Strategy<Value = Item> + Clone) -> impl Strategy<Value = Item> {
    prop_oneof![
        3 => vec(entry(item.clone()), 1..5).prop_map(Item::Map),
        1 => vec(entry(item), 1..4).prop_map(Item::List),
    ]
}

/// Texts with one to three documents.
pub(super) fn written() -> impl Strategy<Value = Written> {
    let item = leaf().prop_recursive(4, 40, 5, collection);
    let root = prop_oneof![
        9 => collection(item),
        1 => flow().prop_filter("a document is no scalar", |it| !matches!(it, Flow::Scalar(_)))
            .prop_map(|flow| Item::Flow(Box::new(flow))),
    ];
    let layout = (
        1_usize..5,
        any::<bool>(),
        any::<bool>(),
        prop::bool::weighted(0.1),
    );
    (vec(root, 1..3), layout, any::<bool>(), any::<bool>()).prop_map(
        |(roots, (step, dashes, crlf, mark), end, shared)| {
            let writer = Writer {
                text: String::new(),
                fields: Vec::new(),
                document: 0,
                step,
                dash: if dashes { step } else { 0 },
                line: 0,
                comments: 0,
                anchors: Vec::new(),
                shared,
                kept: false,
            };
            writer.file(&roots, crlf, mark, end)
        },
    )
}

struct Writer {
    text: String,
    fields: Vec<Field>,
    document: u32,
    step: usize,
    dash: usize,
    line: usize,
    comments: usize,
    /// Names of anchors, and whether each is one of a map.
    anchors: Vec<(String, bool)>,
    shared: bool,
    /// Whether blank lines would belong to the last text.
    kept: bool,
}

impl Writer {
    fn file(mut self, roots: &[Item], crlf: bool, mark: bool, end: bool) -> Written {
        for (nth, root) in roots.iter().enumerate() {
            self.document = u32::try_from(nth).unwrap();
            self.anchors.clear();
            if nth > 0 || self.step == 3 {
                self.push("---");
                self.end_line(nth == 1);
            }
            let (start, from) = (self.line, self.text.len());
            let mut bytes = None;
            let map = match root {
                Item::Map(entries) => {
                    self.map(entries, 0, false, "");
                    Some(true)
                }
                Item::List(items) => {
                    self.list(items, 0, false, "");
                    Some(false)
                }
                Item::Flow(flow) => {
                    self.flow(flow, 0, "");
                    bytes = Some(from..self.text.len());
                    self.end_line(true);
                    flow.map()
                }
                _ => None,
            };
            self.field("", start, bytes, map);
        }
        if !end && self.text.ends_with('\n') {
            self.text.pop();
        }
        self.with_marks(crlf, mark)
    }

    fn with_marks(mut self, crlf: bool, mark: bool) -> Written {
        let moved = |text: &str, at: usize| {
            let breaks = text[..at].matches('\n').count();
            at + if crlf { breaks } else { 0 } + if mark { 3 } else { 0 }
        };
        for field in &mut self.fields {
            let text = &self.text;
            field.bytes = field
                .bytes
                .take()
                .map(|it| moved(text, it.start)..moved(text, it.end));
        }
        if crlf {
            self.text = self.text.replace('\n', "\r\n");
        }
        if mark {
            self.text.insert(0, '\u{feff}');
        }
        Written {
            text: self.text,
            fields: self.fields,
            shared: self.shared,
        }
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.line += text.matches('\n').count();
    }

    fn spaces(&mut self, count: usize) {
        self.push(&" ".repeat(count));
    }

    fn end_line(&mut self, comment: bool) {
        if comment {
            self.comments += 1;
            let comment = format!(" # c{}.", self.comments);
            self.push(&comment);
        }
        self.push("\n");
    }

    fn field(&mut self, path: &str, start: usize, bytes: Option<Range<usize>>, map: Option<bool>) {
        self.fields.push(Field {
            document: self.document,
            path: path.into(),
            lines: start..self.line.max(start + 1),
            bytes,
            map,
        });
    }

    /// Comments and blank lines above an entry.
    fn above(&mut self, entry: &Entry, indent: usize) {
        if entry.above == 1 && !self.kept {
            self.push("\n");
        }
        if entry.above == 2 || entry.above == 3 {
            self.comments += 1;
            let comment = format!("# c{}.\n", self.comments);
            self.spaces(if entry.above == 2 { indent } else { 0 });
            self.push(&comment);
        }
        self.kept = false;
        self.spaces(indent);
    }

    fn map(&mut self, entries: &[Entry], indent: usize, compact: bool, path: &str) {
        let (mut keys, mut merged) = (Vec::new(), false);
        for entry in entries {
            if keys.contains(&entry.key) {
                continue;
            }
            if !compact || !keys.is_empty() {
                self.above(entry, indent);
            }
            keys.push(entry.key);
            let (key, step) = KEYS[entry.key];
            let inner = join(path, step);
            let start = self.line;
            self.push(key);
            self.push(":");
            self.value(entry, indent, false, &inner, start);
            let base = self
                .anchors
                .iter()
                .find(|(_, map)| *map)
                .map(|(name, _)| name.clone());
            if let Some(base) = base.filter(|_| entry.merge && !merged) {
                merged = true;
                self.kept = false;
                self.spaces(indent);
                self.push(&format!("<<: *{base}\n"));
            }
        }
    }

    fn list(&mut self, items: &[Entry], indent: usize, compact: bool, path: &str) {
        for (nth, item) in items.iter().enumerate() {
            if !compact || nth > 0 {
                self.above(item, indent);
            }
            let start = self.line;
            self.push("-");
            self.value(item, indent, true, &format!("{path}[{nth}]"), start);
        }
    }

    fn value(&mut self, entry: &Entry, indent: usize, item: bool, path: &str, start: usize) {
        let anchored = self.shared && entry.anchor && !matches!(entry.value, Item::Alias(_));
        let name = format!("n{}", self.anchors.len());
        if anchored {
            self.push(&format!(" &{name}"));
        }
        let (mut bytes, mut map) = (None, None);
        match &entry.value {
            Item::Scalar(text) => {
                bytes = self.scalar(text, indent, entry.gap);
                self.end_line(entry.comment);
            }
            Item::Alias(nth) => {
                match self.anchors.get(nth % self.anchors.len().max(1)).cloned() {
                    Some((name, _)) => self.push(&format!(" *{name}")),
                    None => bytes = self.scalar("alone", indent, 1),
                }
                self.end_line(entry.comment);
            }
            Item::Block { header, lines } => {
                self.block(header, lines, indent, entry.comment);
            }
            Item::Flow(flow) => {
                self.push(" ");
                let from = self.text.len();
                self.flow(flow, indent + 2, path);
                bytes = Some(from..self.text.len());
                map = flow.map();
                self.end_line(entry.comment);
            }
            Item::Map(_) | Item::List(_) => {
                map = Some(matches!(entry.value, Item::Map(_)));
                self.lines(entry, indent, item, path, anchored);
            }
        }
        if anchored {
            self.anchors.push((name, map == Some(true)));
        }
        self.field(path, start, bytes, map);
    }

    fn lines(&mut self, entry: &Entry, indent: usize, item: bool, path: &str, anchored: bool) {
        let list = matches!(entry.value, Item::List(_));
        let compact = item && !anchored && !entry.own_line;
        let within = match (compact, item, list) {
            (true, ..) => 1 + entry.gap,
            (false, false, true) => self.dash,
            (false, true, true) => self.step.max(1),
            _ => self.step,
        };
        if compact {
            self.spaces(entry.gap);
        } else {
            self.end_line(entry.comment);
        }
        match &entry.value {
            Item::Map(entries) => self.map(entries, indent + within, compact, path),
            Item::List(items) => self.list(items, indent + within, compact, path),
            _ => {}
        }
    }

    fn scalar(&mut self, text: &str, indent: usize, gap: usize) -> Option<Range<usize>> {
        if text.is_empty() {
            return None;
        }
        self.spaces(gap);
        let from = self.text.len();
        self.push(&text.replace('\n', &format!("\n{}", " ".repeat(indent + 1))));
        Some(from..self.text.len())
    }

    fn block(&mut self, header: &str, lines: &[&str], indent: usize, comment: bool) {
        self.push(&format!(" {header}"));
        self.end_line(comment);
        for line in lines {
            if !line.is_empty() {
                self.spaces(indent + self.step);
            }
            self.push(&format!("{line}\n"));
        }
        self.kept = header.ends_with('+');
    }

    fn flow(&mut self, flow: &Flow, indent: usize, path: &str) {
        let (open, close, lines) = match flow {
            Flow::Scalar(text) => return self.push(text),
            Flow::Map(_, lines) => ("{", "}", *lines),
            Flow::List(_, lines) => ("[", "]", *lines),
        };
        self.push(open);
        let mut keys = Vec::new();
        let count = match flow {
            Flow::Map(entries, _) => entries.len(),
            Flow::List(items, _) => items.len(),
            Flow::Scalar(_) => 0,
        };
        for nth in 0..count {
            let (key, value, inner) = match flow {
                Flow::Map(entries, _) => {
                    let (key, value) = &entries[nth];
                    let (written, step) = KEYS[*key];
                    (Some((*key, written)), value, join(path, step))
                }
                Flow::List(items, _) => (None, &items[nth], format!("{path}[{nth}]")),
                Flow::Scalar(_) => return,
            };
            if key.is_some_and(|(key, _)| keys.contains(&key)) {
                continue;
            }
            keys.extend(key.map(|(key, _)| key));
            if nth > 0 {
                self.push(if lines { "," } else { ", " });
            }
            if lines {
                self.end_line(nth % 2 == 1);
                self.spaces(indent);
            }
            self.flow_entry(key.map(|(_, written)| written), value, indent, &inner);
        }
        if lines && count > 0 {
            self.end_line(count % 2 == 0);
            self.spaces(indent.saturating_sub(2) + 1);
        }
        self.push(close);
    }

    fn flow_entry(&mut self, key: Option<&str>, value: &Flow, indent: usize, path: &str) {
        let start = self.line;
        if let Some(key) = key {
            self.push(&format!("{key}: "));
        }
        let from = self.text.len();
        self.flow(value, indent + 2, path);
        self.fields.push(Field {
            document: self.document,
            path: path.into(),
            lines: start..self.line + 1,
            bytes: Some(from..self.text.len()),
            map: value.map(),
        });
    }
}

impl Flow {
    fn map(&self) -> Option<bool> {
        match self {
            Self::Map(..) => Some(true),
            Self::List(..) => Some(false),
            Self::Scalar(_) => None,
        }
    }
}

/// The path of an entry within the map at `path`.
fn join(path: &str, step: &str) -> String {
    let dot = if path.is_empty() || step.starts_with('[') {
        ""
    } else {
        "."
    };
    format!("{path}{dot}{step}")
}
