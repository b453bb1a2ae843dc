//! Commands of operators to rollouts: random ones during the phase with faults, and helpful ones afterwards.

use std::time::Duration;

use annealing_strategist::{AskError, By, Command, Handle, State as Rolls, View};
use control_plane_runtime::{Runtime, timeout_at};
use jiff::SignedDuration;
use plugin_sdk::{Progress, Target};
use prodspec_model::AssetId;

use crate::{
    executor::{NodeId, NodeRuntime},
    faults::Fault,
    intent::{number, policy_id, policy_number},
    world::{Process, State, World},
};

/// Time after which an operator no longer waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time after which operators regard a target in flight as stuck.
const ENOUGH: SignedDuration = SignedDuration::from_secs(120);

/// Counters of rollouts that could not end without a command of an operator, each with its budget: the maximum number
/// of them in a thousand seeds.
pub const RESCUES: [(&str, u64); 2] = [
    ("people ended a rollout", 80),
    ("people ended a rollback", 10),
];

/// The commands that are drawn during the phase with faults.
const WORDS: [Command; 7] = [
    Command::Pause,
    Command::Resume,
    Command::Promote,
    Command::Abort,
    Command::Retry,
    Command::RollBack,
    Command::HandOver,
];

/// Draws a command of an operator to the rollout of a random group.
pub(super) fn say(world: &World) {
    let said = {
        let mut state = world.state();
        let groups = state.plan.groups.len();
        if groups == 0 || !state.strikes(Fault::PersonOnRollout) {
            return;
        }
        let group = state.random.below(groups);
        let word = WORDS[state.random.below(WORDS.len())];
        let strategists = state.processes.iter().flatten();
        let handle = strategists.filter_map(|it| it.rollouts.clone()).next();
        handle.map(|handle| (handle, group, word))
    };
    if let Some((handle, group, word)) = said {
        tell(world, handle, group, word);
    }
}

/// After the phase with faults: gives each rollout that cannot go on by itself the command that helps.
pub(super) fn put_right(world: &World, process: &Process) {
    let Some(handle) = process.rollouts.clone() else {
        return;
    };
    let world = world.clone();
    world.clone().spawn(async move {
        let clock = NodeRuntime::new(world.executor.clone(), NodeId::WORLD);
        let deadline = clock.now().mono + PATIENCE;
        let Some(Ok(views)) = timeout_at(&clock, deadline, handle.views()).await else {
            return;
        };
        for view in views {
            let group = policy_number(number(view.policy.as_str()));
            let word = world.state().what_helps(&view);
            if let (Some(group), Some(word)) = (group, word) {
                world.state().helps(&view);
                tell(&world, handle.clone(), group, word);
            }
        }
    });
}

impl State {
    /// The command that lets a rollout go on; `None` if it needs none.
    fn what_helps(&self, view: &View) -> Option<Command> {
        let group = policy_number(number(view.policy.as_str()))?;
        let stubborn = self.stubborn == Some(group);
        let rollout = view.rollout.as_ref()?;
        let outside = |out: &dyn Fn(usize) -> bool| {
            let mut outside = view.outside.iter();
            is_stuck(view) && outside.any(|asset| out(number(asset.as_str())))
        };
        match &rollout.state {
            Rolls::Running if self.plan.mutual && is_stuck(view) => Some(Command::RollBack),
            // It may wait for an asset that it cannot move and that keeps its content. Only edges cause that.
            Rolls::Running if outside(&|at| self.waits_out_of_reach(at, rollout.to.0)) => {
                Some(Command::RollBack)
            }
            Rolls::RollingBack { paused: true, .. } => Some(Command::Resume),
            // An asset that was new in the rollout stays in production, is left alone, and may use an asset that is
            // rolled back. Only a command ends that wait.
            Rolls::RollingBack { .. } if outside(&|at| self.is_left_running(at)) => {
                Some(Command::Retry)
            }
            // An asset got content that never settles while it had no policy: a rollback to that content cannot end.
            Rolls::RollingBack { .. } if self.goes_nowhere(view) => Some(Command::Retry),
            Rolls::Paused => Some(Command::Resume),
            Rolls::Stopped { .. } => Some(Command::RollBack),
            _ if !view.live && !stubborn => (!view.left_out.is_empty()).then_some(Command::Retry),
            _ => None,
        }
    }

    /// Whether a rollout to `to` cannot move an asset, or one for which that asset waits by an order. Operators see the
    /// whole chain, with its dead end, in the explanation of a target.
    fn waits_out_of_reach(&self, at: usize, to: u32) -> bool {
        let mut chain = std::iter::successors(Some(at), |at| self.plan.order(*at));
        chain.any(|at| self.is_out_of_reach(at, to))
    }

    /// Counts a rollout under way that operators have to end, once.
    fn helps(&mut self, view: &View) {
        let Some(rollout) = &view.rollout else { return };
        let what = match rollout.state {
            Rolls::Running => RESCUES[0].0,
            Rolls::RollingBack { .. } => RESCUES[1].0,
            _ => return,
        };
        let which = (view.policy.clone(), rollout.id.0);
        self.rescued.entry(what).or_default().insert(which);
    }

    /// Whether a stuck target goes back to content that never settles.
    fn goes_nowhere(&self, view: &View) -> bool {
        held_up(view).any(|asset| self.never_settles(number(asset.as_str())))
    }

    /// On some seeds, makes the last edit one with bad content, which stays in intent until the end.
    pub fn be_stubborn(&mut self) {
        let most = self.scenario.stubborn;
        let group = self.random.below(self.plan.groups.len());
        let head = self.judge.groups[group.min(1)].head;
        let fits = |at: &usize| {
            let wish = &self.plan.wishes[*at];
            let there = head.is_some_and(|head| self.mark_at(head, *at).is_some());
            wish.steady && wish.group == Some(group) && there
        };
        let fits: Vec<usize> = (2..self.plan.wishes.len()).filter(fits).collect();
        if fits.is_empty() || !self.random.per_mille(most) {
            return;
        }
        let Some(at) = self.random.pick(&fits) else {
            return;
        };
        self.stubborn = Some(group);
        self.plan.groups[group].policy.on_unhealthy = Default::default();
        self.plan.spoil(at, &mut self.random);
    }
}

/// Whether any target has been in flight for too long.
fn is_stuck(view: &View) -> bool {
    held_up(view).next().is_some()
}

/// The targets that have been in flight, or drifted, for longer than two minutes.
pub fn held_up(view: &View) -> impl Iterator<Item = AssetId> {
    let held = |target: &&Target| match target.progress {
        Progress::InFlight { since } | Progress::Drifted { since } => {
            view.now.duration_since(since) > ENOUGH
        }
        _ => false,
    };
    view.targets
        .iter()
        .filter(held)
        .map(|target| target.asset.clone())
}

fn tell(world: &World, handle: Handle<NodeRuntime>, group: usize, word: Command) {
    let number = {
        let mut state = world.state();
        let until = state.now + PATIENCE * 2;
        state.said(group, word, until)
    };
    world.note("command", None, [group as u64, word as u64]);
    let says = world.clone();
    world.spawn(async move {
        let clock = NodeRuntime::new(says.executor.clone(), NodeId::WORLD);
        let deadline = clock.now().mono + PATIENCE;
        let by = By {
            who: "an operator".into(),
            why: "drawn at random".into(),
        };
        let answer = timeout_at(&clock, deadline, handle.tell(&policy_id(group), word, by)).await;
        // A refused or lost command is not repeated here: operators give it again if needed.
        match answer {
            Some(Ok(())) => says.state().heard(number),
            Some(Err(AskError::Refused(_))) => {
                says.note("refused", None, [group as u64, word as u64]);
                says.state().refused(number);
            }
            _ => {}
        }
    });
}
