//! `watch`: one incarnation with up to a thousand changes among `n` assets, and a hundred watches, until all that follows is
//! durable. Two watches look at each cluster: one at the field that changes, one at a field that does not. SQLite.
//!
//! Phase `pending`: each watch has one run at a time, and the other changes wait. Phase `live`: each change has a live run.
//! `ns_each` is the processor time per change, `p50_us` the wall time of the incarnation. The peer `naive` compares all
//! assets for each watch, and stores a row for each change.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use control_plane::{
    model::Filter,
    store::{Batch, Key, incarnations::Incarnations},
    workflow::{FunctionRequest, Operation, PipelineStep, Ran, Watch, WatchOperation, from_fn},
};
use prodspec_model::{Asset, AssetId, Incarnation, IncarnationNo, Message, Snapshot};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    assets::{JobType, job, jobs, shuffled},
    lane::{self, Owned},
    measure::{Meter, Sample},
    ours::{incarnation, runtime},
};

/// The scenario `watch` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "watch",
    about: "100 watches, 1,000 changes in one incarnation, until what follows is durable; SQLite",
    target: "pending 20 us per change, at 1,000,000 assets 1.3x that at 10,000",
    sizes: Sizes {
        named: 100_000,
        all: 20_000,
        smoke: 1_000,
    },
    sides: &[(OURS, ours), ("naive", naive)],
};

/// Number of watches, two for each cluster.
const WATCHES: usize = 100;
/// Maximum number of changes.
const CHANGES: usize = 1_000;

/// Watch number `no`, which has at most `at_most` runs at once.
fn watch(no: usize, at_most: u32) -> Result<(AssetId, WatchOperation), Error> {
    let field = ["payload.version", "payload.replicas"][no % 2];
    let of = Filter::types([JobType::TYPE]).under(format!("job/cluster-{:02}/", no / 2));
    let on = Watch::intent().fields([field]).of(of);
    let mut watch =
        WatchOperation::new(on, Operation::pipeline([PipelineStep::new("tell", "tell")]));
    watch.at_most = at_most;
    Ok((AssetId::new(&format!("watch/{no:03}"))?, watch))
}

/// `n` jobs and the watches, and the same with changes.
fn incarnations(n: usize, at_most: u32) -> Result<[Incarnation; 2], Error> {
    let mut all = jobs(n)?;
    for no in 0..WATCHES {
        let (id, watch) = watch(no, at_most)?;
        all.push(Asset::builder(id).payload(&watch)?.build()?);
    }
    let first = incarnation(None, Snapshot::empty().edit(IncarnationNo(1), all, &[]))?;
    let changed = (0..changes(n)).map(|turn| job(shuffled(turn, n), 2));
    let changed = changed.collect::<Result<Vec<_>, _>>()?;
    let snapshot = first.snapshot().edit(IncarnationNo(2), changed, &[]);
    let second = incarnation(Some(&first), snapshot)?;
    Ok([first, second])
}

fn changes(n: usize) -> usize {
    CHANGES.min(n)
}

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    Ok(vec![phase("pending", n, 1)?, phase("live", n, 10_000)?])
}

/// Measures the second incarnation, with at most `at_most` runs of each watch at once.
fn phase(phase: &str, n: usize, at_most: u32) -> Result<Sample, Error> {
    let dir = tempfile::tempdir()?;
    let [first, second] = incarnations(n, at_most)?;
    runtime()?.block_on(async {
        let store = lane::sqlite(dir.path())?;
        let sealed = Arc::new(Incarnations::new(store.clone(), lane::partition()?));
        let head = sealed.seal(&first, None, Batch::new()).await?;
        let owned = Owned::of(first);
        let lane = lane::run(store, &owned, |builder| {
            let hang = |_: FunctionRequest| pending::<Result<Ran, _>>();
            let builder = builder.incarnations(sealed.clone());
            Ok(builder.function(from_fn(lane::keyed("tell"), hang)))
        })
        .await?;
        let watches = lane.handle.watches().await?.len();
        sealed.seal(&second, Some(&head), Batch::new()).await?;
        let meter = Meter::start()?;
        owned.take(&second);
        // The answer waits until all before it is durable.
        let after = lane.handle.watches().await?;
        let sample = meter.stop(phase, changes(n))?;
        let sample = sample.latencies(vec![meter.elapsed()]);
        let known = after.iter().map(|it| it.waiting.len() + it.running.len());
        match (watches, known.sum::<usize>() == changes(n)) {
            (WATCHES, true) => Ok(sample),
            (watches, _) => Err(format!("{watches} watches, or changes are missing").into()),
        }
    })
}

fn naive(n: usize) -> Result<Vec<Sample>, Error> {
    let dir = tempfile::tempdir()?;
    let [first, second] = incarnations(n, 1)?;
    let watches = (0..WATCHES).map(|no| watch(no, 1));
    let watches = watches.collect::<Result<BTreeMap<_, _>, _>>()?;
    let store = lane::sqlite(dir.path())?;
    runtime()?.block_on(async {
        let meter = Meter::start()?;
        let (mut batch, mut found) = (Batch::new(), 0);
        for (id, watch) in watches {
            let field = match &watch.on {
                Watch::Intent(on) => on.fields.concat(),
                Watch::Status(_) => String::new(),
            };
            for asset in differing(&first, &second, watch.on.filter(), &field)? {
                let key = Key::from(format!("pending/{id}/{asset}"));
                batch = batch.put(key, asset);
                found += 1;
            }
        }
        store.commit(batch).await?;
        let sample = meter.stop("pending", changes(n))?;
        match found == changes(n) {
            true => Ok(vec![sample.latencies(vec![meter.elapsed()])]),
            false => Err(format!("{found} changes").into()),
        }
    })
}

/// The assets of one watch whose `field` differs: reads both incarnations whole.
fn differing(
    first: &Incarnation,
    second: &Incarnation,
    of: &Filter,
    field: &str,
) -> Result<Vec<String>, Error> {
    let field = field.trim_start_matches("payload.");
    let value = |asset: &Asset| -> Result<Option<serde_json::Value>, Error> {
        let payload: serde_json::Value = serde_json::from_str(asset.payload_json())?;
        Ok(payload.get(field).cloned())
    };
    let mut differing = Vec::new();
    for after in second.snapshot().iter() {
        if !of.matches(&after) {
            continue;
        }
        let before = first.snapshot().get(after.id_str());
        let same = before
            .as_ref()
            .is_some_and(|it| it.digest() == after.digest());
        let before = before.as_ref().map(value).transpose()?;
        if !same && before.flatten() != value(&after)? {
            differing.push(after.id_str().to_owned());
        }
    }
    Ok(differing)
}
