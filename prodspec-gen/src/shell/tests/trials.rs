//! Trials: what the sources would make if one of them had other content, without a seal.

use std::{fs, sync::Arc};

use control_plane_runtime::TokioRuntime;
use plugin_sdk::{AssetType, SourceOfTruth};
use prodspec_model::PartitionId;

use crate::{
    Pipeline, Regeneration, YamlFile,
    seal::InMemory,
    testing::{self, Item},
};

#[tokio::test(start_paused = true)]
async fn trial_tells_what_a_source_would_make_and_seals_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docs");
    fs::write(&path, "a: {n: 1}\nb: {n: 2}\n").unwrap();
    let source = YamlFile::new(&path);
    let pipeline = Pipeline::builder(PartitionId::new("test").unwrap())
        .source(source.clone())
        .generator(testing::Items)
        .asset_type(AssetType::<Item>::new())
        .build()
        .unwrap();
    let seals = Arc::new(InMemory::new());
    let (regeneration, handle) = Regeneration::new(TokioRuntime::current(), pipeline, seals);
    let running = tokio::spawn(regeneration.run());
    let attempt = async |text: &str| {
        let reading = source.parse(text.as_bytes()).unwrap();
        handle.try_reading(source.name(), reading).await
    };
    // Also before the first run has ended.
    let first = attempt("a: {n: 1}\nc: {n: 3}\n").await.unwrap();
    assert_eq!((first.candidate.snapshot.len(), first.base), (2, None));
    let sealed = handle.next_run().await.incarnation.unwrap();
    let trial = attempt("a: {n: 7}\nb: {n: 2}\n").await.unwrap();
    assert_eq!(trial.candidate.changes.len(), 1, "of the one in force");
    assert_eq!(trial.base, Some(source.read().await.unwrap().revision));
    let refused = attempt("a: {n: 13}\nb: {n: 2}\n").await.unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("docs#0:1:4: a: 13 is not allowed"),
        "{refused}"
    );
    let status = handle.next_run().await;
    assert_eq!(status.incarnation, Some(sealed));
    assert!(status.problems.is_empty());
    running.abort();
    let _ = running.await;
    let ended = attempt("a: {n: 1}").await.unwrap_err();
    assert!(ended.to_string().contains("has ended"), "{ended}");
}
