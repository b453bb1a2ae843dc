//! Watches in a whole control plane: on intent and on status, over restarts, with edits of their own.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, atomic::AtomicU8},
};

use control_plane::{
    ControlPlaneBuilder,
    prelude::*,
    workflow::{
        Answer, DueWork, FunctionInfo, FunctionRequest, Power, Ran, Repeat, Required, ScheduleWord,
        WatchOperation, WatchState, from_fn,
    },
};
use plugin_sdk::{EditableSource, SyncState};

use crate::{edits::dying::Dying, world::*};

const SERVICES: &str = "services:\n  a: {size: 4}\n  b: {size: 6}\n";

/// Rounds the size of a changed service up to an even number.
const ROUND: &str = "
round:
  on: {intent: {of: {types: [world.v1.Service]}, fields: [payload.size]}}
  at_most: 4
  template:
    pipeline: [{name: round, function: round}]
    may: [{edit: {source: manifest.yaml, under: services.*.size}}]
";

/// Tells of services that are out of sync.
const TELL: &str = "
tell:
  on: {status: {of: {types: [world.v1.Service]}, is: [out_of_sync]}}
  template: {pipeline: [{name: tell, function: tell}]}
";

/// Makes a watch of each entry.
struct Watches;

impl Generator for Watches {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("watches", "watches.yaml").makes::<WatchOperation>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            for (name, content) in document.read::<BTreeMap<String, WatchOperation>>()? {
                let asset = Asset::builder(AssetId::new(&format!("watch/{name}"))?);
                out.asset(asset.payload(&content)?, document.provenance())?;
            }
        }
        Ok(())
    }
}

/// What functions were given, one line for each run.
type Seen = Arc<Mutex<Vec<String>>>;

fn size(asset: &Asset) -> u64 {
    asset.payload::<Service>().unwrap().size
}

fn in_words(changed: &Required) -> String {
    let (id, now) = (changed.asset.id(), size(&changed.asset));
    match (&changed.before, &changed.standing) {
        (Some(before), None) => format!("{id}: {} to {now}", size(before)),
        (None, Some(SyncState::OutOfSync { .. })) => format!("{id} is out of sync at {now}"),
        (before, standing) => format!("{id}: {before:?} {standing:?}"),
    }
}

fn functions(builder: ControlPlaneBuilder, seen: &Seen) -> ControlPlaneBuilder {
    let note = |seen: &Seen, request: &FunctionRequest| {
        let changed = request.required("changed").unwrap();
        let words: Vec<String> = changed.iter().map(in_words).collect();
        seen.lock().unwrap().push(words.join(", "));
        changed.to_vec()
    };
    let told = seen.clone();
    let tell = move |request: FunctionRequest| {
        note(&told, &request);
        async { Ok::<Ran, plugin::Error>(Answer::new().done()) }
    };
    let rounded = seen.clone();
    let round = move |request: FunctionRequest| {
        let changed = note(&rounded, &request);
        let odd = changed.iter().filter(|it| size(&it.asset) % 2 == 1);
        let answer = odd.fold(Answer::new(), |answer, odd| {
            let (name, was) = (odd.asset.id_str(), size(&odd.asset));
            let path = format!("services.{name}.size").parse().unwrap();
            let field = FieldEdit::set("manifest.yaml#0", path, was, was + 1);
            answer.edit("manifest.yaml", field)
        });
        async { Ok::<Ran, plugin::Error>(answer.done()) }
    };
    let info = |name| FunctionInfo::new(name).repeat(Repeat::Keyed);
    let may = Power::edit("manifest.yaml", "services.*.size");
    builder
        .function(from_fn(info("tell"), tell))
        .function(from_fn(info("round").may(may), round))
}

fn build(dir: &Path, production: &Production, seen: &Seen) -> Running {
    let manifest = YamlFile::watch(dir.join("manifest.yaml"));
    build_with(dir, production, seen, manifest)
}

fn build_with(
    dir: &Path,
    production: &Production,
    seen: &Seen,
    manifest: impl EditableSource,
) -> Running {
    let store = SqliteStore::open_wait(dir.join("state")).unwrap();
    let builder = functions(plane(production), seen)
        .store(store)
        .generator(Watches)
        .source(YamlFile::watch(dir.join("watches.yaml")))
        .editable(manifest);
    Running::start(builder.build().unwrap())
}

fn watches(dir: &Path, text: &str) {
    std::fs::write(dir.join("watches.yaml"), text).unwrap();
}

/// Waits until the only watch is like that, with nothing that waits or runs.
async fn rests(handle: &Handle, like: impl Fn(&WatchState) -> bool) -> WatchState {
    let rests = async {
        loop {
            let mut all = handle.watches().await.unwrap();
            assert_eq!(all.len(), 1);
            let shown = all.remove(0);
            let rests = shown.waiting.is_empty() && shown.running.is_empty();
            // While an edit of its runs is being made, it says so.
            if rests && shown.trouble.is_none() && like(&shown) {
                return shown;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, rests).await.unwrap()
}

#[tokio::test]
async fn r38_watch_on_intent_runs_once_for_each_change_of_a_person_over_a_restart() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    let (seen, text) = (Seen::default(), || {
        std::fs::read_to_string(dir.path().join("manifest.yaml")).unwrap()
    });
    write(dir.path(), SERVICES);
    watches(dir.path(), ROUND);
    let running = build(dir.path(), &production, &seen);
    running.handle.settle(LONG).await.unwrap();
    rests(&running.handle, |_| true).await;
    // Two runs at a time: the second edits while the edit of the first may not be sealed yet.
    let both = SERVICES.replace('4', "7").replace('6', "9");
    write(dir.path(), &both);
    rests(&running.handle, |it| it.counts.own == 2).await;
    let rounded = both.replace('7', "8").replace('9', "10");
    assert_eq!(text(), rounded, "its own edits");
    let ran = || {
        let mut seen = seen.lock().unwrap().clone();
        seen.sort();
        seen
    };
    assert_eq!(ran(), ["a: 4 to 7", "b: 6 to 9"], "start nothing");
    running.stop().await;

    // While no process runs, a person makes one change.
    write(dir.path(), &text().replace('8', "5"));
    let running = build(dir.path(), &production, &seen);
    running.handle.settle(LONG).await.unwrap();
    let shown = rests(&running.handle, |it| it.counts.own == 3).await;
    assert_eq!(shown.counts.started, 3);
    assert_eq!(ran(), ["a: 4 to 7", "a: 8 to 5", "b: 6 to 9"]);
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(
        (production.size("a"), production.size("b")),
        (Some(6), Some(10))
    );
    running.stop().await;
}

/// The source makes an edit, and does not know so. The second answer says what the edit alone has changed too.
#[tokio::test]
async fn r39_own_change_whose_first_answer_was_lost_starts_nothing() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    let seen = Seen::default();
    write(dir.path(), SERVICES);
    watches(dir.path(), ROUND);
    let manifest = Dying {
        file: YamlFile::watch(dir.path().join("manifest.yaml")),
        dies: Arc::new(AtomicU8::new(2)),
    };
    let running = build_with(dir.path(), &production, &seen, manifest);
    running.handle.settle(LONG).await.unwrap();
    rests(&running.handle, |_| true).await;
    write(dir.path(), &SERVICES.replace('4', "7"));
    rests(&running.handle, |it| it.counts.started > 0).await;
    running.handle.settle(LONG).await.unwrap();
    let shown = rests(&running.handle, |it| it.counts.started > 0).await;
    assert_eq!((shown.counts.started, shown.counts.own), (1, 1));
    assert_eq!(*seen.lock().unwrap(), ["a: 4 to 7"]);
    assert_eq!(production.size("a"), Some(8));
    running.stop().await;
}

#[tokio::test]
async fn r38_watch_on_status_runs_once_until_the_condition_was_over() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    let seen = Seen::default();
    write(dir.path(), SERVICES);
    watches(dir.path(), TELL);
    let running = build(dir.path(), &production, &seen);
    running.handle.settle(LONG).await.unwrap();
    // What was not in sync when the watch came starts nothing.
    rests(&running.handle, |it| it.counts.started == 0).await;
    let broken = |broken: bool| {
        let mut state = production.state();
        match broken {
            true => drop(state.broken.insert(id("b"))),
            false => state.broken.clear(),
        }
    };
    broken(true);
    write(dir.path(), &SERVICES.replace('6', "7"));
    rests(&running.handle, |it| it.counts.started == 1).await;
    running.stop().await;

    let running = build(dir.path(), &production, &seen);
    let handle = &running.handle;
    while handle.watches().await.is_err() {
        tokio::task::yield_now().await;
    }
    broken(false);
    handle.settle(LONG).await.unwrap();
    rests(handle, |it| it.counts.started == 1).await;
    broken(true);
    write(dir.path(), &SERVICES.replace('6', "8"));
    rests(handle, |it| it.counts.started == 2).await;
    let expected = ["b is out of sync at 7", "b is out of sync at 8"];
    assert_eq!(*seen.lock().unwrap(), expected);
    running.stop().await;
}

#[tokio::test]
async fn r38_condition_that_holds_is_in_the_outlook_until_it_is_over() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), SERVICES);
    let hour = TELL.replace("[out_of_sync]", "[out_of_sync], held_for_secs: 3600");
    watches(dir.path(), &hour);
    let running = build(dir.path(), &production, &Seen::default());
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    rests(handle, |_| true).await;
    let work = DueWork::Held {
        watch: id("watch/tell"),
        asset: id("b"),
    };
    let due = async |is_due: bool| loop {
        let all = handle.outlook(Timestamp::MAX).await.unwrap();
        let due = all.into_iter().find(|due| due.what == work);
        if due.is_some() == is_due {
            break due;
        }
        tokio::task::yield_now().await;
    };
    production.state().broken.insert(id("b"));
    write(dir.path(), &SERVICES.replace('6', "7"));
    let held = due(true).await.unwrap();
    let shown = handle.watches().await.unwrap().remove(0);
    assert_eq!(shown.holding[0].due, held.at);
    assert_eq!(shown.counts.started, 0);
    production.state().broken.clear();
    handle.look_now(&id("b"), ann()).await.unwrap();
    due(false).await;
    running.stop().await;
}

#[tokio::test]
async fn r38_watch_is_an_asset_that_is_refused_at_the_seal_or_listed() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), SERVICES);
    watches(dir.path(), ROUND);
    let running = build(dir.path(), &production, &Seen::default());
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let asset = id("watch/round");
    let say = async |word| handle.say_to_watch(&asset, word, ann()).await;
    say(ScheduleWord::Pause).await.unwrap();
    rests(handle, |it| it.paused.is_some()).await;
    say(ScheduleWord::Resume).await.unwrap();
    let shown = rests(handle, |it| it.paused.is_none()).await;
    assert_eq!(shown.handled, Some(handle.latest().await.unwrap().no()));

    let wrong = ROUND
        .replace("[world.v1.Service]", "[world.v1.Service, world.v1.Gone]")
        .replace("[payload.size]", "[payload.sise, id]")
        .replace("at_most: 4", "at_most: 0")
        .replace("under: services.*.size", "under: 'a['");
    let ungranted = "
a:
  on: {status: {is: []}}
  template:
    pipeline: [{name: x, function: gone}, {name: y, function: round}]
";
    watches(dir.path(), &format!("{wrong}{ungranted}"));
    let Err(control_plane::Error::Refused(problems)) = handle.settle(LONG).await else {
        panic!("it is not refused");
    };
    let problems = problems.to_string();
    for (asset, field) in [
        ("round", "on.intent.of.types[1]"),
        ("round", "on.intent.fields[1]"),
        ("round", "at_most"),
        ("round", "template.may[0]"),
        ("a", "on.status.is"),
        ("a", "template.pipeline[0].function"),
        ("a", "template.pipeline[1].function"),
    ] {
        let place = format!("watch/{asset}: payload.{field}: ");
        assert!(problems.contains(&place), "{place}: {problems}");
    }
    assert!(problems.contains("watches.yaml"), "{problems}");

    watches(dir.path(), "{}");
    handle.settle(LONG).await.unwrap();
    rests(handle, |it| it.orphan.is_some()).await;
    say(ScheduleWord::Acknowledge).await.unwrap();
    assert!(handle.watches().await.unwrap().is_empty());
    let again = say(ScheduleWord::Acknowledge).await.unwrap_err();
    assert!(again.to_string().contains("no watch is of"), "{again}");
    running.stop().await;
}
