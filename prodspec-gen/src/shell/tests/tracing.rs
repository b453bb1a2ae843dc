//! R47: an asset is traced to the field that it comes from, at the line that the field has today.

use std::{fs, sync::Arc};

use control_plane_runtime::TokioRuntime;
use plugin_sdk::AssetType;
use prodspec_model::PartitionId;

use crate::{
    Pipeline, Regeneration, YamlFile,
    seal::InMemory,
    testing::{self, Item, id},
};

#[tokio::test(start_paused = true)]
async fn r47_trace_finds_the_line_of_today_and_a_comment_seals_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docs");
    fs::write(&path, "a: {n: 1}\nb: {n: 2}\n").unwrap();
    let pipeline = Pipeline::builder(PartitionId::new("test").unwrap())
        .source(YamlFile::new(&path))
        .generator(testing::Items)
        .asset_type(AssetType::<Item>::new())
        .build()
        .unwrap();
    let seals = Arc::new(InMemory::new());
    let (regeneration, handle) = Regeneration::new(TokioRuntime::current(), pipeline, seals);
    tokio::spawn(regeneration.run());
    handle.next_run().await;
    let trace = handle.trace(&id("b")).await.unwrap();
    let field = async |asset, field: &str| handle.field(&id(asset), &field.parse().unwrap()).await;
    let found = field("b", "n").await.unwrap().edit;
    assert_eq!(
        (found.path.to_string(), found.was),
        ("b.n".to_owned(), Some(2.into()))
    );
    assert_eq!(field("b", "m").await.unwrap().edit.was, None);
    assert_eq!(field("c", "n").await, None);
    let revision = trace.revision.clone().unwrap();
    let expected = format!(
        "b: made by items, from `b` in docs#0:2:4 (source docs at {})",
        revision.0
    );
    assert_eq!(trace.to_string(), expected);

    fs::write(&path, "# one\n# two\na: {n: 1}\nb: {n: 2}\n").unwrap();
    let status = handle.next_run().await;
    assert_eq!(status.incarnation.unwrap().id.no.0, 1);
    let moved = handle.trace(&id("b")).await.unwrap();
    assert_eq!(moved.place.as_ref().unwrap().line, 4);
    assert_ne!(moved.revision, Some(revision), "the one that was read");
    assert_eq!(moved.provenance, trace.provenance);
    assert_eq!(handle.trace(&id("c")).await, None);
}
