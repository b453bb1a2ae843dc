//! Random histories of watches: crashes, pauses, edits of assets and of the watch, own changes and time in any order. No
//! change is lost, none starts twice, and its own starts nothing.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{FieldEdit, FieldPath, operation::ExecutionId, operation::Power};
use prodspec_model::operation::{Concurrency, Per, WatchOperation};
use proptest::{
    arbitrary, collection, prop_oneof, proptest,
    strategy::{Just, Strategy},
    test_runner::Config as ProptestConfig,
};

use super::{watched::*, *};
use crate::query::ExecutionQuery;

const JOBS: [&str; 3] = ["job/a", "job/b", "job/c"];
const CONTENTS: [&str; 4] = ["", "1", "2", "3"];

#[derive(Debug, Clone)]
enum Act {
    /// A person gives an asset this content in the source.
    Edit(usize, usize),
    /// An incarnation is sealed of the source.
    Seal,
    Pass(u32),
    /// The oldest call ends.
    Answer,
    /// The oldest call asks for an edit that gives the asset a content of its own.
    Own(usize),
    /// The edit is made in the source, but not answered yet.
    Make,
    /// The edit is answered.
    Made,
    Sync,
    Crash,
    Pause,
    Resume,
    Leave,
    Come(Concurrency, bool),
}

fn concurrency() -> impl Strategy<Value = Concurrency> {
    prop_oneof![
        Just(Concurrency::Forbid),
        Just(Concurrency::Allow),
        Just(Concurrency::Replace),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let edit = (0..JOBS.len(), 0..CONTENTS.len());
    let come = (concurrency(), arbitrary::any::<bool>());
    prop_oneof![
        8 => edit.prop_map(|(job, content)| Act::Edit(job, content)),
        8 => Just(Act::Seal),
        2 => (1..200_u32).prop_map(Act::Pass),
        6 => Just(Act::Answer),
        3 => (0..JOBS.len()).prop_map(Act::Own),
        3 => Just(Act::Make),
        3 => Just(Act::Made),
        6 => Just(Act::Sync),
        3 => Just(Act::Crash),
        1 => Just(Act::Pause),
        2 => Just(Act::Resume),
        1 => Just(Act::Leave),
        2 => come.prop_map(|(concurrency, all)| Act::Come(concurrency, all)),
    ]
}

/// The watch of these histories.
fn wanted(concurrency: Concurrency, all: bool) -> WatchOperation {
    let mut watch = on_intent();
    (watch.concurrency, watch.at_most) = (concurrency, 2);
    watch.per = if all { Per::Watch } else { Per::Asset };
    watch.template = watch.template.may([Power::edit("m.yaml", "jobs.*")]);
    watch
}

/// An edit of a run.
struct Edit {
    id: plugin_sdk::ChangeId,
    job: &'static str,
    before: String,
    after: String,
    /// Whether the answer says what it has changed: no process has died since.
    is_known: bool,
}

/// The source of truth around the world, and what is known of it.
struct History {
    world: World,
    source: BTreeMap<&'static str, String>,
    /// The edit that is made and not answered.
    made: Option<Edit>,
    /// The asset that each own edit is about, by the holder.
    about: BTreeMap<String, &'static str>,
    /// Number of own contents so far.
    own: u32,
    /// The incarnation that the first call of each run has read.
    seen: BTreeMap<ExecutionId, IncarnationNo>,
    /// Whether runs have replaced others.
    replaces: bool,
}

impl History {
    fn new() -> Self {
        let mut notice = keyed("notice");
        let power = Power::edit("m.yaml", "jobs.*");
        notice.info = notice
            .info
            .may(power)
            .deadline(Duration::from_secs(1 << 20));
        let mut history = Self {
            world: World::new([], [notice]),
            source: BTreeMap::new(),
            made: None,
            about: BTreeMap::new(),
            own: 0,
            seen: BTreeMap::new(),
            replaces: false,
        };
        let wanted = wanted(Concurrency::Forbid, false);
        history.world.watch(WATCH, Some(&wanted));
        history.world.sync();
        history
    }

    fn content(&self, job: &str) -> String {
        self.source.get(job).cloned().unwrap_or_default()
    }

    fn say(&mut self, word: ScheduleWord) {
        // A word that does not fit changes nothing.
        let _ = self.world.hear(Command::Watch(id(WATCH), word));
    }

    fn act(&mut self, act: Act) {
        self.act_on(act);
        self.look();
    }

    /// Notes what the calls in flight have read.
    fn look(&mut self) {
        for call in self.world.calls.values() {
            let id = call.key.execution.clone();
            self.seen.entry(id).or_insert(call.run.incarnation);
        }
    }

    fn act_on(&mut self, act: Act) {
        match act {
            Act::Edit(job, content) => {
                drop(self.source.insert(JOBS[job], CONTENTS[content].to_owned()))
            }
            Act::Seal => self.seal(),
            Act::Pass(seconds) => self.world.pass(Duration::from_secs(seconds.into())),
            Act::Answer => self.answer(),
            Act::Own(job) => self.ask(JOBS[job]),
            Act::Make => self.make(),
            Act::Made => self.answer_edit(),
            Act::Sync => self.world.sync(),
            Act::Crash => {
                self.world.crash();
                if let Some(made) = &mut self.made {
                    made.is_known = false;
                }
            }
            Act::Pause => self.say(ScheduleWord::Pause),
            Act::Resume => self.say(ScheduleWord::Resume),
            Act::Leave => self.world.watch(WATCH, None),
            Act::Come(concurrency, all) => {
                self.replaces |= concurrency == Concurrency::Replace;
                let wanted = wanted(concurrency, all);
                self.world.watch(WATCH, Some(&wanted));
            }
        }
    }

    fn seal(&mut self) {
        let jobs: Vec<(&str, &str)> = self
            .source
            .iter()
            .map(|(name, it)| (*name, &**it))
            .collect();
        self.world.seal(&jobs);
    }

    fn answer(&mut self) {
        if self.world.call_of("notice").is_some() {
            self.world.answer("notice", done());
        }
    }

    fn ask(&mut self, job: &'static str) {
        if self.world.call_of("notice").is_some() {
            let field = FieldEdit::set("m.yaml#0", FieldPath::keys(["jobs", job]), 1, 2);
            let answer = Answer::new().edit("m.yaml", field).done();
            let call = self.world.answer("notice", Ok(answer));
            let holder = format!("execution/{}", call.key.execution);
            self.about.insert(holder, job);
        }
    }

    /// Makes the first edit that is asked for, once under its id.
    fn make(&mut self) {
        let Some(edit) = self.world.edits.values().next() else {
            return;
        };
        if self.made.is_none() {
            let job = self.about[&edit.edit.holder.to_string()];
            self.own += 1;
            let (before, after) = (self.content(job), format!("own {}", self.own));
            self.made = Some(Edit {
                id: edit.edit.id.clone(),
                job,
                before,
                after: after.clone(),
                is_known: true,
            });
            self.source.insert(job, after);
        }
    }

    fn answer_edit(&mut self) {
        self.make();
        let is_made = |edit: &PreparedEdit| {
            let made = self.made.as_ref();
            made.is_some_and(|made| made.id == edit.edit.id)
        };
        let mut edits = self.world.edits.iter();
        // After a crash, one that was answered before may be asked for again, too.
        let no = edits.find(|(_, edit)| is_made(edit)).map(|(no, _)| *no);
        if let Some(no) = no
            && let Some(made) = self.made.take()
        {
            let mut answer = self.world.made(made.job, &made.before, &made.after);
            if !made.is_known {
                answer.changes.clear();
            }
            self.world.edits.remove(&no);
            self.world.step(Event::Edited(no, Ok(answer)));
        }
    }

    /// Lets everything end, with a watch that is in intent and not paused.
    fn rest(&mut self) {
        self.world.sync();
        let wanted = wanted(Concurrency::Forbid, false);
        self.world.watch(WATCH, Some(&wanted));
        self.say(ScheduleWord::Resume);
        self.end_all();
        self.seal();
        self.end_all();
    }

    fn end_all(&mut self) {
        for _ in 0..60 {
            self.replay();
            self.world.sync();
            self.look();
            self.answer();
            self.answer_edit();
            self.world.sync();
            self.world.pass(Duration::from_secs(20));
        }
    }

    /// Lets what was in flight at too many crashes go on.
    fn replay(&mut self) {
        for shown in self.world.page(&ExecutionQuery::all()).executions {
            drop(self.world.say(&shown.id, Say::Replay("run".into())));
        }
    }

    /// The content of an asset in an incarnation.
    fn sealed(&self, no: IncarnationNo, job: &str) -> String {
        let asset = self.world.sealed[no.0 as usize - 1].asset(&super::watched::id(job));
        let thing = asset.map(|it| it.payload::<testing::Thing>().unwrap());
        thing.map(|it| it.content).unwrap_or_default()
    }

    /// Judges all runs: each is about a later change of its asset than the one before it, and the newest has seen what is
    /// there now, or the watch has made it itself.
    fn judge(&self) {
        for job in JOBS {
            let changed = self.world.stored.changed.iter();
            let runs = changed.filter_map(|(run, changed)| {
                let asset = changed.assets.iter().find(|it| it.asset.as_str() == job)?;
                Some((run.n, run, asset.before.unwrap()))
            });
            let mut runs: Vec<_> = runs.collect();
            runs.sort();
            let befores: Vec<_> = runs.iter().map(|(.., before)| before).collect();
            // What a replaced run was about is in the next one.
            let later =
                befores.is_sorted_by(|one, other| one < other || self.replaces && one == other);
            assert!(later, "{job} twice: {befores:?}");
            let newest = self.world.sealed.last().unwrap().no();
            // A run that was cancelled before it called anything has handled nothing.
            let seen = runs
                .iter()
                .rev()
                .find_map(|(_, run, _)| self.seen.get(*run));
            let handled = *seen.unwrap_or(&IncarnationNo(2));
            let (now, handled) = (self.sealed(newest, job), self.sealed(handled, job));
            assert!(
                now == handled || now.starts_with("own"),
                "{job} is lost: {now} after {handled}"
            );
        }
    }

    /// Each durable run, with its assets.
    fn runs(&self) -> BTreeMap<ExecutionId, Vec<String>> {
        let changed = self.world.stored.changed.iter();
        let assets = |changed: &crate::record::Changed| -> Vec<String> {
            changed
                .assets
                .iter()
                .map(|it| it.asset.to_string())
                .collect()
        };
        changed
            .map(|(id, changed)| (id.clone(), assets(changed)))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn r38_random_histories_lose_no_change_and_run_none_twice(acts in collection::vec(act(), 1..60)) {
        let mut history = History::new();
        for act in acts {
            history.act(act);
            assert_live_fits(&history.world);
        }
        history.rest();
        assert!(history.world.stored.live.is_empty(), "runs do not end");
        let shown = history.world.all_watches().remove(0);
        let newest = history.world.sealed.last().unwrap().no();
        assert_eq!(shown.handled, Some(newest));
        assert!(shown.waiting.is_empty() && shown.running.is_empty(), "{shown:?}");
        history.judge();
        // At rest, a change of a person starts one run of that asset, and the same content again none.
        let runs = history.runs().len();
        history.source.insert("job/a", "new".into());
        history.seal();
        history.world.sync();
        history.seal();
        history.world.crash();
        history.world.sync();
        let after = history.runs();
        assert_eq!(after.len(), runs + 1);
        assert_eq!(after.values().last().unwrap(), &["job/a"]);
        // What it makes itself starts none.
        history.ask("job/a");
        history.world.sync();
        history.answer_edit();
        history.world.sync();
        history.world.crash();
        history.seal();
        history.world.sync();
        assert_eq!(history.runs().len(), runs + 1, "its own change");
    }
}

/// The records of the watch name the executions that are live, in the same durable state.
fn assert_live_fits(world: &World) {
    let keys = world
        .stored
        .live
        .values()
        .filter_map(|live| live.key.clone());
    let live: BTreeSet<u64> = keys
        .filter_map(|key| key.rsplit_once('#')?.1.parse().ok())
        .collect();
    let watched = world.stored.watched.values();
    let running: BTreeSet<u64> = watched.flat_map(|it| it.running.clone()).collect();
    assert_eq!(running, live);
}
