//! An editable source, as data: its fields, the changes that executions have made, and when production has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use annealing_workflow::intent::{Made, PreparedEdit, Settlement};
use control_plane_store::records::Holder;
use plugin_sdk::{ChangeId, FieldEdit, FieldPath, operation::Answer, plugin};
use serde_json::Value;

use crate::{executor::Instant, faults::Fault, world::State};

/// The name of the source.
pub(super) const SOURCE: &str = "sizes.yaml";
/// The fields of the source.
const FIELDS: [&str; 3] = ["shop", "search", "mail"];

/// A change that was made.
pub(super) struct Change {
    fields: BTreeSet<FieldPath>,
    /// When production has it; `None`: its rollout goes back.
    has_it: Option<Instant>,
    /// Whether another program or a person has set one of its fields before production had it.
    pub(super) overwritten: bool,
}

impl Change {
    /// Whether production had the change at some time until now.
    pub(super) fn was_reached(&self, now: Instant) -> bool {
        !self.overwritten && self.has_it.is_some_and(|at| at <= now)
    }

    pub(super) fn goes_back(&self) -> bool {
        self.has_it.is_none()
    }
}

/// The source.
#[derive(Default)]
pub(super) struct Source {
    values: BTreeMap<FieldPath, Value>,
    /// The holders of fields.
    pub(super) holders: BTreeMap<FieldPath, Holder>,
    pub(super) changes: BTreeMap<ChangeId, Change>,
    /// The ids under which each holder has asked for edits, and whether these undo others.
    pub(super) asked: BTreeMap<(Holder, bool), BTreeSet<ChangeId>>,
}

impl Source {
    fn value(&self, path: &FieldPath) -> Value {
        self.values.get(path).cloned().unwrap_or(Value::Null)
    }

    /// Sets a field. Changes of it that production does not have are overwritten.
    fn set(&mut self, now: Instant, path: &FieldPath, to: Value) {
        let open = self.changes.values_mut();
        for change in open.filter(|it| it.fields.contains(path) && !it.was_reached(now)) {
            change.overwritten = true;
        }
        self.values.insert(path.clone(), to);
    }

    /// Whether another program holds the field of an edit, or the field has another value than the edit expects.
    fn refuses(&self, holder: &Holder, edit: &FieldEdit) -> Option<String> {
        let held = self.holders.get(&edit.path).filter(|it| *it != holder);
        let moved = Some(self.value(&edit.path)) != edit.was;
        match (held, moved) {
            (Some(other), _) => Some(format!("{} is held by {other}", edit.path)),
            (None, true) => Some(format!("{} has another value", edit.path)),
            (None, false) => None,
        }
    }
}

impl State {
    /// The answer of a function that gives a field another value. `n` selects the field.
    pub(super) fn grown(&mut self, answer: Answer, n: u64) -> Answer {
        let field = FIELDS[n as usize % FIELDS.len()];
        let path = FieldPath::keys(["sizes", field]);
        let was = self.flows.source.value(&path);
        let to = self.flows.random.below(1_000_000) as u64;
        answer.edit(SOURCE, FieldEdit::set(SOURCE, path, was, to))
    }

    /// Makes a change for the owner with this token: all of it or nothing, and once under its id.
    pub(super) fn make_change(
        &mut self,
        token: u64,
        prepared: &PreparedEdit,
    ) -> Result<Made, plugin::Error> {
        let (edit, holder) = (&prepared.edit, &prepared.holder);
        if token < self.flows.owner {
            return Err(plugin::Error::fenced("another process owns the partition"));
        }
        if self.flows.source.changes.contains_key(&edit.id) {
            return Ok(Made::default());
        }
        if !edit.lenient && self.flow_strikes(Fault::SourceRefused) {
            return Err(plugin::Error::permanent("a validator refuses the change"));
        }
        let (now, after) = (self.now, Duration::from_secs(5)..Duration::from_secs(90));
        let goes_back = self.flow_strikes(Fault::RolloutGoesBack);
        let after = self.flows.random.between(after.start, after.end);
        let source = &mut self.flows.source;
        let mut made = Made::default();
        let mut fields = BTreeSet::new();
        let fields_of = |it: &FieldEdit| source.refuses(holder, it);
        let refused: Vec<_> = edit.edits.iter().map(|it| fields_of(&it.edit)).collect();
        if let Some(why) = refused.iter().flatten().next().filter(|_| !edit.lenient) {
            return Err(plugin::Error::permanent(why.clone()));
        }
        for (edit, refused) in edit.edits.iter().map(|it| &it.edit).zip(refused) {
            if let Some(why) = refused {
                made.left_alone.push(why);
                continue;
            }
            source.set(now, &edit.path, edit.to.clone().unwrap_or_default());
            source.holders.insert(edit.path.clone(), holder.clone());
            fields.insert(edit.path.clone());
        }
        let change = Change {
            fields,
            has_it: (!goes_back).then_some(now + after),
            overwritten: false,
        };
        source.changes.insert(edit.id.clone(), change);
        Ok(made)
    }

    /// How a change has settled; `None`: it has not yet.
    pub(super) fn settlement(&self, id: &ChangeId) -> Option<Settlement> {
        let change = self.flows.source.changes.get(id)?;
        if change.overwritten {
            return Some(Settlement::Overwritten("another value was set".into()));
        }
        if change.goes_back() {
            return Some(Settlement::RolledBack("it was not healthy".into()));
        }
        change.was_reached(self.now).then_some(Settlement::Done)
    }

    /// A person gives a field another value.
    pub(super) fn person_edits(&mut self) {
        let field = FIELDS[self.flows.random.below(FIELDS.len())];
        let to = self.flows.random.below(1_000_000) as u64;
        let path = FieldPath::keys(["sizes", field]);
        let now = self.now;
        self.flows.source.set(now, &path, to.into());
    }
}
