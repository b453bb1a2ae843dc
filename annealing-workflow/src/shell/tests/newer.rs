//! R5, R42: records of a newer program version. Their fields are kept, and words that this version does not understand stop
//! nothing else.

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, Claim, Dispatch, DispatchPlugin, DispatchRequest, check::CheckName,
    service::DispatchLayer,
};
use tower::Layer;

use super::{
    kept::{one, rows},
    *,
};

/// One season at a time: each claims the stage from its start to its end.
struct OneStage;

#[async_trait]
impl DispatchPlugin for OneStage {
    fn name(&self) -> CheckName {
        "stage".into()
    }

    async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatch, BoxError> {
        let stage = Claim::Exclusive("stage".into());
        Ok(
            match request.is_start() && request.execution.workflow.as_str() == "season" {
                true => request.go().claim(stage),
                false => request.go(),
            },
        )
    }
}

fn on_stage(
    press: &Press,
) -> impl Fn(WorkflowsBuilder<TokioRuntime>) -> WorkflowsBuilder<TokioRuntime> {
    let press = press.clone();
    move |builder| {
        let builder = with(&press)(builder)
            .workflow(one("other"))
            .dispatch_in_memory();
        builder.dispatch(|base| DispatchLayer::new(OneStage).layer(base))
    }
}

/// Starts a season, and returns when it asks.
async fn asking(handle: &Handle<TokioRuntime>, key: &str) -> plugin_sdk::operation::ExecutionId {
    let start = Start::of("season").key(key);
    let id = handle.start(start, by()).await.unwrap().id;
    let asks = async {
        while handle
            .live(&id)
            .await
            .unwrap()
            .unwrap()
            .machine("go")
            .is_none_or(|it| it.wait.is_none())
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, asks).await.unwrap();
    // With the pause, everything before it is durable.
    handle.say(&id, Say::Pause, by()).await.unwrap();
    handle.say(&id, Say::Resume, by()).await.unwrap();
    id
}

/// Changes the rows of one kind as a newer program version would have written them.
async fn newer(store: &MemoryStore, kind: &str, change: impl Fn(&mut serde_json::Value)) {
    for (key, mut row) in rows(store, kind).await {
        change(&mut row);
        store
            .commit(Batch::new().put(key, row.to_string()))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn r42_fields_of_newer_program_versions_are_kept() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let id = owning(&store, with(&press), async |handle| {
        asking(&handle, "2027").await
    })
    .await;
    for kind in [
        "workflow-live",
        "workflow-step",
        "workflow-key",
        "workflow-lane",
    ] {
        newer(&store, kind, |row| row["newer"] = json!(kind)).await;
    }
    owning(&store, with(&press), async |handle| {
        let other = Start::of("season").key("other");
        handle.start(other, by()).await.unwrap();
        handle.say(&id, Say::Pause, by()).await.unwrap();
        handle.say(&id, Say::Resume, by()).await.unwrap();
        let live = rows(&store, "workflow-live").await;
        assert!(
            live.iter().any(|(_, row)| row["newer"] == "workflow-live"),
            "{live:?}"
        );
        while let Err(error) = handle.say(&id, Say::answer("go", "yes"), by()).await {
            assert!(matches!(error, AskError::Refused(_)), "{error}");
            tokio::task::yield_now().await;
        }
        handle.wait(&id, SOON).await.unwrap();
    })
    .await;
    for kind in ["workflow-step", "workflow-key", "workflow-lane"] {
        let mut rows = rows(&store, kind).await;
        // Of the steps only that of the question has changed.
        rows.retain(|(key, _)| kind != "workflow-step" || key.as_str().ends_with(" go"));
        assert!(
            rows.iter().any(|(_, row)| row["newer"] == kind),
            "{kind}: {rows:?}"
        );
    }
}

#[tokio::test]
async fn r5_execution_with_a_definition_of_a_newer_version_stands_still_with_key_and_claims() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let id = owning(&store, on_stage(&press), async |handle| {
        asking(&handle, "2027").await
    })
    .await;
    let before = rows(&store, "workflow-definition").await;
    newer(&store, "workflow-definition", |row| {
        row["machines"] = json!({ "newer": 1 })
    })
    .await;
    let kept = rows(&store, "workflow-live").await;
    owning(&store, on_stage(&press), async |handle| {
        // Others begin and end.
        let done = handle.start(Start::of("other"), by()).await.unwrap().id;
        let ended = handle.wait(&done, SOON).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Succeeded);
        // Its key is its own, and the stage is not free.
        let again = handle
            .start(Start::of("season").key("2027"), by())
            .await
            .unwrap();
        assert_eq!((again.id, again.new), (id.clone(), false));
        let next = handle
            .start(Start::of("season").key("2028"), by())
            .await
            .unwrap()
            .id;
        handle.say(&next, Say::Pause, by()).await.unwrap();
        assert!(handle.live(&next).await.unwrap().unwrap().wait.is_some());
        handle.say(&next, Say::Resume, by()).await.unwrap();
        let error = handle.say(&id, Say::Cancel, by()).await.unwrap_err();
        assert!(matches!(error, AskError::Refused(_)), "{error}");
    })
    .await;
    let now = rows(&store, "workflow-live").await;
    assert!(kept.iter().all(|row| now.contains(row)), "{now:?}");
    // The program of the newer version goes on.
    for (key, row) in before {
        store
            .commit(Batch::new().put(key, row.to_string()))
            .await
            .unwrap();
    }
    owning(&store, on_stage(&press), async |handle| {
        handle
            .say(&id, Say::answer("go", "yes"), by())
            .await
            .unwrap();
        let ended = handle.wait(&id, SOON).await.unwrap();
        assert_eq!(ended.outcome, Outcome::Succeeded);
    })
    .await;
}

#[tokio::test]
async fn r5_machine_that_does_what_only_a_newer_version_knows_waits_for_a_person() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let id = owning(&store, on_stage(&press), async |handle| {
        asking(&handle, "2027").await
    })
    .await;
    let dreams = |row: &mut serde_json::Value| {
        if row["does"] == "asks" {
            row["does"] = json!("dreams");
        }
    };
    newer(&store, "workflow-step", dreams).await;
    owning(&store, on_stage(&press), async |handle| {
        let done = handle.start(Start::of("other"), by()).await.unwrap().id;
        handle.wait(&done, SOON).await.unwrap();
        let live = handle.live(&id).await.unwrap().unwrap();
        assert!(live.machine("go").unwrap().wait.is_some());
        handle.say(&id, Say::Pause, by()).await.unwrap();
        handle.say(&id, Say::Resume, by()).await.unwrap();
    })
    .await;
    let steps = rows(&store, "workflow-step").await;
    assert!(
        steps.iter().any(|(_, row)| row["does"] == "dreams"),
        "{steps:?}"
    );
    // An operator settles the step, and it goes on.
    owning(&store, on_stage(&press), async |handle| {
        let no = Say::settle("go", "no");
        handle.say(&id, no, by()).await.unwrap();
        let ended = handle.wait(&id, SOON).await.unwrap();
        assert_eq!(ended.states[&"undo".into()].as_str(), "done");
    })
    .await;
}
