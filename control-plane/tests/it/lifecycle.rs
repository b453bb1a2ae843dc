//! From a file to production, across restarts, and with a second process.

use std::path::Path;

use control_plane::{prelude::*, store::Batch, workflow::ExecutionQuery};

use crate::world::{LONG, Production, Running, Text, ann, id, plane, write};

async fn on_disk(dir: &Path, production: &Production) -> ControlPlane {
    // A task of the last control plane may still have the store. The thread of the runtime has to be free for it.
    let state = dir.join("state");
    let store = tokio::task::spawn_blocking(move || SqliteStore::open_wait(state));
    plane(production)
        .store(store.await.unwrap().unwrap())
        .source(YamlFile::watch(dir.join("manifest.yaml")))
        .validators(validators::standard())
        .build()
        .unwrap()
}

#[tokio::test]
async fn an_edited_file_is_enforced_without_a_call() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), "services: {eu: {size: 1}}");
    let running = Running::start(on_disk(dir.path(), &production).await);
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("eu"), Some(1));

    write(dir.path(), "services: {eu: {size: 2}, us: {size: 3}}");
    let second = IncarnationNo(2);
    let mut status = running.handle.wait_until_owner().await.watch();
    let sealed = status.wait_for(|status| {
        let newest = status.incarnation.as_ref();
        newest.is_some_and(|newest| newest.id.no == second)
    });
    tokio::time::timeout(LONG, sealed).await.unwrap().unwrap();
    let settled = running.handle.wait_settled(Settle::All(second), LONG);
    settled.await.unwrap();
    assert_eq!(
        (production.size("eu"), production.size("us")),
        (Some(2), Some(3))
    );
    running.stop().await;
}

#[tokio::test]
async fn a_restart_resumes_from_the_directory_and_repeats_no_push() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), "services: {eu: {size: 1}, us: {size: 1}}");
    let first = Running::start(on_disk(dir.path(), &production).await);
    first.handle.settle(LONG).await.unwrap();
    first
        .handle
        .pause(PauseScope::Asset(id("us")), ann(), None)
        .await
        .unwrap();
    first.stop().await;
    assert_eq!(production.pushes(), 2);

    write(dir.path(), "services: {eu: {size: 1}, us: {size: 2}}");
    let path = dir.path().to_owned();
    let again = on_disk(&path, &production).await;
    let second = Running::start(again);
    let newest = second
        .handle
        .wait_until_owner()
        .await
        .next_run()
        .await
        .incarnation
        .unwrap();
    assert_eq!(newest.id.to_string(), "world@2");
    second
        .handle
        .wait_settled(Settle::Asset(id("eu"), newest.id.no), LONG)
        .await
        .unwrap();
    assert_eq!(
        production.pushes(),
        2,
        "eu is unchanged, and us is still paused"
    );
    second
        .handle
        .resume(PauseScope::Asset(id("us")), ann())
        .await
        .unwrap();
    second.handle.settle(LONG).await.unwrap();
    assert_eq!(production.state().pushes[2..], [id("us")]);
    second.stop().await;
}

#[tokio::test]
async fn a_second_opening_of_the_directory_names_the_first_process() {
    let (dir, production) = (tempfile::tempdir().unwrap(), Production::default());
    write(dir.path(), "services: {eu: {size: 1}}");
    let _first = on_disk(dir.path(), &production).await;
    let refused = SqliteStore::open(dir.path().join("state")).unwrap_err();
    let by = std::process::id().to_string();
    assert!(
        refused
            .to_string()
            .contains(&format!("in use by process {by}")),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_process_on_a_shared_store_waits_then_takes_over() {
    let (store, production) = (MemoryStore::new(), Production::default());
    let text = Text::new("services: {eu: {size: 1}}");
    let build = |name: &str| {
        plane(&production)
            .store(store.clone())
            .source(text.clone())
            .process_id(name.into())
            .build()
            .unwrap()
    };
    let first = Running::start(build("one"));
    first.handle.settle(LONG).await.unwrap();
    let second = Running::start(build("two"));

    text.edit("services: {eu: {size: 2}}");
    first.handle.settle(LONG).await.unwrap();
    let waiting = second.handle.status().await.unwrap();
    assert_eq!(waiting.owner, Some("one".into()));
    assert!(waiting.generation.is_none() && waiting.enforcement.is_none());
    let refused = second.handle.explain(&id("eu")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "this process does not own world; ask its owner `one`"
    );

    first.stop().await;
    text.edit("services: {eu: {size: 3}}");
    let settled = second.handle.settle(LONG).await.unwrap();
    assert_eq!(settled.to_string(), "world@3");
    assert_eq!(production.size("eu"), Some(3));
    assert_eq!(
        second.handle.status().await.unwrap().owner,
        Some("two".into())
    );
    second.stop().await;
}

/// The parts of an ownership begin in tasks of their own, so a question can come between them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_owner_answers_for_all_its_parts_at_once() {
    let (store, production) = (MemoryStore::new(), Production::default());
    let text = Text::new("services: {eu: {size: 1}}");
    for _ in 0..200 {
        let source = text.clone();
        let plane = plane(&production).store(store.clone()).source(source);
        let running = Running::start(plane.build().unwrap());
        running.handle.wait_until_owner().await;
        let sealed = running.handle.latest().await.is_ok();
        if sealed {
            let all = ExecutionQuery::all();
            running.handle.executions(&all).await.unwrap();
            running.handle.rollouts().await.unwrap();
        } else {
            running.handle.settle(LONG).await.unwrap();
        }
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_declared_dead_seals_nothing() {
    let (store, production) = (MemoryStore::new(), Production::default());
    let text = Text::new("services: {eu: {size: 1}}");
    let plane = plane(&production)
        .store(store.clone())
        .source(text.clone())
        .process_id("one".into());
    let running = Running::start(plane.build().unwrap());
    running.handle.settle(LONG).await.unwrap();

    // The commit of another process that takes over and then does nothing.
    let takeover = Batch::new().put("owner/world", r#"{"process":"another"}"#);
    store.commit(takeover.delete("process/one")).await.unwrap();
    text.edit("services: {eu: {size: 2}}");
    let generation = running.handle.wait_until_owner().await;
    let refused = generation.next_run().await.problems.to_string();
    assert!(refused.contains("cannot seal"), "{refused}");
    assert_eq!(
        running.handle.latest().await.unwrap().no(),
        IncarnationNo(1)
    );

    // The next heartbeat reports the lost ownership; then the process waits for the partition like any other.
    let mut status = generation.watch();
    drop(generation);
    while status.changed().await.is_ok() {}
    let settled = running.handle.settle(LONG).await.unwrap();
    assert_eq!(settled.no, IncarnationNo(2));
    assert_eq!(production.size("eu"), Some(2));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn s9_a_panic_beside_enforcement_is_reported_and_generation_continues() {
    let (store, production) = (MemoryStore::new(), Production::default());
    let text = Text::new("services: {eu: {size: 1}}");
    let plane = plane(&production)
        .store(store)
        .source(text.clone())
        .enforcement(|builder| builder.while_owner(|_, _| async { panic!("on purpose") }));
    let running = Running::start(plane.build().unwrap());
    running.handle.settle(LONG).await.unwrap();
    let status = running.handle.status().await.unwrap();
    let told = status.task_failures.join(" ");
    assert!(told.contains("panicked: on purpose"), "{told}");
    text.edit("services: {eu: {size: 2}}");
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("eu"), Some(2));
    running.stop().await;
}
