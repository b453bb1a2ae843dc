//! Plans edits: compares expected values, and takes edits of whole maps and lists apart into the fields that differ.

use std::collections::BTreeSet;

use plugin_sdk::document::{FieldPath, Step};
use serde_json::Value as Json;

use super::{
    Edit,
    place::{Place, Places},
    refused::Refused,
    tree::{Change, File, Form, Kind, Node, Style},
    write::is_block,
};

/// One change that is made with one set of splices.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) document: u32,
    pub(super) path: FieldPath,
    pub(super) change: Change,
}

impl Operation {
    /// The order of operations: indices of lists stay valid if removals come last.
    pub(super) fn phase(&self) -> u8 {
        match self.change {
            Change::Replace(_) => 0,
            Change::Add(_) => 1,
            Change::Remove => 2,
        }
    }

    /// The map or list whose entries change; for a replacement, the field.
    pub(super) fn container(&self) -> FieldPath {
        match (&self.change, self.path.split_last()) {
            (Change::Add(_) | Change::Remove, Some((parent, _))) => parent,
            _ => self.path.clone(),
        }
    }
}

/// The operations of all edits, in order. Paths are those of the text before the edits.
///
/// # Errors
/// When edits overlap, a field is not there, does not have its expected value, or is shared.
pub(super) fn plan(
    text: &str,
    file: &File,
    edits: &[Edit],
    expansion: usize,
) -> Result<Vec<Operation>, Refused> {
    check_apart(edits)?;
    let mut operations = Vec::new();
    let mut documents: Vec<u32> = edits.iter().map(|edit| edit.document).collect();
    documents.sort_unstable();
    documents.dedup();
    for document in documents {
        let root = file.documents.get(document as usize);
        let root = root.ok_or(Refused::NoDocument {
            document,
            count: file.documents.len(),
        })?;
        let places = Places::of(text, root, expansion);
        let mut plan = Plan {
            places,
            document,
            added: added(edits, document),
            operations: &mut operations,
        };
        for edit in edits.iter().filter(|edit| edit.document == document) {
            plan.edit(edit)?;
        }
    }
    order(&mut operations);
    Ok(operations)
}

/// # Errors
/// When two edits overlap.
pub(super) fn check_apart(edits: &[Edit]) -> Result<(), Refused> {
    let mut paths: Vec<(u32, &FieldPath)> =
        edits.iter().map(|it| (it.document, &it.path)).collect();
    paths.sort();
    let overlap =
        |pair: &&[(u32, &FieldPath)]| pair[0].0 == pair[1].0 && pair[0].1.is_prefix_of(pair[1].1);
    let overlapping = paths
        .windows(2)
        .find(overlap)
        .map(|pair| (pair[0].1, pair[1].1));
    match overlapping.or_else(|| named_and_counted(&paths)) {
        Some((first, second)) => Err(Refused::Overlap {
            first: first.clone(),
            second: second.clone(),
        }),
        None => Ok(()),
    }
}

/// Two paths of which one names an item by a field, and the other may name the same item in another way.
fn named_and_counted<'p>(paths: &[(u32, &'p FieldPath)]) -> Option<(&'p FieldPath, &'p FieldPath)> {
    let names = |path: &FieldPath| {
        path.steps()
            .iter()
            .any(|step| matches!(step, Step::Item { .. }))
    };
    let by_name = paths.iter().filter(|(_, path)| names(path));
    by_name
        .flat_map(|named| paths.iter().map(move |other| (named, other)))
        .filter(|(named, other)| named.0 == other.0 && named.1 != other.1)
        .map(|(named, other)| (named.1, other.1))
        .find(|(named, other)| named.overlaps(other))
}

/// Sorts operations: replacements, additions from the first, removals from the last.
fn order(operations: &mut [Operation]) {
    operations.sort_by(|a, b| {
        let paths = match a.change {
            Change::Replace(_) => std::cmp::Ordering::Equal,
            Change::Add(_) => a.path.cmp(&b.path),
            Change::Remove => b.path.cmp(&a.path),
        };
        a.phase().cmp(&b.phase()).then(paths)
    });
}

struct Plan<'f, 'o> {
    places: Places<'f>,
    document: u32,
    /// The fields that edits add.
    added: BTreeSet<&'o FieldPath>,
    operations: &'o mut Vec<Operation>,
}

/// The fields that `edits` add to a document.
fn added(edits: &[Edit], document: u32) -> BTreeSet<&FieldPath> {
    let adds = |edit: &&Edit| edit.document == document && edit.was.is_none() && edit.to.is_some();
    edits.iter().filter(adds).map(|edit| &edit.path).collect()
}

impl Plan<'_, '_> {
    fn push(&mut self, path: &FieldPath, change: Change) {
        self.operations.push(Operation {
            document: self.document,
            path: path.clone(),
            change,
        });
    }

    fn edit(&mut self, edit: &Edit) -> Result<(), Refused> {
        let path = &edit.path;
        if !path.keeps_names(edit.to.as_ref()) {
            let path = path.clone();
            return Err(Refused::Renames { path });
        }
        let place = match self.places.find(path) {
            Err(Refused::NoField { .. }) if edit.was.is_none() && edit.to.is_none() => {
                return Ok(());
            }
            Err(Refused::NoField { .. }) if self.follows_added(edit) => None,
            place => place?,
        };
        match (place, &edit.was, &edit.to) {
            (None, None, None) => {}
            (None, None, Some(to)) => self.push(path, Change::Add(to.clone())),
            (None, Some(_), _) => return Err(self.unexpected(edit, "absent".into())),
            (Some(place), was, to) => {
                let found = self.places.json(place.node, path)?;
                if was.as_ref() != Some(&found) {
                    return Err(self.unexpected(edit, found.to_string()));
                }
                match to {
                    Some(to) => self.replace(&place, to, path)?,
                    None if place.within.is_none() => return Err(Refused::WholeDocument),
                    None => self.push(path, Change::Remove),
                }
            }
        }
        Ok(())
    }

    /// Whether the field is the item after one that another edit adds.
    fn follows_added(&self, edit: &Edit) -> bool {
        let before = match edit.path.split_last() {
            Some((list, Step::Index(index @ 1..))) => list.index(index - 1),
            _ => return false,
        };
        self.added.contains(&edit.path) && self.added.contains(&before)
    }

    fn unexpected(&self, edit: &Edit, found: String) -> Refused {
        let written = |value: &Option<Json>| {
            value
                .as_ref()
                .map_or_else(|| "absent".to_owned(), Json::to_string)
        };
        let parent = edit.path.split_last().map(|(parent, _)| parent);
        let place = |path: &FieldPath| self.places.find(path).ok().flatten();
        let place = place(&edit.path).or_else(|| place(&parent.unwrap_or_default()));
        Refused::Unexpected {
            path: edit.path.clone(),
            line: place.map_or(1, |place| self.places.line(place.node.at.start)),
            expected: shorten(&written(&edit.was)),
            found: shorten(&found),
        }
    }

    /// Plans that the value at `place` becomes `to`.
    fn replace(&mut self, place: &Place<'_>, to: &Json, path: &FieldPath) -> Result<(), Refused> {
        let node = place.node;
        if self.places.json(node, path)? == *to {
            return Ok(());
        }
        self.places.check_alone(node, path)?;
        let collection = node.collection();
        match (collection, to) {
            (Some(of), Json::Object(to)) if of.map && !to.is_empty() => {
                return self.map(node, to, path);
            }
            (Some(of), Json::Array(to)) if !of.map && !to.is_empty() => {
                return self.list(node, to, path);
            }
            _ => {}
        }
        let emptied = collection.is_some_and(|of| {
            of.map == to.is_object() && !is_block(to) && (to.is_object() || to.is_array())
        });
        if place.within.is_none() && !emptied {
            return Err(Refused::WholeDocument);
        }
        let lines = match &node.kind {
            Kind::Scalar(style, _) => matches!(style, Style::Block { .. }),
            _ => collection.is_some_and(|of| of.form == Form::Lines),
        };
        if lines && !place.flow && is_block(to) {
            self.push(path, Change::Replace(Json::Null));
        }
        self.push(path, Change::Replace(to.clone()));
        Ok(())
    }

    /// Plans that the entries of a map become `to`.
    fn map(
        &mut self,
        node: &Node,
        to: &serde_json::Map<String, Json>,
        path: &FieldPath,
    ) -> Result<(), Refused> {
        for (key, to) in to {
            self.field(&path.clone().key(key.as_str()), to)?;
        }
        for slot in node.collection().into_iter().flat_map(|it| &it.slots) {
            if !to.contains_key(&*slot.key) {
                self.push(&path.clone().key(slot.key.clone()), Change::Remove);
            }
        }
        Ok(())
    }

    /// Plans that the items of a list become `to`. Equal items at both ends stay.
    fn list(&mut self, node: &Node, to: &[Json], path: &FieldPath) -> Result<(), Refused> {
        let mut items = Vec::new();
        for slot in node.collection().into_iter().flat_map(|it| &it.slots) {
            items.push(self.places.json(&slot.value, path)?);
        }
        let equal = |(a, b): &(&Json, &Json)| a == b;
        let head = items.iter().zip(to).take_while(equal).count();
        let tail = items[head..].iter().rev().zip(to[head..].iter().rev());
        let tail = match items.len() >= to.len() {
            true => tail.take_while(equal).count(),
            false => 0,
        };
        for (index, to) in to.iter().enumerate().take(to.len() - tail).skip(head) {
            self.field(&path.clone().index(index), to)?;
        }
        for index in to.len() - tail..items.len() - tail {
            self.push(&path.clone().index(index), Change::Remove);
        }
        Ok(())
    }

    /// Plans that the field at `path` becomes `to`, or is added.
    fn field(&mut self, path: &FieldPath, to: &Json) -> Result<(), Refused> {
        let index = |(_, step): &(FieldPath, &Step)| matches!(step, Step::Index(_));
        match self.places.find(path) {
            Ok(Some(place)) => self.replace(&place, to, path),
            // An item after the first of those that are added.
            Err(Refused::NoField { .. }) if path.split_last().as_ref().is_some_and(index) => {
                self.push(path, Change::Add(to.clone()));
                Ok(())
            }
            Ok(None) => {
                self.push(path, Change::Add(to.clone()));
                Ok(())
            }
            Err(refused) => Err(refused),
        }
    }
}

/// The first 200 characters of a value that is shown.
fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(200).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
