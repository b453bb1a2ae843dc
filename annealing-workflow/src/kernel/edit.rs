//! Edits of intent that answers ask for: made once under an id of the step, and waited for until production has them.

use plugin_sdk::{
    ChangeId, Holder, Mono, Now,
    operation::{Answer, Power, SourceEdit},
    plugin,
    port::{HeldEdit, Made, SettleRequest, Settlement},
    workflow::{MachineName, StateName},
};
use prodspec_model::{AssetId, Digest};

use super::{
    Bug, DISPATCH, Lane,
    event::{Call, CallNo, Effects, PreparedEdit},
    packed::Kept,
    state::{Execution, Phase, Step, StepId, Why},
    text::{cut, cut_one_of},
};
use crate::record::{EditedAsset, Entry, StepEdit, What};

/// Time for one attempt to make an edit.
const MAKE: std::time::Duration = std::time::Duration::from_secs(60);

/// Longest wait, at first, before an edit is made again of which it is not known whether it is made.
const EDIT_AGAIN: std::time::Duration = std::time::Duration::from_secs(5);
/// Longest such wait after many attempts.
const EDIT_SELDOM: std::time::Duration = std::time::Duration::from_secs(300);

/// Time until it is looked at again whether an edit that is to be undone is made.
const UNDER_WAY: std::time::Duration = std::time::Duration::from_secs(1);

/// How the names of holders begin that are executions.
pub(crate) const HOLDER: &str = "execution/";

/// The holder of the fields that an execution has set.
pub(crate) fn holder(execution: &plugin_sdk::operation::ExecutionId) -> Holder {
    format!("{HOLDER}{execution}").into()
}

/// What follows for an edit.
enum Next {
    Make(Box<PreparedEdit>),
    /// Its assets are waited for until this time.
    Settle(Box<SettleRequest>, Mono),
    /// It is made, and the action has this outcome.
    Over(StateName),
}

impl Lane {
    /// Stores the changes that an answer asks for, and makes them when they are durable.
    pub(super) fn begin_edit(&mut self, now: Now, id: StepId, answer: &Answer, out: &mut Effects) {
        let (half, turndown) = (self.planted(Bug::EditHalf), self.may_turn_down(id));
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let mut edit = StepEdit::new(change_id(execution, id), &answer.outcome);
        edit.edits = answer.edits.clone();
        if half {
            edit.edits.truncate(answer.edits.len().div_ceil(2));
        }
        edit.pauses = answer.pauses.clone();
        edit.starts = answer.starts.clone();
        edit.blast_radius = radius(execution, id);
        edit.turndown = turndown;
        if let Some(step) = execution.steps.at_mut(id.machine) {
            step.failures = 0;
            step.under_way = false;
            edit.before = step.made();
            step.edit = Kept::open(edit);
        }
        self.make_edit(now, id, out);
    }

    /// Undoes the edits of machines, field by field, where a field still has the value that the machine gave it.
    pub(super) fn put_back(
        &mut self,
        now: Now,
        id: StepId,
        machines: &[MachineName],
        out: &mut Effects,
    ) {
        let Some(execution) = self.live.get(&id.execution) else {
            return;
        };
        if execution.live.paused.is_some() {
            return self.pauses(now, id);
        }
        let numbers: Vec<_> = machines
            .iter()
            .filter_map(|name| execution.workflow.machine_no(name))
            .collect();
        let waits = numbers.iter().any(|machine| {
            self.edits_may_come(StepId {
                machine: *machine,
                ..id
            })
        });
        if waits {
            let again = now.mono + UNDER_WAY;
            return self.enter(now, id, Phase::Delayed(Why::Edits), Some(again));
        }
        let edits = numbers.iter().filter_map(|machine| {
            let made = execution.steps.at(*machine)?.made();
            Some(made.into_iter().rev().filter_map(reversed))
        });
        let done = StateName::from(StateName::DONE);
        let mut edit = StepEdit::new(change_id(execution, id), &done);
        edit.edits = edits.flatten().collect();
        edit.lenient = true;
        let mut restored = numbers
            .iter()
            .filter_map(|machine| execution.steps.at(*machine)?.edit.get());
        edit.turndown = restored.all(|edit| edit.turndown);
        edit.blast_radius = radius(execution, id);
        if edit.edits.is_empty() {
            return self.conclude(now, id, &edit.outcome);
        }
        if let Some(step) = self.step_mut(id) {
            step.edit = Kept::open(edit);
        }
        self.make_edit(now, id, out);
    }

    /// Whether an edit of this step may still be made: one that is on its way, or that of a call in flight.
    fn edits_may_come(&self, id: StepId) -> bool {
        let Some(step) = self.step_of(id) else {
            return false;
        };
        let may = self.function(id).map(|function| &function.info.may[..]);
        let edits =
            may.is_some_and(|may| may.iter().any(|power| matches!(power, Power::Edit { .. })));
        let in_call =
            step.may_have_effect() || matches!(step.phase, Phase::Suspect | Phase::Poisoned);
        step.edit_may_come() || edits && in_call
    }

    /// Makes the edit of a step, or waits for its assets if it is made.
    pub(super) fn make_edit(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let call = self.call_no();
        let twice = self.planted(Bug::EditTwice);
        let other = ChangeId::from(u128::from(self.random()));
        if let Some(step) = self.step_mut(id).filter(|_| twice)
            && let Some(edit) = step.edit.open_mut()
        {
            edit.id = other;
        }
        match self.next_of_edit(now, id) {
            Some(Next::Make(edit)) => self.begin_to_make(now, id, call, edit, out),
            Some(Next::Settle(request, until)) => {
                let wait = call.of_wait(id.execution);
                self.begin_to_settle(now, id, wait, request, until, out);
            }
            Some(Next::Over(outcome)) => self.conclude(now, id, &outcome),
            None => {}
        }
    }

    /// What follows for the edit of a step. `None`: it has none, or the action has gone on.
    fn next_of_edit(&self, now: Now, id: StepId) -> Option<Next> {
        let execution = self.live.get(&id.execution)?;
        let step = execution.steps.at(id.machine)?;
        let edit = step.open_edit()?;
        let settles = execution
            .action(id.machine)
            .and_then(|action| action.settles);
        let until = step.settles_until.time();
        let until = until.or(settles.map(|time| now.mono + time));
        let hasty = self.planted(Bug::SettledBeforeRead);
        let next = match (&edit.assets, until) {
            (None, _) => Next::Make(Box::new(prepared(execution, &edit))),
            (Some(assets), Some(until)) if !hasty => {
                Next::Settle(Box::new(wait_for(&edit, assets)), until)
            }
            (Some(_), _) => Next::Over(edit.outcome.clone()),
        };
        Some(next)
    }

    fn begin_to_make(
        &mut self,
        now: Now,
        id: StepId,
        call: CallNo,
        edit: Box<PreparedEdit>,
        out: &mut Effects,
    ) {
        if self.planted(Bug::EditForces) {
            self.give_up_others(id, out);
        }
        let execution = self.live.get(&id.execution);
        let action = execution.and_then(|execution| execution.action(id.machine));
        let in_all = action.and_then(|action| action.deadline);
        self.calls.insert(call, id);
        self.enter(now, id, Phase::Editing(call), Some(now.mono + MAKE));
        if let Some(step) = self.step_mut(id) {
            step.rare.expires = step.rare.expires.or(in_all.map(|time| now.mono + time));
        }
        self.hold(id, call, Call::Edit(call, edit), out);
    }

    fn begin_to_settle(
        &mut self,
        now: Now,
        id: StepId,
        wait: CallNo,
        request: Box<SettleRequest>,
        until: Mono,
        out: &mut Effects,
    ) {
        self.enter(now, id, Phase::Settling(wait), Some(until));
        if let Some(step) = self.step_mut(id) {
            step.settles_until = until.into();
        }
        self.hold(id, wait, Call::Settle(wait, request), out);
    }

    /// Gives up the fields of all other live executions; see [`Bug::EditForces`].
    fn give_up_others(&self, id: StepId, out: &mut Effects) {
        let others = self.live.iter().filter(|(no, _)| **no != id.execution);
        let editing = others.filter(|(_, it)| it.steps.values().any(|step| step.edit.is_some()));
        let releases = editing.map(|(_, other)| Call::Release(holder(&other.id)));
        out.calls.extend(releases);
    }

    /// Takes the result of an edit.
    pub(super) fn edited(
        &mut self,
        now: Now,
        call: CallNo,
        answer: Result<Made, plugin::Error>,
        out: &mut Effects,
    ) {
        let Some(id) = self.calls.remove(&call) else {
            return;
        };
        let present = |step: &Step| step.phase == Phase::Editing(call);
        if !self.step_of(id).is_some_and(present) {
            return;
        }
        let error = match answer {
            Ok(made) => return self.was_edited(now, id, made, out),
            Err(error) => error,
        };
        if let plugin::Error::Unknown { message } = error {
            return self.may_be_edited(now, id, message, out);
        }
        // A refusal says that no attempt before has made it; other errors say nothing about that.
        let refused = matches!(error, plugin::Error::Permanent { .. });
        match self.step_of(id).is_some_and(|step| step.uncertain) && !refused {
            true => self.may_be_edited(now, id, error.to_string(), out),
            false => self.failed(now, id, &error, out),
        }
    }

    /// Notes that it is not known whether an edit is made. The same edit is made again under its id, which makes it once;
    /// what is not known is not called failed. It is tried less often as it lasts, and a person may say what happened.
    pub(super) fn may_be_edited(
        &mut self,
        now: Now,
        id: StepId,
        why: impl Into<String>,
        out: &mut Effects,
    ) {
        let Some(step) = self.step_mut(id) else {
            return;
        };
        step.uncertain = true;
        // Twice as long after each ten.
        let longest = EDIT_AGAIN * 2_u32.pow((step.rare.untold / 10).min(10));
        step.rare.untold += 1;
        let wait = self.spread(longest.min(EDIT_SELDOM));
        let again = plugin::Error::throttled(why, wait);
        self.failed(now, id, &again, out);
    }

    fn was_edited(&mut self, now: Now, id: StepId, made: Made, out: &mut Effects) {
        self.watched_edit(id, &made);
        let Made {
            assets,
            changes,
            left_alone,
            ..
        } = made;
        let newest_only = self.planted(Bug::SettledNewestOnly);
        let latest = self.latest.filter(|_| newest_only);
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let machine = execution.machine_name(id.machine).clone();
        let Some(step) = execution.steps.at_mut(id.machine) else {
            return;
        };
        step.failures = 0;
        step.uncertain = false;
        if let Some(rare) = step.rare.present() {
            rare.error = None;
            rare.untold = 0;
            // There are no more attempts. The wait for the assets has a time of its own.
            rare.expires = None;
            rare.needs.clear();
        }
        step.incarnation = latest.or(step.incarnation);
        let (mut edits, mut starts) = (Vec::new(), Vec::new());
        if let Some(edit) = step.edit.open_mut() {
            starts = std::mem::take(&mut edit.starts);
            let many = edit.edits.len();
            let text = |edit: &SourceEdit| format!("{} {}", edit.source.0, edit.edit);
            let texts = edit.edits.iter().map(text);
            edits = texts.map(|text| cut_one_of(many, &text)).collect();
            edit.assets = Some(assets.clone());
        }
        let many = left_alone.len();
        let left_alone = left_alone.iter().map(|text| cut_one_of(many, text));
        let entry = Entry {
            at: now.wall,
            machine: Some(machine),
            what: What::Edited {
                edits,
                assets: assets.into_iter().take(EditedAsset::MANY).collect(),
                changes: EditedAsset::first(&changes),
                left_alone: left_alone.collect(),
            },
        };
        self.log.entry(id.execution).or_default().push(entry);
        self.changed(id);
        self.gathered_made(id);
        self.start_all(now, id, starts, out);
        self.make_edit(now, id, out);
        // A cancelled execution does not wait for the assets.
        self.look_at(id.execution, [id.machine]);
    }

    /// Takes the end of the wait for the assets of an edit.
    pub(super) fn settled_edit(
        &mut self,
        now: Now,
        wait: CallNo,
        answer: Result<Settlement, plugin::Error>,
        out: &mut Effects,
    ) {
        let Some(id) = self.settling(wait) else {
            return;
        };
        let step = self.step_of(id);
        let Some(outcome) = step.and_then(|step| Some(step.open_edit()?.outcome.clone())) else {
            return;
        };
        out.urgent = true;
        let edited_at = self.step_of(id).and_then(|step| step.incarnation);
        let answer = match answer {
            Ok(_) if self.planted(Bug::SettledNewestOnly) && edited_at < self.latest => {
                Err(plugin::Error::transient("a newer incarnation is in force"))
            }
            answer => answer,
        };
        let (outcome, why) = match answer {
            Ok(Settlement::Done) => (outcome, None),
            Ok(Settlement::Overwritten(why)) => {
                (StateName::from(StateName::OVERWRITTEN), Some(why))
            }
            Ok(Settlement::RolledBack(why)) => (StateName::from(StateName::ROLLED_BACK), Some(why)),
            Err(error) => {
                if let Some(step) = self.step_mut(id) {
                    step.rare.error = Some(cut(error.to_string()));
                }
                let again = now.mono + DISPATCH;
                self.enter(now, id, Phase::Delayed(Why::Settling), Some(again));
                return self.changed(id);
            }
        };
        if let Some(step) = self.step_mut(id).filter(|_| why.is_some()) {
            step.rare.error = why.map(cut);
        }
        self.conclude(now, id, &outcome);
    }
}

fn prepared(execution: &Execution, edit: &StepEdit) -> PreparedEdit {
    let by = execution.live.origin.by.clone();
    let mut held = HeldEdit::new(edit.id.clone(), holder(&execution.id), by);
    held.edits = edit.edits.clone();
    held.pauses = edit.pauses.clone();
    held.lenient = edit.lenient;
    held.blast_radius = edit.blast_radius;
    held.turndown = edit.turndown;
    PreparedEdit {
        edit: held,
        starts: edit.starts.clone(),
    }
}

fn wait_for(edit: &StepEdit, assets: &[AssetId]) -> SettleRequest {
    SettleRequest {
        change: edit.id.clone(),
        assets: assets.into(),
    }
}

/// The id of the changes of a step: the same for every attempt and owner, another one for each run and each round of a loop.
pub(super) fn change_id(execution: &Execution, id: StepId) -> ChangeId {
    let round = execution
        .steps
        .at(id.machine)
        .map_or(0, |step| step.transitions);
    let digest = Digest::of(format!("{}/{round}", execution.key(id.machine)).as_bytes());
    ChangeId::new(&digest.to_string())
        .unwrap_or_else(|_| ChangeId::from(u128::from(id.execution.0)))
}

/// The number of assets that the edits of the present action may change, if it bounds them.
pub(super) fn radius(execution: &Execution, id: StepId) -> Option<u32> {
    execution.action(id.machine)?.blast_radius
}

/// The edit that undoes another one. `None`: the field has its first value again.
fn reversed(mut made: SourceEdit) -> Option<SourceEdit> {
    std::mem::swap(&mut made.edit.was, &mut made.edit.to);
    (made.edit.was != made.edit.to).then_some(made)
}
