//! An editable source, as data: its fields, the changes that executions have made, and when production has them.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{ChangeId, FieldEdit, FieldPath, Holder, port::Made};
use serde_json::Value;

use crate::executor::Instant;

/// The name of the source.
pub(crate) const SOURCE: &str = "sizes.yaml";
/// The fields of the source.
pub(crate) const FIELDS: [&str; 3] = ["shop", "search", "mail"];

/// The value of a field; `None`: the source does not have the field.
pub(crate) type Content = Option<u64>;

/// The values of all fields.
pub(crate) type Contents = [Content; FIELDS.len()];

/// The path of a field.
pub(crate) fn path(field: &str) -> FieldPath {
    FieldPath::keys(["sizes", field])
}

/// A change that was made.
pub(crate) struct Change {
    pub(crate) fields: BTreeSet<FieldPath>,
    /// When production has it; `None`: its rollout goes back.
    pub(crate) has_it: Option<Instant>,
    /// Whether another program or a person has set one of its fields before production had it.
    pub(crate) overwritten: bool,
    /// When it was made.
    pub(crate) at: Instant,
    /// The answer, which is the same if it is asked for again.
    pub(crate) made: Made,
}

impl Change {
    /// Whether production had the change at some time until now.
    pub(crate) fn was_reached(&self, now: Instant) -> bool {
        !self.overwritten && self.has_it.is_some_and(|at| at <= now)
    }

    pub(crate) fn goes_back(&self) -> bool {
        self.has_it.is_none()
    }
}

/// The source.
#[derive(Default)]
pub(crate) struct Source {
    values: BTreeMap<FieldPath, Value>,
    /// The holders of fields.
    pub(crate) holders: BTreeMap<FieldPath, Holder>,
    pub(crate) changes: BTreeMap<ChangeId, Change>,
    /// The ids under which each holder has asked for edits, and whether these undo others.
    pub(crate) asked: BTreeMap<(Holder, bool), BTreeSet<ChangeId>>,
}

impl Source {
    pub(crate) fn value(&self, path: &FieldPath) -> Value {
        self.values.get(path).cloned().unwrap_or(Value::Null)
    }

    /// The values of all fields.
    pub(crate) fn contents(&self) -> Contents {
        FIELDS.map(|field| self.value(&path(field)).as_u64())
    }

    /// Sets a field. Changes of it that production does not have are overwritten.
    pub(crate) fn set(&mut self, now: Instant, path: &FieldPath, to: Value) {
        let open = self.changes.values_mut();
        for change in open.filter(|it| it.fields.contains(path) && !it.was_reached(now)) {
            change.overwritten = true;
        }
        self.values.insert(path.clone(), to);
    }

    /// Whether another program holds the field of an edit, or the field has another value than the edit expects.
    pub(crate) fn refuses(&self, holder: &Holder, edit: &FieldEdit) -> Option<String> {
        let held = self.holders.get(&edit.path).filter(|it| *it != holder);
        let moved = Some(self.value(&edit.path)) != edit.was;
        match (held, moved) {
            (Some(other), _) => Some(format!("{} is held by {other}", edit.path)),
            (None, true) => Some(format!("{} has another value", edit.path)),
            (None, false) => None,
        }
    }
}
