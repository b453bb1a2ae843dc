//! What executions and people do with the editable source.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::{
    ChangeId, FieldEdit, Holder,
    operation::{Answer, ExecutionId},
    plugin,
    port::{HeldEdit, Made, Settlement},
};
use prodspec_model::{IncarnationNo, snapshot};
use serde_json::Value;

use super::watches::size;
use crate::{
    executor::Instant,
    faults::Fault,
    flows::{
        source::{Change, Contents, FIELDS, SOURCE, path},
        watches::Watch,
    },
    world::State,
};

/// The numbers of the fields that the answer of execution number `n` gives other values.
pub(super) fn fields_of(n: u64) -> impl Iterator<Item = usize> {
    let count = 1 + n % 2;
    (n..n + count).map(|n| n as usize % FIELDS.len())
}

impl State {
    /// The answer of a function that gives fields other values. `n` selects the fields.
    pub(super) fn grown(&mut self, answer: Answer, n: u64) -> Answer {
        fields_of(n).fold(answer, |answer, field| {
            let path = path(FIELDS[field]);
            let was = self.flows.source.value(&path);
            let to = self.flows.random.below(1_000_000) as u64;
            answer.edit(SOURCE, FieldEdit::set(SOURCE, path, was, to))
        })
    }

    /// The answer of a function that makes the value of a field even.
    pub(super) fn rounded(&mut self, answer: Answer, field: Option<usize>) -> Answer {
        let Some(field) = field else {
            return answer;
        };
        let path = path(FIELDS[field]);
        let was = self.flows.source.value(&path);
        match was.as_u64() {
            Some(odd) if odd % 2 == 1 => {
                answer.edit(SOURCE, FieldEdit::set(SOURCE, path, was, odd + 1))
            }
            _ => answer,
        }
    }

    /// Makes a change for the owner with this token: all of it or nothing, and once under its id.
    pub(super) fn make_change(
        &mut self,
        token: u64,
        edit: &HeldEdit,
    ) -> Result<Made, plugin::Error> {
        let holder = &edit.holder;
        if token < self.flows.owner {
            return Err(plugin::Error::fenced("another process owns the partition"));
        }
        if let Some(change) = self.flows.source.changes.get(&edit.id) {
            return Ok(change.made.clone());
        }
        if !edit.lenient && self.flow_strikes(Fault::SourceRefused) {
            return Err(plugin::Error::permanent("a validator refuses the change"));
        }
        let source = &mut self.flows.source;
        let refused = edit.edits.iter().map(|it| source.refuses(holder, &it.edit));
        let refused: Vec<_> = refused.collect();
        if let Some(why) = refused.iter().flatten().next().filter(|_| !edit.lenient) {
            return Err(plugin::Error::permanent(why.clone()));
        }
        let (now, before) = (self.now, source.contents());
        let mut fields = BTreeSet::new();
        let mut left_alone = Vec::new();
        for (field, refused) in edit.edits.iter().map(|it| &it.edit).zip(refused) {
            if let Some(why) = refused {
                left_alone.push(why);
                continue;
            }
            source.set(now, &field.path, field.to.clone().unwrap_or_default());
            source.holders.insert(field.path.clone(), holder.clone());
            fields.insert(field.path.clone());
        }
        let made = Made {
            left_alone,
            ..self.changed_from(before, holder)
        };
        let change = Change {
            fields,
            has_it: self.arrives_in_production(),
            overwritten: false,
            at: now,
            made: made.clone(),
        };
        self.flows.source.changes.insert(edit.id.clone(), change);
        Ok(made)
    }

    /// When production has a change that is made now; `None`: its rollout goes back.
    fn arrives_in_production(&mut self) -> Option<Instant> {
        let goes_back = self.flow_strikes(Fault::RolloutGoesBack);
        let (least, most) = (Duration::from_secs(5), Duration::from_secs(90));
        let chosen = self.scenario.travel;
        let after = chosen.unwrap_or_else(|| self.flows.random.between(least, most));
        (!goes_back).then_some(self.now + after)
    }

    /// The assets that an edit has just changed.
    fn changed_from(&mut self, before: Contents, holder: &Holder) -> Made {
        let after = self.flows.source.contents();
        let newest = self.flows.watched.sealed.keys().next_back();
        let mut made = Made {
            sealed: IncarnationNo(newest.copied().unwrap_or_default()),
            ..Made::default()
        };
        let watch = execution(holder);
        let watch = watch.and_then(|id| Watch::of_run(&id));
        for field in (0..FIELDS.len()).filter(|field| before[*field] != after[*field]) {
            let (from, to) = (before[field], after[field]);
            self.flows.watched.set[field] = self.now;
            if let Some(watch) = watch {
                let own = self.flows.watched.own.entry((watch, field)).or_default();
                own.insert((from, to));
            }
            let change = snapshot::Change {
                before: size(field, from),
                after: size(field, to),
            };
            made.assets.push(change.id());
            made.changes.push(change);
        }
        made
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

    /// A person gives a field another value, or removes it.
    pub(super) fn person_edits(&mut self) {
        let field = self.flows.random.below(FIELDS.len());
        let to = self.flows.random.below(1_000_000) as u64;
        let removes = self.flows.random.per_mille(100);
        let to = if removes { Value::Null } else { to.into() };
        let now = self.now;
        self.flows.source.set(now, &path(FIELDS[field]), to);
        self.flows.watched.set[field] = now;
    }
}

/// The execution that holds fields.
pub(super) fn execution(holder: &Holder) -> Option<ExecutionId> {
    holder.to_string().strip_prefix("execution/")?.parse().ok()
}
