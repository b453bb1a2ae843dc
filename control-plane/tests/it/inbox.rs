//! Commands for workflows in a process that does not own the partition.

use std::{path::Path, time::Duration};

use control_plane::{
    Error,
    prelude::*,
    workflow::{AskError, ExecutionQuery, Outcome, Refused, Say, Start},
};

use crate::{
    workflows::{Press, with_workflow},
    world::*,
};

const SERVICES: &str = "services: {a: {size: 3}, b: {size: 5}}";

/// Two processes with one store, production and press.
struct Two {
    store: SqliteStore,
    production: Production,
    press: Press,
}

impl Two {
    fn new(dir: &Path) -> Self {
        Self {
            store: SqliteStore::open_wait(dir.join("state")).unwrap(),
            production: Production::default(),
            press: Press::default(),
        }
    }

    fn build(&self, name: &str) -> ControlPlane {
        let builder = with_workflow(plane(&self.production), &self.press);
        let builder = builder
            .store(self.store.clone())
            .source(Text::new(SERVICES));
        let builder = builder.lease_term(Duration::from_secs(2));
        builder.process_id(name.into()).build().unwrap()
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Refused {
    match result {
        Err(Error::Workflow(AskError::Refused(refused))) => refused,
        other => panic!("{other:?}"),
    }
}

/// Starts a report in the standby and lets it go to its end.
async fn monday(owner: &Handle, standby: &Handle) {
    let start = || Start::of("report").key("monday");
    let started = standby.start(start(), ann()).await.unwrap();
    assert!(started.new);
    let id = started.id;
    let again = owner.start(start(), ann()).await.unwrap();
    assert_eq!((&again.id, again.new), (&id, false));
    let wrong = || Start::of("repport");
    let there = refused(standby.start(wrong(), ann()).await);
    assert_eq!(there, refused(owner.start(wrong(), ann()).await));
    let there = refused(standby.say(&id, Say::Resume, ann()).await);
    let here = refused(owner.say(&id, Say::Resume, ann()).await);
    assert_eq!(there, here);
    let yes = || Say::answer("go", "yes");
    while let Err(error) = standby.say(&id, yes(), ann()).await {
        // It measures before it asks.
        let early = matches!(error, Error::Workflow(AskError::Refused(_)));
        assert!(early, "{error}");
    }
    let ended = owner.wait_execution(&id, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
}

#[tokio::test]
async fn r23_standby_commands_the_owner_and_its_command_outlives_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let two = Two::new(dir.path());
    let own = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let owner = {
        let _in_its_process = own.enter();
        Running::start(two.build("one"))
    };
    owner.handle.settle(LONG).await.unwrap();
    let standby = Running::start(two.build("two"));
    monday(&owner.handle, &standby.handle).await;
    let handle = &standby.handle;
    let shown = handle.executions(&ExecutionQuery::all()).await;
    assert!(matches!(shown, Err(Error::NotOwner { .. })), "{shown:?}");

    // The owner dies: nothing of it runs any more.
    own.shutdown_background();
    let orphan = handle.start(Start::of("report"), ann()).await.unwrap();
    assert!(orphan.new);
    let live = handle.executions(&ExecutionQuery::all()).await.unwrap();
    let live: Vec<_> = live.executions.iter().map(|it| &it.id).collect();
    assert_eq!(live, [&orphan.id]);
    handle.say(&orphan.id, Say::Cancel, ann()).await.unwrap();
    let ended = handle.wait_execution(&orphan.id, LONG).await.unwrap();
    assert_eq!(ended.live.origin.by, ann());
    assert_eq!(two.press.pressed(), 1);
    standby.stop().await;
}
