//! What is kept of executions that have ended.

use super::*;

/// The keys of all rows of the store, as text.
pub(super) async fn keys(store: &MemoryStore) -> Vec<String> {
    let all = store
        .scan(control_plane_store::KeyRange::all(), 10_000)
        .await;
    let rows = all.unwrap().rows.into_iter();
    rows.map(|(key, _)| key.as_str().to_owned()).collect()
}

/// The numbers of keys, old keys and definitions.
async fn counts(store: &MemoryStore) -> [usize; 3] {
    let kept = keys(store).await;
    let kinds = ["workflow-key/", "workflow-old-key/", "workflow-definition/"];
    kinds.map(|kind| kept.iter().filter(|key| key.starts_with(kind)).count())
}

/// The records of one kind, with their keys.
pub(super) async fn rows(
    store: &MemoryStore,
    kind: &str,
) -> Vec<(control_plane_store::Key, serde_json::Value)> {
    let range = control_plane_store::KeyRange::prefix(&format!("{kind}/test"));
    let rows = store.scan(range, 100).await.unwrap().rows.into_iter();
    let json = |row: control_plane_store::Versioned| serde_json::from_slice(&row.value).unwrap();
    rows.map(|(key, row)| (key, json(row))).collect()
}

pub(super) fn one(name: &str) -> Workflow {
    Workflow::new(name)
        .machine(Machine::calls("load", "load"))
        .ends_well(is("load", "done"))
        .build()
        .unwrap()
}

/// Two executions of each workflow are kept.
fn short_history(builder: WorkflowsBuilder<TokioRuntime>) -> WorkflowsBuilder<TokioRuntime> {
    let load = async |_: FunctionRequest| Ok(Answer::new().output(&1)?.done());
    builder
        .function(from_fn(keyed("load"), load))
        .config(crate::Config {
            history: 2,
            ..crate::Config::default()
        })
}

async fn run(handle: &Handle<TokioRuntime>, start: Start) -> plugin_sdk::operation::ExecutionId {
    let id = handle.start(start, by()).await.unwrap().id;
    handle.wait(&id, SOON).await.unwrap();
    id
}

/// Lets all executions have ended some minutes earlier.
async fn some_minutes_pass(store: &MemoryStore) {
    for (key, mut row) in rows(store, "workflow-ended").await {
        let ended: jiff::Timestamp = row["ended"].as_str().unwrap().parse().unwrap();
        row["ended"] = json!((ended - Duration::from_secs(300)).to_string());
        let batch = Batch::new().put(key, row.to_string());
        store.commit(batch).await.unwrap();
    }
}

#[tokio::test]
async fn r41_old_executions_are_removed_after_a_takeover_and_their_keys_later() {
    let store = Arc::new(MemoryStore::new());
    let both = |builder| {
        short_history(builder)
            .workflow(one("one"))
            .workflow(one("gone"))
    };
    let ids = owning(&store, both, async |handle| {
        let mut ids = Vec::new();
        run(&handle, Start::of("gone")).await;
        for key in 0..4 {
            let start = Start::of("one").key(key.to_string()).input(json!(key));
            ids.push(run(&handle, start).await);
        }
        ids
    })
    .await;
    some_minutes_pass(&store).await;
    // What cannot be read holds up nothing else, and keeps its definition.
    let unreadable = rows(&store, "workflow-ended").await.into_iter();
    let gone = unreadable.map(|(key, _)| key);
    let gone = gone.filter(|key| key.as_str().contains("/gone-"));
    let batch = gone.fold(Batch::new(), |batch, key| batch.put(key, "{}"));
    assert_eq!(batch.writes.len(), 1);
    store.commit(batch).await.unwrap();
    let only_one = |builder| short_history(builder).workflow(one("one"));
    let old = |keys: &[String]| {
        let of = |id: &plugin_sdk::operation::ExecutionId| id.to_string();
        let old = keys
            .iter()
            .filter(|key| ids[..2].iter().any(|id| key.contains(&of(id))));
        old.count()
    };
    owning(&store, only_one, async |handle| {
        while old(&keys(&store).await) > 0 {
            tokio::task::yield_now().await;
        }
        let again = Start::of("one").key("0").input(json!(0));
        let again = handle.start(again, by()).await.unwrap();
        assert_eq!((again.id, again.new), (ids[0].clone(), false));
        assert!(handle.ended(&ids[2]).await.unwrap().is_some());
        let ended = handle.ended_after(None, None, 10).await.unwrap();
        assert_eq!(ended.len(), 2);
        let error = handle.say(&ids[0], Say::restart(["load"]), by()).await;
        assert!(matches!(error, Err(AskError::Unknown(_))), "{error:?}");
        // What the kernel has forgotten is written again when it is needed.
        run(&handle, Start::of("one")).await;
    })
    .await;
    assert_eq!(counts(&store).await, [4, 2, 2]);

    old_keys_go(&store, only_one).await;
}

/// Each track that is laid makes another definition. Only the last one of an execution has a use.
#[tokio::test]
async fn r41_definitions_between_two_tracks_are_removed() {
    let store = Arc::new(MemoryStore::new());
    let lays = |builder: WorkflowsBuilder<TokioRuntime>| {
        let load = async |request: FunctionRequest| {
            let next = match request.key.step.as_str() {
                "load" => "second",
                "second" => "third",
                _ => return Ok(Answer::new().done()),
            };
            Ok(Answer::new().track(Machine::calls(next, "load")).done())
        };
        builder
            .function(from_fn(keyed("load"), load))
            .workflow(one("one"))
    };
    let id = owning(&store, lays, async |handle| {
        run(&handle, Start::of("one")).await
    })
    .await;
    owning(&store, lays, async |handle| {
        let removed = async {
            while counts(&store).await[2] > 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, removed).await.unwrap();
        let again = Say::restart(["third"]);
        handle.say(&id, again, by()).await.unwrap();
        let ended = handle.wait(&id, SOON).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Succeeded);
    })
    .await;
}

/// A month later the two keys go, and no other.
async fn old_keys_go(
    store: &Arc<MemoryStore>,
    only_one: impl FnOnce(WorkflowsBuilder<TokioRuntime>) -> WorkflowsBuilder<TokioRuntime>,
) {
    let workflows = only_one(Workflows::builder(
        TokioRuntime::current(),
        "test".parse().unwrap(),
        store.clone(),
    ));
    let workflows = workflows.build().unwrap();
    let now = TokioRuntime::current().now().wall;
    let none = retention::old_keys(&workflows, None, now).await.unwrap();
    assert_eq!(none.0, []);
    let month = Duration::from_secs(30 * 24 * 3600);
    let nearly = now + month - Duration::from_secs(600);
    let none = retention::old_keys(&workflows, None, nearly).await.unwrap();
    assert_eq!(none.0, []);
    let later = now + month + Duration::from_secs(60);
    let (writes, _) = retention::old_keys(&workflows, None, later).await.unwrap();
    let batch = writes.into_iter().fold(Batch::new(), Batch::write);
    store.commit(batch).await.unwrap();
    assert_eq!(counts(store).await, [2, 0, 2]);
}

/// An execution that was restarted after it was removed in part has its key again, whatever was noted of its death.
#[tokio::test]
async fn r41_key_of_an_execution_that_is_kept_again_does_not_go() {
    let store = Arc::new(MemoryStore::new());
    let with_one = |builder| short_history(builder).workflow(one("one"));
    let id = owning(&store, with_one, async |handle| {
        run(&handle, Start::of("one").key("1")).await
    })
    .await;
    let partition = "test".parse().unwrap();
    let now = TokioRuntime::current().now().wall;
    let name = crate::record::KeyRecord::name(&"one".into(), "1");
    let old = crate::record::OldKey::name(now, &name);
    let old_key = crate::record::OldKey { execution: id };
    let put = control_plane_store::record::put(&partition, &old, &old_key).unwrap();
    store.commit(Batch::new().write(put)).await.unwrap();
    let runtime = TokioRuntime::current();
    let workflows = with_one(Workflows::builder(runtime, partition, store.clone()));
    let workflows = workflows.build().unwrap();
    let later = now + Duration::from_secs(60);
    let (writes, _) = retention::old_keys(&workflows, None, later).await.unwrap();
    let batch = writes.into_iter().fold(Batch::new(), Batch::write);
    store.commit(batch).await.unwrap();
    assert_eq!(
        counts(&store).await[..2],
        [1, 0],
        "the key stays, the note goes"
    );
}

/// A store in which an execution is removed after its end was read for the first time.
struct Removing(Arc<MemoryStore>, std::sync::atomic::AtomicBool);

#[async_trait::async_trait]
impl Store for Removing {
    async fn get(
        &self,
        keys: &[control_plane_store::Key],
    ) -> Result<Vec<Option<control_plane_store::Versioned>>, control_plane_store::Error> {
        let found = self.0.get(keys).await?;
        let of_an_end = |key: &control_plane_store::Key| key.as_str().contains("workflow-ended/");
        if keys.iter().any(of_an_end) && !self.1.swap(true, Ordering::Relaxed) {
            let removed = rows_of(&self.0, "-0000000001").await;
            let batch = removed.into_iter().fold(Batch::new(), |batch, key| {
                batch.write(control_plane_store::Write::Delete(key))
            });
            self.0.commit(batch).await.unwrap();
        }
        Ok(found)
    }

    async fn scan(
        &self,
        range: control_plane_store::KeyRange,
        limit: usize,
    ) -> Result<control_plane_store::Page, control_plane_store::Error> {
        self.0.scan(range, limit).await
    }

    async fn commit(
        &self,
        batch: Batch,
    ) -> Result<control_plane_store::Version, control_plane_store::CommitError> {
        self.0.commit(batch).await
    }

    fn watch(&self, topic: control_plane_store::Topic) -> stream::BoxStream<'static, ()> {
        self.0.watch(topic)
    }
}

/// The keys of the records of an execution.
async fn rows_of(store: &MemoryStore, name: &str) -> Vec<control_plane_store::Key> {
    let all = store.scan(control_plane_store::KeyRange::all(), 1_000);
    let keys = all.await.unwrap().rows.into_iter().map(|(key, _)| key);
    keys.filter(|key| key.as_str().contains(name)).collect()
}

/// Half of it would begin from its first states, under the keys that it had.
#[tokio::test]
async fn r25_restart_does_not_go_on_from_records_that_retention_removes_meanwhile() {
    let store = Arc::new(MemoryStore::new());
    let with_one = |builder| short_history(builder).workflow(one("one"));
    let id = owning(&store, with_one, async |handle| {
        run(&handle, Start::of("one").key("1")).await
    })
    .await;
    let removing = Arc::new(Removing(store, false.into()));
    let workflows = with_one(Workflows::builder(
        TokioRuntime::current(),
        "test".parse().unwrap(),
        removing,
    ));
    let workflows = workflows.build().unwrap();
    let rewrites = control_plane_store::record::Rewrites::default();
    let read = recover::ended(&workflows, &rewrites, &id).await.unwrap();
    assert!(read.is_none());
}
