//! External content at the seal: what new references refer to is fetched, verified and kept before an incarnation with
//! them is sealed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use control_plane_runtime::{NoAnswer, Runtime, call};
use futures::future::join_all;
use plugin_sdk::{
    BoxError, Candidate, Problem, Problems,
    blobs::{self, Blobs, verified},
    with_causes,
};
use prodspec_model::{Asset, Digest, ExternalRef, Incarnation};

use crate::seal::{Seal, Sealer};

/// Maximum number of contents that are fetched at once. Each may have [`blobs::MAX_BYTES`].
const AT_ONCE: usize = 4;

/// The fields that have the same reference, each with its asset.
type Places = Vec<(Asset, String)>;

/// Keeps the content of each reference in changed assets that is not kept yet. Returns a problem for each field whose
/// content cannot be kept.
///
/// # Errors
/// If `seals` cannot be read or written.
pub(crate) async fn keep<R: Runtime>(
    runtime: &R,
    blobs: Option<&Arc<dyn Blobs>>,
    within: Duration,
    seals: &dyn Sealer,
    candidate: &Candidate,
) -> Result<Problems, BoxError> {
    let mut wanted: BTreeMap<ExternalRef, Places> = BTreeMap::new();
    for asset in candidate.changes.iter().filter_map(|it| it.after.as_ref()) {
        for (field, reference) in asset.externals() {
            let places = wanted.entry(reference).or_default();
            places.push((asset.clone(), field));
        }
    }
    if wanted.is_empty() {
        return Ok(Problems::none());
    }
    let digests = wanted.keys().map(|reference| reference.digest).collect();
    let missing = seals.missing(&digests).await?;
    wanted.retain(|reference, _| missing.contains(&reference.digest));
    let mut problems = Problems::none();
    let all: Vec<_> = wanted.into_iter().collect();
    for some in all.chunks(AT_ONCE) {
        let fetched = some.iter().map(|(it, _)| fetch(runtime, blobs, within, it));
        for ((reference, places), fetched) in some.iter().zip(join_all(fetched).await) {
            match fetched {
                Ok(content) => seals.keep(&content).await?,
                Err(why) => problems.extend(refused(reference, places, &why)),
            }
        }
    }
    Ok(problems)
}

/// Fetches a content in a task of its own, because blobs can block their thread.
async fn fetch<R: Runtime>(
    runtime: &R,
    blobs: Option<&Arc<dyn Blobs>>,
    within: Duration,
    reference: &ExternalRef,
) -> Result<Vec<u8>, String> {
    let Some(blobs) = blobs.cloned() else {
        return Err(blobs::Error::Nowhere.to_string());
    };
    let reference = reference.clone();
    let fetched = async move { verified(&*blobs, &reference).await };
    match call(runtime, runtime.now().mono + within, fetched).await {
        Ok(fetched) => fetched.map_err(|error| with_causes(&error)),
        Err(NoAnswer::Late) => Err(format!("the content was not read within {within:?}")),
        Err(none) => Err(format!("the content cannot be read: {none}")),
    }
}

fn refused(reference: &ExternalRef, places: &Places, why: &str) -> Problems {
    let problem = |(asset, field): &(Asset, String)| {
        let message = format!("`{}`: {why}", reference.uri);
        Problem::with(asset, message)
            .field(field.as_str())
            .by("blobs")
    };
    places.iter().map(problem).collect()
}

/// How many assets more or less refer to each content than in `parent`.
pub(crate) fn counts(seal: &Seal, parent: Option<&Incarnation>) -> BTreeMap<Digest, i64> {
    let mut counts = BTreeMap::new();
    let mut add = |asset: Option<&Asset>, change: i64| {
        let references = asset.map(Asset::externals).unwrap_or_default();
        let digests: BTreeSet<Digest> = references.into_iter().map(|(_, it)| it.digest).collect();
        for digest in digests {
            *counts.entry(digest).or_default() += change;
        }
    };
    let before = |id: &str| parent.and_then(|parent| parent.snapshot().get(id));
    for asset in &seal.put {
        add(before(asset.id_str()).as_ref(), -1);
        add(Some(asset), 1);
    }
    for id in &seal.removed {
        add(before(id.as_str()).as_ref(), -1);
    }
    counts
}
