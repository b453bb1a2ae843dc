//! What executions wait for, followed to its causes, and executions that have ended.

use control_plane::{
    ControlPlaneBuilder,
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    workflow::{
        Answer, FunctionInfo, FunctionRequest, Machine, Outcome, Power, Repeat, Say, Start,
        WaitFor, Workflow, from_fn, is,
    },
};

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

#[tokio::test]
async fn waits_of_an_execution_are_followed_to_assets_and_people() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), SERVICES);
    let builder = workflows(plane(&production))
        .store(MemoryStore::new())
        .editable(YamlFile::watch(dir.path().join("manifest.yaml")));
    let running = Running::start(builder.build().unwrap());
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    production.state().broken.insert(id("a"));
    let outer = handle.start(Start::of("outer"), ann()).await.unwrap().id;
    let explained = loop {
        let explained = handle.explain_execution(&outer).await.unwrap().unwrap();
        if explained.assets.contains_key(&id("a")) {
            break explained;
        }
        TokioRuntime::current()
            .sleep(std::time::Duration::from_millis(10))
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
