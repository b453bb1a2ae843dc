//! What holds when a call of a function begins, by the durable rows, true time and the calls before.

use std::time::Duration;

use plugin_sdk::{
    Guard,
    operation::{FunctionRequest, Repeat},
};

use super::stored::Stored;
use crate::{
    executor::NodeId,
    flows::{
        Called, MOMENT, Step,
        definitions::{DEADLINE, Function, PRINT},
        step,
    },
    world::State,
};

/// Number of deaths in a row after which a call is not made again without a word.
const DEATHS: u32 = 3;

/// The time that a call has.
pub(super) fn left(request: &FunctionRequest) -> Duration {
    let left = request.deadline.duration_since(request.now);
    Duration::try_from(left).unwrap_or_default()
}

/// Durable rows of the execution and the step of a call.
struct Rows<'c> {
    request: &'c FunctionRequest,
    step: Step,
    stored: Stored,
}

impl State {
    /// Judges a call that begins on `node`, and notes it. Returns its number.
    pub(super) fn call_begins(
        &mut self,
        node: NodeId,
        function: &'static Function,
        request: &FunctionRequest,
    ) -> usize {
        self.judge_call_lease(node, request);
        let token = request.fence.token.0;
        // A process that wakes may make a call that it had decided on before; the next owner has taken over.
        if token >= self.flows.token.max(self.judge.token) {
            self.flows.token = token;
            if let Err((rule, what)) = self.judge_call(function, request) {
                self.violated(
                    rule,
                    format!("{} as {}: {what}", request.key, request.fence),
                );
            }
        }
        if self.flows.progress.remove(&request.key) == Some(token) {
            self.flows.failures.remove(&request.key);
        }
        if function.repeat == Repeat::Never {
            self.flows.uncertain.insert(request.key.clone());
        }
        let advisory = function.guard == Guard::Advisory && function.repeat != Repeat::Safe;
        self.flows.calls.push(Called {
            function,
            node,
            key: request.key.clone(),
            fence: request.fence,
            begun: self.now,
            left: left(request).min(DEADLINE),
            open: true,
            known: false,
            left_behind: false,
            until: advisory.then(|| left(request).min(DEADLINE / 2)),
        });
        self.flows.calls.len() - 1
    }

    /// R24: nothing begins without a lease.
    fn judge_call_lease(&mut self, node: NodeId, request: &FunctionRequest) {
        if let Some(old) = self.without_lease(node) {
            let key = &request.key;
            let what =
                format!("{key} is called without a lease: the last heartbeat was {old:?} ago");
            self.violated("R24", what);
        }
    }

    fn judge_call(
        &mut self,
        function: &'static Function,
        request: &FunctionRequest,
    ) -> Result<(), (&'static str, String)> {
        self.judge.look("R25");
        self.judge_fence(request)?;
        self.judge_key(function, request)?;
        self.judge_deaths(function, request)?;
        let Some(stored) = self.stored(request.execution()) else {
            // The start of an execution may ride in the same commit as the attempt of a function without effects.
            return match function.repeat {
                Repeat::Safe => Ok(()),
                _ => Err(("R24", "its execution is not durable".to_owned())),
            };
        };
        self.judge.look("R29");
        if let Some(ended) = &stored.ended {
            return Err(("R29", format!("it had ended: {}", ended.outcome)));
        }
        let rows = Rows {
            request,
            step: step(&request.key),
            stored,
        };
        let present = rows.attempt_is_durable(function)?;
        self.judge.look("R24");
        if !present {
            return Ok(());
        }
        self.judge.look("R28");
        self.judge_enabled(&rows)?;
        rows.not_paused()?;
        self.judge.look("R30");
        rows.no_old_output()?;
        self.judge_older_run(&rows)?;
        self.judge_press(function)
    }

    /// R25: the fence rises with every attempt of a step that one owner makes.
    fn judge_fence(&self, request: &FunctionRequest) -> Result<(), (&'static str, String)> {
        let (of, fence) = (step(&request.key), request.fence);
        // Attempts of functions without effects need not be durable, so that they may be counted again.
        let before = |it: &&Called| {
            it.function.repeat != Repeat::Safe
                && it.fence.token == fence.token
                && step(&it.key) == of
        };
        match self.flows.calls.iter().rev().find(before) {
            Some(before) if before.fence >= fence => Err((
                "R25",
                format!(
                    "the fence does not rise: {} was called as {}",
                    before.key, before.fence
                ),
            )),
            _ => Ok(()),
        }
    }

    /// R25: only a restart makes a new key, and what must not be repeated is not called while its outcome is not known.
    fn judge_key(
        &self,
        function: &'static Function,
        request: &FunctionRequest,
    ) -> Result<(), (&'static str, String)> {
        let most = self.flows.most_runs(&step(&request.key));
        if request.key.run > most {
            return Err(("R25", format!("there were {} restarts only", most - 1)));
        }
        if function.repeat == Repeat::Never && self.flows.uncertain.contains(&request.key) {
            return Err((
                "R25",
                "the outcome of the last call is not known".to_owned(),
            ));
        }
        Ok(())
    }

    /// R26: what was in flight at three deaths in a row is called again by a word only.
    fn judge_deaths(
        &mut self,
        function: &'static Function,
        request: &FunctionRequest,
    ) -> Result<(), (&'static str, String)> {
        // The first attempt of a function without effects need not be durable, so that its death is not counted.
        let most = DEATHS + u32::from(function.repeat == Repeat::Safe);
        let deaths = self.flows.deaths.get(&request.key).copied();
        if deaths.is_some() {
            self.judge.look("R26");
        }
        match deaths {
            Some(deaths) if deaths >= most => Err((
                "R26",
                format!("{deaths} processes died in a row while it was in flight"),
            )),
            _ => Ok(()),
        }
    }

    /// R28: no call whose guard is false. What a cancel disables goes on only if it may have had an effect before.
    fn judge_enabled(&self, rows: &Rows<'_>) -> Result<(), (&'static str, String)> {
        let stored = &rows.stored;
        let machines = &stored.definition.machines;
        let machine = machines.iter().find(|it| it.name == rows.step.1);
        let action = machine.and_then(|machine| stored.action(machine));
        let Some(action) = action else {
            return Err(("R28", "its machine has no action in its state".to_owned()));
        };
        let key = &rows.request.key;
        let before = rows.follows_an_attempt_of_another_owner()
            || rows.begun_before_the_last_word()
            || self.flows.calls.iter().any(|it| it.key == *key);
        // R30: a cancel overtook the restart that had set back what the guard mentions. What the old run did is found out,
        // for the clean-up.
        let restarted = self.flows.most_runs(&step(key)) > key.run;
        let overtaken = stored.cancelled() && restarted && before;
        // R30: a restart came between this attempt, which was durable, and its call, and waits for it.
        let attempt = (key.run, rows.request.fence.attempt);
        let waits = stored.steps.get(&rows.step.1);
        let waits = waits.is_some_and(|(step, _)| step.restarts)
            && self.flows.enabled.get(&rows.step) == Some(&attempt);
        if !stored.holds(&action.guard) && !overtaken && !waits {
            return Err(("R28", format!("its guard is false: {}", action.guard)));
        }
        if stored.cancelled() && !action.cleans_up && !before {
            return Err(("R28", "its execution is cancelled".to_owned()));
        }
        Ok(())
    }

    /// R30: a new run of a function whose callee cannot refuse begins when the old one can have no effect any more.
    fn judge_older_run(&self, rows: &Rows<'_>) -> Result<(), (&'static str, String)> {
        let now = self.now;
        let overlaps = |it: &&Called| {
            step(&it.key) == rows.step
                && it.key.run < rows.request.key.run
                && !it.known
                && it.until.is_some_and(|until| now.since(it.begun) < until)
                // A wall clock that jumped shortens the time that a new owner waits.
                && self.judge.jumped.is_none_or(|jumped| jumped < it.begun)
        };
        match self.flows.calls.iter().find(overlaps) {
            Some(older) => Err((
                "R30",
                format!("{} may still take effect until its deadline", older.key),
            )),
            None => Ok(()),
        }
    }

    /// R32: one call at a time of the function that is claimed by one.
    fn judge_press(&mut self, function: &'static Function) -> Result<(), (&'static str, String)> {
        if function.name != PRINT {
            return Ok(());
        }
        self.judge.look("R32");
        let other = |it: &&Called| it.function.name == PRINT && self.is_in_flight(it);
        match self.flows.calls.iter().find(other) {
            Some(other) => Err(("R32", format!("{} is in flight", other.key))),
            None => Ok(()),
        }
    }
}

impl State {
    /// Whether a call of the present owner is in flight, neither abandoned at its deadline nor by a restart.
    pub(super) fn is_in_flight(&self, it: &Called) -> bool {
        let newest = self.flows.token.max(self.flows.owner);
        let present = it.open && it.fence.token.0 == newest;
        let restarted = self.flows.most_runs(&step(&it.key)) > it.key.run;
        // A wall clock that stands still makes the time left look a little longer than it is.
        present && !restarted && self.now.since(it.begun) + MOMENT < it.left
    }
}

impl Rows<'_> {
    /// R24: the attempt of a call is durable. `false`: the rows are those of another attempt, after which nothing more can
    /// be said.
    fn attempt_is_durable(&self, function: &Function) -> Result<bool, (&'static str, String)> {
        let (run, attempt) = (self.request.key.run, self.request.fence.attempt);
        let step = self.stored.steps.get(&self.step.1).map(|(step, _)| step);
        let (stored_run, stored_attempt) = step.map_or((0, 0), |it| (it.run, it.attempt));
        if (stored_run, stored_attempt) == (run, attempt) {
            let token = step
                .and_then(|step| step.call.as_ref())
                .map(|call| call.token);
            return Ok(token == Some(self.request.fence.token));
        }
        let behind = stored_run < run || stored_run == run && stored_attempt < attempt;
        if behind && function.repeat != Repeat::Safe {
            let what = format!("only run {stored_run}, attempt {stored_attempt} is durable");
            return Err(("R24", what));
        }
        Ok(false)
    }

    /// Whether the attempt became durable before, or together with, the last word to the execution.
    fn begun_before_the_last_word(&self) -> bool {
        let live = self.stored.live.as_ref().map(|(_, version)| *version);
        let step = self.stored.steps.get(&self.step.1);
        step.map(|(_, version)| *version) <= live
    }

    /// Whether an owner may have died after an attempt of this run was durable and before its call: then the next owner
    /// asks again what may have happened.
    fn follows_an_attempt_of_another_owner(&self) -> bool {
        let step = self.stored.steps.get(&self.step.1);
        step.is_some_and(|(step, _)| step.uncertain)
    }

    /// R30: nothing starts in a paused execution; what is under way goes on.
    fn not_paused(&self) -> Result<(), (&'static str, String)> {
        let paused = self
            .stored
            .live
            .as_ref()
            .is_some_and(|(live, _)| live.paused.is_some());
        let under_way = self
            .stored
            .steps
            .get(&self.step.1)
            .is_some_and(|(it, _)| it.under_way);
        if paused && !under_way && !self.begun_before_the_last_word() {
            return Err(("R30", "its execution is paused".to_owned()));
        }
        Ok(())
    }

    /// R30: each function leaves its run in the context. What the run before a restart has left is dropped, except for
    /// attempts that were begun before that restart.
    fn no_old_output(&self) -> Result<(), (&'static str, String)> {
        let own = self.stored.steps.get(&self.step.1);
        let own = own.map(|(_, version)| *version);
        for (machine, left) in &self.request.context {
            let mut steps = self.stored.steps.iter();
            let step = steps.find(|(name, _)| name.as_str() == machine);
            let run = step.and_then(|(name, (step, version))| {
                let before = *name == self.step.1 || Some(*version) < own;
                before.then_some(u64::from(step.run))
            });
            if left.as_u64() < run {
                let what = format!("it sees what run {left} of {machine} has left, not of {run:?}");
                return Err(("R30", what));
            }
        }
        Ok(())
    }
}
