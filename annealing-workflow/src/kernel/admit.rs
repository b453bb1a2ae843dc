//! Admits attempts: in order of class and age, while the lease is fresh, with all claims or none.

use plugin_sdk::{
    Claim, Dispatch, Guard, Key, Mono, Now,
    check::Recheck,
    operation::{Fence, Repeat},
    workflow::Task,
};
use serde_json::Value;

use super::{
    Bug, CommitNo, Lane,
    event::{Call, CallNo, Effects, Run},
    sparse::Until,
    state::{Execution, Phase, StepId, Why},
};
use control_plane_runtime::claims::Taken;

/// Time until the dispatch stack is asked again, after an error, or for a claim that is waited for.
pub(super) const AGAIN: std::time::Duration = std::time::Duration::from_secs(60);

impl Lane {
    /// Takes the answer of the dispatch stack.
    pub(super) fn dispatched(&mut self, now: Now, call: CallNo, answer: Result<Dispatch, String>) {
        let Some(id) = self.calls.remove(&call) else {
            return;
        };
        if self
            .step_of(id)
            .is_none_or(|step| step.phase != Phase::Dispatching(call))
        {
            return;
        }
        match answer {
            Err(why) => self.enter(
                now,
                id,
                Phase::Delayed(Why::NoDispatch(why.into())),
                Some(now.mono + AGAIN),
            ),
            Ok(dispatch) if !dispatch.is_go() => {
                let at = recheck(now, &dispatch);
                self.enter(
                    now,
                    id,
                    Phase::Delayed(Why::Delays(dispatch.delays)),
                    Some(at),
                );
            }
            Ok(dispatch) => {
                let latest = self.latest;
                if let Some(step) = self.step_mut(id) {
                    step.class = step.class.max(dispatch.class);
                    step.rare.wanted = dispatch.claims;
                    step.rare.let_go = latest.map(|latest| (now.mono, latest));
                }
                self.queue(now, id);
            }
        }
    }

    /// Begins the attempts that may begin now.
    pub(super) fn admit(&mut self, now: Now, out: &mut Effects) {
        loop {
            while let Some(key) = self.freed.pop_first() {
                self.wake(now, key);
            }
            let leased = now.mono < self.leased_until();
            if !leased || self.draining || self.running >= self.settings.config.calls {
                return;
            }
            let at = self.ages_at(now);
            let Some(id) = self.ready.pop(at) else {
                return;
            };
            self.admit_one(now, id, out);
        }
    }

    /// The time by which queues know how old their steps are.
    fn ages_at(&self, now: Now) -> Mono {
        match self.planted(Bug::NoAging) {
            true => Mono(0),
            false => now.mono,
        }
    }

    /// Lets the first of the steps that wait for `key` try again.
    fn wake(&mut self, now: Now, key: Key) {
        let at = self.ages_at(now);
        let Some(queue) = self.claimants.get_mut(&key) else {
            return;
        };
        let first = queue.pop(at);
        if queue.is_empty() {
            self.claimants.remove(&key);
        }
        if let Some(id) = first
            && let Some(step) = self.step_mut(id)
        {
            step.phase = Phase::Due;
            step.alarm = Until::NONE;
            step.rare.woken = Some(key);
            let (class, age) = (step.class, step.age());
            self.list(id);
            self.ready.insert(class, age, id);
        }
    }

    fn admit_one(&mut self, now: Now, id: StepId, out: &mut Effects) {
        let paused = self.live.get(&id.execution).is_some_and(|execution| {
            let drained = id.is_start() && self.drains(execution).is_some();
            drained || execution.live.paused.is_some()
        });
        let Some(step) = self.step_mut(id) else {
            return;
        };
        let woken = step.rare.woken.take();
        // A pause lets what is under way go on, and the rounds of one attempt.
        if paused && !step.goes_on_in_a_pause() {
            self.freed.extend(woken);
            return self.pauses(now, id);
        }
        let (held, mut wanted) = (step.rare.claims.clone(), step.rare.wanted.clone());
        // What the execution took at its start serves its steps too.
        let at_start = self
            .live
            .get(&id.execution)
            .map_or(&[][..], |execution| &execution.live.claims);
        // A limit that was edited meanwhile is for those that do not hold the key yet: else its holders would wait for each
        // other.
        wanted.retain(|claim| {
            let same = |other: &&Claim| match claim {
                Claim::Exclusive(_) | Claim::AtMost(..) => other.key() == claim.key(),
                _ => *other == claim,
            };
            !held.iter().chain(at_start).any(|other| same(&other))
        });
        match self.claims.take(&id, &wanted, now.mono) {
            Ok(()) => {
                let waits = self.write_rates(now, &wanted, out);
                // There may be room for one more.
                self.freed.extend(woken);
                if let Some(step) = self.step_mut(id) {
                    let kept = wanted.into_iter().filter(|claim| claim.is_held());
                    step.rare.claims.extend(kept);
                }
                match id.is_start() {
                    true => self.begin_with(now, id, waits),
                    false => self.attempt(now, id, waits, out),
                }
            }
            Err(Taken::UsedUp(key, quota)) => {
                self.freed.extend(woken);
                let at = self.claims.rates.turn(&id, &key, &quota, now.mono);
                self.enter(now, id, Phase::Delayed(Why::Rate(key)), Some(at));
            }
            Err(Taken::Held(key)) => {
                self.freed.extend(woken.filter(|other| *other != key));
                self.await_claim(now, id, key);
            }
        }
    }

    /// Begins an execution that has all claims of its start. Nothing of it is called before the rate is durable that it
    /// has taken (`waits`).
    fn begin_with(&mut self, now: Now, id: StepId, waits: bool) {
        let next = CommitNo(self.commit.0 + 1);
        let execution = self.live.get_mut(&id.execution);
        if let Some(execution) = execution.filter(|_| waits) {
            execution.started_in = next;
        }
        self.begin_started(now, id);
    }

    /// Lets a step wait for a claim. Its age counts on.
    fn await_claim(&mut self, now: Now, id: StepId, key: Key) {
        let Some(step) = self.step_mut(id) else {
            return;
        };
        step.phase = Phase::Claiming(key.clone());
        step.alarm = (now.mono + AGAIN).into();
        let (class, age) = (step.class, step.age());
        self.list(id);
        self.claimants
            .entry(key)
            .or_default()
            .insert(class, age, id);
    }

    /// Begins an attempt. If it may have an effect, its call waits until the attempt is durable. So does that of a safe
    /// function while it would leave no trace of an owner that it ends, or of the rate that it takes (`waits`).
    fn attempt(&mut self, now: Now, id: StepId, waits: bool, out: &mut Effects) {
        let call = self.call_no();
        let (varies, flat) = (
            self.planted(Bug::KeyWithAttempt),
            self.planted(Bug::SkipFence),
        );
        let early = self.planted(Bug::CallBeforeDurable);
        let latest = self.latest;
        let Some(execution) = self.live.get_mut(&id.execution) else {
            return;
        };
        let Some(function) = execution
            .action(id.machine)
            .and_then(|action| match &action.task {
                Task::Call { function } => self.settings.functions.get(function),
                _ => None,
            })
        else {
            return;
        };
        let repeat = function.info.repeat;
        let takes_old_calls = function.info.guard == Guard::Advisory && repeat != Repeat::Safe;
        let waits = waits || execution.taken_over || execution.started_in > self.durable;
        let action = execution.action(id.machine);
        let (time, in_all) = action.map_or((None, None), |it| (it.attempt_deadline, it.deadline));
        let Some(step) = execution.steps.at_mut(id.machine) else {
            return;
        };
        step.attempt += 1;
        step.tries += 1;
        (step.rare.due, step.rare.let_go) = (None, None);
        step.incarnation = step.incarnation.or(latest);
        let until = now.mono + time.unwrap_or(function.info.deadline);
        step.rare.expires = step.rare.expires.or(in_all.map(|time| now.mono + time));
        let expires = step.rare.expires.filter(|expires| *expires > now.mono);
        let until = expires.map_or(until, |expires| until.min(expires));
        if repeat != Repeat::Safe {
            step.rare.reach = step.rare.reach.max(Some(until));
        }
        let attempt = step.attempt;
        let fence = Fence::new(self.token, if flat { 1 } else { attempt });
        let mut run = run(execution, id, until, fence);
        // A callee that takes old calls may take half of the time, and afterwards another attempt may begin.
        if takes_old_calls {
            run.begins_by = now.mono + until.since(now.mono) / 2;
        }
        run.key.run += if varies { attempt - 1 } else { 0 };
        self.calls.insert(call, id);
        self.running += 1;
        self.enter(now, id, Phase::Calling(call), Some(until));
        self.changed(id);
        let made = Call::Run(call, Box::new(run));
        if repeat == Repeat::Safe && !waits || early {
            out.calls.push(made);
        } else {
            out.urgent = true;
            self.held
                .push_back((CommitNo(self.commit.0 + 1), call, made));
        }
    }
}

/// The request of an attempt.
fn run(execution: &Execution, id: StepId, until: Mono, fence: Fence) -> Run {
    let (step, action) = (execution.steps.at(id.machine), execution.action(id.machine));
    let function = match action.map(|action| &action.task) {
        Some(Task::Call { function }) => function.clone(),
        _ => "".into(),
    };
    Run {
        function,
        key: execution.key(id.machine),
        fence,
        incarnation: step.and_then(|step| step.incarnation).unwrap_or_default(),
        cause: execution.live.origin.cause.clone(),
        input: input(
            &execution.input,
            action.map_or(&Value::Null, |action| &action.input),
        ),
        context: execution.shared(),
        edits: execution.gathered_edits(),
        needs: step.map(|step| step.rare.needs.clone()).unwrap_or_default(),
        changed: execution.about.changed.clone(),
        begins_by: until,
        until,
        cancelled: execution.position.cancelled(),
    }
}

/// The input of the execution, and over it that of the action.
fn input(execution: &Value, action: &Value) -> Value {
    match (execution, action) {
        (execution, Value::Null) => execution.clone(),
        (Value::Object(execution), Value::Object(action)) => {
            let mut both = execution.clone();
            both.extend(action.clone());
            Value::Object(both)
        }
        (_, action) => action.clone(),
    }
}

/// The earliest time at which a delay may have ended.
fn recheck(now: Now, dispatch: &Dispatch) -> Mono {
    let times = dispatch.delays.iter().map(|delay| match delay.recheck {
        Recheck::After(time) => now.mono + time,
        Recheck::At(at) => {
            now.mono
                + std::time::Duration::try_from(at.duration_since(now.wall)).unwrap_or_default()
        }
        _ => now.mono + AGAIN,
    });
    times.min().unwrap_or(now.mono + AGAIN)
}
