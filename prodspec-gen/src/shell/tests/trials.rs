//! Trials: what the sources would make if one of them had other content, without a seal.

use std::{fs, sync::Arc};

use control_plane_runtime::TokioRuntime;
use control_plane_store::MemoryStore;
use plugin_sdk::{
    AssetType, ChangeId, EditableSource, FieldEdit, FieldPath, SourceChange, SourceOfTruth,
};
use prodspec_model::PartitionId;
use serde_json::json;

use crate::{
    Pipeline, Regeneration, Table, YamlFile,
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

/// A proposal that says which documents it changes costs what these cost, and makes the same.
#[tokio::test(start_paused = true)]
async fn trial_of_a_proposal_makes_what_its_whole_content_makes() {
    let store = Arc::new(MemoryStore::new());
    let partition = PartitionId::new("test").unwrap();
    let table = Table::new("docs", store, partition.clone());
    let change = |id: u128, edits: Vec<FieldEdit>| {
        SourceChange::new(ChangeId::from(id), edits, "ada", "test", Default::default())
    };
    let add = |name: &str, n: u32| {
        let items = json!({ name: { "n": n } });
        FieldEdit::add(name, FieldPath::default(), items)
    };
    let first = change(1, vec![add("a", 1), add("b", 2), add("c", 3)]);
    let proposal = table.propose(&first).await.unwrap();
    table.commit(&first, &proposal).await.unwrap();
    let pipeline = Pipeline::builder(partition)
        .source(table.clone())
        .generator(testing::Items)
        .asset_type(AssetType::<Item>::new())
        .build()
        .unwrap();
    let seals = Arc::new(InMemory::new());
    let (regeneration, handle) = Regeneration::new(TokioRuntime::current(), pipeline, seals);
    let _running = tokio::spawn(regeneration.run());
    assert!(handle.next_run().await.is_good());
    let second = vec![
        FieldEdit::set("a", "a.n".parse().unwrap(), 1, 5),
        FieldEdit::remove("b", FieldPath::default(), json!({ "b": { "n": 2 } })),
        add("d", 4),
    ];
    let proposal = table.propose(&change(2, second)).await.unwrap();
    assert_eq!(proposal.changed.as_ref().unwrap().len(), 3);
    let some = handle.try_proposal(table.name(), &proposal).await.unwrap();
    let whole = handle.try_reading(table.name(), proposal.reading.clone());
    let whole = whole.await.unwrap();
    assert_eq!(some.candidate.digest, whole.candidate.digest);
    assert_eq!(some.candidate.changes, whole.candidate.changes);
    assert_eq!(
        (some.base.as_ref(), whole.base.as_ref()),
        (Some(&proposal.before), Some(&proposal.before))
    );
    assert_eq!(some.candidate.changes.len(), 3);
}
