//! Steps whose edit is carried by a rollout: they are told when the rollout does not bring it to production.

use std::{path::Path, time::Duration};

use control_plane::{
    prelude::*,
    strategist::{self, Command},
    workflow::{
        Answer, ExecutionId, FunctionInfo, FunctionRequest, Machine, Outcome, Power, Repeat, Start,
        WaitFor, Workflow, from_fn, is,
    },
};

use crate::{
    rollouts::{SizeHealth, manifest, of_size},
    world::{LONG, Production, Running, ann, id, plane, write},
};

/// The first asset gets the content, then, after a time that is longer than the test, the others.
const POLICY: &str = "{canary: {count: 1, bake_secs: 600}}";

/// Sets the sizes of all services of a policy, waits until production has them, and puts them back if it does not.
fn build(dir: &Path, production: &Production) -> Running {
    let set = async |request: FunctionRequest| {
        let to: u64 = request.input("to")?;
        let fields = ["a", "b", "c", "d"].into_iter().map(|name| {
            let path = format!("services.{name}.size").parse().unwrap();
            FieldEdit::set("manifest.yaml#0", path, 1, to)
        });
        let answer = fields.fold(Answer::new(), |it, field| it.edit("manifest.yaml", field));
        Ok(answer.done())
    };
    let info = FunctionInfo::new("set")
        .repeat(Repeat::Safe)
        .may(Power::edit("manifest.yaml", "services.*.size"));
    let workflow = |name: &'static str, to: u64| {
        Workflow::new(name)
            .machine(
                Machine::calls("set", "set")
                    .input(serde_json::json!({ "to": to }))
                    .settles(Duration::from_secs(3600)),
            )
            .machine(Machine::restores("back", ["set"]).when(is("set", "rolled_back")))
            .ends_well(is("set", "done"))
            .ends_badly(is("set", ["rolled_back", "overwritten", "expired"]))
            .build()
            .unwrap()
    };
    let health = HealthLayer::new(SizeHealth {
        production: production.clone(),
        is_sick: |size| size == 3,
    });
    let plane = plane(production)
        .store(SqliteStore::open_wait(dir.join("state")).unwrap())
        .editable(YamlFile::watch(dir.join("manifest.yaml")))
        .validators(validators::standard())
        .health(|healthy| ServiceBuilder::new().layer(health).service(healthy))
        .rollout_config(strategist::Config::default().validate_every(Duration::from_millis(50)))
        .function(from_fn(info, set))
        .workflow(workflow("to-2", 2))
        .workflow(workflow("to-3", 3));
    Running::start(plane.build().unwrap())
}

async fn begun(running: &Running, dir: &Path, workflow: &'static str) -> ExecutionId {
    running.handle.settle(LONG).await.unwrap();
    let start = Start::of(workflow);
    let id = running.handle.start(start, ann()).await.unwrap().id;
    assert!(text(dir).contains("size: 1"));
    id
}

fn text(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("manifest.yaml")).unwrap()
}

async fn rolled_back(running: &Running, id: &ExecutionId) -> String {
    let ended = running.handle.wait_execution(id, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Failed);
    assert_eq!(ended.states[&"set".into()].as_str(), "rolled_back");
    assert_eq!(ended.states[&"back".into()].as_str(), "done");
    ended.errors[&"set".into()].clone()
}

#[tokio::test]
async fn r36_step_whose_rollout_goes_back_is_told_and_puts_its_edit_back() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), &manifest(1, POLICY, 1));
    let running = build(dir.path(), &production);
    let id = begun(&running, dir.path(), "to-3").await;
    let why = rolled_back(&running, &id).await;
    assert!(
        why.contains("was left behind: rollout 2 went back: "),
        "{why}"
    );
    assert_eq!(text(dir.path()), manifest(1, POLICY, 1));
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(of_size(&production, 1), 4);
    running.stop().await;
}

#[tokio::test]
async fn r36_step_whose_rollout_is_stopped_is_told_and_one_that_bakes_is_not() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), &manifest(1, POLICY, 1));
    let running = build(dir.path(), &production);
    let execution = begun(&running, dir.path(), "to-2").await;
    while of_size(&production, 2) == 0 {
        tokio::task::yield_now().await;
    }
    let live = running.handle.execution(&execution).await.unwrap().unwrap();
    let wait = &live.machine("set").unwrap().wait;
    assert!(matches!(wait.as_ref().unwrap().what, WaitFor::Settled(_)));
    let policy = id("slow");
    let abort = running.handle.tell_rollout(&policy, Command::Abort, ann());
    abort.await.unwrap();
    let why = rolled_back(&running, &execution).await;
    assert!(
        why.contains("was left behind: rollout 2 stopped: "),
        "{why}"
    );
    assert_eq!(text(dir.path()), manifest(1, POLICY, 1));
    running.stop().await;
}
