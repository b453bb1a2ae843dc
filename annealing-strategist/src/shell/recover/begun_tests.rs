//! R101: a change that begins while a takeover reads the records.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use control_plane_runtime::TokioRuntime;
use control_plane_store::{Batch, MemoryStore, Store, incarnations::Incarnations, memory::Point};
use futures::FutureExt;
use jiff::Timestamp;
use plugin_sdk::{By, ChangeId, FieldEdit, RolloutId, testing};
use prodspec_model::{
    IncarnationId, IncarnationNo, PartitionId, Snapshot, SourceName, incarnation::Header,
    rollout::RollOut,
};

use super::*;
use crate::change::{Known, Planned, PlannedTarget};

const NAME: &str = "flag";

/// The change number `number`, with one target or none. Without a target it has ended.
fn planned(number: u64, has_target: bool) -> Planned {
    let asset = testing::asset("job/a");
    let edit = FieldEdit::set("page#0", "a.flag".parse().unwrap(), 0, 1);
    let target = PlannedTarget {
        before: asset.clone(),
        after: asset,
        edits: vec![edit],
        reserved: ChangeId::from(u128::from(number)),
    };
    let by = By {
        who: "ann".into(),
        why: "a test".into(),
    };
    let change = RollOut::new(NAME, AssetId::new("policy").unwrap()).set("flag", 1);
    Planned::new(
        (change, by),
        (number, RolloutId(number)),
        (IncarnationNo(1), Timestamp::UNIX_EPOCH),
        SourceName("page".into()),
        if has_target {
            std::slice::from_ref(&target)
        } else {
            &[]
        },
        BTreeSet::new(),
    )
    .unwrap()
}

/// Begins a change during read number `nth` of a takeover. Returns whether the takeover knows it as live. `None`: there are
/// fewer reads.
async fn takeover(nth: usize) -> Option<bool> {
    let store = MemoryStore::new();
    let partition: PartitionId = "test".parse().unwrap();
    let shared: Arc<dyn Store> = Arc::new(store.clone());
    let incarnations = Arc::new(Incarnations::new(shared.clone(), partition.clone()));
    let snapshot = Snapshot::empty().edit(IncarnationNo(1), vec![testing::asset("job/a")], &[]);
    let id = IncarnationId::new(partition.clone(), IncarnationNo(1));
    let header = Header::new(id, None, &snapshot, Timestamp::UNIX_EPOCH);
    let latest = Incarnation::new(header, snapshot);
    incarnations
        .seal(&latest, None, Batch::new())
        .await
        .unwrap();
    let first = planned(1, false).batch(&partition, None).unwrap();
    store.commit(first).await.unwrap();
    let known = Known::of(&store, &partition, NAME).await.unwrap();
    let next = planned(2, true).batch(&partition, known.as_ref()).unwrap();
    let runtime = TokioRuntime::current();
    let strategist = Strategist::builder(runtime, partition, shared, incarnations).build();
    let (reads, begins) = (AtomicUsize::new(0), store.clone());
    store.set_pause(move |point| {
        let is_it = point == Point::BeforeRead && reads.fetch_add(1, Ordering::Relaxed) == nth;
        let (begins, next) = (begins.clone(), next.clone());
        async move {
            if is_it {
                begins.commit(next).await.unwrap();
            }
        }
        .boxed()
    });
    let found = remembered(&strategist, &latest, &[]).await.unwrap();
    let holder = Planned::holder_of(NAME, 2).unwrap();
    assert!(
        found.over.iter().all(|over| over.holder != holder),
        "read {nth}"
    );
    store.set_pause(|_| futures::future::ready(()).boxed());
    let known = Known::of(&store, &strategist.partition, NAME)
        .await
        .unwrap();
    let has_begun = known.is_some_and(|known| known.number == 2);
    let live = found
        .changes
        .iter()
        .find(|change| change.holder() == holder);
    assert!(
        live.is_none_or(|change| change.targets.len() == 1),
        "read {nth}"
    );
    has_begun.then_some(live.is_some())
}

#[tokio::test]
async fn r101_change_that_begins_during_a_takeover_is_not_taken_for_one_that_has_ended() {
    let mut live = Vec::new();
    while let Some(is_live) = takeover(live.len()).await {
        live.push(is_live);
    }
    let begun = live.iter().filter(|is_live| **is_live).count();
    assert!(begun >= 5 && begun < live.len(), "{live:?}");
}
