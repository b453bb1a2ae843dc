//! Workflows in a whole control plane: functions see intent and production, and executions go on after a restart.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
};

use control_plane::workflow::{
    Answer, Definition, EffectKey, ExecutionId, FunctionInfo, FunctionRequest, Machine, Outcome,
    Power, Ran, Repeat, Required, Requirement, Say, Start, WaitFor, What, Workflow, WorkflowWord,
    any, cancelled, from_fn, is,
};

use crate::{edits::dying::Dying, world::*};
use control_plane::{
    ControlPlaneBuilder,
    prelude::*,
    sdk::{EditableSource, Guard},
};

const SERVICES: &str = "services: {a: {size: 3}, b: {size: 5}}";

#[derive(Clone, Default)]
pub(crate) struct Press(Arc<Mutex<BTreeSet<EffectKey>>>);

impl Press {
    /// The number of prints.
    pub(crate) fn pressed(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Measures all services that are in sync, asks, and prints once per key.
fn report() -> Definition {
    Workflow::new("report")
        .machine(Machine::calls("measure", "measure"))
        .machine(Machine::asks("go", "Print it?", ["yes", "no"]).when(is("measure", "done")))
        .machine(Machine::calls("print", "print").when(is("go", "yes")))
        .ends_well(is("print", "done"))
        .ends_badly(is("go", "no"))
}

/// With the workflow [`report`] and its functions.
pub(crate) fn with_workflow(builder: ControlPlaneBuilder, press: &Press) -> ControlPlaneBuilder {
    with_functions(builder, press).workflow(report().build().unwrap())
}

/// With the functions of [`report`].
fn with_functions(builder: ControlPlaneBuilder, press: &Press) -> ControlPlaneBuilder {
    let measure = async |request: FunctionRequest| {
        let Some(services) = request.required("services") else {
            return Ok(Ran::needs(
                "services",
                Requirement::all::<Service>().with_status(),
            ));
        };
        if !services.iter().all(|service| service.is_in_sync()) {
            return Err(plugin::Error::transient("not in sync"));
        }
        let sizes = services
            .iter()
            .map(|service| service.asset.payload::<Service>().unwrap().size);
        Ok(Answer::new().context("size", &sizes.sum::<u64>())?.done())
    };
    let press = press.clone();
    let print = move |request: FunctionRequest| {
        let press = press.clone();
        async move {
            press.0.lock().unwrap().insert(request.key.clone());
            let size: u64 = request.context_entry("size")?;
            Ok(Answer::new().output(&size)?.done())
        }
    };
    builder
        .function(from_fn(
            FunctionInfo::new("measure").repeat(Repeat::Safe),
            measure,
        ))
        .function(from_fn(
            FunctionInfo::new("print")
                .repeat(Repeat::Keyed)
                .guard(Guard::Guarded),
            print,
        ))
}

fn build(dir: &Path, production: &Production, press: &Press) -> Running {
    build_with(dir, production, press, report())
}

fn build_with(dir: &Path, production: &Production, press: &Press, report: Definition) -> Running {
    let report = report.build().unwrap();
    let builder = with_functions(plane(production), press).workflow(report);
    let store = SqliteStore::open_wait(dir.join("state")).unwrap();
    let plane = builder.store(store).source(Text::new(SERVICES));
    Running::start(plane.build().unwrap())
}

#[tokio::test]
async fn r23_execution_goes_on_after_a_restart_and_sees_what_is_in_sync() {
    let (dir, production, press) = (
        tempfile::tempdir().unwrap(),
        Production::default(),
        Press::default(),
    );
    let running = build(dir.path(), &production, &press);
    running.handle.settle(LONG).await.unwrap();
    let start = || Start::of("report").key("monday");
    let id = running.handle.start(start(), ann()).await.unwrap().id;
    asks(&running.handle, &id, "go").await;
    running.stop().await;

    let running = build(dir.path(), &production, &press);
    running.handle.settle(LONG).await.unwrap();
    assert!(!running.handle.start(start(), ann()).await.unwrap().new);
    asks(&running.handle, &id, "go").await;
    running
        .handle
        .say(&id, Say::answer("go", "yes"), ann())
        .await
        .unwrap();
    let ended = running.handle.wait_execution(&id, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    let output = running
        .handle
        .execution_output(&id, &"print".into())
        .await
        .unwrap();
    assert_eq!(output, Some(serde_json::json!(8)));
    assert_eq!(press.pressed(), 1);
    running.stop().await;
}

#[tokio::test]
async fn r42_live_execution_goes_on_with_the_definition_of_a_new_program() {
    let (dir, production, press) = (
        tempfile::tempdir().unwrap(),
        Production::default(),
        Press::default(),
    );
    let running = build(dir.path(), &production, &press);
    running.handle.settle(LONG).await.unwrap();
    let start = Start::of("report").key("monday");
    let id = running.handle.start(start, ann()).await.unwrap().id;
    asks(&running.handle, &id, "go").await;
    running.stop().await;

    // The new program asks a second person before it prints.
    let mut longer = report();
    longer.machines.pop();
    let longer = longer
        .machine(Machine::asks("sure", "Really?", ["yes"]).when(is("go", "yes")))
        .machine(Machine::calls("print", "print").when(is("sure", "yes")));
    let running = build_with(dir.path(), &production, &press, longer);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    asks(handle, &id, "go").await;
    handle.say(&id, Say::Redefine, ann()).await.unwrap();
    handle
        .say(&id, Say::answer("go", "yes"), ann())
        .await
        .unwrap();
    asks(handle, &id, "sure").await;
    assert_eq!(press.pressed(), 0);
    handle
        .say(&id, Say::answer("sure", "yes"), ann())
        .await
        .unwrap();
    let ended = handle.wait_execution(&id, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    running.stop().await;
}

#[tokio::test]
async fn r30_drained_workflow_begins_again_when_it_is_resumed_also_over_a_restart() {
    let (dir, production, press) = (
        tempfile::tempdir().unwrap(),
        Production::default(),
        Press::default(),
    );
    let running = build(dir.path(), &production, &press);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let report = "report".into();
    let drain = handle.say_to_workflow(&report, WorkflowWord::Drain, ann());
    drain.await.unwrap();
    let start = Start::of("report").key("monday");
    let id = handle.start(start, ann()).await.unwrap().id;
    let waits = async |handle: &Handle| {
        let live = handle.execution(&id).await.unwrap().unwrap();
        live.wait.map(|wait| wait.why)
    };
    let why = waits(handle).await.unwrap();
    assert!(why.starts_with("`report` is drained by ann"), "{why}");
    running.stop().await;

    let running = build(dir.path(), &production, &press);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    assert_eq!(handle.drained().await.unwrap()[0].workflow, report);
    assert_eq!(waits(handle).await, Some(why));
    let resume = handle.say_to_workflow(&report, WorkflowWord::Resume, ann());
    resume.await.unwrap();
    asks(handle, &id, "go").await;
    assert!(handle.drained().await.unwrap().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn r33_function_that_asks_for_what_production_has_makes_enforcement_look() {
    let measure = async |request: FunctionRequest| {
        let Some(services) = request.required("services") else {
            let services = Requirement::all::<Service>().with_observed();
            return Ok(Ran::needs("services", services));
        };
        let size = |it: &Required| it.observed.as_ref()?.capacity.get("size").copied();
        let sizes: Vec<Option<u64>> = services.iter().map(size).collect();
        Ok(Answer::new().output(&sizes)?.done())
    };
    let workflow = Workflow::new("measure")
        .machine(Machine::calls("measure", "measure"))
        .ends_well(is("measure", "done"));
    let info = FunctionInfo::new("measure").repeat(Repeat::Safe);
    let production = Production::default();
    let builder = plane(&production)
        .store(MemoryStore::new())
        .source(Text::new(SERVICES))
        .function(from_fn(info, measure))
        .workflow(workflow.build().unwrap());
    let running = Running::start(builder.build().unwrap());
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let everything = control_plane::PauseScope::Partition;
    handle.pause(everything, ann(), None).await.unwrap();
    production.state().sizes.insert(id("a"), 7);
    let started = handle.start(Start::of("measure"), ann()).await.unwrap();
    let ended = handle.wait_execution(&started.id, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    let machine = "measure".into();
    let output = handle.execution_output(&started.id, &machine).await;
    assert_eq!(output.unwrap(), Some(serde_json::json!([7, 5])));
    running.stop().await;
}

#[tokio::test]
async fn workflow_that_calls_an_unknown_function_is_refused_by_build() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "gone"))
        .ends_well(is("a", "done"));
    let builder = plane(&Production::default())
        .store(MemoryStore::new())
        .source(Text::new(SERVICES));
    let refused = builder
        .workflow(workflow.build().unwrap())
        .build()
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the machine `a` of the workflow `w` calls `gone`, which is not registered; register it with `.function(..)`"
    );
}

/// Doubles a service, waits until production has it, then asks a person, who may have it put back.
fn doubling(builder: ControlPlaneBuilder) -> ControlPlaneBuilder {
    let double = async |request: FunctionRequest| {
        let size: u64 = request
            .reader
            .asset(&id("a"))?
            .payload::<Service>()
            .map_err(|error| plugin::Error::permanent(error.to_string()))?
            .size;
        let field = FieldEdit::set(
            "manifest.yaml#0",
            "services.a.size".parse().unwrap(),
            size,
            2 * size,
        );
        Ok(Answer::new().edit("manifest.yaml", field).done())
    };
    let info = FunctionInfo::new("double")
        .repeat(Repeat::Safe)
        .may(Power::edit("manifest.yaml", "services.*.size"));
    let workflow = Workflow::new("double")
        .machine(Machine::calls("double", "double").settles(LONG))
        .machine(Machine::asks("keep", "Keep it?", ["yes", "no"]).when(is("double", "done")))
        .machine(
            Machine::restores("back", ["double"])
                .cleans_up()
                .when(any([is("keep", "no"), cancelled()])),
        )
        .ends_well(is("keep", "yes"))
        .ends_badly(any([
            is("back", "done"),
            is("double", ["overwritten", "rolled_back", "expired"]),
        ]))
        .build()
        .unwrap();
    builder.function(from_fn(info, double)).workflow(workflow)
}

const COMMENTED: &str = "services:\n  a: {size: 3} # measured in May\n  b: {size: 5}\n";

fn editing(dir: &Path, production: &Production) -> Running {
    let manifest = YamlFile::watch(dir.join("manifest.yaml"));
    editing_with(dir, production, manifest)
}

fn editing_with(dir: &Path, production: &Production, manifest: impl EditableSource) -> Running {
    let store = SqliteStore::open_wait(dir.join("state")).unwrap();
    let builder = doubling(plane(production)).store(store).editable(manifest);
    Running::start(builder.build().unwrap())
}

/// Waits until a machine asks.
async fn asks(handle: &Handle, id: &ExecutionId, machine: &str) {
    loop {
        let live = handle.execution(id).await.unwrap().unwrap();
        let wait = live.machine(machine).and_then(|it| it.wait.as_ref());
        if matches!(wait.map(|wait| &wait.what), Some(WaitFor::Person { .. })) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn r36_step_that_edits_is_done_when_production_has_it_and_can_be_put_back() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), COMMENTED);
    let running = editing(dir.path(), &production);
    running.handle.settle(LONG).await.unwrap();
    let started = running
        .handle
        .start(Start::of("double"), ann())
        .await
        .unwrap()
        .id;
    asks(&running.handle, &started, "keep").await;
    assert_eq!(
        production.size("a"),
        Some(6),
        "production had it before the next step"
    );
    let text = || std::fs::read_to_string(dir.path().join("manifest.yaml")).unwrap();
    assert_eq!(text(), COMMENTED.replace("size: 3", "size: 6"));

    // The execution holds the field until it has ended, also over a restart.
    running.stop().await;
    let running = editing(dir.path(), &production);
    running.handle.settle(LONG).await.unwrap();
    let field = FieldEdit::set("manifest.yaml#0", "services.a.size".parse().unwrap(), 6, 7);
    let other = SourceEdit::new("manifest.yaml", ann()).field(field);
    let refused = running.handle.edit(&other).await.unwrap_err().to_string();
    assert!(
        refused.contains(&format!("held by execution/{started}")),
        "{refused}"
    );

    asks(&running.handle, &started, "keep").await;
    running
        .handle
        .say(&started, Say::answer("keep", "no"), ann())
        .await
        .unwrap();
    let ended = running.handle.wait_execution(&started, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Failed);
    assert_eq!(text(), COMMENTED);
    while !running.handle.held_fields().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    running.stop().await;
}

/// The source makes the restore, and does not know so. The second answer says which assets it has changed.
#[tokio::test]
async fn r34_restore_whose_first_answer_was_lost_is_known_to_be_made() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), COMMENTED);
    let dies = Arc::new(AtomicU8::new(0));
    let manifest = Dying {
        file: YamlFile::watch(dir.path().join("manifest.yaml")),
        dies: dies.clone(),
    };
    let running = editing_with(dir.path(), &production, manifest);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let started = handle.start(Start::of("double"), ann()).await.unwrap().id;
    asks(handle, &started, "keep").await;
    dies.store(2, Ordering::Relaxed);
    let no = Say::answer("keep", "no");
    handle.say(&started, no, ann()).await.unwrap();
    handle.wait_execution(&started, LONG).await.unwrap();
    assert_eq!(dies.load(Ordering::Relaxed), 0);
    let log = handle.execution_log(&started).await.unwrap();
    let made = log.into_iter().filter_map(|entry| match entry.what {
        What::Edited { assets, .. } => Some(assets),
        _ => None,
    });
    let made: Vec<_> = made.collect();
    assert_eq!(made, [vec![id("a")], vec![id("a")]]);
    running.stop().await;
}

#[tokio::test]
async fn r36_field_that_a_person_sets_is_theirs_and_the_step_is_told() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), COMMENTED);
    let running = editing(dir.path(), &production);
    running.handle.settle(LONG).await.unwrap();
    // While pushes hang, the step waits for production.
    production.state().hangs = true;
    let started = running
        .handle
        .start(Start::of("double"), ann())
        .await
        .unwrap()
        .id;
    let path = dir.path().join("manifest.yaml");
    let text = || std::fs::read_to_string(&path).unwrap();
    while !text().contains("size: 6") {
        tokio::task::yield_now().await;
    }
    loop {
        let live = running.handle.execution(&started).await.unwrap().unwrap();
        let wait = live
            .machine("double")
            .and_then(|machine| machine.wait.clone());
        if wait.is_some_and(|wait| matches!(wait.what, WaitFor::Settled(_))) {
            break;
        }
        tokio::task::yield_now().await;
    }
    write(dir.path(), &text().replace("size: 6", "size: 4"));
    let ended = running.handle.wait_execution(&started, LONG).await.unwrap();
    assert_eq!(ended.states[&"double".into()].as_str(), "overwritten");
    let why = &ended.errors[&"double".into()];
    assert_eq!(
        why,
        "services.a.size was set to 4 by another program or a person"
    );
    assert!(text().contains("size: 4"), "it stays");
    production.state().hangs = false;
    running.stop().await;
}
