//! Makes planned operations, as many at once as lie apart, and proves each result by reading it again.

use plugin_sdk::{Problem, document::FieldPath};
use serde_json::Value as Json;

use super::{
    Edit,
    block::{Block, Blocks},
    flow,
    place::{Place, Places},
    plan::{Operation, plan},
    refused::Refused,
    text::{Lines, Splice, splice},
    tree::{Change, Collection, File, Kind, Node, Style},
    write::{Inline, Layout, is_block},
};
use crate::format::Limits;

/// A format whose texts are changed with splices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Syntax {
    pub(super) read: fn(&str, &Limits) -> Result<File, Problem>,
    /// Whether all texts and keys are quoted, as in JSON.
    pub(super) quoted: bool,
}

/// Makes all `edits`, or none.
pub(super) fn edit(
    text: &str,
    edits: &[Edit],
    limits: &Limits,
    syntax: Syntax,
) -> Result<String, Refused> {
    check_length(text, limits)?;
    let file = (syntax.read)(text, limits).map_err(Refused::Unparsed)?;
    let mut waiting = plan(text, &file, edits, limits.expansion)?;
    let mut round = Round {
        text: text.to_owned(),
        file,
        limits,
        syntax,
    };
    while !waiting.is_empty() {
        waiting = round.together(waiting)?;
    }
    Ok(round.text)
}

/// # Errors
/// When `text` is longer than the limit.
pub(super) fn check_length(text: &str, limits: &Limits) -> Result<(), Refused> {
    let bytes = text.len() as u64;
    match bytes > limits.bytes {
        true => Err(Refused::TooLarge {
            bytes,
            limit: limits.bytes,
        }),
        false => Ok(()),
    }
}

/// A text between operations.
struct Round<'l> {
    text: String,
    file: File,
    limits: &'l Limits,
    syntax: Syntax,
}

impl Round<'_> {
    /// Makes the operations that lie apart, and returns the others.
    fn together(&mut self, waiting: Vec<Operation>) -> Result<Vec<Operation>, Refused> {
        let (mut now, mut later) = (Vec::<Operation>::new(), Vec::<Operation>::new());
        let mut splices: Vec<Splice> = Vec::new();
        for operation in waiting {
            let container = operation.container();
            let first = now.first().unwrap_or(&operation);
            let waits = operation.phase() != first.phase()
                || later.iter().any(|it| container.overlaps(&it.path))
                || now
                    .iter()
                    .any(|it| it.document == operation.document && it.container() == container);
            let ways = if waits {
                Vec::new()
            } else {
                self.ways(&operation)?
            };
            let free = |way: &&Vec<Splice>| {
                !way.iter()
                    .any(|one| splices.iter().any(|it| it.touches(one)))
            };
            match ways.first().filter(free) {
                Some(way) => {
                    splices.extend(way.iter().cloned());
                    now.push(operation);
                }
                None if now.is_empty() => {
                    return Err(self.unproven(&operation, "there is no way to write it here"));
                }
                None => later.push(operation),
            }
        }
        match self.attempt(&now, splices) {
            Ok(()) => Ok(later),
            Err(_) => {
                let mut rest = now.split_off(1);
                rest.append(&mut later);
                let one = now.into_iter().next();
                one.map_or(Ok(()), |one| self.alone(one))?;
                Ok(rest)
            }
        }
    }

    /// Makes one operation in the first way that can be proven.
    fn alone(&mut self, operation: Operation) -> Result<(), Refused> {
        let mut why = "there is no way to write it here".to_owned();
        let operations = [operation];
        for (nth, way) in self.ways(&operations[0])?.into_iter().enumerate() {
            match self.attempt(&operations, way) {
                Ok(()) => return Ok(()),
                Err(Refuted::TooLarge(refused)) => return Err(refused),
                Err(Refuted::Because(reason)) if nth == 0 => why = reason,
                Err(Refuted::Because(_)) => {}
            }
        }
        Err(self.unproven(&operations[0], &why))
    }

    fn unproven(&self, operation: &Operation, reason: &str) -> Refused {
        let Operation { document, path, .. } = operation;
        let places = Places::of(&self.text, &self.file, *document, self.limits.expansion);
        let line = places.ok().and_then(|places| {
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

    /// Splices, reads the result, and keeps it if it is proven.
    fn attempt(&mut self, operations: &[Operation], splices: Vec<Splice>) -> Result<(), Refuted> {
        let kept = |at: &&std::ops::Range<usize>| {
            let gone =
                |it: &Splice| it.at.start <= at.start && at.end <= it.at.end && !it.at.is_empty();
            !splices.iter().any(gone)
        };
        let kept = self.file.comments.iter().filter(kept);
        let comments: Vec<&str> = kept.map(|at| &self.text[at.clone()]).collect();
        let new =
            splice(&self.text, splices.clone()).ok_or_else(|| because("two changes overlap"))?;
        check_length(&new, self.limits).map_err(Refuted::TooLarge)?;
        let file = (self.syntax.read)(&new, self.limits);
        let file = file
            .map_err(|problem| Refuted::Because(format!("the result does not parse: {problem}")))?;
        prove(&self.file, &file, operations)?;
        let found: Vec<&str> = file.comments.iter().map(|at| &new[at.clone()]).collect();
        if comments != found {
            return Err(because("a comment would be lost or changed"));
        }
        (self.text, self.file) = (new, file);
        Ok(())
    }

    /// The ways to make an operation, the best first.
    fn ways(&self, operation: &Operation) -> Result<Vec<Vec<Splice>>, Refused> {
        let path = &operation.path;
        let places = Places::of(
            &self.text,
            &self.file,
            operation.document,
            self.limits.expansion,
        )?;
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
        let place = places.find(path)?;
        match (&operation.change, place) {
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
                Ok(self.remove(&parent_place, &place, operation.document))
            }
            _ => Ok(Vec::new()),
        }
    }

    fn lines(&self) -> Lines<'_> {
        Lines::of(&self.text, &self.file)
    }

    fn blocks(&self, document: u32) -> Blocks<'_> {
        let root = self.file.documents.get(document as usize);
        Blocks {
            lines: self.lines(),
            layout: root.map_or(Layout::default(), |root| layout(self.lines(), root)),
            inline: Inline {
                flow: false,
                quoted: self.syntax.quoted,
            },
        }
    }

    fn inline(&self, flow: bool, within: Option<&Collection>) -> Inline {
        let alike = within.filter(|within| flow && !within.slots.is_empty());
        Inline {
            flow,
            quoted: self.syntax.quoted || alike.is_some_and(is_quoted),
        }
    }

    fn replace(&self, place: &Place<'_>, operation: &Operation) -> Vec<Vec<Splice>> {
        let Change::Replace(to) = &operation.change else {
            return Vec::new();
        };
        let (node, blocks) = (place.node, self.blocks(operation.document));
        let scalar = matches!(node.kind, Kind::Scalar(..));
        if node.tag.is_some() && !(scalar && !to.is_array() && !to.is_object()) {
            return Vec::new();
        }
        if is_block(to) && !place.flow {
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
            Kind::Collection(of) if !of.flow => blocks
                .collapse(place, &inline.value(to))
                .into_iter()
                .collect(),
            Kind::Collection(_) | Kind::Alias(_) => {
                vec![vec![Splice::replace(node.at.clone(), inline.value(to))]]
            }
        }
    }

    fn add(&self, parent: &Place<'_>, operation: &Operation, to: &Json) -> Vec<Vec<Splice>> {
        let Some(of) = parent.node.collection().filter(|of| !of.bare) else {
            return Vec::new();
        };
        let key = key(&operation.path).filter(|_| of.map);
        if of.flow {
            let inline = self.inline(true, Some(of));
            let new = match key {
                Some(key) => inline.entry(key, to),
                None => inline.value(to),
            };
            return vec![flow::add(self.lines(), parent.node, of, &new)];
        }
        let blocks = self.blocks(operation.document);
        let new = match key {
            Some(key) => blocks.layout.entry(key, to, blocks.inline),
            None => blocks.layout.item(to, blocks.inline),
        };
        vec![blocks.add(parent.node, &new)]
    }

    fn remove(&self, parent: &Place<'_>, place: &Place<'_>, document: u32) -> Vec<Vec<Splice>> {
        let (Some(of), Some((_, nth))) = (parent.node.collection(), place.within) else {
            return Vec::new();
        };
        match (of.flow, of.slots.len()) {
            (true, _) if of.bare => Vec::new(),
            (true, _) => vec![flow::remove(self.lines(), of, nth)],
            (false, 1) => {
                let blocks = self.blocks(document);
                let empty = if of.map { "{}" } else { "[]" };
                blocks.collapse(parent, empty).into_iter().collect()
            }
            (false, _) => self.blocks(document).remove(of, nth),
        }
    }
}

/// Why a result is not accepted.
enum Refuted {
    TooLarge(Refused),
    Because(String),
}

fn because(reason: &str) -> Refuted {
    Refuted::Because(reason.into())
}

/// Proves that `new` is `old` with `operations` made and nothing else changed: neither values, keys and their order nor
/// anchors, aliases and tags.
fn prove(old: &File, new: &File, operations: &[Operation]) -> Result<(), Refuted> {
    let changed = |documents: &[Node]| {
        let mut documents = documents.to_vec();
        for Operation {
            document,
            path,
            change,
        } in operations
        {
            let root = documents.get_mut(*document as usize)?;
            root.apply(path.steps(), change)?;
        }
        Some(documents)
    };
    let same = |expected: &[Node], found: &[Node]| {
        expected.len() == found.len() && expected.iter().zip(found).all(|(a, b)| a.same(b))
    };
    let expected = changed(&old.documents).ok_or_else(|| because("the field is not there"))?;
    if !same(&expected, &new.documents) {
        return Err(because(
            "another value would change, or the value would be read differently",
        ));
    }
    match (&old.read, &new.read) {
        (None, None) => Ok(()),
        (Some(old), Some(new)) if changed(old).is_some_and(|it| same(&it, new)) => Ok(()),
        _ => Err(because("the source would read another value")),
    }
}

fn key(path: &FieldPath) -> Option<&str> {
    match path.steps().last()? {
        plugin_sdk::document::Step::Key(key) => Some(key),
        plugin_sdk::document::Step::Index(_) => None,
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
        let Some(of) = node.collection().filter(|of| !of.flow) else {
            continue;
        };
        for slot in &of.slots {
            let start = slot.value.at.start;
            let inner = slot.value.collection().filter(|it| !it.flow && of.map);
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
