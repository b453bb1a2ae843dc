//! Many steps that wait until production has their edits.

use std::{path::Path, time::Duration};

use control_plane::{
    PauseScope,
    prelude::*,
    workflow::{
        Answer, ExecutionId, ExecutionQuery, FunctionInfo, FunctionRequest, Machine, Outcome,
        Power, Repeat, Start, WaitFor, Workflow, from_fn, is,
    },
};
use futures::future::join_all;

use crate::world::*;

/// Number of services, each set by an execution of its own.
const SERVICES: usize = 60;
/// Longer than the test.
const HOUR: Duration = Duration::from_secs(3_600);

fn setting(dir: &Path, production: &Production) -> Running {
    let set = async |request: FunctionRequest| {
        let name: String = request.input("name")?;
        let path = format!("services.{name}.size").parse().unwrap();
        let field = FieldEdit::set("manifest.yaml#0", path, 1, 2);
        Ok(Answer::new().edit("manifest.yaml", field).done())
    };
    let info = FunctionInfo::new("set")
        .repeat(Repeat::Safe)
        .may(Power::edit("manifest.yaml", "services.*.size"));
    let workflow = Workflow::new("set")
        .machine(Machine::calls("set", "set").settles(HOUR))
        .ends_well(is("set", "done"))
        .ends_badly(is("set", ["rolled_back", "overwritten", "expired"]))
        .build()
        .unwrap();
    let plane = plane(production)
        .store(SqliteStore::open_wait(dir.join("state")).unwrap())
        .editable(YamlFile::watch(dir.join("manifest.yaml")))
        .function(from_fn(info, set))
        .workflow(workflow);
    Running::start(plane.build().unwrap())
}

async fn start(handle: &Handle, name: &str) -> ExecutionId {
    let input = serde_json::json!({ "name": name });
    let start = Start::of("set").input(input);
    handle.start(start, ann()).await.unwrap().id
}

/// Waits until so many executions wait for production.
async fn wait_for_production(handle: &Handle, n: usize) {
    loop {
        let live = handle.executions(&ExecutionQuery::all()).await.unwrap();
        let waits = live.executions.iter().filter(|it| {
            let mut waits = it.waits();
            waits.any(|(_, wait)| matches!(wait.what, WaitFor::Settled(_)))
        });
        if waits.count() == n {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn r36_steps_that_wait_for_production_need_no_task_each() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    let names: Vec<String> = (0..SERVICES).map(|n| format!("s{n}")).collect();
    let services = names.iter().map(|name| format!("  {name}: {{size: 1}}\n"));
    let services: String = services.collect();
    write(dir.path(), &format!("services:\n{services}"));
    let running = setting(dir.path(), &production);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let everything = PauseScope::Partition;
    handle.pause(everything.clone(), ann(), None).await.unwrap();

    let first = start(handle, &names[0]).await;
    wait_for_production(handle, 1).await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let others = join_all(names[1..].iter().map(|name| start(handle, name))).await;
    wait_for_production(handle, SERVICES).await;
    // Tasks that have done their work end.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let after = tasks();
    assert!(after < before + 10, "{before} tasks, then {after}");

    handle.resume(everything, ann()).await.unwrap();
    for id in std::iter::once(&first).chain(&others) {
        let ended = handle.wait_execution(id, LONG).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Succeeded, "{:?}", ended.errors);
    }
    let had = names.iter().all(|name| production.size(name) == Some(2));
    assert!(had, "production had it before the steps were done");
    running.stop().await;
}
