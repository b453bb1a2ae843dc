//! Operators: they approve changes, pause, move pins and acknowledge orphans, through the handle of an enforcer.

use std::time::Duration;

use annealing_enforcer::{AskError, Command, Handle, store::records::Scope};
use control_plane_runtime::{Runtime, timeout_at};
use plugin_sdk::{By, Cause, Pin};
use prodspec_model::{Digest, Incarnation, TypeName};

use super::words;
use crate::{
    executor::{NodeId, NodeRuntime},
    faults::Fault,
    intent::Kind,
    world::judge::Pinned,
    world::{State, World},
};

/// Time after which an operator no longer waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Draws the commands that operators give now.
pub fn meddle(world: &World) {
    let Some(handle) = world.state().anyone() else {
        return;
    };
    if let Some(command) = pause(&mut world.state()) {
        tell(world, handle.clone(), command);
    }
    let acknowledged = {
        let mut state = world.state();
        let at = 2 + state.random.below(6);
        let orphan = !state.plan.wishes[at].exists;
        let acknowledges = orphan && state.strikes(Fault::PersonAcknowledges);
        acknowledges.then(|| state.plan.id(at))
    };
    if let Some(asset) = acknowledged {
        tell(
            world,
            handle.clone(),
            Command::Acknowledge {
                asset,
                by: by("the orphan is known"),
            },
        );
    }
    words::say(world);
    let pinned = world.state().choose_pin();
    if let Some((at, to)) = pinned {
        let moves = world.clone();
        world.spawn(async move { pin(&moves, handle, at, to).await });
    }
}

impl State {
    /// Handle of a running process, which may or may not be the owner.
    fn anyone(&mut self) -> Option<Handle<NodeRuntime>> {
        let running: Vec<usize> = (0..2).filter(|at| self.processes[*at].is_some()).collect();
        let at = self.random.pick(&running)?;
        self.processes[at]
            .as_ref()
            .map(|process| process.handle.clone())
    }

    fn choose_pin(&mut self) -> Option<(usize, Option<Incarnation>)> {
        if !self.strikes(Fault::PersonPins) {
            return None;
        }
        let at = 2 + self.random.below(self.plan.wishes.len() - 2);
        if self.plan.wishes[at].pool && !self.scenario.meddling {
            return None;
        }
        let kept = self.sealed.acknowledged.len();
        let back = self.random.below(6).min(kept.saturating_sub(1));
        let old = self.sealed.acknowledged.get(kept.checked_sub(back + 1)?)?;
        let to = old.asset(&self.plan.id(at)).map(|_| old.clone());
        let unpin = self.random.per_mille(500);
        Some((at, to.filter(|_| !unpin)))
    }
}

fn pause(state: &mut State) -> Option<Command> {
    if !state.strikes(Fault::PersonPauses) {
        return None;
    }
    let at = state.random.below(state.plan.wishes.len());
    let scope = match state.random.below(3) {
        0 => Scope::Partition,
        1 => Scope::Type(TypeName::new(Kind::Guarded.type_name()).ok()?),
        _ => Scope::Asset(state.plan.id(at)),
    };
    if state.random.per_mille(400) {
        return Some(resume(scope));
    }
    let now = NodeRuntime::wall(state.now);
    let most = Duration::from_secs(120);
    let long = state.random.between(Duration::from_secs(1), most);
    let until = now.checked_add(long).ok();
    state.paused(scope.clone(), state.now + long);
    Some(Command::Pause {
        scope,
        until,
        by: by("to investigate"),
    })
}

fn tell(world: &World, handle: Handle<NodeRuntime>, command: Command) {
    let says = world.clone();
    world.spawn(async move {
        let clock = NodeRuntime::new(says.executor.clone(), NodeId::WORLD);
        let deadline = clock.now().mono + PATIENCE;
        // Ignore the answer: operators repeat a command if needed.
        let _ = timeout_at(&clock, deadline, handle.tell(command)).await;
    });
}

/// Approves a destructive change. Operators repeat it until the resource is gone.
fn approve(world: &World, handle: Handle<NodeRuntime>, at: usize, change: Digest) {
    let (number, asset) = {
        let mut state = world.state();
        let now = state.now;
        let number = state.judge.approvals.give(at, change, now);
        (number, state.plan.id(at))
    };
    let approve = Command::Approve {
        asset,
        change,
        until: None,
        by: by("the removal is intended"),
    };
    let says = world.clone();
    world.spawn(async move {
        let clock = NodeRuntime::new(says.executor.clone(), NodeId::WORLD);
        let deadline = clock.now().mono + PATIENCE;
        let answer = timeout_at(&clock, deadline, handle.tell(approve)).await;
        let mut state = says.state();
        let now = state.now;
        match answer {
            Some(Ok(())) => state.judge.approvals.heard(number, now),
            Some(Err(AskError::Refused { .. })) => state.judge.approvals.refused(number),
            // It may have taken effect.
            _ => {}
        }
    });
}

/// Moves a pin. The judge expects the enforcer to follow it once the move was acknowledged.
async fn pin(world: &World, handle: Handle<NodeRuntime>, at: usize, to: Option<Incarnation>) {
    let governed = world.state().plan.wishes[at].pool;
    let remember = |state: &mut State, pinned| {
        // The strategist may move the pins of governed assets again, so the judge does not expect these.
        if !governed {
            state.judge.pins.insert(at, pinned);
        }
    };
    remember(&mut world.state(), Pinned::Moving);
    world.state().stirs(at);
    let (pin, pinned) = match to {
        Some(to) => {
            let no = to.no().0;
            (Pin::At(to, Cause::Rollback), Pinned::At(no))
        }
        None => (Pin::Default, Pinned::Latest),
    };
    let clock = NodeRuntime::new(world.executor.clone(), NodeId::WORLD);
    let deadline = clock.now().mono + PATIENCE;
    let moves = world.state().judge.move_pin(at);
    let asset = world.state().plan.id(at);
    let moved = timeout_at(&clock, deadline, handle.pin(&asset, pin)).await;
    let done = matches!(moved, Some(Ok(())));
    world.note("pinned", Some(at), [u64::from(done), 0]);
    let mut state = world.state();
    // The enforcer tells of a move before it is durable.
    state.stirs(at);
    let is_last = state.judge.moved_pin(at, moves);
    if done && is_last {
        remember(&mut state, pinned);
    } else if done || pinned != Pinned::Latest {
        // The pin is not known: a move without an acknowledgement may still take effect, and another move may have
        // come after an acknowledged one.
        remember(&mut state, Pinned::Moving);
    }
}

/// Approves changes that wait for an approval. After the phase with faults, also resumes paused types and the
/// partition, and releases pins. Pauses of single assets expire.
pub async fn care(world: World) {
    loop {
        let wait = {
            let mut state = world.state();
            let most = Duration::from_secs(if state.healed { 5 } else { 60 });
            state.random.between(Duration::from_secs(1), most)
        };
        world.sleep(wait).await;
        let (handles, unapproved, healed) = {
            let state = world.state();
            let handles: Vec<_> = state.processes.iter().flatten().cloned().collect();
            (handles, state.unapproved.clone(), state.healed)
        };
        for process in handles {
            for (at, change) in unapproved.clone() {
                approve(&world, process.handle.clone(), at, change);
            }
            if healed {
                put_right(&world, &process.handle);
                words::put_right(&world, &process);
            }
        }
    }
}

fn by(why: &str) -> By {
    By::new("an operator", why)
}

fn resume(scope: Scope) -> Command {
    let by = by("investigated");
    Command::Resume { scope, by }
}

/// Resumes paused types and the partition, and releases the pins that operators moved, except pins with a move under
/// way.
fn put_right(world: &World, handle: &Handle<NodeRuntime>) {
    for kind in Kind::ENFORCED {
        if let Ok(name) = TypeName::new(kind.type_name()) {
            tell(world, handle.clone(), resume(Scope::Type(name)));
        }
    }
    tell(world, handle.clone(), resume(Scope::Partition));
    let pinned: Vec<usize> = {
        let state = world.state();
        let moved = state.judge.pins.iter();
        moved
            .filter(|(at, pin)| **pin != Pinned::Latest && !state.judge.is_moving(**at))
            .map(|(at, _)| *at)
            .collect()
    };
    for at in pinned {
        let (moves, handle) = (world.clone(), handle.clone());
        world.spawn(async move { pin(&moves, handle, at, None).await });
    }
}
