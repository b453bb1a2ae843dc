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
    Handle, Pipeline, Regeneration, Table, TrialError, YamlFile,
    seal::InMemory,
    testing::{self, Item},
};

fn generation_of(
    sources: impl IntoIterator<Item: SourceOfTruth>,
) -> (Regeneration<TokioRuntime>, Handle) {
    let builder = Pipeline::builder(PartitionId::new("test").unwrap());
    let builder = sources
        .into_iter()
        .fold(builder, |it, source| it.source(source));
    let pipeline = builder
        .generator(testing::Items)
        .asset_type(AssetType::<Item>::new())
        .build()
        .unwrap();
    let seals = Arc::new(InMemory::new());
    Regeneration::new(TokioRuntime::current(), pipeline, seals)
}

#[tokio::test(start_paused = true)]
async fn trial_tells_what_a_source_would_make_and_seals_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docs");
    fs::write(&path, "a: {n: 1}\nb: {n: 2}\n").unwrap();
    let source = YamlFile::new(&path);
    let (regeneration, handle) = generation_of([source.clone()]);
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

/// A trial that another source spoils says nothing of the content that is tried.
#[tokio::test(start_paused = true)]
async fn trial_beside_a_source_that_cannot_be_read_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        YamlFile::new(path)
    };
    let (docs, other) = (file("docs", "a: {n: 1}\n"), file("other", "b: {n: 1}\n"));
    let (regeneration, handle) = generation_of([docs.clone(), other]);
    let _running = tokio::spawn(regeneration.run());
    assert!(handle.next_run().await.is_good());
    fs::remove_file(dir.path().join("other")).unwrap();
    let reading = docs.parse(b"a: {n: 2}\n").unwrap();
    let failed = handle.try_reading(docs.name(), reading).await.unwrap_err();
    assert!(matches!(failed, TrialError::Failed(_)), "{failed}");
}

/// A proposal that says which documents it changes costs what these cost, and makes the same.
#[tokio::test(start_paused = true)]
async fn trial_of_a_proposal_makes_what_its_whole_content_makes() {
    let store = Arc::new(MemoryStore::new());
    let table = Table::new("docs", store, PartitionId::new("test").unwrap());
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
    let (regeneration, handle) = generation_of([table.clone()]);
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

/// What another source has changed since is in the candidate too, so its changes are not those of one source alone.
#[tokio::test(start_paused = true)]
async fn trial_beside_a_change_of_another_source_has_no_base() {
    let store = Arc::new(MemoryStore::new());
    let table = |name| Table::new(name, store.clone(), PartitionId::new("test").unwrap());
    let (docs, other) = (table("docs"), table("other"));
    let change = |id: u128, name: &str| {
        let row = json!({ name: { "n": 1 } });
        let edits = vec![FieldEdit::add(name, FieldPath::default(), row)];
        SourceChange::new(ChangeId::from(id), edits, "ada", "test", Default::default())
    };
    let make = async |table: &Table, change: SourceChange| {
        let proposal = table.propose(&change).await.unwrap();
        table.commit(&change, &proposal).await.unwrap();
    };
    make(&docs, change(1, "a")).await;
    let (regeneration, handle) = generation_of([docs.clone(), other.clone()]);
    let _running = tokio::spawn(regeneration.run());
    assert!(handle.next_run().await.is_good());
    let proposal = docs.propose(&change(2, "b")).await.unwrap();
    let base = async || {
        let trial = handle.try_proposal(docs.name(), &proposal).await;
        trial.unwrap().base
    };
    assert_eq!(base().await, Some(proposal.before.clone()));
    make(&other, change(3, "c")).await;
    assert_eq!(base().await, None);
}
