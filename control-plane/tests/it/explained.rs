//! What executions wait for, followed to its causes, what they do and what is due, and executions that have ended.

use std::{fmt, time::Duration};

use control_plane::{
    ControlPlaneBuilder,
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    workflow::{
        Answer, Due, DueWork, Entry, FunctionInfo, FunctionRequest, Heard, Machine, Outcome, Power,
        Ran, Repeat, Say, Start, WaitFor, What, Workflow, from_fn, is,
    },
};
use futures::stream::{BoxStream, StreamExt};

use crate::world::*;

const SERVICES: &str = "services: {a: {size: 3}}\n";

/// `resize` sets the size of `a` and waits until production has it; `outer` runs it as its child, and asks beside it.
fn workflows(builder: ControlPlaneBuilder) -> ControlPlaneBuilder {
    let resize = async |_: FunctionRequest| {
        let field = FieldEdit::set(
            "manifest.yaml#0",
            FieldPath::keys(["services", "a", "size"]),
            3,
            4,
        );
        Ok(Answer::new().edit("manifest.yaml", field).done())
    };
    let info = FunctionInfo::new("resize")
        .repeat(Repeat::Safe)
        .may(Power::edit("manifest.yaml", "services.*.size"));
    let inner = Workflow::new("resize")
        .machine(Machine::calls("set", "resize").settles(LONG * 100))
        .ends_well(is("set", "done"))
        .ends_badly(is("set", ["overwritten", "rolled_back"]));
    let outer = Workflow::new("outer")
        .machine(Machine::starts("inner", "resize"))
        .machine(Machine::asks("go", "Go?", ["yes"]))
        .machine(Machine::calls("last", "resize").when(is("go", "yes")))
        .ends_well(is("inner", "done"));
    builder
        .function(from_fn(info, resize))
        .workflow(inner.build().unwrap())
        .workflow(outer.build().unwrap())
}

/// A control plane whose production is as intended, and does not take `a` from now on.
async fn begun(dir: &tempfile::TempDir, production: &Production) -> Running {
    write(dir.path(), SERVICES);
    let builder = workflows(plane(production))
        .store(MemoryStore::new())
        .editable(YamlFile::watch(dir.path().join("manifest.yaml")));
    let running = Running::start(builder.build().unwrap());
    running.handle.settle(LONG).await.unwrap();
    production.state().broken.insert(id("a"));
    running
}

#[tokio::test]
async fn waits_of_an_execution_are_followed_to_assets_and_people() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    let running = begun(&dir, &production).await;
    let handle = &running.handle;
    let outer = handle.start(Start::of("outer"), ann()).await.unwrap().id;
    let explained = loop {
        let explained = handle.explain_execution(&outer).await.unwrap().unwrap();
        if explained.assets.contains_key(&id("a")) {
            break explained;
        }
        TokioRuntime::current()
            .sleep(Duration::from_millis(10))
            .await;
    };
    let names = explained.executions.iter().map(|it| it.id.to_string());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["outer-0000000001", "resize-0000000002"]
    );
    assert_eq!(explained.causes.len(), 1, "{:?}", explained.causes);
    let cause = &explained.causes[0];
    assert!(matches!(cause.wait.what, WaitFor::Person { .. }));
    assert_eq!(cause.machine, Some("go".into()));
    let last = explained.executions[0].machine("last").unwrap();
    assert_eq!(
        last.not_enabled[0].to_string(),
        "the action of `last` in `waiting` needs is(go, yes) but `go` is `waiting`"
    );

    production.state().broken.clear();
    handle.look_now(&id("a"), ann()).await.unwrap();
    handle
        .say(&outer, Say::answer("go", "yes"), ann())
        .await
        .unwrap();
    let ended = handle.wait_execution(&outer, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    assert_eq!(handle.explain_execution(&outer).await.unwrap(), None);
    let all = handle.ended_executions(None, None, 10).await.unwrap();
    let pages = async || {
        let first = handle.ended_executions(None, None, 1).await?;
        let next = handle.ended_executions(None, Some(&first[0].id), 1).await?;
        Ok::<_, control_plane::Error>([first, next].concat())
    };
    assert_eq!(pages().await.unwrap(), all);
    let inner = handle
        .ended_executions(Some(&"resize".into()), None, 10)
        .await;
    assert_eq!(inner.unwrap().len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn r36_step_that_waits_for_its_assets_shows_why_generation_is_refused() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    let running = begun(&dir, &production).await;
    let handle = &running.handle;
    let resize = handle.start(Start::of("resize"), ann()).await.unwrap().id;
    let problems = async |refused: bool| loop {
        let explained = handle.explain_execution(&resize).await.unwrap().unwrap();
        if explained.assets.contains_key(&id("a")) && explained.problems.is_empty() != refused {
            break explained.problems;
        }
        let soon = Duration::from_millis(10);
        TokioRuntime::current().sleep(soon).await;
    };
    problems(false).await;
    // An error of another edit. In the field that the step has set it would be an overwrite, if it is read in time.
    write(dir.path(), "services: {a: {size: 4}, b: {size: many}}\n");
    let refused = problems(true).await.to_string();
    assert!(refused.contains("manifest.yaml"), "{refused}");
    write(dir.path(), "services: {a: {size: 4}}\n");
    problems(false).await;
    production.state().broken.clear();
    handle.look_now(&id("a"), ann()).await.unwrap();
    let ended = handle.wait_execution(&resize, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    running.stop().await;
}

#[tokio::test]
async fn r36_edit_waits_while_the_sources_are_refused_for_an_error_of_another_edit() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    let running = begun(&dir, &production).await;
    production.state().broken.clear();
    let handle = &running.handle;
    write(dir.path(), "services: {a: {size: 3}, b: {size: many}}\n");
    let resize = handle.start(Start::of("resize"), ann()).await.unwrap().id;
    let refused = loop {
        let shown = handle.execution(&resize).await.unwrap().unwrap();
        let set = shown.machine("set").unwrap();
        if let Some(error) = &set.error {
            assert_eq!(set.failures, 0, "it is not the edit's own error");
            break error.clone();
        }
        let soon = Duration::from_millis(10);
        TokioRuntime::current().sleep(soon).await;
    };
    assert!(refused.contains("refused without it too"), "{refused}");
    assert!(refused.contains("manifest.yaml"), "{refused}");
    write(dir.path(), "services: {a: {size: 3}, b: {size: 1}}\n");
    let ended = handle.wait_execution(&resize, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    assert_eq!(production.size("a"), Some(4));
    running.stop().await;
}

const HOUR: Duration = Duration::from_secs(3600);

/// `send` does not know what its call did, and may not call again. `late` ends when that is so for an hour.
fn invite(builder: ControlPlaneBuilder) -> ControlPlaneBuilder {
    let send = async |_: FunctionRequest| {
        let lost = plugin::Error::unknown("the connection was lost");
        Err::<Ran, _>(lost)
    };
    let invite = Workflow::new("invite")
        .machine(Machine::calls("send", "send"))
        .machine(Machine::waits("late", HOUR).when(is("send", "waiting")))
        .ends_well(is("send", "done"));
    builder
        .function(from_fn("send", send))
        .workflow(invite.build().unwrap())
}

/// The next entries of the feed, up to the part with the first one for which `last` holds.
async fn told<E: fmt::Debug>(
    feed: &mut BoxStream<'_, Result<Heard, E>>,
    last: fn(&What) -> bool,
) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    while !entries.iter().any(|entry| last(&entry.what)) {
        let heard = feed.next().await.unwrap().unwrap();
        entries.extend(heard.told.into_iter().map(|told| told.entry));
    }
    entries
}

#[tokio::test(start_paused = true)]
async fn parked_step_is_listed_what_is_due_is_told_and_the_feed_has_the_whole_log() {
    let production = Production::default();
    let builder = invite(plane(&production))
        .store(MemoryStore::new())
        .source(Text::new(SERVICES));
    let running = Running::start(builder.build().unwrap());
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let mut feed = handle.follow_executions(None).boxed();
    let invite = handle.start(Start::of("invite"), ann()).await.unwrap().id;
    let unknown = |what: &What| matches!(what, What::Unknown { .. });
    let mut entries = told(&mut feed, unknown).await;
    assert!(matches!(entries[0].what, What::Started(_)), "{entries:?}");

    let parked = handle.parked_steps().await.unwrap();
    assert_eq!(parked.len(), 1, "{parked:?}");
    assert_eq!(parked[0].execution, invite);
    assert_eq!(parked[0].machine, Some("send".into()));
    assert_eq!(parked[0].wait.what, WaitFor::Word);
    let live = handle.execution(&invite).await.unwrap().unwrap();
    let timer = live.machine("late").unwrap().wait.clone().unwrap();
    let ends = timer.since + HOUR;
    let due: Vec<Due> = handle.outlook(ends).await.unwrap();
    let work = DueWork::Step {
        execution: invite.clone(),
        machine: Some("late".into()),
        why: timer.why,
    };
    let found: Vec<_> = due.iter().map(|due| (due.at, &due.what)).collect();
    assert_eq!(found, [(ends, &work)]);
    let before = ends - Duration::from_secs(1);
    assert!(handle.outlook(before).await.unwrap().is_empty());

    let done = Say::settle("send", "done");
    handle.say(&invite, done, ann()).await.unwrap();
    entries.extend(told(&mut feed, |what| matches!(what, What::Ended(_))).await);
    assert_eq!(entries, handle.execution_log(&invite).await.unwrap());
    assert!(handle.parked_steps().await.unwrap().is_empty());
    assert!(handle.outlook(ends).await.unwrap().is_empty());
    let ended = handle.wait_execution(&invite, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    drop(feed);
    running.stop().await;
}
