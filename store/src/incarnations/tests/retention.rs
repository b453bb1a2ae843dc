//! R5: which incarnations and pieces are removed, and which are kept.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::executor::block_on;
use prodspec_model::IncarnationNo;
use proptest::prelude::*;

use super::{START, count, history, open, same};
use crate::{
    Batch, MemoryStore, Store,
    incarnations::{Error, Keep},
    memory::Fault,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn r5_retention_keeps_the_latest_pinned_young_and_newest_incarnations(
        sealed in 1..100u32,
        count in 0..20usize,
        minutes in 0..40u64,
        pinned in prop::collection::btree_set(1..100u32, 0..5),
    ) {
        let store = MemoryStore::new();
        let all = history(&store, sealed);
        let incarnations = open(&store);
        let pinned: BTreeSet<IncarnationNo> = pinned.into_iter().map(IncarnationNo).collect();
        let keep = Keep { after: IncarnationNo(u32::MAX), count, age: Duration::from_secs(60 * minutes), pinned: pinned.clone() };
        let now = all.last().unwrap().header().sealed_at;
        let removed = block_on(incarnations.retain(&keep, now, &Batch::new())).unwrap();
        let kept = |no: IncarnationNo| {
            no.0 == sealed || u64::from(sealed - no.0) <= minutes || ((sealed - no.0) as usize) < count || pinned.contains(&no)
        };
        let store = store.crash();
        for one in &all {
            let read = block_on(open(&store).load(one.no()));
            if kept(one.no()) {
                prop_assert!(same(&read.unwrap(), one));
            } else {
                prop_assert!(matches!(read, Err(Error::Unknown(_))));
            }
        }
        prop_assert_eq!(removed.incarnations.len(), all.iter().filter(|one| !kept(one.no())).count());
        let reached: BTreeSet<_> = all.iter().filter(|one| kept(one.no())).flat_map(|one| one.snapshot().root().packs().collect::<Vec<_>>()).collect();
        prop_assert_eq!(super::count(&store, "pack/"), reached.len());
        prop_assert_eq!(super::count(&store, "chunk/"), reached.len());
    }
}

#[test]
fn r5_removal_deletes_pieces_left_by_a_crash() {
    let store = MemoryStore::new();
    history(&store, 2);
    let left = "chunk/shakespeare/0000000003/00000";
    block_on(
        store.commit(
            Batch::new()
                .put(left, "left")
                .put("chunk/shakespeare-b/0000000003/00000", "theirs"),
        ),
    )
    .unwrap();
    let keep = Keep {
        after: IncarnationNo(u32::MAX),
        count: 9,
        age: Duration::ZERO,
        pinned: BTreeSet::new(),
    };
    block_on(open(&store).retain(&keep, START, &Batch::new())).unwrap();
    assert_eq!(count(&store, left), 0);
    assert_eq!(count(&store, "chunk/shakespeare-b/"), 1);
}

#[test]
fn r5_incarnations_sealed_after_the_pins_were_read_are_kept() {
    let store = MemoryStore::new();
    history(&store, 5);
    let keep = Keep {
        after: IncarnationNo(2),
        count: 1,
        age: Duration::ZERO,
        pinned: BTreeSet::new(),
    };
    let later = START + Duration::from_secs(3600);
    let removed = block_on(open(&store).retain(&keep, later, &Batch::new())).unwrap();
    assert_eq!(removed.incarnations, [1, 2].map(IncarnationNo));
}

#[test]
fn r5_removal_refuses_a_list_older_than_the_head() {
    let store = MemoryStore::new();
    let all = history(&store, 5);
    let keep = Keep {
        after: IncarnationNo(u32::MAX),
        count: 1,
        age: Duration::ZERO,
        pinned: BTreeSet::new(),
    };
    let reads = AtomicUsize::new(0);
    store.set_faults(move |op| {
        let second =
            matches!(op, crate::memory::Op::Read) && reads.fetch_add(1, Ordering::Relaxed) == 1;
        second.then_some(Fault::Stale(2))
    });
    let other = store.other();
    let refused = block_on(open(&other).retain(&keep, START, &Batch::new()));
    assert!(matches!(refused, Err(Error::Younger { .. })));
    store.heal();
    assert!(same(
        &block_on(open(&store).latest()).unwrap().unwrap(),
        &all[4]
    ));
}
