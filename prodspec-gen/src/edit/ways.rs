//! The ways to write an operation: candidates of splices, of which the first that is proven is made.

use plugin_sdk::{
    Problem,
    document::{FieldPath, Step},
};
use serde_json::Value as Json;

use super::{
    block::{Block, Blocks},
    flow,
    place::{Place, Places},
    plan::Operation,
    refused::Refused,
    sections::Sections,
    text::{Lines, Splice},
    tree::{Change, Collection, File, Form, Kind, Node, Style},
    write::{Dialect, Inline, Layout, is_block},
};
use crate::format::Limits;

/// A format whose texts are changed with splices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Syntax {
    pub(super) read: fn(&str, &Limits) -> Result<File, Problem>,
    pub(super) dialect: Dialect,
}

/// A text in which operations are made.
#[derive(Debug)]
pub(super) struct Ways<'t> {
    lines: Lines<'t>,
    documents: Vec<Document<'t>>,
    dialect: Dialect,
}

/// A document of the text.
#[derive(Debug)]
struct Document<'t> {
    root: &'t Node,
    places: Places<'t>,
    layout: Layout,
}

impl<'t> Ways<'t> {
    pub(super) fn new(text: &'t str, file: &'t File, limits: &Limits, dialect: Dialect) -> Self {
        let lines = Lines::of(text, file);
        let document = |root| Document {
            root,
            places: Places::of(text, root, limits.expansion),
            layout: layout(lines, root),
        };
        Self {
            lines,
            documents: file.documents.iter().map(document).collect(),
            dialect,
        }
    }

    fn document(&self, operation: &Operation) -> Option<&Document<'t>> {
        self.documents.get(operation.document as usize)
    }

    /// The ways to make an operation, the best first.
    pub(super) fn of(&self, operation: &Operation) -> Result<Vec<Vec<Splice>>, Refused> {
        let path = &operation.path;
        let Some(Document { places, .. }) = self.document(operation) else {
            return Ok(Vec::new());
        };
        let Some(parent) = path.split_last() else {
            let root = places.find(path)?;
            let way = root.filter(|_| matches!(operation.change, Change::Replace(_)));
            return Ok(way
                .map(|place| self.replace(&place, operation))
                .unwrap_or_default());
        };
        let Some(parent_place) = places.find(&parent.0)? else {
            return Ok(Vec::new());
        };
        let place = match operation.change {
            // An item can follow others that are added with it, so that its index is not the next one here.
            Change::Add(_) => {
                places.check_alone(parent_place.node, path)?;
                let of = parent_place.node.collection();
                let taken = of.is_some_and(|of| of.position(parent.1).is_some());
                Some(parent_place).filter(|_| taken)
            }
            _ => places.find(path)?,
        };
        match (&operation.change, place) {
            (Change::Replace(to) | Change::Add(to), _) if !self.can_write(to) => Err(self
                .unproven(
                    operation,
                    "TOML has no null, which removing the field would stand for",
                )),
            (Change::Replace(_), Some(place)) => {
                places.check_alone(place.node, path)?;
                places.check_leaves(place.node, path)?;
                Ok(self.replace(&place, operation))
            }
            (Change::Add(to), None) => {
                places.check_unmerged(parent_place.node, path)?;
                Ok(self.add(&parent_place, operation, to))
            }
            (Change::Remove, Some(place)) => {
                places.check_unmerged(parent_place.node, path)?;
                places.check_leaves(place.node, path)?;
                Ok(self.remove(&parent_place, &place, operation))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether the format has such values.
    fn can_write(&self, json: &Json) -> bool {
        match json {
            Json::Null => self.dialect != Dialect::Toml,
            Json::Array(items) => items.iter().all(|item| self.can_write(item)),
            Json::Object(entries) => entries.values().all(|value| self.can_write(value)),
            _ => true,
        }
    }

    fn blocks(&self, operation: &Operation) -> Blocks<'t> {
        let document = self.document(operation);
        Blocks {
            lines: self.lines,
            layout: document.map(|it| it.layout).unwrap_or_default(),
            inline: self.inline(false, None),
        }
    }

    fn inline(&self, flow: bool, within: Option<&Collection>) -> Inline {
        let alike = within.filter(|within| flow && !within.slots.is_empty());
        Inline {
            dialect: self.dialect,
            flow,
            quoted: alike.is_some_and(is_quoted),
        }
    }

    fn replace(&self, place: &Place<'_>, operation: &Operation) -> Vec<Vec<Splice>> {
        let Change::Replace(to) = &operation.change else {
            return Vec::new();
        };
        let (node, blocks) = (place.node, self.blocks(operation));
        let scalar = matches!(node.kind, Kind::Scalar(..));
        if node.tag.is_some() && !(scalar && !to.is_array() && !to.is_object()) {
            return Vec::new();
        }
        if is_block(to) && !place.flow && self.dialect == Dialect::Yaml {
            return blocks.expand(place, to).into_iter().collect();
        }
        let within = place.within.and_then(|(parent, _)| parent.collection());
        let inline = self.inline(place.flow, within);
        match &node.kind {
            Kind::Scalar(Style::Empty, _) => {
                let colon = place.slot().is_some_and(|slot| slot.after.is_none());
                let (colon, text) = (if colon { ":" } else { "" }, inline.value(to));
                vec![vec![Splice::insert(
                    node.at.start,
                    format!("{colon} {text}"),
                )]]
            }
            Kind::Scalar(style @ Style::Block { .. }, _) => {
                let Some(block) = Block::of(style) else {
                    return Vec::new();
                };
                let literal = to
                    .as_str()
                    .and_then(|text| blocks.literal(node, block, text));
                let one_line = blocks.one_line(node, block, &inline.in_style(to, &Style::Double));
                literal.into_iter().chain([one_line]).collect()
            }
            Kind::Scalar(style, _) => {
                let text = inline.in_style(to, style);
                let quoted = inline.in_style(to, &Style::Double);
                let way = |text| vec![Splice::replace(node.at.clone(), text)];
                vec![way(text), way(quoted)]
            }
            Kind::Collection(of) if of.form == Form::Lines => blocks
                .collapse(place, &inline.value(to))
                .into_iter()
                .collect(),
            Kind::Collection(of) if !of.flow() => Vec::new(),
            Kind::Collection(_) | Kind::Alias(_) => {
                vec![vec![Splice::replace(node.at.clone(), inline.value(to))]]
            }
        }
    }

    fn add(&self, parent: &Place<'_>, operation: &Operation, to: &Json) -> Vec<Vec<Splice>> {
        let Some(of) = parent.node.collection() else {
            return Vec::new();
        };
        let key = key(&operation.path).filter(|_| of.map);
        match of.form {
            Form::Lines => {}
            Form::Flow => {
                let inline = self.inline(true, Some(of));
                let new = match key {
                    Some(key) => inline.entry(key, to),
                    None => inline.value(to),
                };
                return vec![flow::add(self.lines, parent.node, of, &new)];
            }
            Form::Section | Form::Dotted => {
                return self
                    .sections()
                    .add(&operation.path, to)
                    .into_iter()
                    .collect();
            }
            Form::Pair | Form::Implied => return Vec::new(),
        }
        let blocks = self.blocks(operation);
        let new = match key {
            Some(key) => blocks.layout.entry(key, to, blocks.inline),
            None => blocks.layout.item(to, blocks.inline),
        };
        vec![blocks.add(parent.node, &new)]
    }

    fn remove(
        &self,
        parent: &Place<'_>,
        place: &Place<'_>,
        operation: &Operation,
    ) -> Vec<Vec<Splice>> {
        let (Some(of), Some((_, nth))) = (parent.node.collection(), place.within) else {
            return Vec::new();
        };
        match (of.form, of.slots.len()) {
            (Form::Lines, 1) => {
                let empty = if of.map { "{}" } else { "[]" };
                let blocks = self.blocks(operation);
                blocks.collapse(parent, empty).into_iter().collect()
            }
            (Form::Lines, _) => self.blocks(operation).remove(of, nth),
            (Form::Flow, _) => vec![flow::remove(self.lines, of, nth)],
            (Form::Pair, _) => Vec::new(),
            (Form::Section | Form::Implied | Form::Dotted, _) => {
                self.sections().remove(&of.slots[nth])
            }
        }
    }

    fn sections(&self) -> Sections<'t> {
        Sections {
            lines: self.lines,
            root: self.documents.first().map(|it| it.root),
            inline: self.inline(false, None),
        }
    }

    pub(super) fn unproven(&self, operation: &Operation, reason: &str) -> Refused {
        let path = &operation.path;
        let line = self
            .document(operation)
            .and_then(|Document { places, .. }| {
                let place = places.find(path).ok().flatten();
                let parent = || places.find(&path.split_last()?.0).ok().flatten();
                Some(places.line(place.or_else(parent)?.node.at.start))
            });
        Refused::NotProven {
            path: path.clone(),
            line: line.unwrap_or(1),
            reason: reason.into(),
        }
    }
}

fn key(path: &FieldPath) -> Option<&str> {
    match path.steps().last()? {
        Step::Key(key) => Some(key),
        Step::Index(_) | Step::Item { .. } => None,
    }
}

/// Whether all keys, or all items, are in double quotes.
fn is_quoted(of: &Collection) -> bool {
    of.slots.iter().all(|slot| match of.map {
        true => slot.quoted,
        false => matches!(slot.value.kind, Kind::Scalar(Style::Double, _)),
    })
}

/// The indentation that the document uses, by its first map and list within a map.
fn layout(lines: Lines<'_>, root: &Node) -> Layout {
    let (mut step, mut dash) = (None, None);
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        let Some(of) = node.collection().filter(|of| of.form == Form::Lines) else {
            continue;
        };
        for slot in &of.slots {
            let start = slot.value.at.start;
            let inner = slot.value.collection().filter(|it| !it.flow() && of.map);
            if let Some(inner) = inner.filter(|_| lines.begins(start)) {
                let found = if inner.map { &mut step } else { &mut dash };
                let indent = lines.column(start).checked_sub(lines.column(slot.start));
                *found = found.or(indent);
            }
        }
        if step.is_some() && dash.is_some() {
            break;
        }
        waiting.extend(of.slots.iter().rev().map(|slot| &slot.value));
    }
    let step = step.filter(|step| *step > 0);
    Layout {
        step: step.or(dash.filter(|dash| *dash > 0)).unwrap_or(2),
        dash: dash.or(step).unwrap_or(2),
    }
}
