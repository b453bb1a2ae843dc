//! Turndowns that wait for a workflow: the backup of what they lose.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane::{
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    workflow::{
        Answer, ExecutionId, ExecutionQuery, FunctionInfo, FunctionRequest, Machine, Only, Outcome,
        Repeat, Say, Workflow, from_fn, is,
    },
};
use prodspec_model::Digest;
use serde_json::{Value, json};

use crate::world::*;

/// The inputs of all calls of `store`, in order.
type Stored = Arc<Mutex<Vec<Value>>>;

/// A control plane that removes no service before `backup`, which asks before it stores, has succeeded.
fn start(text: &Text, production: &Production, stored: &Stored) -> Running {
    let stored = stored.clone();
    let store = move |request: FunctionRequest| {
        stored.lock().unwrap().push(request.input);
        async { Ok(Answer::new().done()) }
    };
    let backup = Workflow::new("backup")
        .machine(Machine::asks("go", "Store it?", ["yes", "no"]))
        .machine(Machine::calls("store", "store").when(is("go", "yes")))
        .ends_well(is("store", "done"))
        .ends_badly(is("go", "no"));
    let builder = plane(production);
    let check = Succeeded::new("backup", "backup", builder.executions());
    let check = check.label("for", "turndown");
    let info = FunctionInfo::new("store").repeat(Repeat::Keyed);
    let builder = builder
        .store(MemoryStore::new())
        .source(text.clone())
        .checks(|base| {
            ServiceBuilder::new()
                .layer(SucceededLayer::new(check))
                .service(base)
        })
        .function(from_fn(info, store))
        .workflow(backup.build().unwrap());
    Running::start(builder.build().unwrap())
}

/// Waits until everything has happened that needs no further input. Returns the change of `a`, which is delayed because of
/// `why`.
async fn delayed(handle: &Handle, why: &str) -> Digest {
    assert!(handle.settle(QUIET).await.is_err());
    let explained = handle.explain(&id("a")).await.unwrap();
    let shown = format!("{explained:?}");
    assert!(shown.contains(why), "{shown}");
    let change = explained.enforced().unwrap().chain[0].change.clone();
    change.unwrap().digest
}

/// Waits until an execution asks, answers, and waits until it has succeeded. Returns its id.
async fn backed_up(handle: &Handle) -> ExecutionId {
    let execution = asks(handle).await;
    let yes = Say::answer("go", "yes");
    handle.say(&execution, yes, ann()).await.unwrap();
    let ended = handle.wait_execution(&execution, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    execution
}

/// Waits until an execution asks. Returns its id.
async fn asks(handle: &Handle) -> ExecutionId {
    loop {
        let asking = ExecutionQuery::all().label("for", "turndown");
        let asking = asking.only(Only::Asking);
        let page = handle.executions(&asking).await.unwrap();
        if let Some(execution) = page.executions.first() {
            return execution.id.clone();
        }
        TokioRuntime::current()
            .sleep(Duration::from_millis(100))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn r40_turndown_waits_for_the_backup_of_this_very_change() {
    let (production, stored) = (Production::default(), Stored::default());
    let text = Text::new("services: {a: {size: 3}}");
    let running = start(&text, &production, &stored);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let live = handle.executions(&ExecutionQuery::all()).await.unwrap();
    assert!(live.executions.is_empty());

    text.edit("services: {a: {size: 3, turndown: true}}");
    let first = delayed(handle, "backup-0000000001 has not ended").await;
    // The change is another one while its backup is under way.
    text.edit("services: {a: {size: 4, turndown: true}}");
    let second = delayed(handle, "backup-0000000001 has not ended").await;
    assert_ne!(first, second);
    handle.approve(&id("a"), second, ann(), None).await.unwrap();

    backed_up(handle).await;
    let next = asks(handle).await;
    let why = "backup-0000000002 has not ended";
    assert_eq!(delayed(handle, why).await, second);
    assert_eq!(
        production.size("a"),
        Some(3),
        "the backup is of another change"
    );
    assert_eq!(backed_up(handle).await, next);
    handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("a"), None);
    let inputs = stored.lock().unwrap().clone();
    let inputs: Vec<_> = inputs
        .iter()
        .map(|it| (&it["asset"], &it["change"]))
        .collect();
    let a = json!("a");
    assert_eq!(inputs, [(&a, &json!(first)), (&a, &json!(second))]);
    running.stop().await;
}
