//! What holds of the durable rows after each acknowledged commit, and at rest.

use std::{collections::BTreeSet, time::Duration};

use annealing_workflow::record::{Does, Ended, Live, StepRecord};
use control_plane_store::{Record, Write};
use plugin_sdk::{
    operation::{ExecutionId, Repeat},
    workflow::{Machine, MachineName, StateName},
};

use super::stored::Stored;
use crate::{
    faults::Fault,
    flows::{
        Called, MOMENT,
        definitions::{PLAN, calls, track},
    },
    intent::partition,
    world::State,
};

/// The time for all attempts of a step, unless its action has another one.
const DAY: Duration = Duration::from_secs(24 * 3600);

impl State {
    /// Judges the executions that an acknowledged commit has changed.
    pub fn remember_executions(&mut self, writes: &[Write]) {
        self.remember_watches(writes);
        let changed: BTreeSet<ExecutionId> = writes.iter().filter_map(execution_of).collect();
        for id in changed {
            let Some(stored) = self.stored(&id) else {
                continue;
            };
            if let Err((rule, what)) = self.judge_rows(&id, &stored) {
                self.violated(rule, format!("{id}: {what}"));
            }
        }
    }

    fn judge_rows(
        &mut self,
        id: &ExecutionId,
        stored: &Stored,
    ) -> Result<(), (&'static str, String)> {
        self.judge.look("R23");
        self.judge_start(id, stored)?;
        self.judge_slot(id, stored)?;
        self.judge_watched(id, stored)?;
        self.judge_track(id, stored)?;
        self.judge_step_claims(id, stored)?;
        self.judge_settled(stored)?;
        for machine in &stored.definition.machines {
            self.judge_answered(id, stored, machine)?;
            self.judge_exhausted(id, stored, machine)?;
            self.remember_enabled(id, stored, machine);
        }
        match &stored.ended {
            Some(ended) => self.judge_end(id, stored, ended),
            None => stored.goes_on(),
        }
    }

    /// R23: one execution per key.
    fn judge_start(
        &mut self,
        id: &ExecutionId,
        stored: &Stored,
    ) -> Result<(), (&'static str, String)> {
        let live = stored.live.as_ref().map(|(live, _)| live);
        let live = live.or(stored.ended.as_ref().map(|ended| &ended.live));
        let Some(key) = live.and_then(|live| live.key.clone()) else {
            return Ok(());
        };
        let named = (id.workflow.to_string(), key);
        let first = self.flows.keys.entry(named).or_insert_with(|| id.clone());
        // A clock that is wrong by two months has removed the execution, and then its key.
        let months = self.struck.get(&Fault::ClockMonth).copied();
        match first == id || months.unwrap_or_default() > 1 {
            true => Ok(()),
            false => Err(("R23", format!("its key has started {first} before"))),
        }
    }

    /// R31: the machines of an answer are added in the commit that takes it.
    fn judge_track(
        &mut self,
        id: &ExecutionId,
        stored: &Stored,
    ) -> Result<(), (&'static str, String)> {
        let step = stored.steps.get(&MachineName::from(PLAN));
        let first = self.flows.most_runs(&(id.clone(), PLAN.into())) == 1;
        if !first || step.is_none_or(|(step, _)| step.state.as_str() != StateName::DONE) {
            return Ok(());
        }
        self.judge.look("R31");
        let mut machines = stored.definition.machines.iter();
        let missing = track().map(|it| it.name);
        let missing = missing
            .iter()
            .find(|name| machines.all(|it| it.name != **name));
        match missing {
            Some(name) => Err(("R31", format!("{PLAN} is done, and {name} is not there"))),
            None => Ok(()),
        }
    }

    /// R32: by the durable rows, one step at a time holds the claim of which there is one.
    fn judge_step_claims(
        &mut self,
        id: &ExecutionId,
        stored: &Stored,
    ) -> Result<(), (&'static str, String)> {
        if !stored.claims() {
            self.flows.pressing.remove(id);
            return Ok(());
        }
        self.judge.look("R32");
        self.flows.pressing.insert(id.clone());
        // The end of another one may be durable although its commit was not acknowledged.
        let mut all = std::mem::take(&mut self.flows.pressing);
        all.retain(|it| self.stored(it).is_some_and(|it| it.claims()));
        let what = (all.len() > 1).then(|| format!("one claim has the holders {all:?}"));
        self.flows.pressing = all;
        what.map_or(Ok(()), |what| Err(("R32", what)))
    }

    /// Remembers the attempt of a machine that is durable while its guard holds and no restart waits for it.
    fn remember_enabled(&mut self, id: &ExecutionId, stored: &Stored, machine: &Machine) {
        let step = stored.steps.get(&machine.name).map(|(step, _)| step);
        let Some((step, action)) = step.zip(stored.action(machine)) else {
            return;
        };
        if step.call.is_some() && !step.restarts && stored.holds(&action.guard) {
            let of = (id.clone(), machine.name.clone());
            self.flows.enabled.insert(of, (step.run, step.attempt));
        }
    }

    /// R24: a machine is done only when its call has answered so, in its present run.
    fn judge_answered(
        &self,
        id: &ExecutionId,
        stored: &Stored,
        machine: &Machine,
    ) -> Result<(), (&'static str, String)> {
        let Some((step, _)) = stored.steps.get(&machine.name) else {
            return Ok(());
        };
        let key = stored.key(id, &machine.name, step);
        let done = step.state.as_str() == "done" && calls(stored.definition, &machine.name);
        match done && !self.flows.told.contains(&key) {
            true => Err((
                "R24",
                format!("{key} is done, but no call of this run has answered"),
            )),
            false => Ok(()),
        }
    }

    /// R26: a machine fails by a permanent error, or after as many failures in a row as its action allows. Not judged if
    /// the time for all attempts may be over.
    fn judge_exhausted(
        &self,
        id: &ExecutionId,
        stored: &Stored,
        machine: &Machine,
    ) -> Result<(), (&'static str, String)> {
        let action = machine.actions.get(&machine.first);
        let (Some(action), Some((step, _))) = (action, stored.steps.get(&machine.name)) else {
            return Ok(());
        };
        // The machines of an answer are refused if nothing can begin any more.
        let refused = machine.name.as_str() == PLAN && stored.cancelled();
        let timed =
            refused || action.settles.is_some() || action.deadline.is_some_and(|it| it < DAY);
        let failed = step.state.as_str() == "failed" && calls(stored.definition, &machine.name);
        if !failed || timed || self.judge.jumped.is_some() {
            return Ok(());
        }
        let key = stored.key(id, &machine.name, step);
        let failures = self.flows.failures.get(&key).copied();
        // One that is abandoned at this moment is still open.
        let open = |it: &&Called| it.open && it.key == key;
        let open = self.flows.calls.iter().filter(open).count() as u32;
        // A process that stands still until the deadline of an attempt never calls the function.
        let of_step = |it: &&Called| it.key.execution == key.execution && it.key.step == key.step;
        let seen = self.flows.calls.iter().filter(of_step).count() as u32;
        let unseen = step.attempt.saturating_sub(seen);
        let left = |it: &&Called| it.left_behind && it.key == key;
        let left = self.flows.calls.iter().filter(left).count() as u32;
        let failures = failures.unwrap_or_default() + open + unseen + left;
        match failures < action.retry_limit {
            true => Err((
                "R26",
                format!("{key} has failed, after {failures} failures in a row"),
            )),
            false => Ok(()),
        }
    }

    /// R29: the end follows from the states, and nothing of the execution is in flight.
    fn judge_end(
        &mut self,
        id: &ExecutionId,
        stored: &Stored,
        ended: &Ended,
    ) -> Result<(), (&'static str, String)> {
        self.judge.look("R29");
        let mut calls = self.flows.calls.iter();
        let open = calls.find(|it| it.key.execution == *id && self.is_in_flight(it));
        if let Some(open) = open {
            return Err((
                "R29",
                format!("it has ended while {} is in flight", open.key),
            ));
        }
        self.judge_older_effects(id, stored)?;
        if !stored.is_outcome(&ended.outcome) {
            return Err(("R29", format!("it {}, against its states", ended.outcome)));
        }
        Ok(())
    }

    /// R30: an execution does not end while a call of a run before a restart may still take effect: nothing would clean up.
    fn judge_older_effects(
        &mut self,
        id: &ExecutionId,
        stored: &Stored,
    ) -> Result<(), (&'static str, String)> {
        self.judge.look("R30");
        let now = self.now;
        let older = |it: &&Called| {
            let step = stored.steps.get(&it.key.step);
            it.key.execution == *id
                && it.function.repeat != Repeat::Safe
                && !it.known
                && step.is_some_and(|(step, _)| step.run > it.key.run)
                && self.flows.is_under_way(&it.key)
                && now.since(it.begun) + MOMENT < it.left
                // A wall clock that jumped shortens the time that a new owner waits.
                && self.judge.jumped.is_none_or(|jumped| jumped < it.begun)
        };
        match self.flows.calls.iter().find(older) {
            Some(older) => {
                let what = format!("it has ended while {} may still take effect", older.key);
                Err(("R30", what))
            }
            None => Ok(()),
        }
    }

    /// S8: at rest, with all faults healed, an execution is live only if it waits for a person who does not answer.
    pub fn judge_executions_at_rest(&mut self, live: &[(String, Live)]) {
        self.judge.look("S8");
        self.judge_watches_at_rest();
        for (name, live) in live {
            let Ok(id) = name.parse::<ExecutionId>() else {
                continue;
            };
            if self.is_recent_run(&live.origin.cause, live.started) {
                continue;
            }
            let unanswered = live.key.is_some() && live.key == self.flows.unanswered;
            let Some(stored) = self.stored(&id) else {
                continue;
            };
            let asks = stored
                .steps
                .values()
                .any(|(step, _)| step.does == Does::Asks);
            if !unanswered || !asks {
                let steps = stored.steps.values().map(|(step, _)| step);
                let steps: Vec<_> = steps.collect();
                self.violated("S8", format!("{id} does not end: {steps:?}"));
            }
        }
    }
}

impl Stored {
    /// Whether a step holds a claim.
    fn claims(&self) -> bool {
        let mut steps = self.steps.values();
        self.live.is_some() && steps.any(|(step, _)| !step.claims.is_empty())
    }

    /// R23: what follows from the states is in the same commit: each enabled action has begun, and something is under way
    /// or waited for.
    fn goes_on(&self) -> Result<(), (&'static str, String)> {
        // Nothing begins before the dispatch stack lets the execution start.
        if self.live.as_ref().is_some_and(|(live, _)| live.waits) {
            return Ok(());
        }
        for machine in self.enabled() {
            if self.does(&machine.name) == Does::Rests {
                return Err((
                    "R23",
                    format!("{} is enabled and has not begun", machine.name),
                ));
            }
        }
        let mut machines = self.definition.machines.iter();
        match machines.any(|machine| self.does(&machine.name) != Does::Rests) {
            true => Ok(()),
            false => Err(("R27", "it is live and waits for nothing".to_owned())),
        }
    }
}

/// The execution that a write is about; `None` for other rows.
fn execution_of(write: &Write) -> Option<ExecutionId> {
    let Write::Put(key, _) = write else {
        return None;
    };
    let (kind, rest) = key.as_str().split_once('/')?;
    let kinds = [Live::KIND, StepRecord::KIND, Ended::KIND];
    let name = rest.strip_prefix(&format!("{}/", partition()))?;
    let id = name.split(' ').next().filter(|_| kinds.contains(&kind))?;
    id.parse().ok()
}
