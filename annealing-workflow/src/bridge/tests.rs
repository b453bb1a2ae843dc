use std::time::Duration;

use plugin_sdk::{
    AssetIntent, AssetPlugin, Diff, DiffRequest, FencingToken, PushRequest, Pushed, Run, Turndown,
    operation::RunEnd,
    plugin,
    testing::{self, FakeRuns, NOW},
};
use prodspec_model::{
    Asset, AssetId, Message, addons,
    operation::{Operation, PipelineStep},
};
use serde::{Deserialize, Serialize};

use super::*;

const RUN: Run = Run {
    slot: 0,
    n: 1,
    incarnation: prodspec_model::IncarnationNo(1),
};

#[derive(Serialize, Deserialize)]
struct Index {
    max_age_secs: u64,
}

impl Message for Index {
    const TYPE: &'static str = "test.v1.Index";
}

fn index(max_age_secs: u64) -> Asset {
    let asset = Asset::builder(AssetId::new("i").unwrap());
    let asset = asset.payload(&Index { max_age_secs }).unwrap();
    asset.build().unwrap()
}

fn intent(asset: &Asset) -> AssetIntent {
    AssetIntent::new(testing::incarnation(1, [asset.clone()]), asset.clone())
}

async fn diff(plugin: &impl AssetPlugin, asset: &Asset) -> Diff {
    let request = DiffRequest::new(intent(asset), FencingToken(1), RUN);
    plugin.diff(request).await.unwrap()
}

fn push(asset: &Asset, continuation: bool) -> PushRequest {
    let change = prodspec_model::Digest::of(b"change");
    PushRequest::new(intent(asset), FencingToken(1), RUN, change).continuation(continuation)
}

#[tokio::test]
async fn r40_index_is_due_again_after_the_start_of_the_last_run_that_succeeded() {
    let runs = FakeRuns::new(NOW);
    let plugin = FreshPlugin::of("reindex", runs.clone())
        .within(|index: &Index| Duration::from_secs(index.max_age_secs));
    let asset = index(3600);
    assert!(matches!(diff(&plugin, &asset).await, Diff::Differs { .. }));
    let pushed = plugin.push(push(&asset, false)).await.unwrap();
    assert_eq!(pushed, Pushed::in_progress(LOOK));
    assert_eq!(diff(&plugin, &asset).await, Diff::in_progress(LOOK));
    // It takes ten minutes.
    runs.set_time(NOW + Duration::from_secs(600));
    runs.end(RunEnd::Succeeded);
    assert_eq!(plugin.push(push(&asset, true)).await.unwrap(), Pushed::Done);
    let due = NOW + Duration::from_secs(3600);
    assert_eq!(
        diff(&plugin, &asset).await,
        Diff::in_sync().look_again_at(due)
    );
    runs.set_time(due);
    assert!(matches!(diff(&plugin, &asset).await, Diff::Differs { .. }));

    // A run that fails is a failed push, and what was made before is still too old.
    plugin.push(push(&asset, false)).await.unwrap();
    runs.end(RunEnd::Failed("failed".to_owned()));
    let failed = plugin.push(push(&asset, true)).await.unwrap_err();
    assert!(
        matches!(failed, plugin::Error::Permanent { .. }),
        "{failed}"
    );
    let Diff::Differs { change, .. } = diff(&plugin, &asset).await else {
        panic!("it is due");
    };
    assert!(
        change.summary.ends_with("reindex-0000000003 failed"),
        "{}",
        change.summary
    );

    // Another content is due at once, or fresh by what ran for it before.
    assert!(matches!(
        diff(&plugin, &index(7200)).await,
        Diff::Differs { .. }
    ));
}

#[tokio::test]
async fn r32_runs_of_assets_have_the_labels_of_their_plugin_or_operation() {
    let runs = FakeRuns::new(NOW);
    let fresh = FreshPlugin::<Index>::of("reindex", runs.clone()).label("app", "shop");
    fresh.push(push(&index(1), false)).await.unwrap();
    let reindex = Operation::pipeline([PipelineStep::new("run", "reindex")]);
    let reindex = reindex.label("app", "blog");
    let asset = Asset::builder(AssetId::new("o").unwrap());
    let asset = asset.payload(&reindex).unwrap().build().unwrap();
    let plugin = OperationPlugin::new(runs.clone());
    plugin.push(push(&asset, false)).await.unwrap();
    let joins = runs.joins();
    let [fresh, operation] = &joins[..] else {
        panic!("two pushes join two runs");
    };
    assert_eq!(fresh.start.labels["app"], "shop");
    assert_eq!(operation.operation, Some(reindex));
}

#[tokio::test]
async fn r40_turndown_cancels_what_runs_and_waits_for_its_end() {
    let runs = FakeRuns::new(NOW);
    let plugin = WorkflowPlugin::of("season", runs.clone());
    let asset = index(1);
    plugin.push(push(&asset, false)).await.unwrap();
    let addon = addons::Turndown {
        reason: "over".into(),
        approved_by: "ann".into(),
    };
    let down = asset.edit().addon(&addon).unwrap().build().unwrap();
    let Diff::Differs { change, .. } = diff(&plugin, &down).await else {
        panic!("it runs");
    };
    assert_eq!(change.summary, "cancel season-0000000001");
    for continuation in [false, true] {
        let pushed = plugin.turndown(push(&down, continuation)).await.unwrap();
        assert_eq!(pushed, Pushed::in_progress(LOOK));
    }
    assert_eq!(runs.cancelled().len(), 1);
    runs.end(RunEnd::Failed("cancelled".to_owned()));
    assert_eq!(
        plugin.turndown(push(&down, true)).await.unwrap(),
        Pushed::Done
    );
    assert_eq!(diff(&plugin, &down).await, Diff::in_sync());
}
