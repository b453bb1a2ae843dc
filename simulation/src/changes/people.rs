//! The events of a run: people begin changes, command them, edit by hand, add and remove services, and offer versions; and
//! the process dies.

use std::time::Duration;

use control_plane::{
    By, Error, Handle, TrainView,
    model::{AssetId, Filter, Message, rollout::RollOut},
    runtime::{Runtime, timeout_at},
    sdk::FieldEdit,
    strategist::{
        AskError, Command, State, View,
        train::{Command as ToTrain, Idle},
    },
};
use serde_json::json;

use super::{
    manifest::{DOCUMENT, POLICIES, Service, declaring, line},
    page::edited,
    process::{kill, power_cut},
    world::{State as Whole, Wanted, World},
};
use crate::executor::{NodeId, NodeRuntime};

/// Time after which a person gives up a call.
const PATIENCE: Duration = Duration::from_secs(120);

/// Names of services that come and go. They are the last ones by their ids.
const NEW: [&str; 3] = ["t0", "t1", "t2"];

/// Maximum number of changes that people want at the same time.
const MOST: usize = 3;

type Plane = Handle<NodeRuntime>;

fn ann() -> By {
    By {
        who: "ann".into(),
        why: "drawn at random".into(),
    }
}

/// Lets things happen until the faults end.
pub(super) async fn act(world: World) {
    loop {
        world
            .takes(Duration::from_secs(1), Duration::from_secs(60))
            .await;
        let (drawn, faults) = {
            let mut state = world.state();
            if state.healed {
                return;
            }
            (state.random.below(100), state.faults > 0)
        };
        match drawn {
            0..=24 => begins(&world),
            25..=31 => commands(&world),
            32..=38 | 90..=94 => hands_over(&world),
            39..=49 => edits(&world),
            50..=57 => adds(&world),
            58..=62 => removes(&world),
            63..=74 => offers(&world, None),
            75..=82 if faults => {
                let node = world.state().process.as_ref().map(|it| it.node);
                node.map(|node| kill(&world, node));
            }
            83..=84 if faults => power_cut(&world),
            85..=89 => freezes(&world),
            _ => {}
        }
    }
}

/// A service is frozen for some minutes.
pub(super) fn freezes(world: &World) {
    let now = world.now();
    let mut state = world.state();
    let services = state.page.manifest().services();
    let names: Vec<&String> = services.keys().collect();
    let name = names[state.random.below(names.len())].clone();
    let (least, most) = (Duration::from_secs(20), Duration::from_secs(400));
    let end = now + state.random.between(least, most);
    state.frozen.insert(name, end);
}

/// Waits for an answer of the control plane. `None`: there was none in time.
pub(super) async fn answer<T>(
    world: &World,
    call: impl Future<Output = Result<T, Error>>,
) -> Option<Result<T, Error>> {
    let clock = NodeRuntime::new(world.executor.clone(), NodeId::WORLD);
    timeout_at(&clock, clock.now().mono + PATIENCE, call).await
}

/// A person begins a change, or asks for an earlier one again.
fn begins(world: &World) {
    let Some(handle) = world.state().handle() else {
        return;
    };
    let (nth, change, declared) = {
        let mut state = world.state();
        let (now, many) = (world.now(), state.judge.wanted.len());
        let again = state.random.per_mille(200) && many > 0;
        let declared = !again && state.random.per_mille(250);
        let nth = match again {
            true => state.random.below(many),
            false if state.judge.recent(now) < MOST => {
                let wanted = draw_change(&mut state);
                state.judge.wanted.push(wanted);
                many
            }
            false => return,
        };
        let wanted = &mut state.judge.wanted[nth];
        wanted.requested.push(now);
        // Its next rollout is not paused because the last one was.
        wanted.is_commanded();
        wanted.declared |= declared;
        (nth, wanted.change.clone(), declared)
    };
    if declared {
        return declares(world, nth, &change);
    }
    let world = world.clone();
    world.clone().spawn(async move {
        let begun = answer(&world, handle.roll_out(&change, ann())).await;
        let mut state = world.state();
        if begun.as_ref().is_some_and(Result::is_ok) {
            state.count("change");
        }
        let now = world.now();
        let wanted = &mut state.judge.wanted[nth];
        match begun {
            Some(Ok(_)) => wanted.begun.push(now),
            Some(Err(Error::RollOut(_))) => {}
            _ => wanted.unsure = true,
        }
    });
}

/// A person writes a change into the text: it begins by itself, at a time that is not known here.
fn declares(world: &World, nth: usize, change: &RollOut) {
    let mut state = world.state();
    state.judge.wanted[nth].unsure = true;
    let text = declaring(&state.page.text, change);
    state.count("declared");
    state.page.set(text);
}

#[allow(clippy::expect_used, reason = "the constants are valid ids")]
fn draw_change(state: &mut Whole) -> Wanted {
    let field = match state.train || state.random.per_mille(400) {
        true => "flag",
        false => "version",
    };
    let digit = [0, 0, 0, 3][state.random.below(4)];
    let value = state.value(digit);
    let policy = POLICIES[state.random.below(POLICIES.len())];
    let name = format!("change-{}", state.judge.wanted.len());
    let policy_id = AssetId::new(policy).expect("the constant is a valid id");
    let mut change = RollOut::new(name, policy_id)
        .set(field, value)
        .on(Filter::types([Service::TYPE]));
    if state.random.per_mille(250) {
        change = change.alone_while_baking();
    }
    let policy = state.page.manifest().policies[policy].clone();
    Wanted::new(change, (field, value), policy)
}

/// A person gives a command to a change.
fn commands(world: &World) {
    let (command, nth) = {
        let mut state = world.state();
        let all = [
            Command::Pause,
            Command::Resume,
            Command::RollBack,
            Command::Retry,
            Command::Abort,
        ];
        let (command, many) = (all[state.random.below(all.len())], state.judge.wanted.len());
        if many == 0 {
            return;
        }
        // One of the last changes is live.
        let last = many.min(MOST);
        (command, many - 1 - state.random.below(last))
    };
    command_to(world, nth, command);
}

fn command_to(world: &World, nth: usize, command: Command) {
    let Some(handle) = world.state().handle() else {
        return;
    };
    let key = world.state().judge.wanted[nth].key();
    world.state().judge.wanted[nth].is_commanded();
    if command == Command::Retry {
        // It may have an effect although its answer is lost.
        world.state().judge.wanted[nth].retries += 1;
    }
    let before = world.state().judge.wanted[nth].commands;
    let world = world.clone();
    world.clone().spawn(async move {
        let answered = answer(&world, handle.tell_rollout(&key, command, ann())).await;
        let mut state = world.state();
        let now = world.now();
        let obeyed = matches!(answered, Some(Ok(())));
        let line = format!("{now:?} {command:?} of change {nth}, obeyed: {obeyed}");
        state.judge.note(line);
        match answered {
            Some(Ok(())) => {
                state.count("command");
                let wanted = &mut state.judge.wanted[nth];
                wanted.obeyed(now, command, before);
            }
            Some(Err(Error::Rollout(AskError::Refused(_)))) if command == Command::Retry => {
                state.judge.wanted[nth].retries -= 1;
            }
            _ => {}
        }
    });
}

/// A person hands one of the last changes over to another value, or to one that it had before, which may have failed.
fn hands_over(world: &World) {
    let Some(handle) = world.state().handle() else {
        return;
    };
    let change = {
        let mut state = world.state();
        let many = state.judge.wanted.len();
        if many == 0 {
            return;
        }
        let nth = many - 1 - state.random.below(many.min(MOST));
        let value = match state.random.per_mille(300) {
            true => {
                let earlier = state.judge.wanted[nth].values().len();
                let drawn = state.random.below(earlier);
                state.judge.wanted[nth].values()[drawn]
            }
            false => {
                let digit = [0, 0, 3][state.random.below(3)];
                state.value(digit)
            }
        };
        state.judge.wanted[nth].with(value)
    };
    let world = world.clone();
    world.clone().spawn(async move {
        let handed = answer(&world, handle.hand_over(&change, ann())).await;
        if handed.is_some_and(|it| it.is_ok()) {
            let line = format!("{:?} {} is handed over", world.now(), change.name);
            let mut state = world.state();
            state.judge.note(line);
            state.count("handed over");
        }
    });
}

/// A person sets a field of a service, or writes a comment.
pub(super) fn edits(world: &World) {
    let now = world.now();
    let mut state = world.state();
    let services = state.page.manifest().services();
    let names: Vec<&String> = services.keys().collect();
    let name = names[state.random.below(names.len())].clone();
    if state.random.per_mille(300) {
        let text = format!("{}# by hand\n", state.page.text);
        return state.page.set(text);
    }
    let field = ["flag", "version"][state.random.below(2)];
    let (was, to) = (services[&name].field(field), state.value(0));
    let path = format!("services.{name}.{field}").parse();
    let Ok(path) = path else { return };
    let edit = FieldEdit::set(DOCUMENT, path, was, to);
    if let Ok(text) = edited(&state.page.text, &[edit]) {
        state.edited_by_hand(now, &name, field);
        state.count("by hand");
        state.page.set(text);
    }
}

/// A person adds a service like one that is there.
pub(super) fn adds(world: &World) {
    let now = world.now();
    let mut state = world.state();
    let services = state.page.manifest().services();
    let free = NEW.iter().find(|name| !services.contains_key(**name));
    let Some(name) = free else { return };
    let like: Vec<Service> = services.values().copied().collect();
    let like = like[state.random.below(like.len())];
    let text = line(name, like, "eu") + "policies:";
    let text = state.page.text.replace("policies:", &text);
    state.judge.comes(now, name);
    state.count("added");
    state.page.set(text);
}

/// A person removes a service that was added.
pub(super) fn removes(world: &World) {
    let now = world.now();
    let mut state = world.state();
    let text = state.page.text.clone();
    let is_new = |line: &&str| {
        NEW.iter()
            .any(|name| line.starts_with(&format!("  {name}: ")))
    };
    let there: Vec<&str> = text.lines().filter(is_new).collect();
    if there.is_empty() {
        return;
    }
    let line = there[state.random.below(there.len())];
    let name = line.trim().split(':').next().unwrap_or_default();
    state.judge.goes(now, name);
    state.count("removed");
    state.page.set(text.replace(&format!("{line}\n"), ""));
}

/// A person offers a version to the train, in the text or by a command.
pub(super) fn offers(world: &World, digit: Option<u64>) {
    let (by_command, version) = {
        let mut state = world.state();
        if !state.train {
            return;
        }
        let drawn = [0, 0, 3][state.random.below(3)];
        let version = state.value(digit.unwrap_or(drawn));
        state.judge.offered.push(version);
        state.count("offered");
        (digit.is_none() && state.random.per_mille(500), version)
    };
    let handle = world.state().handle();
    match handle.filter(|_| by_command) {
        Some(handle) => {
            let world = world.clone();
            world.clone().spawn(async move {
                let Ok(train) = AssetId::new("train") else {
                    return;
                };
                let offer = ToTrain::Offer(json!(version));
                let offering = async { handle.trains().command(&train, offer, ann()).await };
                drop(answer(&world, offering).await);
            });
        }
        None => {
            let mut state = world.state();
            state.judge.newest = Some(version);
            let text = state.page.text.clone();
            let Some(at) = text.find("\"offers\":") else {
                return;
            };
            let at = at + "\"offers\":".len();
            let end = text[at..].find(',').map_or(text.len(), |end| at + end);
            state
                .page
                .set(format!("{}{version}{}", &text[..at], &text[end..]));
        }
    }
}

/// Ends the changes that wait for a person, until all changes have ended and production is as intended.
pub(super) async fn end(world: World) {
    let mut offered = false;
    loop {
        world.sleep(Duration::from_secs(15)).await;
        let Some(handle) = world.state().handle() else {
            continue;
        };
        let Some(Ok(views)) = answer(&world, handle.rollouts()).await else {
            continue;
        };
        world.state().judge.views = views.iter().map(|view| format!("{view:?}")).collect();
        for view in &views {
            help(&world, view);
        }
        if let Some(Ok(true)) = answer(&world, have_ended(&world, &handle)).await {
            // Now nothing is beside the last version that could be taken for its fault.
            if !std::mem::replace(&mut offered, true) {
                offers(&world, Some(0));
                continue;
            }
            world.state().judge_end();
            return world.executor.stop();
        }
    }
}

/// Gives a rollout that waits for a person a command.
pub(super) fn help(world: &World, view: &View) {
    if !view.is_on_hold() && view.awaits_person.is_none() {
        return;
    }
    let again = world.state().random.per_mille(300);
    let state = view.rollout.as_ref().map(|rollout| &rollout.state);
    let command = match state {
        Some(State::Paused | State::RollingBack { paused: true, .. }) => Command::Resume,
        Some(State::Stopped { .. }) if again => Command::Retry,
        Some(State::Running | State::Stopped { .. }) => Command::RollBack,
        _ => return,
    };
    let nth = {
        let judge = &world.state().judge;
        judge
            .wanted
            .iter()
            .position(|wanted| wanted.key() == view.policy)
    };
    match nth {
        Some(nth) => command_to(world, nth, command),
        // The change of a stage of the train.
        None => {
            let Some(handle) = world.state().handle() else {
                return;
            };
            let (world, key) = (world.clone(), view.policy.clone());
            world.clone().spawn(async move {
                drop(answer(&world, handle.tell_rollout(&key, command, ann())).await);
            });
        }
    }
}

/// Whether all changes have ended, no field is held, and production is as intended. The states of the changes are noted.
async fn have_ended(world: &World, handle: &Plane) -> Result<bool, Error> {
    let keys: Vec<AssetId> = world.state().judge.wanted.iter().map(Wanted::key).collect();
    for (nth, key) in keys.iter().enumerate() {
        let mut past = handle.past_rollouts(key).await?;
        let entries = past.iter().flat_map(|rollout| &rollout.history);
        let history: Vec<String> = entries.map(|entry| entry.what.clone()).collect();
        let state = past.pop().map(|rollout| rollout.state);
        if state.as_ref().is_some_and(|state| !state.has_ended()) {
            return Ok(false);
        }
        let wanted = &mut world.state().judge.wanted[nth];
        wanted.end = state;
        wanted.note_value(&history);
        if wanted.declared && wanted.end.is_none() {
            return Ok(false);
        }
    }
    if !train_rests(world, handle).await? || !handle.held_fields().await?.is_empty() {
        return Ok(false);
    }
    let state = world.state();
    let services = state.page.manifest().services();
    let mut all = services.iter();
    Ok(all.all(|(name, service)| state.production.content(name) == Some(*service)))
}

/// Whether the train knows the newest version, and nothing enters a stage any more.
async fn train_rests(world: &World, handle: &Plane) -> Result<bool, Error> {
    let Some(newest) = world.state().judge.newest else {
        return Ok(true);
    };
    let views = handle.trains().all().await?;
    world.state().judge.train = format!("{views:?}");
    let knows = |view: &TrainView| view.record.versions.iter().any(|it| it.value == newest);
    let mut stages = views.iter().flat_map(|view| &view.stages);
    let rest = stages.all(|stage| {
        let idle = match &stage.next {
            Err(Idle::NothingNewer | Idle::Held(_)) => true,
            // So many services were removed that it has none.
            Err(Idle::Refused(why, _)) => why.contains("no asset matches"),
            _ => false,
        };
        !stage.runs && idle
    });
    Ok(rest && views.iter().all(knows))
}
