//! Edits that steps gather, and the one change that makes all of them.

use std::borrow::Cow;

use plugin_sdk::{
    Now,
    operation::{Answer, Limit, OverLimit, PauseAsset, SourceEdit},
    workflow::{MachineName, StateName, Task},
};

use super::{
    Lane,
    edit::{change_id, radius},
    event::Effects,
    packed::Kept,
    state::{Execution, StepId},
};
use crate::record::StepEdit;

impl Execution {
    /// What the steps have gathered that is not made yet, in the order of the machines.
    fn open_gathered(&self) -> impl Iterator<Item = (&MachineName, Cow<'_, StepEdit>)> {
        let steps = self.steps.iter();
        let gathered = steps.filter(|(_, step)| step.edit.is_gathered());
        gathered.filter_map(|(machine, step)| Some((self.machine_name(machine), step.edit.get()?)))
    }

    /// The edits that the steps have gathered and that are not made yet.
    pub(super) fn gathered_edits(&self) -> Vec<SourceEdit> {
        let gathered = self.open_gathered();
        gathered.flat_map(|(_, edit)| edit.edits.clone()).collect()
    }

    fn gathers(&self, id: StepId) -> bool {
        self.action(id.machine).is_some_and(|action| action.gathers)
    }

    /// Whether the edits of an answer, with all that the execution has edited or gathered before, can be undone in one edit
    /// of a source, and whether one record has room for them and for what is done with them.
    ///
    /// # Errors
    /// When they are too many or too large together.
    pub(super) fn has_room_for_edits(&self, answer: &Answer) -> Result<(), String> {
        if answer.edits.is_empty() && answer.pauses.is_empty() {
            return Ok(());
        }
        let (mut edits, mut pauses) = (answer.edits.clone(), answer.pauses.clone());
        for before in self.steps.values().filter_map(|step| step.edit.get()) {
            edits.extend(before.made());
            if before.gathered {
                edits.extend_from_slice(&before.edits);
                pauses.extend_from_slice(&before.pauses);
            }
        }
        let all = || -> Result<(), OverLimit> {
            Limit::EDITS.check(edits.len())?;
            Limit::EDITED.check_json(&edits)?;
            Limit::CHANGES.check_json(&(&edits, &pauses, &answer.starts))
        };
        all().map_err(|over| format!("{over}; let several executions make them"))
    }

    /// Why the edits of an answer cannot be added to those of the steps before.
    fn misfit(&self, own: &MachineName, answer: &Answer) -> Option<String> {
        for (other, gathered) in self.open_gathered() {
            for (theirs, ours) in gathered
                .edits
                .iter()
                .flat_map(|theirs| answer.edits.iter().map(move |ours| (theirs, ours)))
            {
                if theirs.source != ours.source {
                    return Some(format!(
                        "`{other}` edits `{}` and `{own}` edits `{}`; all edits of an operation go to one source",
                        theirs.source.0, ours.source.0
                    ));
                }
                if theirs.edit.overlaps(&ours.edit) && !same(theirs, ours) {
                    return Some(format!(
                        "`{other}` and `{own}` set one field to different values: `{}` and `{}`; let one of them set it",
                        theirs.edit, ours.edit
                    ));
                }
            }
        }
        None
    }
}

/// Whether two edits give one field the same value.
fn same(one: &SourceEdit, other: &SourceEdit) -> bool {
    one.edit.path == other.edit.path && one.edit.to == other.edit.to
}

/// Adds edits, without those that are there, and pauses.
fn add(to: &mut StepEdit, edits: &[SourceEdit], pauses: &[PauseAsset]) {
    for new in edits {
        if !to.edits.iter().any(|known| known.edit.overlaps(&new.edit)) {
            to.edits.push(new.clone());
        }
    }
    to.pauses.extend_from_slice(pauses);
}

impl Lane {
    /// Whether the step keeps its edits for another one.
    pub(super) fn gathers(&self, id: StepId) -> bool {
        self.live
            .get(&id.execution)
            .is_some_and(|execution| execution.gathers(id))
    }

    /// Checks that the edits of an answer can be added to those of the steps before.
    ///
    /// # Errors
    /// If two steps set one field to different values, or edit different sources.
    pub(super) fn fits_gathered(&self, id: StepId, answer: &Answer) -> Result<(), String> {
        let Some(execution) = self.live.get(&id.execution).filter(|it| it.gathers(id)) else {
            return Ok(());
        };
        match execution.misfit(execution.machine_name(id.machine), answer) {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Keeps the edits and pauses of an answer for the step that makes them.
    pub(super) fn gather(&mut self, now: Now, id: StepId, answer: &Answer) {
        let turndown = self.may_turn_down(id);
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let change = change_id(execution, id);
        let outcome = &answer.outcome;
        if let Some(step) = execution.steps.at_mut(id.machine) {
            // A loop adds to what it has gathered before.
            let before = step.edit.take().filter(|edit| edit.gathered);
            let mut edit = before.unwrap_or_else(|| StepEdit::new(change, outcome));
            edit.gathered = true;
            edit.over = true;
            if !answer.edits.is_empty() {
                edit.turndown = turndown && (edit.edits.is_empty() || edit.turndown);
            }
            add(&mut edit, &answer.edits, &answer.pauses);
            step.edit = Kept::open(edit);
        }
        self.conclude(now, id, outcome);
    }

    /// Makes what machines have gathered, in one change. Nothing gathered is nothing to do.
    pub(super) fn make_gathered(
        &mut self,
        now: Now,
        id: StepId,
        machines: &[MachineName],
        out: &mut Effects,
    ) {
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        if execution.live.paused.is_some() {
            return self.pauses(now, id);
        }
        let mut all = StepEdit::new(change_id(execution, id), &StateName::from(StateName::DONE));
        all.blast_radius = radius(execution, id);
        // What an edit turns down cannot be told from what the others do, so all steps that edit need the power.
        all.turndown = true;
        for (machine, gathered) in execution.open_gathered() {
            if machines.contains(machine) {
                add(&mut all, &gathered.edits, &gathered.pauses);
                all.turndown &= gathered.edits.is_empty() || gathered.turndown;
            }
        }
        if all.edits.is_empty() && all.pauses.is_empty() {
            return self.conclude(now, id, &all.outcome);
        }
        if let Some(step) = execution.steps.at_mut(id.machine) {
            all.before = step.made();
            step.edit = Kept::open(all);
        }
        self.make_edit(now, id, out);
    }

    /// Notes that what machines have gathered is made.
    pub(super) fn gathered_made(&mut self, id: StepId) {
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let Some(Task::Edit { machines }) = execution.action(id.machine).map(|it| &it.task) else {
            return;
        };
        let machines = machines
            .iter()
            .filter_map(|name| execution.workflow.machine_no(name));
        for machine in machines.collect::<Vec<_>>() {
            if let Some(step) = execution.steps.at_mut(machine)
                && step.edit.is_gathered()
            {
                step.edit.gathered_is_made();
                self.dirty.insert(StepId { machine, ..id });
            }
        }
    }

    /// Forgets what a step has gathered, because it runs again.
    pub(super) fn forget_gathered(&mut self, id: StepId) {
        if let Some(step) = self.step_mut(id)
            && step.edit.is_gathered()
        {
            step.edit = Kept::default();
        }
    }
}
