//! Finds the place of an edit, and refuses places whose change would reach other fields.

use std::collections::BTreeMap;

use plugin_sdk::document::{FieldPath, Step, Value};
use serde_json::Value as Json;

use super::{
    refused::Refused,
    text::line,
    tree::{Collection, Kind, Node, Slot},
};

const WRITE_OUT: &str = "write the value out where it is used, then edit it";

/// A value and what it is within.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'f> {
    pub(super) node: &'f Node,
    /// The innermost map or list that contains the value, and the position of the value within. `None` for the root.
    pub(super) within: Option<(&'f Node, usize)>,
    /// Whether the value is within brackets or braces.
    pub(super) flow: bool,
}

impl<'f> Place<'f> {
    /// The entry or item whose value this is.
    pub(super) fn slot(&self) -> Option<&'f Slot> {
        let (parent, nth) = self.within?;
        parent.collection()?.slots.get(nth)
    }
}

/// A document, and which of its values others share.
#[derive(Debug)]
pub(super) struct Places<'f> {
    text: &'f str,
    document: &'f Node,
    /// Number of aliases of each anchor.
    aliases: BTreeMap<usize, usize>,
    anchored: BTreeMap<usize, &'f Node>,
    /// Maximum size of a value with its aliases expanded, as [`Limits::expansion`](crate::format::Limits).
    expansion: usize,
}

impl<'f> Places<'f> {
    /// The places of the document `root`. `expansion` is the maximum size of a value with its aliases expanded.
    pub(super) fn of(text: &'f str, root: &'f Node, expansion: usize) -> Self {
        let mut places = Self {
            text,
            document: root,
            aliases: BTreeMap::new(),
            anchored: BTreeMap::new(),
            expansion,
        };
        places.note(root);
        places
    }

    fn note(&mut self, node: &'f Node) {
        if let Some(anchor) = &node.anchor {
            self.anchored.insert(anchor.id, node);
        }
        match &node.kind {
            Kind::Alias(anchor) => *self.aliases.entry(anchor.id).or_default() += 1,
            Kind::Collection(collection) => collection
                .slots
                .iter()
                .for_each(|slot| self.note(&slot.value)),
            Kind::Scalar(..) => {}
        }
    }

    /// The value at `path`. `Ok(None)`: the map or list that would contain it does not.
    ///
    /// # Errors
    /// When there is no such map or list, or the path goes through a value that others share.
    pub(super) fn find(&self, path: &FieldPath) -> Result<Option<Place<'f>>, Refused> {
        let mut place = Place {
            node: self.document,
            within: None,
            flow: false,
        };
        for (depth, step) in path.steps().iter().enumerate() {
            self.check_alone(place.node, path)?;
            let collection = place.node.collection();
            let position = collection.and_then(|it| it.position(step));
            let (Some(collection), Some(nth)) = (collection, position) else {
                if collection.is_some_and(|it| it.has_several(step)) {
                    return Err(Refused::Several {
                        path: path.clone(),
                        list: FieldPath::from(path.steps()[..depth].to_vec()),
                        line: self.line(place.node.at.start),
                    });
                }
                let last = depth + 1 == path.steps().len();
                if last && collection.is_some_and(|it| can_add(it, step)) {
                    return Ok(None);
                }
                return Err(self.no_field(path, depth, place.node));
            };
            let slot = &collection.slots[nth];
            if slot.merge {
                return Err(self.shared(path, slot.start, "a merge key".into(), WRITE_OUT));
            }
            place = Place {
                node: &slot.value,
                within: Some((place.node, nth)),
                flow: place.flow || collection.flow(),
            };
        }
        Ok(Some(place))
    }

    /// # Errors
    /// When an alias repeats the value, or the value is an alias.
    pub(super) fn check_alone(&self, node: &Node, path: &FieldPath) -> Result<(), Refused> {
        if let Kind::Alias(anchor) = &node.kind {
            let what = format!("the alias *{}", anchor.name);
            return Err(self.shared(path, node.at.start, what, WRITE_OUT));
        }
        let repeated = node
            .anchor
            .as_ref()
            .filter(|it| self.aliases.contains_key(&it.id));
        match repeated {
            Some(anchor) => {
                let what = format!("the anchor &{}, which an alias repeats", anchor.name);
                let at = node
                    .properties
                    .as_ref()
                    .map_or(node.at.start, |it| it.start);
                Err(self.shared(path, at, what, WRITE_OUT))
            }
            None => Ok(()),
        }
    }

    /// # Errors
    /// When an alias outside the value repeats a value within it.
    pub(super) fn check_leaves(&self, node: &Node, path: &FieldPath) -> Result<(), Refused> {
        let (mut anchors, mut aliases) = (Vec::new(), BTreeMap::<usize, usize>::new());
        let mut within = vec![node];
        while let Some(node) = within.pop() {
            anchors.extend(node.anchor.as_ref().map(|anchor| (anchor, node)));
            match &node.kind {
                Kind::Alias(anchor) => *aliases.entry(anchor.id).or_default() += 1,
                Kind::Collection(it) => within.extend(it.slots.iter().map(|slot| &slot.value)),
                Kind::Scalar(..) => {}
            }
        }
        for (anchor, node) in anchors {
            if self.aliases.get(&anchor.id) != aliases.get(&anchor.id) {
                let what = format!(
                    "the anchor &{}, which an alias elsewhere repeats",
                    anchor.name
                );
                let advice = "write the value out where the alias is, then edit this field";
                return Err(self.shared(path, node.at.start, what, advice));
            }
        }
        Ok(())
    }

    /// # Errors
    /// When entries are merged into the map, so that adding or removing one can change more than it seems.
    pub(super) fn check_unmerged(
        &self,
        collection: &Node,
        path: &FieldPath,
    ) -> Result<(), Refused> {
        let slots = collection.collection().map(|it| &it.slots);
        match slots.into_iter().flatten().find(|slot| slot.merge) {
            Some(slot) => {
                let what = "a merge key, which can give this field a value".into();
                Err(self.shared(path, slot.start, what, "write the merged fields out first"))
            }
            None => Ok(()),
        }
    }

    /// A value as JSON, with its aliases expanded.
    ///
    /// # Errors
    /// When it has a merge key or is too large.
    pub(super) fn json(&self, node: &'f Node, path: &FieldPath) -> Result<Json, Refused> {
        let mut left = self.expansion;
        self.expand(node, path, &mut left)
    }

    fn expand(&self, node: &'f Node, path: &FieldPath, left: &mut usize) -> Result<Json, Refused> {
        let large = || self.unproven(path, node, "its aliases expand to more than the limit");
        let text = match &node.kind {
            Kind::Scalar(_, Value::String(text)) => text.len(),
            _ => 0,
        };
        *left = left.checked_sub(64 + text).ok_or_else(large)?;
        match &node.kind {
            Kind::Scalar(_, value) => Ok(scalar(value)),
            Kind::Alias(anchor) => match self.anchored.get(&anchor.id) {
                Some(target) if target.at.end <= node.at.start => self.expand(target, path, left),
                _ => Err(self.unproven(path, node, "an alias repeats a value that contains it")),
            },
            Kind::Collection(collection) if collection.merges() => {
                self.check_unmerged(node, path)?;
                Ok(Json::Null)
            }
            Kind::Collection(collection) if collection.map => {
                let entry = |slot: &'f Slot| {
                    Ok((slot.key.to_string(), self.expand(&slot.value, path, left)?))
                };
                let entries: Result<_, _> = collection.slots.iter().map(entry).collect();
                entries.map(Json::Object)
            }
            Kind::Collection(collection) => collection
                .slots
                .iter()
                .map(|slot| self.expand(&slot.value, path, left))
                .collect(),
        }
    }

    pub(super) fn line(&self, at: usize) -> usize {
        line(self.text, at)
    }

    pub(super) fn unproven(&self, path: &FieldPath, node: &Node, reason: &str) -> Refused {
        Refused::NotProven {
            path: path.clone(),
            line: self.line(node.at.start),
            reason: reason.into(),
        }
    }

    fn shared(&self, path: &FieldPath, at: usize, what: String, advice: &'static str) -> Refused {
        Refused::Shared {
            path: path.clone(),
            line: self.line(at),
            what,
            advice,
        }
    }

    fn no_field(&self, path: &FieldPath, depth: usize, node: &Node) -> Refused {
        Refused::NoField {
            path: path.clone(),
            deepest: FieldPath::from(path.steps()[..depth].to_vec()),
            found: match node.collection() {
                Some(collection) if collection.map => "the map",
                Some(_) => "the list",
                None => "the single value",
            },
            line: self.line(node.at.start),
        }
    }
}

/// Whether a map or list without `step` can have it: any key, the index after the last item, or a new name.
fn can_add(collection: &Collection, step: &Step) -> bool {
    match step {
        Step::Key(_) => collection.map,
        Step::Index(index) => !collection.map && *index == collection.slots.len(),
        Step::Item { .. } => !collection.map,
    }
}

fn scalar(value: &Value) -> Json {
    match value {
        Value::Bool(is) => (*is).into(),
        Value::Int(int) => (*int).into(),
        Value::Uint(uint) => (*uint).into(),
        Value::Float(float) => (*float).into(),
        Value::String(text) => text.as_ref().into(),
        Value::Null | Value::Sequence(_) | Value::Map(_) => Json::Null,
    }
}
