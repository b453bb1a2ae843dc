//! Seals that are refused or submitted again, and the fence that guards them.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::{FutureExt, executor::block_on};
use prodspec_model::{Incarnation, IncarnationNo};

use super::{START, asset, history, next, open, rows, same};
use crate::{
    Batch, CommitError, MemoryStore, Store,
    incarnations::{Error, Head, Keep},
    memory::{Fault, Point},
};

#[test]
fn of_two_concurrent_seals_one_is_refused() {
    let store = MemoryStore::new();
    let first = history(&store, 1).remove(0);
    let (one, other) = (open(&store), open(&store));
    let head = block_on(one.head()).unwrap();
    let mine = next(Some(&first), vec![asset(1, 1, 1)]);
    let theirs = next(Some(&first), vec![asset(2, 1, 1)]);
    block_on(one.seal(&mine, head.as_ref(), Batch::new())).unwrap();
    let refused = block_on(other.seal(&theirs, head.as_ref(), Batch::new()));
    assert!(matches!(
        refused,
        Err(Error::Store(crate::Error::Commit(
            CommitError::Conflict { .. }
        )))
    ));
    assert!(same(&block_on(other.latest()).unwrap().unwrap(), &mine));
}

#[test]
fn pieces_touched_by_another_writer_are_never_put_in_force() {
    let store = MemoryStore::new();
    let first = history(&store, 1).remove(0);
    let incarnations = open(&store);
    let head = block_on(incarnations.head()).unwrap();
    let large = next(
        Some(&first),
        (0..20).map(|at| asset(at, 1, 140_000)).collect(),
    );
    let (other, writes) = (store.clone(), AtomicUsize::new(0));
    store.set_pause(move |point| {
        let third = point == Point::BeforeWrite && writes.fetch_add(1, Ordering::Relaxed) == 2;
        let other = other.clone();
        async move {
            if third {
                let batch = Batch::new()
                    .put("sealing/shakespeare", r#"{"after":1}"#)
                    .put("chunk/shakespeare/0000000002/00000", "theirs");
                other.commit(batch).await.unwrap();
            }
        }
        .boxed()
    });
    let refused = block_on(incarnations.seal(&large, head.as_ref(), Batch::new()));
    assert!(matches!(
        refused,
        Err(Error::Store(crate::Error::Commit(
            CommitError::Conflict { .. }
        )))
    ));
    assert!(same(
        &block_on(incarnations.latest()).unwrap().unwrap(),
        &first
    ));
}

#[test]
fn a_seal_of_unknown_outcome_is_submitted_again() {
    let store = MemoryStore::new();
    let first = history(&store, 1).remove(0);
    let head = block_on(open(&store).head()).unwrap();
    let second = next(Some(&first), vec![asset(1, 1, 1)]);
    store.inject(Fault::UnknownLost);
    store.inject(Fault::UnknownApplied);
    block_on(open(&store).seal(&second, head.as_ref(), Batch::new())).unwrap();
    assert!(same(
        &block_on(open(&store).latest()).unwrap().unwrap(),
        &second
    ));
}

#[test]
fn an_incarnation_not_built_from_the_head_is_refused() {
    let store = MemoryStore::new();
    let all = history(&store, 2);
    let incarnations = open(&store);
    let head = block_on(incarnations.head()).unwrap();
    let refused = |incarnation: &Incarnation, head: Option<&Head>| {
        let sealed = block_on(incarnations.seal(incarnation, head, Batch::new()));
        matches!(sealed, Err(Error::Misfit(_)))
    };
    assert!(refused(
        &next(Some(&all[0]), vec![asset(1, 1, 1)]),
        head.as_ref()
    ));
    let good = next(Some(&all[1]), vec![asset(1, 1, 1)]);
    assert!(refused(&good, None));
    let mut header = good.header().clone();
    header.assets = 7;
    assert!(refused(
        &Incarnation::new(header, good.snapshot().clone()),
        head.as_ref()
    ));
    let foreign = next(
        Some(&next(None, vec![asset(1, 8, 8)])),
        vec![asset(2, 2, 2)],
    );
    let foreign = next(Some(&foreign), vec![asset(3, 3, 3)]);
    assert!(refused(&foreign, head.as_ref()));
    assert!(!refused(&good, head.as_ref()));
}

#[test]
fn the_fence_of_the_caller_guards_every_commit() {
    let store = MemoryStore::new();
    let first = history(&store, 1).remove(0);
    let head = block_on(open(&store).head()).unwrap();
    let token = block_on(store.commit(Batch::new().put("owner/shakespeare", "me"))).unwrap();
    block_on(store.commit(Batch::new().put("owner/shakespeare", "other"))).unwrap();
    let before = rows(&store);
    for bytes in [5, 140_000] {
        let new = next(
            Some(&first),
            (0..20).map(|at| asset(at, 1, bytes)).collect(),
        );
        let with = Batch::new().expect_at("owner/shakespeare", token);
        assert!(block_on(open(&store).seal(&new, head.as_ref(), with.clone())).is_err());
        let keep = Keep {
            after: IncarnationNo(u32::MAX),
            count: 1,
            age: Duration::ZERO,
            pinned: BTreeSet::new(),
        };
        assert!(block_on(open(&store).retain(&keep, START, &with)).is_err());
    }
    assert_eq!(rows(&store), before);
}
