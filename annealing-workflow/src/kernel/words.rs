//! Words of people and programs for live executions.

use plugin_sdk::{
    By, Now,
    operation::ExecutionId,
    workflow::{MachineName, StateName, Task},
};

use super::{
    Lane,
    event::{Call, Command, Effects, Reply, ReplyNo},
    operate::Operating,
    refused::Refused,
    say::{Say, Settled},
    state::{Execution, ExecutionNo, Phase, Step, StepId},
    text::cut,
};
use crate::{
    query::ExecutionQuery,
    record::{Entry, KeyRecord, Said, What},
};

impl Lane {
    /// Takes a command and answers it. A refused one changes nothing.
    pub(super) fn heard(
        &mut self,
        now: Now,
        command: Command,
        by: &By,
        known: Option<Box<KeyRecord>>,
        reply: ReplyNo,
        out: &mut Effects,
    ) {
        let answer = self.obey(now, command, by, known, out);
        out.replies
            .push((reply, answer.unwrap_or_else(Reply::Refused)));
    }

    /// Takes a command. A refused one changes nothing.
    pub(super) fn obey(
        &mut self,
        now: Now,
        command: Command,
        by: &By,
        known: Option<Box<KeyRecord>>,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        match command {
            Command::Start { .. } => self.start(now, command, by, known, out),
            Command::Reopen(ended, machines) => self.reopen(now, *ended, machines, by, known, out),
            Command::Operate {
                start,
                operation,
                cause,
            } => {
                let operating = Operating {
                    start: *start,
                    operation: *operation,
                    cause,
                    chain: Vec::new(),
                    changed: None,
                    history: None,
                };
                self.operate(now, operating, by, known, out)
            }
            Command::Join(join, operation) => self.join(now, *join, operation, by, known, out),
            Command::Runs(workflow, asset) => {
                let name = (workflow, KeyRecord::of_asset(&asset));
                Ok(Reply::Runs(self.runs_of(&name, known)))
            }
            Command::Say(execution, word) => self.said(now, &execution, &word, by, out),
            Command::Show(execution) => Ok(Reply::Shown(self.show(&execution).map(Box::new))),
            Command::ShowPage(query) => {
                let page = self.show_page(&query, ExecutionQuery::VISITS);
                Ok(Reply::Page(page))
            }
            Command::Schedule(asset, word) => self.said_of_schedule(now, &asset, word, by, out),
            Command::ShowSchedules => Ok(Reply::Schedules(self.show_schedules(now))),
            Command::Workflow(workflow, word) => {
                self.said_of_workflow(now, &workflow, word, by, out)
            }
            Command::ShowDrained => Ok(Reply::Drained(self.show_drained())),
            Command::Watch(asset, word) => self.said_of_watch(now, &asset, word, by, out),
            Command::ShowWatches => Ok(Reply::Watches(self.show_watches(now))),
        }
    }

    pub(super) fn said(
        &mut self,
        now: Now,
        execution: &ExecutionId,
        word: &Say,
        by: &By,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        let no = self.no_of(execution);
        let no = no.ok_or_else(|| Refused::NotLive(execution.clone()))?;
        let said = Said {
            by: by.clone(),
            at: now.wall,
        };
        let entry = Entry {
            at: now.wall,
            machine: None,
            what: What::Said {
                word: cut(word.to_string()),
                by: by.clone(),
            },
        };
        match word {
            Say::Cancel => self.cancel(now, no, said, out),
            Say::Terminate => self.terminate(now, no, said, out),
            Say::Pause => self.pause(now, no, said)?,
            Say::Resume => self.resume(now, no, out)?,
            Say::Answer { machine, option } => self.choose(now, no, machine, option)?,
            Say::Settle { machine, settled } => self.settle(now, no, machine, settled, out)?,
            Say::Replay(machine) => self.replay(now, no, machine, out)?,
            Say::Restart(machines) => self.restart(now, no, machines, out)?,
            Say::Redefine => self.redefine(now, no, out)?,
            Say::Skip { machine, outcome } => self.skip(now, no, machine, outcome, out)?,
        }
        // The word stands before what follows from it.
        self.log.entry(no).or_default().insert(0, entry);
        self.touched.insert(no);
        out.urgent = true;
        Ok(Reply::Taken)
    }

    fn cancel(&mut self, now: Now, no: ExecutionNo, said: Said, out: &mut Effects) {
        let Some(execution) = self.live.get_mut(&no) else {
            return;
        };
        if execution.live.cancelled.is_some() {
            return;
        }
        execution.live.cancelled = Some(Box::new(said));
        execution.position.cancel();
        let machines = execution.workflow.mentioning_cancelled().to_vec();
        let begun: Vec<_> = execution.steps.machines().collect();
        self.live_changed.insert(no);
        self.overtake_restarts(now, no, out);
        self.look_at(no, machines.into_iter().chain(begun));
        self.give_up_start(now, no, out);
    }

    /// Cancels a run, because another one replaces it.
    pub(super) fn replace_run(
        &mut self,
        now: Now,
        no: ExecutionNo,
        other: &str,
        out: &mut Effects,
    ) {
        let by = By::new("control plane", format!("{other} replaces it"));
        self.cancel(now, no, Said { by, at: now.wall }, out);
    }

    /// Cancels the child execution of a cancelled step.
    pub(super) fn cancel_child(&mut self, now: Now, child: &ExecutionId, out: &mut Effects) {
        if let Some(no) = self.no_of(child) {
            let by = By::new("control plane", "its parent is cancelled");
            self.cancel(now, no, Said { by, at: now.wall }, out);
        }
    }

    fn pause(&mut self, now: Now, no: ExecutionNo, said: Said) -> Result<(), Refused> {
        let Some(execution) = self.live.get_mut(&no) else {
            return Ok(());
        };
        if execution.live.paused.is_some() {
            return Err(Refused::does_not_fit(
                &execution.id,
                &Say::Pause,
                "it is paused already",
            ));
        }
        execution.live.paused = Some(Box::new(said));
        let begun: Vec<_> = execution.steps.machines().collect();
        for machine in begun {
            let id = StepId {
                execution: no,
                machine,
            };
            // What is under way goes on, and so do the rounds of one attempt.
            if self
                .step_of(id)
                .is_some_and(|step| !step.goes_on_in_a_pause())
            {
                self.take_back(now, id);
            }
        }
        self.live_changed.insert(no);
        Ok(())
    }

    fn resume(&mut self, now: Now, no: ExecutionNo, out: &mut Effects) -> Result<(), Refused> {
        let bound = self.settings.config.transitions;
        let Some(execution) = self.live.get_mut(&no) else {
            return Ok(());
        };
        if execution.live.paused.take().is_none() {
            return Err(Refused::does_not_fit(
                &execution.id,
                &Say::Resume,
                "it is not paused",
            ));
        }
        let reached = execution.transitions;
        if reached >= execution.live.bound.unwrap_or(bound) {
            execution.live.bound = Some(reached + bound);
        }
        let due = execution
            .steps
            .iter()
            .filter(|(_, step)| step.phase == Phase::Due);
        let due: Vec<_> = due.map(|(machine, _)| machine).collect();
        for machine in due {
            self.due(
                now,
                StepId {
                    execution: no,
                    machine,
                },
                out,
            );
        }
        let start = StepId::start(no);
        if self
            .step_of(start)
            .is_some_and(|start| start.phase == Phase::Due)
        {
            self.due_start(now, start, out);
        }
        self.live_changed.insert(no);
        Ok(())
    }

    /// The number of a machine, or the error that names the ones there are.
    pub(super) fn machine(&self, no: ExecutionNo, name: &MachineName) -> Result<StepId, Refused> {
        let Some(execution) = self.live.get(&no) else {
            return Err(Refused::NotLive(gone(no)));
        };
        let machine = execution.workflow.machine_no(name).ok_or_else(|| {
            let names: Vec<&str> = execution
                .workflow
                .numbers()
                .map(|it| execution.machine_name(it).as_str())
                .collect();
            Refused::NoMachine {
                execution: execution.id.clone(),
                machine: name.clone(),
                machines: names.join(", "),
            }
        })?;
        Ok(StepId {
            execution: no,
            machine,
        })
    }

    /// A word that fits another phase only: says what the step waits for instead.
    pub(super) fn unfit(&self, id: StepId, word: &Say) -> Refused {
        let execution = self.live.get(&id.execution).map(|it| it.id.clone());
        let execution = execution.unwrap_or_else(|| gone(id.execution));
        Refused::does_not_fit(&execution, word, &self.waits_in_words(id))
    }

    fn choose(
        &mut self,
        now: Now,
        no: ExecutionNo,
        machine: &MachineName,
        option: &StateName,
    ) -> Result<(), Refused> {
        let id = self.machine(no, machine)?;
        let word = || Say::Answer {
            machine: machine.clone(),
            option: option.clone(),
        };
        if self
            .step_of(id)
            .is_none_or(|step| step.phase != Phase::Asking)
        {
            return Err(self.unfit(id, &word()));
        }
        let Some(execution) = self.live.get(&no) else {
            return Ok(());
        };
        if let Some(Task::Ask { options, .. }) = execution.action(id.machine).map(|it| &it.task)
            && !options.contains(option)
        {
            let options: Vec<&str> = options.iter().map(StateName::as_str).collect();
            let why = format!("choose one of: {}", options.join(", "));
            return Err(Refused::does_not_fit(&execution.id, &word(), &why));
        }
        self.conclude(now, id, option);
        Ok(())
    }

    fn settle(
        &mut self,
        now: Now,
        no: ExecutionNo,
        machine: &MachineName,
        settled: &Settled,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let id = self.machine(no, machine)?;
        let word = || Say::Settle {
            machine: machine.clone(),
            settled: settled.clone(),
        };
        let live = self.live.get(&no);
        let probed = live.is_some_and(|execution| self.has_probe(execution, id.machine));
        let open = |step: &Step| step.is_open_for_a_word(probed);
        if !self.step_of(id).is_some_and(open) {
            return Err(self.unfit(id, &word()));
        }
        let Some(execution) = self.live.get(&no) else {
            return Ok(());
        };
        match settled {
            Settled::Again => {
                self.suspect_answered(id);
                if let Some(step) = self.step_mut(id) {
                    step.uncertain = false;
                    step.rare.reach = None;
                    step.rare.expires = None;
                }
                self.due(now, id, out);
                self.changed(id);
            }
            Settled::Outcome(outcome) => {
                declared(execution, id, outcome, &word())?;
                // With this outcome the edit is made, so that it can be put back.
                let open = self.step_mut(id).filter(|step| step.edit_may_come());
                if let Some(edit) = open.and_then(|step| step.edit.open_mut())
                    && edit.outcome == *outcome
                {
                    edit.assets = Some(Vec::new());
                }
                self.conclude(now, id, outcome);
            }
        }
        Ok(())
    }

    /// Ends the action of a machine with an outcome, if no call of it is in flight or may have had an effect.
    fn skip(
        &mut self,
        now: Now,
        no: ExecutionNo,
        machine: &MachineName,
        outcome: &StateName,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let id = self.machine(no, machine)?;
        let word = || Say::skip(machine.clone(), outcome.clone());
        let Some(execution) = self.live.get(&no) else {
            return Ok(());
        };
        let fits = self.step_of(id).is_some_and(|step| {
            let made = matches!(step.phase, Phase::Calling(_)) && !self.is_unmade(&step.phase);
            let open = step.under_way || step.uncertain || made || step.edit_may_come();
            let open = open || step.rare.restarts;
            let waits = !matches!(
                step.phase,
                Phase::Rests
                    | Phase::Fencing(_)
                    | Phase::Probing(..)
                    | Phase::Unsettled
                    | Phase::Child(_)
            );
            waits && (!open || step.phase == Phase::Poisoned)
        });
        if !fits || execution.waits_to_start() {
            return Err(self.unfit(id, &word()));
        }
        declared(execution, id, outcome, &word())?;
        self.take_back(now, id);
        match self.step_of(id).map(|step| step.phase.clone()) {
            Some(Phase::Dispatching(call)) => {
                self.calls.remove(&call);
                out.calls.push(Call::Abandon(call));
            }
            Some(Phase::Settling(call)) => self.drop_call(call, out),
            _ => {}
        }
        self.conclude(now, id, outcome);
        Ok(())
    }

    fn replay(
        &mut self,
        now: Now,
        no: ExecutionNo,
        machine: &MachineName,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let id = self.machine(no, machine)?;
        let Some(step) = self
            .step_mut(id)
            .filter(|step| step.phase == Phase::Poisoned)
        else {
            return Err(self.unfit(id, &Say::Replay(machine.clone())));
        };
        step.rare.deaths.clear();
        step.rare.expires = None;
        // What happened in the last attempt is still not known.
        self.resolve(now, id, false, out);
        self.changed(id);
        Ok(())
    }
}

/// Refuses an outcome that the present action of a machine does not declare.
fn declared(
    execution: &Execution,
    id: StepId,
    outcome: &StateName,
    word: &Say,
) -> Result<(), Refused> {
    let state = execution.position.state(id.machine);
    if execution
        .workflow
        .leads(id.machine, state, outcome)
        .is_some()
    {
        return Ok(());
    }
    let outcomes = execution.action(id.machine).map(|it| {
        let names: Vec<&str> = it.outcomes.keys().map(StateName::as_str).collect();
        names.join(", ")
    });
    let why = format!("its outcomes are: {}", outcomes.unwrap_or_default());
    Err(Refused::does_not_fit(&execution.id, word, &why))
}

/// The id of an execution of which only the number is known.
fn gone(no: ExecutionNo) -> ExecutionId {
    ExecutionId::new("unknown", no.0)
}
