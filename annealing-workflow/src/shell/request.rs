//! Builds the request of a function: all of one incarnation, with the standings that it asks for.

use std::{collections::BTreeMap, time::Duration};

use control_plane_runtime::{Runtime, timeout_at};
use futures::StreamExt;
use plugin_sdk::{
    Enforcement, FeedItem, IncarnationReader, Standing, SyncState,
    operation::{FunctionRequest, Required, Requirement},
    plugin,
};
use prodspec_model::{AssetId, Incarnation};

use crate::kernel::Run;

/// Longest time for which standings are waited for.
const STANDINGS: Duration = Duration::from_secs(5);

/// The request of one attempt.
///
/// # Errors
/// When a requirement matches too much, which is permanent, or enforcement does not tell the standings.
pub(super) async fn request<R: Runtime>(
    runtime: &R,
    enforcement: &dyn Enforcement,
    run: Run,
    incarnation: Incarnation,
) -> Result<FunctionRequest, plugin::Error> {
    let now = runtime.now().wall;
    let id = incarnation.id().clone();
    let reader = IncarnationReader::new(incarnation);
    let mut required = BTreeMap::new();
    for (name, requirement) in run.needs {
        required.insert(
            name,
            assets(runtime, enforcement, &reader, &requirement).await?,
        );
    }
    let mut request = FunctionRequest::new(run.key, run.fence, id, now, run.deadline)
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
) -> Result<Vec<Required>, plugin::Error> {
    let found = requirement.find(reader);
    let found = found.map_err(|over| plugin::Error::permanent(over.to_string()))?;
    let now = runtime.now();
    let mut all: Vec<Required> = found
        .into_iter()
        .map(|asset| Required::new(asset, now.wall))
        .collect();
    if requirement.status && !all.is_empty() {
        let wanted: Vec<AssetId> = all.iter().map(|required| required.asset.id()).collect();
        let told = timeout_at(
            runtime,
            now.mono + STANDINGS,
            standings(enforcement, wanted),
        )
        .await;
        let told = told.flatten();
        let told = told.ok_or_else(|| {
            plugin::Error::transient("enforcement does not tell the states of assets now")
        })?;
        for required in &mut all {
            let state = told.get(&required.asset.id()).and_then(state);
            required.standing = state;
        }
    }
    Ok(all)
}

fn state(standing: &Standing) -> Option<SyncState> {
    match standing {
        Standing::Enforced(enforced) => Some(enforced.state.clone()),
        _ => None,
    }
}

/// The present standings of assets. `None`: the ownership has ended.
async fn standings(
    enforcement: &dyn Enforcement,
    wanted: Vec<AssetId>,
) -> Option<BTreeMap<AssetId, Standing>> {
    let mut feed = enforcement.feed();
    let count = wanted.len();
    feed.follow(wanted);
    let mut told = BTreeMap::new();
    while told.len() < count {
        if let FeedItem::Standings(some) = feed.next().await? {
            told.extend(some);
        }
    }
    Some(told)
}
