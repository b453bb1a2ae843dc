//! Workflows in a whole control plane: functions see intent and production, and executions go on after a restart.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
};

use control_plane::workflow::{
    Answer, EffectKey, FunctionInfo, FunctionRequest, Machine, Outcome, Ran, Repeat, Requirement,
    Say, Start, WaitFor, Workflow, from_fn, is,
};

use crate::world::*;
use control_plane::{ControlPlaneBuilder, prelude::*, sdk::Guard};

const SERVICES: &str = "services: {a: {size: 3}, b: {size: 5}}";

#[derive(Clone, Default)]
struct Press(Arc<Mutex<BTreeSet<EffectKey>>>);

/// Measures all services that are in sync, prints once per key, and asks before that.
fn with_workflow(builder: ControlPlaneBuilder, press: &Press) -> ControlPlaneBuilder {
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
    let workflow = Workflow::new("report")
        .machine(Machine::calls("measure", "measure"))
        .machine(Machine::asks("go", "Print it?", ["yes", "no"]).when(is("measure", "done")))
        .machine(Machine::calls("print", "print").when(is("go", "yes")))
        .ends_well(is("print", "done"))
        .ends_badly(is("go", "no"))
        .build()
        .unwrap();
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
        .workflow(workflow)
}

fn build(dir: &Path, production: &Production, press: &Press) -> Running {
    let builder = with_workflow(plane(production), press);
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
    let asked = async |handle: &Handle| {
        loop {
            let live = handle.execution(&id).await.unwrap().unwrap();
            let waits = live.machine("go").and_then(|machine| machine.wait.as_ref());
            if matches!(waits.map(|wait| &wait.what), Some(WaitFor::Person { .. })) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    asked(&running.handle).await;
    running.stop().await;

    let running = build(dir.path(), &production, &press);
    running.handle.settle(LONG).await.unwrap();
    assert!(!running.handle.start(start(), ann()).await.unwrap().new);
    asked(&running.handle).await;
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
    assert_eq!(press.0.lock().unwrap().len(), 1);
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
