//! Splices of YAML that is written in lines: block scalars, maps and lists.

use serde_json::Value as Json;

use super::{
    place::Place,
    text::{Lines, Splice},
    tree::{Collection, Node, Style},
    write::{Inline, Layout},
};

/// How the block collections of a text are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks<'t> {
    pub(super) lines: Lines<'t>,
    pub(super) layout: Layout,
    pub(super) inline: Inline,
}

/// The header and lines of a block scalar.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) header: usize,
    pub(super) body: usize,
    pub(super) indent: Option<usize>,
    pub(super) keep: bool,
}

impl Block {
    pub(super) fn of(style: &Style) -> Option<Self> {
        match *style {
            Style::Block {
                header,
                body,
                indent,
                keep,
            } => Some(Self {
                header,
                body,
                indent,
                keep,
            }),
            _ => None,
        }
    }
}

impl Blocks<'_> {
    /// Replaces the lines of a block scalar by those of another text. `None`: it cannot be a block scalar here.
    pub(super) fn literal(self, node: &Node, block: Block, text: &str) -> Option<Vec<Splice>> {
        let body = Some(block.body..node.at.end).filter(|body| body.start < body.end)?;
        let indent = block.indent.filter(|indent| *indent > 0)?;
        let printable = |c: char| c == '\n' || c == '\t' || super::write::is_plain(c);
        if text.starts_with(char::is_whitespace) || !text.chars().all(printable) {
            return None;
        }
        let (header, text) = match text.strip_suffix('\n') {
            None => ("|-", text),
            Some(one) if !one.ends_with('\n') => ("|", one),
            Some(many) if block.keep => ("|+", many),
            Some(_) => return None,
        };
        let mut written = Vec::new();
        for line in text.split('\n') {
            written.push(match line {
                "" => String::new(),
                line => format!("{}{line}", " ".repeat(indent)),
            });
        }
        if text.is_empty() {
            return None;
        }
        Some(vec![
            Splice::replace(node.at.start..block.header, header),
            Splice::replace(body, written.join(self.lines.line_break())),
        ])
    }

    /// Replaces a block scalar by a text within one line.
    pub(super) fn one_line(self, node: &Node, block: Block, new: &str) -> Vec<Splice> {
        let mut splices = vec![Splice::replace(node.at.start..block.header, new)];
        let end = self.lines.end(block.header);
        if node.at.end > end {
            splices.push(Splice::delete(end..node.at.end));
        }
        splices
    }

    /// Replaces a block collection by a text within one line.
    pub(super) fn collapse(self, place: &Place<'_>, new: &str) -> Option<Vec<Splice>> {
        let node = place.node;
        let Some(after) = place.slot().and_then(|slot| slot.after) else {
            return Some(vec![Splice::replace(node.at.clone(), new)]);
        };
        let after = node.properties.as_ref().map_or(after, |it| it.end);
        if !self.lines.begins(node.at.start) || self.lines.start(node.at.start) <= after {
            return Some(vec![Splice::replace(node.at.clone(), new)]);
        }
        Some(vec![
            Splice::insert(after, format!(" {new}")),
            Splice::delete(self.lines.own(&node.at)?),
        ])
    }

    /// Replaces a value within one line by a block collection.
    pub(super) fn expand(self, place: &Place<'_>, json: &Json) -> Option<Vec<Splice>> {
        let (node, slot, lines) = (place.node, place.slot()?, self.lines);
        let (parent, _) = place.within?;
        let in_map = parent.collection()?.map;
        let after = node.properties.as_ref().map_or(slot.after?, |it| it.end);
        let new = self.layout.value(json, self.inline);
        let empty = node.at.is_empty();
        if !empty && lines.begins(node.at.start) && lines.start(node.at.start) > after {
            let indent = lines.column(node.at.start);
            return Some(vec![Splice::replace(
                node.at.clone(),
                self.join(&new, indent),
            )]);
        }
        let remarked = lines.remarked(node.at.end);
        if !in_map && !remarked && node.properties.is_none() {
            let indent = match empty {
                true => lines.column(after) + 1,
                false => lines.column(node.at.start),
            };
            let space = if empty { " " } else { "" };
            let new = format!("{space}{}", self.join(&new, indent));
            return Some(vec![Splice::replace(node.at.clone(), new)]);
        }
        if !lines.finishes(node.at.end) {
            return None;
        }
        let within = if in_map { self.layout.within(json) } else { 2 };
        let indent = lines.column(slot.start) + within;
        let new = self.join(&new, indent);
        let new = format!("{}{}{new}", lines.line_break(), " ".repeat(indent));
        let end = lines.end(node.at.end);
        Some(match remarked {
            false => vec![Splice::replace(after..end, new)],
            true => vec![Splice::delete(after..node.at.end), Splice::insert(end, new)],
        })
    }

    /// Adds an entry or item with the lines `new` at the end of a block collection.
    pub(super) fn add(self, node: &Node, new: &[String]) -> Vec<Splice> {
        let indent = self.lines.column(node.at.start);
        let (line_break, spaces) = (self.lines.line_break(), " ".repeat(indent));
        let new = format!("{spaces}{}", self.join(new, indent));
        let (end, next) = (self.lines.end(node.at.end), self.lines.next(node.at.end));
        match end < next {
            true => vec![Splice::insert(next, format!("{new}{line_break}"))],
            false => vec![Splice::insert(end, format!("{line_break}{new}"))],
        }
    }

    /// The ways to remove entry or item number `nth`, which is not the only one, with its lines.
    pub(super) fn remove(self, of: &Collection, nth: usize) -> Vec<Vec<Splice>> {
        let slot = &of.slots[nth];
        let at = slot.start..slot.value.at.end;
        let lines = self.lines;
        if !lines.finishes(at.end) {
            return Vec::new();
        }
        if lines.begins(at.start) {
            let own = self.lines.own(&at).into_iter();
            let simple = lines.start(at.start)..lines.next(at.end);
            return own
                .chain([simple])
                .map(|at| vec![Splice::delete(at)])
                .collect();
        }
        // The entry follows the dash of an item. What comes next moves up: a comment on its own line, or an entry.
        let Some(next) = of.slots.get(nth + 1) else {
            return Vec::new();
        };
        let rest = lines.next(at.end);
        let nth = lines.comments.partition_point(|it| it.start < rest);
        let comment = lines.comments.get(nth).map(|it| it.start);
        let up = comment.filter(|it| *it < next.start).unwrap_or(next.start);
        vec![vec![Splice::delete(at.start..up)]]
    }

    /// Joins lines; all but the first are indented.
    fn join(self, lines: &[String], indent: usize) -> String {
        lines.join(&format!(
            "{}{}",
            self.lines.line_break(),
            " ".repeat(indent)
        ))
    }
}
