//! Commands of other processes over a store with faults, and owners that come and go.

use std::collections::BTreeMap;

use control_plane_store::memory::{Fault, Op, Rates};
use futures::future::join_all;

use super::{inbox::standby, *};

const COMMANDS: usize = 12;

/// Faults of the store.
fn faults(seed: u64) -> impl FnMut(Op<'_>) -> Option<Fault> + Send + 'static {
    let rates = Rates {
        unavailable: 50_000,
        unknown: 100_000,
        stale: 300_000,
        left_behind: 30_000,
        drop_hint: 300_000,
        repeat_hint: 200_000,
        ..Rates::default()
    };
    rates.seeded(seed)
}

/// What callers have been told of their starts, by input, and how many executions there are with that input.
async fn history(seed: u64) -> Vec<(Result<Started, AskError>, usize)> {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let inbox = standby(&Arc::new(store.other()), &press);
    store.set_faults(faults(seed));
    let callers = join_all((0..COMMANDS).map(|n| {
        let (inbox, runtime) = (inbox.clone(), TokioRuntime::current());
        let wait = Duration::from_millis(n as u64 * (seed * 977 % 9_000));
        async move {
            runtime.sleep(wait).await;
            inbox.start(Start::of("season").input(n), by()).await
        }
    }));
    let owners = async {
        for n in 0_u64.. {
            let time = Duration::from_millis((seed + 1) * (n + 3) * 7_919 % 20_000);
            let own = owned(&store, &press, time);
            drop(tokio::time::timeout(time, own).await);
            TokioRuntime::current().sleep(2 * time).await;
        }
    };
    let told = tokio::select! {
        told = callers => told,
        () = owners => unreachable!("owners come for ever"),
    };
    store.heal();
    let inputs = owning(&store, with(&press), async |handle| {
        TokioRuntime::current().sleep(SOON).await;
        let mut inputs: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, input) in super::kept::rows(&store, "workflow-input").await {
            *inputs.entry(input.as_u64().unwrap()).or_default() += 1;
        }
        drop(handle);
        inputs
    })
    .await;
    let counts = (0..COMMANDS as u64).map(|n| inputs.get(&n).copied().unwrap_or_default());
    told.into_iter().zip(counts).collect()
}

/// Owns the partition for some time as a process of its own, if the store lets it.
async fn owned(store: &MemoryStore, press: &Press, time: Duration) {
    let store = Arc::new(store.other());
    let partition: prodspec_model::PartitionId = "test".parse().unwrap();
    let batch = Batch::new().put(owner::key(&partition), "me");
    let Ok(token) = store.commit(batch).await else {
        return;
    };
    let builder = Workflows::builder(TokioRuntime::current(), partition, store.clone());
    let workflows = with(press)(builder).build().unwrap();
    let (attached, _handle) = workflows.attach(FencingToken(token.0), Arc::new(AlwaysFresh));
    drop(tokio::time::timeout(time, attached.run()).await);
}

#[tokio::test(start_paused = true)]
async fn r23_commands_of_other_processes_are_handled_as_often_as_their_callers_are_told() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..100 {
        for (told, count) in history(seed).await {
            let (name, fits) = match &told {
                Ok(started) => ("started", started.new && count == 1),
                Err(AskError::Withdrawn { .. }) => ("withdrawn", count == 0),
                Err(AskError::NotWritten(_)) => ("not written", count == 0),
                Err(AskError::Store(_)) => ("store", count == 0),
                Err(AskError::Unanswered(_)) => ("unanswered", count <= 1),
                Err(error) => panic!("seed {seed}: {error}"),
            };
            assert!(fits, "seed {seed}: {count} executions, {told:?}");
            *seen.entry(name).or_default() += 1;
        }
    }
    assert!(seen["started"] > 100, "{seen:?}");
}
