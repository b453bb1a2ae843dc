//! What executions and people do with the editable source.

use std::{collections::BTreeSet, time::Duration};

use annealing_workflow::intent::{Made, PreparedEdit, Settlement};
use plugin_sdk::{ChangeId, FieldEdit, FieldPath, operation::Answer, plugin};

use crate::{
    faults::Fault,
    flows::source::{Change, FIELDS, SOURCE},
    world::State,
};

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
