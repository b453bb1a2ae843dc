//! The provider: functions whose calls travel to it, and its ledger of effects by key.

use std::time::Duration;

use async_trait::async_trait;
use futures::channel::oneshot;
use plugin_sdk::{
    Guard, OperationFunction, Probe,
    operation::{
        Answer, EffectKey, Fence, FunctionInfo, FunctionRequest, Power, Probed, Ran, Repeat,
        StartCause,
    },
    plugin,
};

use super::{call::left, watches::field_of};
use crate::{
    executor::NodeId,
    faults::Fault,
    flows::{
        MOMENT,
        definitions::{DEADLINE, DUMP, Function, GROW, PLAN, track},
        source::SOURCE,
        step,
        watches::{NOTE, ROUND},
    },
    halt::{kill, survive},
    world::{State, World},
};

type Reply = Result<Ran, plugin::Error>;

/// Time between two calls while the work of a function is under way.
const LOOK: Duration = Duration::from_millis(700);

/// The calls that one process makes of one function.
#[derive(Clone)]
pub(super) struct Caller {
    world: World,
    node: NodeId,
    function: &'static Function,
}

/// The outcome of a call: success, or one of the faults.
enum Fate {
    Fine,
    Fails(plugin::Error),
    Hangs,
    Panics,
    Kills,
    Lost,
}

/// A message of a call to the provider.
#[derive(Clone)]
struct Message {
    function: &'static Function,
    key: EffectKey,
    fence: Fence,
    number: usize,
    travel: Duration,
    /// Time that the work takes after the message has arrived.
    work: Duration,
    /// The field that it is about, if it belongs to a run of a watch.
    about: Option<usize>,
}

impl Caller {
    pub(super) fn new(world: &World, node: NodeId, function: &'static Function) -> Self {
        Self {
            world: world.clone(),
            node,
            function,
        }
    }

    async fn carry(&self, request: &FunctionRequest, number: usize) -> Reply {
        let (fate, message) = self.world.state().draw(self.function, request, number);
        match fate {
            Fate::Fails(error) => return Err(error),
            Fate::Panics => std::panic::resume_unwind(Box::new("a function panicked")),
            Fate::Kills => {
                kill(&self.world, self.node);
                return futures::future::pending().await;
            }
            _ => {}
        }
        let answer = self.send(message);
        if matches!(fate, Fate::Hangs) {
            return futures::future::pending().await;
        }
        let Ok(answer) = answer.await else {
            return futures::future::pending().await;
        };
        match fate {
            Fate::Lost => Err(plugin::Error::unknown("the connection was lost")),
            _ => answer,
        }
    }

    /// Sends a message, which outlives its sender. A function without effects only takes time.
    fn send(&self, message: Message) -> oneshot::Receiver<Reply> {
        let (reply, answer) = oneshot::channel();
        let world = self.world.clone();
        *self
            .world
            .state()
            .flows
            .ledger
            .travelling
            .entry(message.key.clone())
            .or_default() += 1;
        self.world.spawn(async move {
            world.sleep(message.travel).await;
            let answer = world.state().arrives(&message);
            world.note(
                "effect",
                None,
                [message.key.execution.n, u64::from(message.key.run)],
            );
            world.verdict();
            // The caller may be gone.
            let _ = reply.send(answer);
        });
        answer
    }
}

#[async_trait]
impl OperationFunction for Caller {
    fn info(&self) -> FunctionInfo {
        let info = FunctionInfo::new(self.function.name);
        let info = match self.function.name {
            GROW | ROUND => info.may(Power::edit(SOURCE, "sizes.*")),
            _ => info,
        };
        info.repeat(self.function.repeat)
            .guard(self.function.guard)
            .deadline(DEADLINE)
    }

    async fn run(&self, request: FunctionRequest) -> Reply {
        let number = self
            .world
            .state()
            .call_begins(self.node, self.function, &request);
        self.world.note(
            "called",
            None,
            [request.key.execution.n, u64::from(request.fence.attempt)],
        );
        self.world.verdict();
        survive(&self.world, self.node).await;
        let mut open = Open {
            world: self.world.clone(),
            number,
            returned: false,
        };
        let answer = self.carry(&request, number).await;
        survive(&self.world, self.node).await;
        open.returned = true;
        self.world.state().call_returns(number, &answer);
        answer
    }
}

#[async_trait]
impl Probe for Caller {
    async fn probe(&self, key: EffectKey) -> Result<Probed, plugin::Error> {
        let latency = {
            let mut state = self.world.state();
            if state.flow_strikes(Fault::FunctionFails) {
                return Err(plugin::Error::transient("the provider does not answer"));
            }
            state
                .flows
                .random
                .between(Duration::ZERO, Duration::from_secs(1))
        };
        self.world.sleep(latency).await;
        let mut state = self.world.state();
        let flows = &mut state.flows;
        if flows.ledger.effects.contains_key(&key) {
            flows.told.insert(key);
            return Ok(Probed::Happened(Answer::new()));
        }
        if flows.is_under_way(&key) {
            return Ok(Probed::InProgress);
        }
        flows.has_not_happened(&key);
        Ok(Probed::NotHappened)
    }
}

/// A call in flight. It ends when its future does, or with its process.
struct Open {
    world: World,
    number: usize,
    returned: bool,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.world.state();
        let number = self.number;
        state.flows.calls[number].open = false;
        let node = state.flows.calls[number].node;
        let late = state.is_late(number);
        let (key, token) = {
            let call = &state.flows.calls[number];
            (call.key.clone(), call.fence.token.0)
        };
        if self.returned {
            return;
        }
        // The death of an owner that another one has followed was counted when that one took over.
        if token < state.flows.token {
            state.flows.calls[number].left_behind = late;
            return;
        }
        match self.world.executor.lives(node) {
            // A panic, or a deadline.
            true => {
                state.flows.deaths.remove(&key);
                *state.flows.failures.entry(key).or_default() += 1;
            }
            // Its owner may have noted in its last moment that there was no answer in time. Then nothing was in flight.
            false if late => state.flows.calls[number].left_behind = true,
            false => *state.flows.deaths.entry(key).or_default() += 1,
        }
    }
}

impl State {
    /// Whether the time of a call is over, or nearly so.
    fn is_late(&self, number: usize) -> bool {
        let call = &self.flows.calls[number];
        self.now.since(call.begun) + MOMENT >= call.left
    }

    /// A call returns to its process.
    fn call_returns(&mut self, number: usize, answer: &Reply) {
        let late = self.is_late(number);
        let call = &mut self.flows.calls[number];
        call.open = false;
        call.known = !matches!(answer, Err(plugin::Error::Unknown { .. }));
        let (key, token) = (call.key.clone(), call.fence.token.0);
        self.flows.deaths.remove(&key);
        let failures = self.flows.failures.entry(key.clone()).or_default();
        match answer {
            // The deadline may have ended it before, or not.
            Err(plugin::Error::Permanent { .. }) => *failures = u32::MAX / 2,
            _ if late => *failures += 1,
            Err(plugin::Error::Transient { .. } | plugin::Error::Unknown { .. }) => *failures += 1,
            Ok(Ran::InProgress { .. }) => drop(self.flows.progress.insert(key.clone(), token)),
            _ => {}
        }
        if call.known {
            self.flows.uncertain.remove(&key);
        }
        if matches!(answer, Ok(Ran::Done(_))) {
            self.flows.told.insert(key);
        }
    }

    fn draw_fate(&mut self, function: &Function, request: &FunctionRequest) -> Fate {
        let poison = request.input::<Option<bool>>("poison").ok().flatten();
        let kills = poison == Some(true) && function.name == "verify";
        if kills && !self.healed {
            Fate::Kills
        } else if self.flow_strikes(Fault::FunctionFails) {
            match self.flows.random.below(8) {
                0 => Fate::Fails(plugin::Error::permanent("the provider refuses the call")),
                _ => Fate::Fails(plugin::Error::transient("the provider does not answer")),
            }
        } else if self.flow_strikes(Fault::FunctionPanics) {
            Fate::Panics
        } else if self.flow_strikes(Fault::FunctionHangs) {
            Fate::Hangs
        } else if self.flow_strikes(Fault::AnswerLost) {
            Fate::Lost
        } else {
            Fate::Fine
        }
    }

    fn draw(
        &mut self,
        function: &'static Function,
        request: &FunctionRequest,
        number: usize,
    ) -> (Fate, Message) {
        let fate = self.draw_fate(function, request);
        let secs = Duration::from_secs;
        let mut travel = match self.flows.random.below(10) {
            0..=5 => self
                .flows
                .random
                .between(Duration::ZERO, Duration::from_millis(50)),
            _ => self.flows.random.between(secs(1), secs(8)),
        };
        if function.repeat != Repeat::Safe && self.flow_strikes(Fault::EffectLate) {
            let most = match function.guard {
                Guard::Advisory => DEADLINE / 2,
                _ => DEADLINE * 10,
            };
            travel = self.flows.random.between(most / 2, most);
        }
        // An advisory callee takes effect in the time that the call has, and within half of its longest, or not at all.
        if function.guard == Guard::Advisory && function.repeat != Repeat::Safe {
            travel = travel.min(left(request)).min(DEADLINE / 2);
        }
        let keyed = function.repeat == Repeat::Keyed;
        let work = keyed && self.flows.random.per_mille(300);
        let work = match function.name {
            DUMP => self.flows.random.between(secs(5), secs(150)),
            NOTE => self.flows.random.between(secs(2), secs(40)),
            _ if work => secs(3),
            _ => Duration::ZERO,
        };
        let message = Message {
            function,
            key: request.key.clone(),
            fence: request.fence,
            number,
            travel,
            work,
            about: match &request.cause {
                StartCause::Watch { asset, .. } => asset.as_ref().and_then(field_of),
                _ => None,
            },
        };
        (fate, message)
    }

    /// A message arrives at the provider. A guarded one refuses it if it is older than another of its step; one that
    /// dedupes makes the effect of a key once.
    fn arrives(&mut self, message: &Message) -> Reply {
        let key = &message.key;
        let (now, function) = (self.now, message.function);
        let look = match function.name {
            DUMP | NOTE => LOOK * 10,
            _ => LOOK,
        };
        if let Some(travelling) = self.flows.ledger.travelling.get_mut(key) {
            *travelling -= 1;
        }
        self.flows.calls[message.number].until = None;
        let done = Answer::new().context(key.step.as_str(), &key.run)?;
        let done = match function.name {
            GROW => self.grown(done, key.execution.n),
            ROUND => self.rounded(done, message.about),
            // The machines of the first run stay.
            PLAN if key.run == 1 => track().into_iter().fold(done, Answer::track),
            _ => done,
        };
        let done = done.done();
        if function.repeat == Repeat::Safe {
            return Ok(done);
        }
        let heard = self
            .flows
            .ledger
            .heard
            .entry(step(key))
            .or_insert(message.fence);
        if function.guard == Guard::Guarded && *heard > message.fence {
            return Err(plugin::Error::fenced("a newer call was received"));
        }
        *heard = message.fence.max(*heard);
        let effect = self.flows.ledger.effects.entry(key.clone()).or_default();
        if effect.times == 0 || function.repeat != Repeat::Keyed {
            effect.times += 1;
            effect.ready = now + message.work;
            self.judge_effect(message);
        } else if now < effect.ready {
            return Ok(Ran::in_progress(look));
        }
        match self.flows.ledger.effects[key].ready <= now {
            true => Ok(done),
            false => Ok(Ran::in_progress(look)),
        }
    }

    /// R25 and R30: one effect per key, one key per run, and no effect of an older run after one of a newer run.
    fn judge_effect(&mut self, message: &Message) {
        let (key, of) = (&message.key, step(&message.key));
        self.judge.look("R25");
        let effects = &self.flows.ledger.effects;
        let mut same = effects.iter().filter(|(other, _)| step(other) == of);
        let times = effects[key].times;
        let newer = same.clone().find(|(other, _)| other.run > key.run);
        let newer = newer.map(|(other, _)| other.clone());
        let (runs, most) = (same.by_ref().count(), self.flows.most_runs(&of));
        if times > 1 {
            self.violated("R25", format!("{key} has taken effect {times} times"));
        }
        if runs as u32 > most {
            self.violated(
                "R25",
                format!("{key}: {runs} keys, but {} restarts", most - 1),
            );
        }
        if let Some(newer) = newer {
            self.violated("R30", format!("{key} takes effect after {newer}"));
        }
    }
}
