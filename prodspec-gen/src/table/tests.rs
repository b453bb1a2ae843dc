//! Tables: what is proposed is what is read after the commit, changes are told as deltas, and one of two changes of the
//! same state wins.

use control_plane_store::MemoryStore;
use plugin_sdk::{ChangeId, FieldPath, conformance};
use proptest::prelude::*;
use serde_json::json;
use tokio::runtime::Builder;

use super::*;

fn table(store: &Arc<MemoryStore>) -> Table {
    Table::new("services", store.clone(), "test".parse().unwrap())
}

fn change(id: &str, edits: Vec<FieldEdit>) -> SourceChange {
    SourceChange::new(
        ChangeId::new(id).unwrap(),
        edits,
        "ada",
        "test",
        Default::default(),
    )
}

fn add(name: &str, row: Value) -> FieldEdit {
    FieldEdit::add(name, FieldPath::default(), row)
}

fn set(name: &str, path: &str, was: i64, to: i64) -> FieldEdit {
    FieldEdit::set(name, path.parse().unwrap(), was, to)
}

async fn make(table: &Table, change: &SourceChange) -> Revision {
    let proposal = table.propose(change).await.unwrap();
    let revision = table.commit(change, &proposal).await.unwrap();
    assert_eq!(table.read().await.unwrap(), proposal.reading);
    revision
}

#[tokio::test]
async fn r34_change_of_a_table_is_one_commit_and_the_same_change_again_is_one_change() {
    let store = Arc::new(MemoryStore::new());
    let table = table(&store);
    let first = change(
        "1",
        vec![add("eu", json!({"n": 1})), add("us", json!({"n": 2}))],
    );
    let proposal = table.propose(&first).await.unwrap();
    let revision = table.commit(&first, &proposal).await.unwrap();
    assert_eq!(table.commit(&first, &proposal).await, Ok(revision.clone()));
    let both = change("2", vec![set("eu", "n", 1, 5), set("us", "n", 3, 5)]);
    let EditError::Refused(refused) = table.propose(&both).await.unwrap_err() else {
        panic!("one of the edits does not fit");
    };
    assert_eq!(
        refused.to_string(),
        "us: `n` is 2, but 3 was expected; read the source again and decide anew (says source services)"
    );
    assert_eq!(table.read().await.unwrap().revision, revision);
    let nothing = change("3", vec![set("eu", "n", 1, 1)]);
    assert!(table.propose(&nothing).await.unwrap().is_unchanged());
}

#[tokio::test]
async fn r34_one_of_two_changes_of_the_same_state_wins() {
    let store = Arc::new(MemoryStore::new());
    let (one, two) = (table(&store), table(&store));
    make(&one, &change("1", vec![add("eu", json!({"n": 1}))])).await;
    let (a, b) = (
        change("a", vec![set("eu", "n", 1, 2)]),
        change("b", vec![set("eu", "n", 1, 3)]),
    );
    let (first, second) = (
        one.propose(&a).await.unwrap(),
        two.propose(&b).await.unwrap(),
    );
    let now = two.commit(&b, &second).await.unwrap();
    assert_eq!(one.commit(&a, &first).await, Err(EditError::Moved { now }));
}

/// Both batches were made from the same state, so both found the table at the revision of their proposals.
#[tokio::test]
async fn r34_batch_that_was_made_before_another_change_is_refused_by_the_store() {
    let store = Arc::new(MemoryStore::new());
    let table = table(&store);
    make(&table, &change("0", vec![add("eu", json!({"n": 1}))])).await;
    let mut batches = Vec::new();
    for (id, name) in [("a", "us"), ("b", "asia")] {
        let change = change(id, vec![add(name, json!({"n": 1}))]);
        let proposal = table.propose(&change).await.unwrap();
        let batch = table.write(Batch::new(), &change, &proposal).await.unwrap();
        batches.push((batch, proposal));
    }
    let (second, _) = batches.pop().unwrap();
    let (first, proposal) = batches.pop().unwrap();
    store.commit(first).await.unwrap();
    let refused = store.commit(second).await.unwrap_err();
    assert!(
        matches!(refused, CommitError::Conflict { .. }),
        "{refused:?}"
    );
    assert_eq!(table.read().await.unwrap(), proposal.reading);
}

#[tokio::test]
async fn r34_tables_keep_the_laws_of_editable_sources() {
    let table = table(&Arc::new(MemoryStore::new()));
    make(&table, &change("0", vec![add("eu", json!({"n": 1}))])).await;
    let changes = [
        change("1", vec![set("eu", "n", 1, 2)]),
        change("2", vec![set("eu", "n", 2, 3)]),
    ];
    conformance::editable(&table, changes).await.unwrap();
}

#[tokio::test]
async fn documents_with_names_or_values_that_cannot_be_are_refused() {
    let table = table(&Arc::new(MemoryStore::new()));
    for (name, row) in [("", json!({})), ("a\nb", json!({})), ("a", json!(3))] {
        let refused = table.propose(&change("1", vec![add(name, row)])).await;
        assert!(matches!(refused, Err(EditError::Refused(_))), "{name:?}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, i64),
    Remove(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6_u8, 0..4_i64).prop_map(|(name, n)| Step::Put(name, n)),
        1 => (0..6_u8).prop_map(Step::Remove),
    ]
}

/// The edit of a step, for a table in which the document has the value `before`.
fn edit(step: &Step, before: Option<Value>) -> Option<FieldEdit> {
    match (step, before) {
        (Step::Put(name, n), None) => Some(add(&name.to_string(), json!({ "n": n }))),
        (Step::Put(name, n), Some(before)) => {
            let was = before["n"].clone();
            Some(FieldEdit::set(
                &name.to_string(),
                "n".parse().unwrap(),
                was,
                *n,
            ))
        }
        (Step::Remove(name), Some(before)) => Some(FieldEdit::remove(
            &name.to_string(),
            FieldPath::default(),
            before,
        )),
        (Step::Remove(_), None) => None,
    }
}

proptest! {
    /// R43: what has changed since any revision, applied to its documents, gives those of a whole reading.
    #[test]
    fn r43_delta_of_a_table_equals_a_whole_reading(steps in prop::collection::vec(step(), 1..25)) {
        Builder::new_current_thread().build().unwrap().block_on(async {
            let store = Arc::new(MemoryStore::new());
            // Each makes changes that the other does not know; a new one has read nothing before.
            let tables = [table(&store), table(&store)];
            let keyed = |reading: Reading| {
                let documents = reading.documents.into_iter();
                let documents = documents.map(|document| (document.key().clone(), document));
                (reading.revision, documents.collect::<BTreeMap<_, _>>())
            };
            let mut earlier = vec![keyed(tables[0].read().await.unwrap())];
            for (n, step) in steps.iter().enumerate() {
                let table = &tables[n % 2];
                let (Step::Put(name, _) | Step::Remove(name)) = step;
                let documents = table.read().await.unwrap().documents;
                let row = documents.iter().find(|it| it.name() == name.to_string());
                let Some(edit) = edit(step, row.map(|row| row.root().to_json())) else { continue };
                make(table, &change(&n.to_string(), vec![edit])).await;
                let whole = super::tests::table(&store).read().await.unwrap();
                prop_assert_eq!(&table.read().await.unwrap(), &whole);
                let now = keyed(whole);
                for (known, before) in &earlier {
                    let update = table.read_since(known).await.unwrap();
                    prop_assert_eq!(&update.applied_to(known, before), &now);
                }
                earlier.push(now);
            }
            Ok(())
        })?;
    }
}
