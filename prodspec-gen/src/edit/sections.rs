//! Splices of the tables of TOML: lines with keys, beneath headers.

use std::ops::Range;

use plugin_sdk::document::{FieldPath, Step};
use serde_json::Value as Json;

use super::{
    text::{Lines, Splice},
    tree::{Collection, Form, Node, Slot},
    write::Inline,
};

/// The tables of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sections<'t> {
    pub(super) lines: Lines<'t>,
    pub(super) root: Option<&'t Node>,
    pub(super) inline: Inline,
}

impl Sections<'_> {
    /// Adds a field to a table, or a table to an array of tables.
    pub(super) fn add(self, path: &FieldPath, to: &Json) -> Option<Vec<Splice>> {
        let (last, steps) = path.steps().split_last()?;
        let (mut node, mut keys) = (self.root?, Vec::new());
        for step in steps {
            let of = node.collection()?;
            node = &of.slots[of.position(step)?].value;
            match (step, node.collection()?.form) {
                (Step::Key(key), Form::Dotted) => keys.push(self.inline.key(key)),
                _ => keys.clear(),
            }
        }
        let of = node.collection()?;
        let Step::Key(key) = last else {
            return self.append(of, to);
        };
        keys.push(self.inline.entry(key, to));
        let new = keys.join(".");
        if let Some(end) = fields(of).iter().map(|at| at.end).max() {
            let indent = self.indent(of);
            return Some(vec![self.after(end, &format!("{indent}{new}"))]);
        }
        if !node.at.is_empty() {
            return Some(vec![self.after(node.at.end, &new)]);
        }
        let headers = all(of).into_iter().map(|at| at.start).min();
        let at = self.remarks(headers?);
        Some(vec![Splice::insert(
            at,
            format!("{new}{}", self.lines.line_break()),
        )])
    }

    /// Adds a table to an array of tables.
    fn append(self, of: &Collection, to: &Json) -> Option<Vec<Splice>> {
        let last = of.slots.last()?;
        let entries = to.as_object()?;
        let header = self.lines.slice(last.value.at.clone());
        let ends = all(last.value.collection()?).into_iter().map(|at| at.end);
        let end = ends.max().unwrap_or_default().max(last.value.at.end);
        let mut new = vec![String::new(), header.to_owned()];
        new.extend(
            entries
                .iter()
                .map(|(key, value)| self.inline.entry(key, value)),
        );
        Some(vec![self.after(end, &new.join(self.lines.line_break()))])
    }

    /// The ways to remove a field or table with its lines.
    pub(super) fn remove(self, slot: &Slot) -> Vec<Vec<Splice>> {
        let mut at = lines_of(slot);
        at.sort_by_key(|at| at.start);
        let (Some(first), Some(last)) = (at.first(), at.iter().map(|at| at.end).max()) else {
            return Vec::new();
        };
        let whole = first.start..last;
        let lines = self.lines;
        if !at
            .iter()
            .all(|at| lines.begins(at.start) && lines.finishes(at.end))
        {
            return Vec::new();
        }
        let delete = |at: &Range<usize>| lines.own(at).map(Splice::delete);
        let apart: Option<Vec<Splice>> = at.iter().map(delete).collect();
        let whole = delete(&whole).map(|splice| vec![splice]);
        whole.into_iter().chain(apart).collect()
    }

    /// Inserts lines after the line of a byte.
    fn after(self, end: usize, new: &str) -> Splice {
        let (end, next, line_break) = (
            self.lines.end(end),
            self.lines.next(end),
            self.lines.line_break(),
        );
        match end < next {
            true => Splice::insert(next, format!("{new}{line_break}")),
            false => Splice::insert(end, format!("{line_break}{new}")),
        }
    }

    /// The indentation of the last field of a table.
    fn indent(self, of: &Collection) -> String {
        let last = fields(of).into_iter().map(|at| at.start).max();
        let last = last.unwrap_or_default();
        self.lines.slice(self.lines.start(last)..last).to_owned()
    }

    /// The first byte of the comments directly above a line, or of the line.
    fn remarks(self, at: usize) -> usize {
        let mut first = self.lines.start(at);
        while let Some(above) = first.checked_sub(1).map(|end| self.lines.start(end)) {
            if above == first || !self.lines.slice(above..first).trim_start().starts_with('#') {
                break;
            }
            first = above;
        }
        first
    }
}

/// The lines of fields of a table, without those of tables beneath headers of their own.
fn fields(of: &Collection) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for slot in &of.slots {
        match slot.value.collection() {
            Some(of) if of.form == Form::Dotted => found.extend(fields(of)),
            Some(of) if !of.flow() => {}
            _ => found.push(slot.start..slot.value.at.end),
        }
    }
    found
}

/// The lines of all fields and headers within a table or an array of tables.
fn all(of: &Collection) -> Vec<Range<usize>> {
    of.slots.iter().flat_map(lines_of).collect()
}

/// The lines of a field; of a table or an array of tables also those of all headers.
fn lines_of(slot: &Slot) -> Vec<Range<usize>> {
    let Some(of) = slot.value.collection().filter(|of| !of.flow()) else {
        return std::iter::once(slot.start..slot.value.at.end).collect();
    };
    let header = of.map && of.form == Form::Section;
    let header = Some(slot.value.at.clone()).filter(|_| header);
    header.into_iter().chain(all(of)).collect()
}
