//! Builds the request of a function: all of one incarnation, with the standings that it asks for.

use std::{collections::BTreeMap, time::Duration};

use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::{
    Store,
    incarnations::{self, Incarnations},
};
use futures::{StreamExt, future::join_all};
use jiff::Timestamp;
use plugin_sdk::{
    Diff, Enforcement, FeedItem, Follow, IncarnationReader, Mono, Relation, Standing, SyncState,
    operation::{FunctionRequest, Limit, Required, Requirement},
    plugin, with_causes,
};
use prodspec_model::{Asset, AssetId, Incarnation, IncarnationNo};

use crate::{kernel::Run, record::Changed};

/// Longest time for which standings are waited for.
const STANDINGS: Duration = Duration::from_secs(5);

/// Maximum number of assets that are compared at the same time for one request.
const OBSERVED: usize = 64;

/// The name under which a function gets the assets that a run of a watch is about.
const CHANGED: &str = "changed";

/// The request of one attempt.
///
/// # Errors
/// When a requirement matches too much, which is permanent, or enforcement does not tell the standings.
pub(super) async fn request<R: Runtime>(
    runtime: &R,
    enforcement: &dyn Enforcement,
    incarnations: &Incarnations<dyn Store>,
    run: Run,
    incarnation: Incarnation,
) -> Result<FunctionRequest, plugin::Error> {
    let begun = runtime.now();
    // The other half is the function's.
    let half = begun.mono + run.until.since(begun.mono) / 2;
    let until = half.min(run.begins_by);
    let id = incarnation.id().clone();
    let reader = IncarnationReader::new(incarnation);
    let mut required = BTreeMap::new();
    for (name, requirement) in run.needs {
        required.insert(
            name,
            assets(runtime, enforcement, &reader, &requirement, until).await?,
        );
    }
    if let Some(changed) = run.changed {
        let all = changed_assets(runtime, incarnations, &reader, &changed).await?;
        let status = changed.status.then_some(enforcement);
        required.insert(
            CHANGED.to_owned(),
            with_standings(runtime, status, all, until).await?,
        );
    }
    // The time that is left counts: the wall clock may have been set since the attempt began.
    let now = runtime.now();
    let left = run.until.since(now.mono);
    let deadline = now.wall.checked_add(left).unwrap_or(Timestamp::MAX);
    let mut request = FunctionRequest::new(run.key, run.fence, id, now.wall, deadline)
        .cause(run.cause)
        .with_input(run.input)
        .context(run.context)
        .edits(run.edits)
        .cancelled(run.cancelled)
        .reader(reader);
    request.required = required;
    Ok(request)
}

async fn assets<R: Runtime>(
    runtime: &R,
    enforcement: &dyn Enforcement,
    reader: &IncarnationReader,
    requirement: &Requirement,
    until: Mono,
) -> Result<Vec<Required>, plugin::Error> {
    let found = requirement.find(reader);
    let found = found.map_err(|over| plugin::Error::permanent(over.to_string()))?;
    let now = runtime.now().wall;
    let all = found.into_iter().map(|asset| Required::new(asset, now));
    let status = requirement.status.then_some(enforcement);
    let mut all = with_standings(runtime, status, all.collect(), until).await?;
    if requirement.observed {
        observe(runtime, enforcement, &mut all, until).await?;
    }
    Ok(all)
}

/// Adds what production has of each asset. One that cannot be compared with it has nothing that is known.
async fn observe<R: Runtime>(
    runtime: &R,
    enforcement: &dyn Enforcement,
    all: &mut [Required],
    until: Mono,
) -> Result<(), plugin::Error> {
    for some in all.chunks_mut(OBSERVED) {
        let asked = some
            .iter()
            .map(|it| enforcement.observe(&it.asset.id()))
            .collect::<Vec<_>>();
        let found = timeout_at(runtime, until, join_all(asked)).await;
        let found = found.ok_or_else(|| {
            let why = "enforcement has not looked at all assets in half of the call's time";
            plugin::Error::throttled(why, STANDINGS)
        })?;
        for (required, found) in some.iter_mut().zip(found) {
            let Ok(found) = found else {
                continue;
            };
            required.as_of = required.as_of.min(found.as_of);
            if let Diff::InSync { observed, .. } | Diff::Differs { observed, .. } = found.diff {
                required.observed = Some(observed);
            }
        }
    }
    Ok(())
}

/// The assets of a run of a watch, each as the incarnation of the request has it and as it was before the change.
///
/// # Errors
/// When they are too large, which is permanent, or the store cannot be read.
async fn changed_assets<R: Runtime>(
    runtime: &R,
    incarnations: &Incarnations<dyn Store>,
    reader: &IncarnationReader,
    changed: &Changed,
) -> Result<Vec<Required>, plugin::Error> {
    let mut older: BTreeMap<IncarnationNo, Incarnation> = BTreeMap::new();
    let now = runtime.now().wall;
    let (mut all, mut size) = (Vec::new(), 0);
    for it in &changed.assets {
        if let Some(no) = it.before
            && !older.contains_key(&no)
        {
            older.insert(no, incarnations.load(no).await.map_err(not_loaded)?);
        }
        let before = it.before.and_then(|no| older.get(&no)?.asset(&it.asset));
        let required = match (reader.get(&it.asset), &before) {
            (Some(asset), _) => Required::new(asset, now),
            (None, Some(before)) => Required::new(before.clone(), now).gone(),
            // It came and went.
            (None, None) => continue,
        };
        let length = |asset: &Asset| asset.canonical().len();
        // What a watch on status gives has no content from before.
        let before_too = before.as_ref().filter(|_| !changed.status);
        size += length(&required.asset) + before_too.map_or(0, length);
        let over = Limit::REQUIRED_SIZE.check(size);
        over.map_err(|over| plugin::Error::permanent(over.to_string()))?;
        all.push(match changed.status {
            true => required,
            false => required.before(before),
        });
    }
    Ok(all)
}

fn not_loaded(error: incarnations::Error) -> plugin::Error {
    let message = with_causes(&error);
    match error {
        incarnations::Error::Unknown(_) => plugin::Error::permanent(message),
        // No failure of the function, so it does not count.
        _ => plugin::Error::throttled(message, STANDINGS),
    }
}

/// Adds the present states of assets. `enforcement`: `None` if they are not asked for.
async fn with_standings<R: Runtime>(
    runtime: &R,
    enforcement: Option<&dyn Enforcement>,
    mut all: Vec<Required>,
    until: Mono,
) -> Result<Vec<Required>, plugin::Error> {
    let until = until.min(runtime.now().mono + STANDINGS);
    if let Some(enforcement) = enforcement.filter(|_| !all.is_empty()) {
        let wanted: Vec<AssetId> = all.iter().map(|required| required.asset.id()).collect();
        let told = timeout_at(runtime, until, standings(enforcement, wanted)).await;
        let told = told.flatten();
        let told = told.ok_or_else(|| {
            // No failure of the function, so it does not count.
            plugin::Error::throttled(
                "enforcement does not tell the states of assets now",
                STANDINGS,
            )
        })?;
        for required in &mut all {
            let state = told.get(&required.asset.id()).and_then(state);
            required.standing = state;
        }
    }
    Ok(all)
}

fn state(standing: &Standing) -> Option<SyncState> {
    let enforced = standing.relation == Relation::Enforced;
    enforced.then(|| standing.state.clone())
}

/// The present standings of assets. `None`: the ownership has ended.
async fn standings(
    enforcement: &dyn Enforcement,
    wanted: Vec<AssetId>,
) -> Option<BTreeMap<AssetId, Standing>> {
    let mut feed = enforcement.feed();
    let count = wanted.len();
    feed.follow(Follow::Assets(wanted));
    let mut told = BTreeMap::new();
    while told.len() < count {
        if let FeedItem::Standings(some) = feed.next().await? {
            told.extend(some);
        }
    }
    Some(told)
}
