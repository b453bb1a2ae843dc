//! Assets whose production is the outcome of a workflow or an operation.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane::runtime::{Runtime, TokioRuntime};
use control_plane::{
    ControlPlaneBuilder,
    prelude::*,
    workflow::{
        Answer, ExecutionId, ExecutionQuery, FreshPlugin, FunctionInfo, FunctionRequest, Machine,
        Only, Operation, Outcome, Repeat, Say, Workflow, WorkflowPlugin, from_fn, is,
    },
};
use prodspec_model::addons;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::world::{LONG, QUIET, Running, Text, ann, id};

#[derive(Debug, Serialize, Deserialize)]
struct Season {
    works: Vec<String>,
}

impl Message for Season {
    const TYPE: &'static str = "world.v1.Season";
}

#[derive(Debug, Serialize, Deserialize)]
struct FreshIndex {
    max_age_secs: u64,
}

impl Message for FreshIndex {
    const TYPE: &'static str = "world.v1.FreshIndex";
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    #[serde(default)]
    seasons: BTreeMap<String, Season>,
    #[serde(default)]
    indexes: BTreeMap<String, FreshIndex>,
    #[serde(default)]
    operations: BTreeMap<String, Operation>,
    /// Assets that are turned down.
    #[serde(default)]
    down: Vec<String>,
}

struct Model;

impl Generator for Model {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("jobs", "manifest.yaml")
            .makes::<Season>()
            .makes::<FreshIndex>()
            .makes::<Operation>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let manifest: Manifest = document.read()?;
            for (name, season) in &manifest.seasons {
                let mut asset = Asset::builder(AssetId::new(name)?).payload(season)?;
                if manifest.down.contains(name) {
                    let (reason, approved_by) = ("it rains".into(), "ann".into());
                    asset = asset.addon(&addons::Turndown {
                        reason,
                        approved_by,
                    })?;
                }
                out.asset(asset, document.provenance())?;
            }
            for (name, index) in &manifest.indexes {
                let asset = Asset::builder(AssetId::new(name)?).payload(index)?;
                out.asset(asset, document.provenance())?;
            }
            for (name, operation) in &manifest.operations {
                let asset = Asset::builder(AssetId::new(name)?).payload(operation)?;
                out.asset(asset, document.provenance())?;
            }
        }
        Ok(())
    }
}

/// The inputs of all calls of `print`, in order.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<Value>>>);

impl Printed {
    fn all(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }
}

/// `season` asks before it prints; `reindex` prints at once.
fn plane(printed: &Printed) -> ControlPlaneBuilder {
    let printed = printed.clone();
    let print = move |request: FunctionRequest| {
        let printed = printed.clone();
        async move {
            printed.0.lock().unwrap().push(request.input.clone());
            match request.input.get("fails") {
                Some(_) => Err(plugin::Error::permanent("no paper")),
                None => Ok(Answer::new().done()),
            }
        }
    };
    let season = Workflow::new("season")
        .machine(Machine::asks("go", "Print it?", ["yes", "no"]))
        .machine(Machine::calls("print", "print").when(is("go", "yes")))
        .ends_well(is("print", "done"))
        .ends_badly(is("go", "no"))
        .build()
        .unwrap();
    let reindex = Workflow::new("reindex")
        .machine(Machine::calls("print", "print"))
        .ends_well(is("print", "done"))
        .build()
        .unwrap();
    ControlPlane::builder("world")
        .generator(Model)
        .bridge::<Season, _>(|executions| WorkflowPlugin::of("season", executions))
        .bridge::<FreshIndex, _>(|executions| {
            FreshPlugin::of("reindex", executions)
                .within(|index: &FreshIndex| Duration::from_secs(index.max_age_secs))
        })
        .function(from_fn(
            FunctionInfo::new("print").repeat(Repeat::Keyed),
            print,
        ))
        .workflow(season)
        .workflow(reindex)
}

fn start(store: &MemoryStore, text: &Text, printed: &Printed) -> Running {
    let builder = plane(printed).store(store.clone()).source(text.clone());
    Running::start(builder.build().unwrap())
}

/// Waits until everything has happened that needs no further input. Not everything is settled then.
async fn quiet(running: &Running) {
    assert!(running.handle.settle(QUIET).await.is_err());
}

/// Number of live executions.
async fn live(running: &Running) -> usize {
    let page = running.handle.executions(&ExecutionQuery::all()).await;
    page.unwrap().executions.len()
}

/// Waits until an execution asks, and answers.
async fn say(running: &Running, option: &str) {
    let asking = ExecutionQuery::all().only(Only::Asking);
    loop {
        let page = running.handle.executions(&asking).await;
        if let Some(execution) = page.unwrap_or_default().executions.first() {
            let word = Say::answer("go", option);
            running
                .handle
                .say(&execution.id, word, ann())
                .await
                .unwrap();
            return;
        }
        TokioRuntime::current()
            .sleep(Duration::from_millis(100))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn r40_push_runs_a_workflow_once_for_each_content_over_restarts() {
    let (store, printed) = (MemoryStore::new(), Printed::default());
    let hamlet = "seasons: {s: {works: [hamlet]}}";
    let text = Text::new(hamlet);
    let running = start(&store, &text, &printed);
    quiet(&running).await;
    running.stop().await;
    let running = start(&store, &text, &printed);
    quiet(&running).await;
    assert_eq!(live(&running).await, 1);
    say(&running, "yes").await;
    running.handle.settle(LONG).await.unwrap();
    text.edit("seasons: {s: {works: [lear]}}");
    say(&running, "yes").await;
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(printed.all().len(), 2);
    text.edit(hamlet);
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(printed.all().len(), 2, "it has succeeded before");
    assert_eq!(
        printed.all()[1],
        serde_json::json!({ "works": ["lear"] }),
        "the payload is the input"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r40_failed_run_is_a_failed_push_and_runs_again() {
    let (store, printed) = (MemoryStore::new(), Printed::default());
    let running = start(&store, &Text::new("seasons: {s: {works: []}}"), &printed);
    say(&running, "no").await;
    quiet(&running).await;
    let explained = running.handle.explain(&id("s")).await.unwrap();
    let explained = format!("{explained:?}");
    assert!(
        explained.contains("season-0000000001 failed"),
        "{explained}"
    );
    running.handle.look_now(&id("s"), ann()).await.unwrap();
    say(&running, "yes").await;
    running.handle.settle(LONG).await.unwrap();
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r40_turndown_cancels_the_run() {
    let (store, printed) = (MemoryStore::new(), Printed::default());
    let text = Text::new("seasons: {s: {works: []}}");
    let running = start(&store, &text, &printed);
    quiet(&running).await;
    text.edit("{seasons: {s: {works: []}}, down: [s]}");
    quiet(&running).await;
    assert_eq!(live(&running).await, 1);
    let explained = running.handle.explain(&id("s")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0].change.clone();
    let change = change.unwrap().digest;
    running
        .handle
        .approve(&id("s"), change, ann(), None)
        .await
        .unwrap();
    running.handle.settle(LONG).await.unwrap();
    let execution: ExecutionId = "season-0000000001".parse().unwrap();
    let ended = running.handle.ended_execution(&execution).await.unwrap();
    assert_eq!(ended.unwrap().outcome, Outcome::Cancelled);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r40_index_is_made_once_within_its_age_and_for_another_content() {
    let (store, printed) = (MemoryStore::new(), Printed::default());
    let text = Text::new("indexes: {i: {max_age_secs: 360000}}");
    let running = start(&store, &text, &printed);
    running.handle.settle(LONG).await.unwrap();
    running.stop().await;
    let running = start(&store, &text, &printed);
    running.handle.settle(LONG).await.unwrap();
    TokioRuntime::current()
        .sleep(Duration::from_secs(3600))
        .await;
    assert_eq!(printed.all().len(), 1);
    text.edit("indexes: {i: {max_age_secs: 720000}}");
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(printed.all().len(), 2, "another content is due at once");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r35_operation_that_is_an_asset_runs_once_for_each_content() {
    let (store, printed) = (MemoryStore::new(), Printed::default());
    let operation = |rerun: u32| {
        format!("operations: {{o: {{rerun: {rerun}, pipeline: [{{name: run, function: print}}]}}}}")
    };
    let text = Text::new(&operation(0));
    let running = start(&store, &text, &printed);
    running.handle.settle(LONG).await.unwrap();
    running.stop().await;
    let running = start(&store, &text, &printed);
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(printed.all().len(), 1);
    for (rerun, runs) in [(1, 2), (0, 2)] {
        text.edit(&operation(rerun));
        running.handle.settle(LONG).await.unwrap();
        assert_eq!(printed.all().len(), runs);
    }
    text.edit("operations: {o: {pipeline: [{name: run, function: gone}]}}");
    let Err(control_plane::Error::Refused(problems)) = running.handle.settle(LONG).await else {
        panic!("it is not refused");
    };
    let problems = problems.to_string();
    assert!(
        problems.contains("payload.pipeline[0].function"),
        "{problems}"
    );
    running.stop().await;
}
