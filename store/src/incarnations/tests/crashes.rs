//! R5: a crash leaves the old incarnation in force or the new one, and damage is detected.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use futures::{FutureExt, executor::block_on};
use prodspec_model::Incarnation;

use super::{asset, count, history, next, open, rows, same};
use crate::{Batch, MemoryStore, Store, memory::Point};

#[test]
fn r5_every_incarnation_is_read_back_after_a_crash() {
    let store = MemoryStore::new();
    let all = history(&store, 150);
    let store = store.crash();
    let incarnations = open(&store);
    for sealed in &all {
        let read = block_on(incarnations.load(sealed.no())).unwrap();
        assert!(same(&read, sealed), "{}", sealed.id());
    }
    let latest = block_on(incarnations.latest()).unwrap().unwrap();
    assert!(same(&latest, &all[149]));
    let after = block_on(incarnations.head()).unwrap().unwrap();
    let one_more = next(Some(&latest), vec![asset(3, 9, 9)]);
    block_on(incarnations.seal(&one_more, Some(&after), Batch::new())).unwrap();
    assert!(same(
        &block_on(incarnations.latest()).unwrap().unwrap(),
        &one_more
    ));
}

/// Cuts the power at each point of sealing `new` after `old`; there must be at least `points` points. One of the two
/// must be completely in force afterwards.
fn crash_everywhere(old: &Incarnation, new: &Incarnation, points: usize) {
    for crash_at in 0.. {
        let store = MemoryStore::new();
        let head = block_on(open(&store).seal(old, None, Batch::new())).unwrap();
        let reached = Arc::new(AtomicUsize::new(0));
        let reopened = Arc::new(Mutex::new(None));
        let (on, seen, kept) = (store.clone(), reached.clone(), reopened.clone());
        store.set_pause(move |_: Point| {
            if seen.fetch_add(1, Ordering::Relaxed) == crash_at {
                *kept.lock().unwrap() = Some(on.crash());
            }
            futures::future::ready(()).boxed()
        });
        let sealed = block_on(open(&store).seal(new, Some(&head), Batch::new()));
        let Some(store) = reopened.lock().unwrap().take() else {
            assert!(sealed.is_ok() && crash_at >= points);
            return;
        };
        let incarnations = open(&store);
        let latest = block_on(incarnations.latest()).unwrap().unwrap();
        assert!(
            same(&latest, old) && sealed.is_err() || same(&latest, new),
            "crash at {crash_at}"
        );
        if same(&latest, old) {
            let other = next(Some(&latest), vec![asset(5, 5, 5)]);
            let head = block_on(incarnations.head()).unwrap();
            block_on(incarnations.seal(&other, head.as_ref(), Batch::new())).unwrap();
            let read = block_on(open(&store).latest()).unwrap().unwrap();
            assert!(same(&read, &other));
            assert_eq!(
                count(&store, "chunk/shakespeare/0000000002"),
                1,
                "pieces of the crashed seal are left"
            );
        }
    }
}

#[test]
fn r5_a_crash_leaves_the_old_incarnation_in_force_or_the_new_one() {
    let first = next(None, (0..50).map(|at| asset(at, 0, 50)).collect());
    crash_everywhere(&first, &next(Some(&first), vec![asset(1, 1, 1)]), 5);
}

#[test]
fn r5_a_crash_between_pieces_of_a_large_pack_leaves_the_old_incarnation_in_force() {
    let first = next(None, (0..50).map(|at| asset(at, 0, 50)).collect());
    let large = (0..60).map(|at| asset(at, 1, 140_000)).collect();
    crash_everywhere(&first, &next(Some(&first), large), 12);
}

#[test]
fn r5_flipped_and_torn_bytes_are_detected() {
    let store = MemoryStore::new();
    let all = history(&store, 3);
    for (key, row) in rows(&store) {
        let put =
            |bytes: Vec<u8>| block_on(store.commit(Batch::new().put(key.clone(), bytes))).unwrap();
        let step = (row.value.len() / 200).max(1);
        for at in (0..row.value.len()).step_by(step) {
            let mut flipped = row.value.to_vec();
            flipped[at] ^= 1 << (at % 7);
            for damaged in [flipped, row.value[..at].to_vec()] {
                put(damaged);
                let read = block_on(open(&store).latest());
                // The same record in different JSON spelling is not damage.
                let fine = matches!(&read, Ok(Some(read)) if same(read, &all[2]));
                assert!(read.is_err() || fine, "{key} at {at}");
            }
        }
        put(row.value.to_vec());
        block_on(store.commit(Batch::new().delete(key.clone()))).unwrap();
        let read = block_on(open(&store).latest());
        let needless = !key.as_str().starts_with("head")
            && matches!(&read, Ok(Some(read)) if same(read, &all[2]));
        let no_head = key.as_str().starts_with("head") && matches!(read, Ok(None));
        assert!(read.is_err() || needless || no_head, "{key}");
        put(row.value.to_vec());
    }
    let pack = "chunk/shakespeare/0000000001/00000";
    block_on(store.commit(Batch::new().put(pack, "torn"))).unwrap();
    let error = block_on(open(&store).latest()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pack 1 of shakespeare is damaged; restore it from a backup, or remove it"
    );
}
