//! Answers of functions.

use std::{collections::BTreeMap, time::Duration};

use plugin_sdk::{
    Now,
    operation::{Answer, Limit, Power, Powers, Ran, Requirement, Start, StartCause},
    plugin, with_causes,
    workflow::StateName,
};

use super::{
    Bug, CHAIN, Lane,
    event::{CallNo, Command, Effects, Record},
    refused::Refused,
    state::{Phase, StepId, Why},
    text::cut,
};
use crate::record::{Entry, Output, What};

/// Maximum number of times that a function may ask for assets in one attempt.
const ROUNDS: u32 = 5;

impl Lane {
    /// Takes the answer of a function. `called`: `false` if the function was not called.
    pub(super) fn answered(
        &mut self,
        now: Now,
        call: CallNo,
        answer: Result<Ran, plugin::Error>,
        called: bool,
        out: &mut Effects,
    ) {
        // An answer of an abandoned call changes nothing.
        let Some(id) = self.calls.remove(&call) else {
            return;
        };
        self.running -= 1;
        let present = self
            .step_of(id)
            .is_some_and(|step| step.phase == Phase::Calling(call));
        if !present && !self.planted(Bug::TrustLateAnswer) {
            return;
        }
        match called {
            true => self.suspect_answered(id),
            false => self.suspect_put_off(id),
        }
        if !matches!(answer, Err(plugin::Error::Unknown { .. }))
            && let Some(step) = self.step_mut(id)
        {
            // Other failures say nothing about the attempts before.
            step.uncertain &= !matches!(
                answer,
                Ok(Ran::Done(_) | Ran::InProgress { .. }) | Err(plugin::Error::Permanent { .. })
            );
            if !step.uncertain {
                step.rare.reach = None;
            }
        }
        if self.step_of(id).is_some_and(|step| step.rare.restarts) {
            return self.restart_in_time(now, id, out);
        }
        match answer {
            Ok(ran) => self.ran(now, id, ran, out),
            Err(plugin::Error::Unknown { message }) => self.unknown(now, id, &message, out),
            Err(error) => self.failed(now, id, &error, out),
        }
    }

    fn ran(&mut self, now: Now, id: StepId, ran: Ran, out: &mut Effects) {
        match ran {
            Ran::Done(answer) => self.done(now, id, answer, out),
            Ran::InProgress { check_again_in } => {
                let lifetime = self.planted(Bug::CountLifetime);
                if let Some(step) = self.step_mut(id) {
                    step.failures *= u32::from(lifetime);
                    step.rare.error = None;
                    step.under_way = true;
                    step.incarnation = None;
                }
                let at = now.mono + check_again_in.max(Duration::from_millis(100));
                self.enter(now, id, Phase::Delayed(Why::UnderWay), Some(at));
                self.changed(id);
                out.urgent = true;
            }
            Ran::Needs(needs) => match self.needs(id, needs) {
                Ok(()) => self.queue(now, id),
                Err(why) => self.failed(now, id, &plugin::Error::permanent(why), out),
            },
            _ => {
                let error = plugin::Error::permanent(
                    "the function gave an answer of a kind that this program version does not know",
                );
                self.failed(now, id, &error, out);
            }
        }
    }

    /// Adds to what the function has asked for.
    fn needs(&mut self, id: StepId, needs: BTreeMap<String, Requirement>) -> Result<(), String> {
        let Some(step) = self.step_mut(id) else {
            return Ok(());
        };
        let known = needs
            .iter()
            .all(|(name, need)| step.rare.needs.get(name) == Some(need));
        if known {
            return Err(
                "the function asks for assets that it was given already; answer with them"
                    .to_owned(),
            );
        }
        step.rare.rounds += 1;
        if step.rare.rounds > ROUNDS {
            return Err(format!(
                "the function asked for assets {ROUNDS} times, which is the limit; ask for all that is needed at once"
            ));
        }
        step.rare.needs.extend(needs);
        Ok(())
    }

    /// Takes the answer of a function that is done, all of it or nothing.
    pub(super) fn done(&mut self, now: Now, id: StepId, mut answer: Answer, out: &mut Effects) {
        match self.accept(id, &answer, out) {
            Ok(()) => {}
            Err(why) => return self.failed(now, id, &plugin::Error::permanent(why), out),
        }
        let machine = self
            .live
            .get(&id.execution)
            .map(|it| it.machine_name(id.machine).clone());
        let notes = answer.notes.iter().map(|note| Entry {
            at: now.wall,
            machine: machine.clone(),
            what: What::Note(note.to_string()),
        });
        self.log.entry(id.execution).or_default().extend(notes);
        if let Some(step) = self.step_mut(id) {
            step.rare.error = None;
        }
        self.left(id, &answer, out);
        let edits = !(answer.edits.is_empty() && answer.pauses.is_empty());
        if edits && !self.gathers(id) {
            return self.begin_edit(now, id, &answer, out);
        }
        let starts = std::mem::take(&mut answer.starts);
        self.start_all(now, id, starts, out);
        match edits {
            true => self.gather(now, id, &answer),
            false => self.conclude(now, id, &answer.outcome),
        }
    }

    /// Starts the executions of an answer.
    pub(super) fn start_all(
        &mut self,
        now: Now,
        id: StepId,
        starts: Vec<Start>,
        out: &mut Effects,
    ) {
        for (n, start) in starts.into_iter().enumerate() {
            self.start_from(now, id, n, start, out);
        }
    }

    /// Checks an answer, and adds its machines to the execution. Nothing is changed if a part cannot be accepted.
    fn accept(&mut self, id: StepId, answer: &Answer, out: &mut Effects) -> Result<(), String> {
        let Some(execution) = self.live.get(&id.execution) else {
            return Ok(());
        };
        answer.check().map_err(|invalid| invalid.to_string())?;
        let state = execution.position.state(id.machine);
        let outcome = &answer.outcome;
        if execution
            .workflow
            .leads(id.machine, state, outcome)
            .is_none()
        {
            return Err(format!(
                "the outcome `{outcome}` is not declared; declare it with `.outcomes([..])`, or answer with a declared one"
            ));
        }
        let may = self.function(id).map(|function| &function.info.may);
        let powers =
            Powers::read(may.into_iter().flatten()).map_err(|invalid| with_causes(&invalid))?;
        if let Some(refused) = powers.refuse(answer) {
            return Err(format!(
                "{refused}; declare the power with `.may(..)`, or leave it out"
            ));
        }
        let bounds = execution
            .action(id.machine)
            .and_then(|action| action.may.as_ref());
        if let Some(bounds) = bounds {
            let powers = Powers::read(bounds).map_err(|invalid| with_causes(&invalid))?;
            if let Some(refused) = powers.refuse(answer) {
                return Err(format!(
                    "{refused}; declare the power with the operation or the machine too, or leave it out"
                ));
            }
        }
        self.fits_gathered(id, answer)?;
        execution.has_room_for_edits(answer)?;
        let mut context = execution.shared();
        context.extend(answer.context.clone());
        Limit::CONTEXT
            .check_json(&context)
            .map_err(|over| over.to_string())?;
        if !answer.starts.is_empty() {
            self.may_start(id, &answer.starts)?;
        }
        match answer.track.is_empty() {
            true => Ok(()),
            false => self.lay(id, answer, out),
        }
    }

    /// Whether the edits of an answer may turn assets down: the function declares the power, and so does the machine or the
    /// operation, if it declares any.
    pub(super) fn may_turn_down(&self, id: StepId) -> bool {
        let declares = |may: &[Power]| Powers::read(may).is_ok_and(|powers| powers.turndown());
        let function = self.function(id).map(|function| &function.info.may[..]);
        let action = self.live.get(&id.execution);
        let action = action.and_then(|execution| execution.action(id.machine));
        let bounds = action.and_then(|action| action.may.as_deref());
        function.is_some_and(declares) && bounds.is_none_or(declares)
    }

    /// Adds the machines of an answer. They are explored from the state that the answer leads to.
    fn lay(&mut self, id: StepId, answer: &Answer, out: &mut Effects) -> Result<(), String> {
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return Ok(());
        };
        let mut position = execution.position.clone();
        let from = position.state(id.machine);
        if let Some(to) = execution.workflow.leads(id.machine, from, &answer.outcome) {
            position.set(id.machine, to);
        }
        let begun = execution
            .steps
            .iter()
            .filter(|(machine, step)| *machine != id.machine && step.phase != Phase::Rests);
        let begun: Vec<_> = begun.map(|(machine, _)| machine).collect();
        let extended = execution
            .workflow
            .extended(answer.track.clone(), &position, &begun);
        let extended =
            extended.map_err(|error| format!("the machines cannot be added: {error}"))?;
        let new: Vec<_> = extended.numbers().skip(execution.workflow.len()).collect();
        execution.position = extended.extend(&execution.position);
        std::sync::Arc::make_mut(&mut execution.live.origin).definition = extended.digest();
        execution.workflow = extended.clone();
        if self.stored.insert(extended.digest()) {
            out.records.push(Record::Definition(extended));
        }
        if !self.planted(Bug::HalfTrack) {
            self.live_changed.insert(id.execution);
        }
        self.look_at(id.execution, new);
        Ok(())
    }

    /// Keeps what an answer leaves for later steps and for people.
    fn left(&mut self, id: StepId, answer: &Answer, out: &mut Effects) {
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let order = execution.next_order();
        let (had, has) = (
            execution.context.contains_key(&id.machine),
            !answer.context.is_empty(),
        );
        if has {
            let context = (order, answer.context.clone());
            execution.context.insert(id.machine, context);
        } else if had {
            execution.context.remove(&id.machine);
        }
        if !has && !had && answer.output.is_null() {
            return;
        }
        let output = Output {
            order,
            output: answer.output.clone(),
            context: answer.context.clone(),
        };
        let machine = execution.machine_name(id.machine).clone();
        out.records.push(Record::Output(
            execution.id.clone(),
            machine,
            Some(Box::new(output)),
        ));
    }

    /// Notes a failure, and decides when the step is tried again.
    pub(super) fn failed(
        &mut self,
        now: Now,
        id: StepId,
        error: &plugin::Error,
        out: &mut Effects,
    ) {
        let why = cut(error.to_string());
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let limit = execution
            .action(id.machine)
            .map_or(1, |action| action.retry_limit);
        let machine = execution.machine_name(id.machine).clone();
        let Some(step) = execution.steps.at_mut(id.machine) else {
            return;
        };
        step.rare.error = Some(why.clone());
        step.incarnation = None;
        step.rare.rounds = 0;
        let entry = Entry {
            at: now.wall,
            machine: Some(machine),
            what: What::Failed {
                attempt: step.attempt,
                why,
            },
        };
        let again = match error {
            plugin::Error::Throttled { after, .. } => Some(*after),
            plugin::Error::Fenced { .. } => Some(self.settings.config.backoff_base),
            plugin::Error::Permanent { .. } => None,
            _ => {
                step.failures += 1;
                let failures = step.failures;
                (failures < limit).then(|| self.backoff(failures))
            }
        };
        self.log.entry(id.execution).or_default().push(entry);
        out.urgent = true;
        match again {
            Some(wait) => self.enter(now, id, Phase::Delayed(Why::Failed), Some(now.mono + wait)),
            None => self.conclude(now, id, &StateName::from(StateName::FAILED)),
        }
        self.changed(id);
        // It is not tried again if it is not enabled any more.
        self.look_at(id.execution, [id.machine]);
    }

    /// The wait after a number of failures in a row: doubled each time, with a random part.
    pub(super) fn backoff(&mut self, failures: u32) -> Duration {
        let config = &self.settings.config;
        let doubled = config
            .backoff_base
            .saturating_mul(1 << failures.saturating_sub(1).min(20));
        let longest = doubled.min(config.backoff_cap);
        self.spread(longest)
    }

    /// A random time between half and all of this one, so that steps that failed together are not tried again together.
    pub(super) fn spread(&mut self, longest: Duration) -> Duration {
        let half = longest / 2;
        let part = u32::try_from(self.random() % 1000).unwrap_or(0);
        half + half * part / 1000
    }

    /// Whether the answer of a step may start all these executions.
    fn may_start(&self, id: StepId, starts: &[Start]) -> Result<(), String> {
        let Some(execution) = self.live.get(&id.execution) else {
            return Ok(());
        };
        if execution.live.origin.chain.len() + 1 > CHAIN {
            let chain = execution.live.origin.chain.join(" > ");
            return Err(Refused::Loop { chain }.to_string());
        }
        if self.live.len() + starts.len() > self.settings.config.live {
            return Err(Refused::TooMany(self.live.len()).to_string());
        }
        let mut keys = BTreeMap::new();
        for start in starts {
            if !self.settings.workflows.contains_key(&start.workflow) {
                return Err(self.no_workflow(&start.workflow).to_string());
            }
            self.found(start, None, None)
                .map_err(|refused| refused.to_string())?;
            if let Some(key) = &start.key
                && *keys.entry((&start.workflow, key)).or_insert(&start.input) != &start.input
            {
                return Err(format!(
                    "the key `{key}` is started twice, with different inputs"
                ));
            }
        }
        Ok(())
    }

    /// Starts an execution for the answer of a step, before the step goes on. Without a key it gets one of the step, the number
    /// of its transitions and the place `n` in the answer, so that it is started once.
    fn start_from(&mut self, now: Now, id: StepId, n: usize, mut start: Start, out: &mut Effects) {
        let Some(execution) = self.live.get(&id.execution) else {
            return;
        };
        let key = execution.key(id.machine);
        let mut chain = execution.live.origin.chain.clone();
        chain.push(execution.id.to_string());
        let by = execution.live.origin.by.clone();
        let moves = execution
            .steps
            .at(id.machine)
            .map_or(0, |step| step.transitions);
        start.key.get_or_insert(format!("{key} {moves} {n}").into());
        let command = Command::Start {
            start: Box::new(start),
            cause: StartCause::Step(key),
            chain,
        };
        // It was looked into when the answer was taken. What was changed since then does not undo the answer.
        if let Err(refused) = self.start(now, command, &by, None, out) {
            let execution = self.live.get(&id.execution);
            let machine = execution.map(|it| it.machine_name(id.machine).clone());
            let what = What::Note(refused.to_string());
            let entry = Entry {
                at: now.wall,
                machine,
                what,
            };
            self.log.entry(id.execution).or_default().push(entry);
        }
    }
}
