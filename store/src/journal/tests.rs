//! The journal against a model: whatever the store answers, acknowledged steps are stored once and in order.

use std::collections::BTreeMap;

use futures::executor::block_on;
use proptest::prelude::*;

use super::*;
use crate::{KeyRange, MemoryStore, Store, memory::Fault};

fn put(key: &str, value: impl Into<bytes::Bytes>) -> Write {
    Write::Put(key.into(), value.into())
}

/// A store in which a partition has an owner, and that owner's journal.
fn owned() -> (MemoryStore, Journal) {
    let store = MemoryStore::new();
    let token = block_on(store.commit(Batch::new().put("owner/a", "me"))).unwrap();
    let journal = Journal::new("owner/a".into(), FencingToken(token.0));
    (store, journal)
}

/// Commits the journal's batches until it is idle or has ended.
fn drain(store: &MemoryStore, journal: &mut Journal) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    while let Some(batch) = journal.next_batch() {
        outcomes.push(journal.committed(block_on(store.commit(batch))));
    }
    outcomes
}

fn rows(store: &MemoryStore) -> BTreeMap<String, Vec<u8>> {
    let mut rows = BTreeMap::new();
    let mut rest = Some(KeyRange::all());
    while let Some(range) = rest {
        let page = block_on(store.scan(range, 100)).unwrap();
        let read = page.rows.into_iter();
        rows.extend(read.map(|(key, row)| (key.as_str().to_owned(), row.value.to_vec())));
        rest = page.rest;
    }
    rows.remove("owner/a");
    rows
}

#[test]
fn steps_recorded_while_a_batch_is_in_flight_share_the_next_one() {
    let (store, mut journal) = owned();
    journal.record(vec![put("a", "1")]);
    let first = journal.next_batch().unwrap();
    journal.record(vec![put("b", "1")]);
    journal.record(vec![put("c", "1")]);
    assert!(journal.next_batch().is_none());
    journal.committed(block_on(store.commit(first)));
    assert_eq!(journal.next_batch().unwrap().writes.len(), 2);
}

#[test]
fn a_later_write_to_a_key_wins_and_ranges_keep_their_place() {
    let (store, mut journal) = owned();
    journal.record(vec![put("a", "1"), put("b", "1")]);
    journal.record(vec![Write::DeleteRange(KeyRange::all().after(&"0".into()))]);
    journal.record(vec![put("a", "2")]);
    let batch = journal.next_batch().unwrap();
    assert_eq!(batch.writes.len(), 3, "the first write to `a` is replaced");
    // The range also removed the owner's record, which only this test does.
    block_on(store.commit(batch)).unwrap();
    assert_eq!(rows(&store), BTreeMap::from([("a".into(), b"2".to_vec())]));
}

#[test]
fn a_step_larger_than_a_batch_is_split_and_durable_with_its_last_part() {
    let (store, mut journal) = owned();
    let value = vec![b'x'; limit::VALUE];
    let writes = (0..10).map(|n| put(&format!("{n}"), value.clone()));
    let small = journal.record(vec![put("small", "1")]);
    let large = journal.record(writes.collect());
    let outcomes = drain(&store, &mut journal);
    assert!(outcomes.len() >= 4, "{outcomes:?}");
    assert!(matches!(outcomes[0], Outcome::Durable(upto) if upto == small));
    let (last, before) = outcomes.split_last().unwrap();
    assert!(matches!(last, Outcome::Durable(upto) if *upto == large));
    assert!(
        before
            .iter()
            .all(|outcome| matches!(outcome, Outcome::Durable(upto) if *upto < large))
    );
    assert_eq!(rows(&store).len(), 11);
}

#[test]
fn a_replaced_owner_writes_nothing_more() {
    let (store, mut journal) = owned();
    block_on(store.commit(Batch::new().put("owner/a", "another"))).unwrap();
    let ticket = journal.record(vec![put("a", "1")]);
    assert!(matches!(
        drain(&store, &mut journal)[..],
        [Outcome::LostOwnership]
    ));
    journal.record(vec![put("b", "1")]);
    assert!(journal.next_batch().is_none() && !journal.is_durable(ticket));
    assert!(rows(&store).is_empty());
}

#[test]
fn a_poisoned_store_stops_the_journal() {
    let (store, mut journal) = owned();
    let before = journal.record(vec![put("a", "0")]);
    drain(&store, &mut journal);
    store.inject(Fault::Poison { kept: false });
    journal.record(vec![put("a", "1")]);
    assert!(matches!(
        drain(&store, &mut journal)[..],
        [Outcome::Stopped(CommitError::Poisoned { .. })]
    ));
    let after = journal.record(vec![put("a", "2")]);
    assert!(journal.next_batch().is_none());
    assert!(journal.is_durable(before) && !journal.is_durable(after));
}

#[test]
fn an_unknown_commit_is_submitted_again_under_its_id() {
    let (store, mut journal) = owned();
    store.inject(Fault::UnknownApplied);
    journal.record(vec![put("a", "1")]);
    let first = journal.next_batch().unwrap();
    let answer = block_on(store.commit(first.clone()));
    assert!(matches!(journal.committed(answer), Outcome::Resubmit(_)));
    journal.record(vec![put("b", "1")]);
    assert_eq!(journal.next_batch().unwrap(), first);
}

proptest! {
    /// Each step sets one of a few keys. Whatever faults are injected, the store ends in the state that the steps
    /// describe.
    #[test]
    fn acknowledged_steps_are_stored_in_order(
        steps in proptest::collection::vec((0..5u8, any::<bool>(), 0..4u8), 1..40),
    ) {
        let (store, mut journal) = owned();
        let mut model = BTreeMap::new();
        for (n, (key, fault, commits)) in steps.into_iter().enumerate() {
            if fault {
                let faults = [Fault::Unavailable, Fault::UnknownApplied, Fault::UnknownLost];
                store.inject(faults[n % 3]);
            }
            model.insert(key.to_string(), n.to_string().into_bytes());
            let ticket = journal.record(vec![put(&key.to_string(), n.to_string())]);
            for _ in 0..commits {
                if let Some(batch) = journal.next_batch() {
                    journal.committed(block_on(store.commit(batch)));
                }
            }
            prop_assert!(!journal.is_durable(ticket) || rows(&store) == model);
        }
        drain(&store, &mut journal);
        prop_assert!(journal.is_idle());
        prop_assert_eq!(rows(&store), model);
    }
}
