//! R101 to R103 under any sequence of deaths, lost answers, broken pushes, commands and people's edits: two changes of the
//! same services end, and the text and production are those that the ends say.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use control_plane::{
    prelude::*,
    sdk::{EditError, EditableSource, Proposal, SourceChange},
    strategist::{Command, State},
};
use futures::stream::BoxStream;
use prodspec_model::{AssetId, Revision, SourceName};
use tokio::sync::Mutex;

use crate::{
    by_edits::{NAMES, WEEK, World, change},
    edits::dying::Dying,
    rollouts::passes,
    world::{LONG, Running, ann, id, write},
};

/// Number of histories.
const SEEDS: u64 = 60;
/// Number of things that happen in one of them.
const STEPS: u64 = 25;
/// Services that a person adds in the middle.
const NEW: [&str; 2] = ["e", "f"];
/// Size that a person sets.
const BY_HAND: &str = "size: 7";

/// Splitmix64: the numbers of one history.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }
}

/// A source whose commits a person waits for, and that counts how often each field is set to a new value.
struct Watched {
    source: Dying,
    committing: Arc<Mutex<()>>,
    set: Arc<std::sync::Mutex<Vec<String>>>,
}

#[async_trait]
impl SourceOfTruth for Watched {
    fn name(&self) -> SourceName {
        self.source.name()
    }

    async fn read(&self) -> Result<Reading, Problems> {
        self.source.read().await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.source.changes()
    }
}

#[async_trait]
impl EditableSource for Watched {
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
        self.source.propose(change).await
    }

    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        let _alone = self.committing.lock().await;
        let dies = self.source.dies.load(Ordering::Relaxed);
        let done = self.source.commit(change, proposal).await;
        let is_unknown = matches!(done, Err(EditError::Unknown(_)));
        if done.is_ok() || (dies == 2 && is_unknown) {
            let edits = change.edits.iter().map(|edit| edit.to_string());
            self.set.lock().unwrap().extend(edits);
        }
        done
    }
}

struct History {
    world: World,
    dice: Dice,
    dies: Arc<AtomicU8>,
    committing: Arc<Mutex<()>>,
    set: Arc<std::sync::Mutex<Vec<String>>>,
    /// Services whose size a person has set.
    by_hand: BTreeSet<&'static str>,
    retries: usize,
    /// Services that were added, each with whether the first and the second change have to update it if they complete.
    added: BTreeMap<&'static str, [bool; 2]>,
    /// The events so far, for a failure.
    log: Vec<String>,
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            world: World::new(),
            dice: Dice(seed),
            dies: Arc::default(),
            committing: Arc::default(),
            set: Arc::default(),
            by_hand: BTreeSet::new(),
            retries: 0,
            added: BTreeMap::new(),
            log: Vec::new(),
        }
    }

    async fn start(&self) -> Running {
        let source = Watched {
            source: Dying {
                file: YamlFile::new(self.world.path()),
                dies: self.dies.clone(),
            },
            committing: self.committing.clone(),
            set: self.set.clone(),
        };
        let running = self.world.start_with("manifest.yaml", source);
        running.handle.wait_until_owner().await;
        running
    }

    /// A person adds a service, or removes one that was added.
    async fn new_service(&mut self, running: &Running, keys: &[AssetId]) {
        let name = NEW[self.dice.roll(2) as usize];
        let due = {
            let _alone = self.committing.lock().await;
            let text = self.world.text();
            let there = text
                .lines()
                .find(|it| it.starts_with(&format!("  {name}: ")));
            let text = match there {
                Some(line) => text.replace(&format!("{line}\n"), ""),
                None => {
                    let line = format!("  {name}: {{size: 1, flag: false, group: edits}}\n");
                    text.replace("policies:", &(line + "policies:"))
                }
            };
            write(self.world.dir.path(), &text);
            there.is_none()
        };
        self.added.remove(name);
        self.log.push(format!("{name} comes: {due}"));
        if due {
            let read = match running.handle.generation().await {
                Ok(generation) => Some(generation.next_run().await),
                Err(_) => None,
            };
            let sealed = read.is_some_and(|run| run.incarnation.is_some());
            let has_turn = self.have_turns(running, keys).await.map(|it| it && sealed);
            self.added.insert(name, has_turn);
        }
    }

    /// Whether targets of the changes still wait for their turn.
    async fn have_turns(&self, running: &Running, keys: &[AssetId]) -> [bool; 2] {
        let views = running.handle.rollouts().await.unwrap_or_default();
        [0, 1].map(|no| {
            let view = views.iter().find(|view| view.policy == keys[no]);
            view.is_some_and(|view| {
                let state = view.rollout.as_ref().map(|rollout| &rollout.state);
                let first = view.targets.iter().filter(|target| !target.late);
                let waits = first.filter(|target| target.is_waiting()).count();
                waits > 0 && matches!(state, Some(State::Running | State::Paused))
            })
        })
    }

    /// A person sets the size of a service, makes a second one from its entry, or inserts a comment.
    async fn person(&mut self) {
        let _alone = self.committing.lock().await;
        let text = self.world.text();
        let name = NAMES[self.dice.roll(4) as usize];
        let entry = format!("  {name}: {{size: ");
        let at = text.find(&entry).unwrap() + entry.len();
        let text = match self.dice.roll(3) {
            0 => format!("{text}# by hand\n"),
            1 => {
                let line = text.lines().find(|it| it.starts_with(&entry)).unwrap();
                let twin = match line.contains("twin") {
                    true => line.to_owned(),
                    false => line.replace("group:", "twin: true, group:"),
                };
                text.replace(line, &twin)
            }
            _ => {
                self.by_hand.insert(name);
                format!("{}7{}", &text[..at], &text[at + 1..])
            }
        };
        write(self.world.dir.path(), &text);
    }

    async fn command(&mut self, running: &Running, keys: &[AssetId]) {
        let commands = [
            Command::Pause,
            Command::Resume,
            Command::RollBack,
            Command::Retry,
            Command::Abort,
        ];
        let command = commands[self.dice.roll(5) as usize];
        let key = &keys[self.dice.roll(2) as usize];
        let done = running.handle.tell_rollout(key, command, ann()).await;
        self.log
            .push(format!("{command:?} {key}: {}", done.is_ok()));
        self.retries += usize::from(command == Command::Retry && done.is_ok());
    }

    async fn step(&mut self, running: &mut Running, keys: &[AssetId]) {
        let drawn = self.dice.roll(12);
        self.log.push(format!("step {drawn}"));
        match drawn {
            0 => {
                // The process dies: its tasks stop wherever they are.
                running.task.abort();
                *running = self.start().await;
            }
            1 => self
                .dies
                .store(1 + self.dice.roll(2) as u8, Ordering::Relaxed),
            2 => self.person().await,
            3 => {
                let broken = id(NAMES[self.dice.roll(4) as usize]);
                self.world.production.state().broken.insert(broken);
            }
            4 => self.world.production.state().broken.clear(),
            5 => self.command(running, keys).await,
            6 => self.new_service(running, keys).await,
            7 => passes(Duration::from_millis(self.dice.roll(500))).await,
            _ => passes(Duration::from_secs(self.dice.roll(90))).await,
        }
    }

    /// Lets the changes end.
    async fn heal(&mut self, running: &Running, keys: &[AssetId]) -> Vec<State> {
        self.dies.store(0, Ordering::Relaxed);
        self.world.production.state().broken.clear();
        let mut ends = Vec::new();
        for key in keys {
            // A rollout that is paused or stopped waits for a person.
            for command in [Command::Resume, Command::RollBack] {
                let views = running.handle.rollouts().await.unwrap();
                let view = views.iter().find(|view| view.policy == *key);
                let waits = view.is_some_and(|view| view.is_on_hold());
                if waits {
                    drop(running.handle.tell_rollout(key, command, ann()).await);
                }
            }
        }
        for key in keys {
            let over = running.handle.wait_roll_out(key, WEEK).await;
            let views = running.handle.rollouts().await.unwrap();
            let over = over.unwrap_or_else(|error| {
                panic!(
                    "{error}\n{:?}\n{:#?}\n{}",
                    self.log,
                    views.last(),
                    self.world.text()
                )
            });
            ends.push(over.state);
        }
        ends
    }

    fn judge(&self, ends: &[State], new: u64) {
        let text = self.world.text();
        let why = || format!("{:?}\n{ends:?}\n{text}", self.log);
        let is_set = |state: &State, set: &str, back: &'static str| match state {
            State::Completed => set.to_owned(),
            State::RolledBack { .. } => back.to_owned(),
            state => panic!("{state}: {}", why()),
        };
        let sick = new == 3 && self.by_hand.len() < NAMES.len();
        let completed = ends[0] == State::Completed;
        assert!(!(sick && completed), "unhealthy {}", why());
        let size = is_set(&ends[0], &format!("size: {new}"), "size: 1");
        let flag = is_set(&ends[1], "flag: true", "flag: false");
        for name in NAMES {
            let size = match self.by_hand.contains(name) {
                true => BY_HAND,
                false => &size,
            };
            let entry = format!("  {name}: {{{size}, {flag}, ");
            assert!(text.contains(&entry), "{entry} {}", why());
            let number: u64 = size["size: ".len()..].parse().unwrap();
            let intended = number * 10 + u64::from(flag == "flag: true");
            let there = self.world.production.size(name);
            assert_eq!(there, Some(intended), "{name} {}", why());
            let line = text.lines().find(|it| it.starts_with(&entry)).unwrap();
            if line.contains("twin: true") {
                let twin = self.world.production.size(&format!("{name}-twin"));
                assert_eq!(twin, Some(intended), "twin of {name} {}", why());
            }
            // No target is set twice, but for a retry; a person may have set it in between.
            let set = self.set.lock().unwrap();
            let field = format!("services.{name}.size: 1 -> {new}");
            let times = set.iter().filter(|edit| edit.ends_with(&field)).count();
            assert!(times <= 1 + self.retries, "{times} times {field} {}", why());
        }
        for (name, has_turn) in &self.added {
            let line = text
                .lines()
                .find(|it| it.starts_with(&format!("  {name}: ")));
            let line = line.unwrap();
            let values = [(size.as_str(), "size: 1"), (flag.as_str(), "flag: false")];
            for ((set, before), due) in values.into_iter().zip(has_turn) {
                let is_set = line.contains(set);
                assert!(is_set || line.contains(before), "{name} {}", why());
                assert!(is_set || !due, "{name} was skipped {}", why());
            }
            let number: u64 = line[6..]
                .split(',')
                .next()
                .unwrap()
                .trim_start_matches("size: ")
                .parse()
                .unwrap();
            let intended = number * 10 + u64::from(line.contains("flag: true"));
            let there = self.world.production.size(name);
            assert_eq!(there, Some(intended), "{name} {}", why());
        }
    }
}

/// Returns how the changes have ended, and whether a person has set a field of one.
async fn play(seed: u64) -> (Vec<State>, bool) {
    let mut history = History::new(seed);
    let mut running = history.start().await;
    running.handle.settle(LONG).await.unwrap();
    let new = [2, 3][history.dice.roll(2) as usize];
    let version = ["flags", "careful"][history.dice.roll(2) as usize];
    let version = change("version", version).set("size", new);
    let flag = ["slowly", "flags", "halves"][history.dice.roll(3) as usize];
    let flag = change("dark-mode", flag).set("flag", true);
    let alone = [version, flag].map(|change| match history.dice.roll(3) {
        0 => change.alone_while_baking(),
        _ => change,
    });
    let mut keys = Vec::new();
    for change in alone {
        keys.push(running.handle.roll_out(&change, ann()).await.unwrap().key);
    }
    for _ in 0..STEPS {
        history.step(&mut running, &keys).await;
    }
    let ends = history.heal(&running, &keys).await;
    // Pushes that have failed for long are repeated seldom.
    let settled = running.handle.settle(Duration::from_secs(3600)).await;
    settled.unwrap();
    history.judge(&ends, new);
    passes(LONG).await;
    let held = running.handle.held_fields().await.unwrap();
    assert!(held.is_empty(), "{:?}\n{held:?}", history.log);
    running.stop().await;
    (ends, !history.by_hand.is_empty())
}

#[tokio::test(start_paused = true)]
async fn r101_changes_end_as_they_say_whatever_happens_meanwhile() {
    let (mut completed, mut back, mut by_hand) = (0, 0, 0);
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let (ends, person) = play(seed).await;
        completed += usize::from(ends.contains(&State::Completed));
        back += usize::from(ends.iter().any(|end| end.word() == "rolled back"));
        by_hand += usize::from(person);
    }
    let seldom = [completed, back, by_hand].map(|many| many < SEEDS as usize / 4);
    assert_eq!(seldom, [false; 3], "{completed} {back} {by_hand}");
}
