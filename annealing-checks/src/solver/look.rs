//! Looks at the neighbours of a push: observes them concurrently, and makes a wait for each whose state is unknown.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join_all};
use plugin_sdk::{
    CheckRequest, Diff, Observation, PartitionView, Shared, Usage, Verdict,
    observe::{self, Error},
};
use prodspec_model::AssetId;
use serde_json::json;

use super::{Question, Seen, Wait, way_out::MODELLED_ONLY};

/// The result of observing one asset.
type Looked = Result<Observation, observe::Error>;

/// The neighbours that questions are about.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// Each asset, with `true` if some question needs its state in production: not every one accepts a modelled-only
    /// asset.
    about: BTreeMap<AssetId, bool>,
    shared: BTreeSet<Shared>,
}

impl Neighbours {
    pub(super) fn of(questions: &[Question]) -> Self {
        let mut all = Self::default();
        for question in questions {
            for asset in &question.about {
                *all.about.entry(asset.clone()).or_default() |= !question.modelled_only;
            }
            all.shared.extend(question.shared.clone());
        }
        all
    }
}

/// Observes `neighbours`. Adds the evidence to `verdict`. Returns what was seen, and
/// a wait for each asset whose state is unknown.
pub(super) async fn look(
    request: &CheckRequest,
    view: &dyn PartitionView,
    neighbours: Neighbours,
    verdict: &mut Verdict,
) -> (Seen, Vec<Wait>) {
    let Neighbours { about, shared } = neighbours;
    let usages = shared.into_iter().map(|it| usage(request, view, it));
    let looks = observe_all(about.keys().cloned().collect(), view);
    let (looks, usages) = join(looks, join_all(usages)).await;
    let (mut seen, mut waits) = (Seen::default(), BTreeMap::new());
    for (asset, looked) in looks {
        if let Ok(observation) = &looked {
            verdict.relies_on.push(observation.stamp);
            verdict.as_of = verdict.as_of.min(observation.as_of);
        }
        let needed = about.get(&asset).copied().unwrap_or(true);
        if let Some(wait) = note(&mut seen, asset, looked, needed) {
            waits.insert(wait.on.clone(), wait);
        }
    }
    for (shared, usage) in usages {
        match usage {
            Ok(usage) => {
                verdict.relies_on.extend(&usage.stamps);
                verdict.as_of = verdict.as_of.min(usage.as_of);
                seen.use_of(shared, usage);
            }
            Err(unknown) => waits.extend(unknown.into_iter().map(|wait| (wait.on.clone(), wait))),
        }
    }
    (seen, waits.into_values().collect())
}

/// Notes what was seen of an asset. Returns a wait if its state is unknown and `needed`.
fn note(seen: &mut Seen, asset: AssetId, looked: Looked, needed: bool) -> Option<Wait> {
    match looked {
        Ok(observation) if comparable(&observation.diff) => {
            seen.observe(asset, observation);
            None
        }
        Err(Error::Gone) => {
            seen.miss(asset);
            None
        }
        Err(Error::ModelledOnly) => {
            seen.model(asset.clone());
            needed.then(|| cannot_tell(asset, Err(Error::ModelledOnly)))
        }
        unknown => Some(cannot_tell(asset, unknown)),
    }
}

/// Observes all assets of `about` concurrently.
async fn observe_all(about: Vec<AssetId>, view: &dyn PartitionView) -> Vec<(AssetId, Looked)> {
    let looks = about.iter().map(|asset| view.observe(asset));
    let observations = join_all(looks).await;
    about.into_iter().zip(observations).collect()
}

/// The use of `shared` by other consumers, or waits for the consumers whose use is unknown.
async fn usage(
    request: &CheckRequest,
    view: &dyn PartitionView,
    shared: Shared,
) -> (Shared, Result<Usage, Vec<Wait>>) {
    let ask = || {
        view.usage(
            &shared,
            request.incarnation().no,
            request.asset_id(),
            request.now,
        )
    };
    let mut usage = ask().await;
    let mut untold = Vec::new();
    if let Ok(first) = &usage
        && !first.unknown.is_empty()
    {
        for (asset, looked) in observe_all(first.unknown.clone(), view).await {
            let told = match &looked {
                Ok(observation) => comparable(&observation.diff),
                Err(error) => *error == Error::Gone,
            };
            untold.extend((!told).then(|| cannot_tell(asset, looked)));
        }
        usage = ask().await;
    }
    let found = match usage {
        Ok(usage) if usage.unknown.is_empty() => Ok(usage),
        Ok(_) if !untold.is_empty() => Err(untold),
        Ok(usage) => {
            let moves = |asset| Wait::on(asset, "its use of the capacity is changing");
            Err(usage.unknown.into_iter().map(moves).collect())
        }
        Err(error) => Err(vec![cannot_tell(shared.provider.clone(), Err(error))]),
    };
    (shared, found)
}

fn comparable(diff: &Diff) -> bool {
    matches!(diff, Diff::InSync { .. } | Diff::Differs { .. })
}

/// A wait for a neighbour whose state in production cannot be determined.
fn cannot_tell(asset: AssetId, looked: Looked) -> Wait {
    match looked.map(|observation| observation.diff) {
        Ok(Diff::InProgress { .. }) => Wait::on(asset, "work on it is under way"),
        Ok(Diff::Foreign { owner }) => {
            let reason = format!("it belongs to `{owner}`, which may change it at any time");
            Wait::on(asset, reason).because(json!({"owner": owner}))
        }
        Ok(_) => Wait::on(
            asset,
            "its diff has a result that this version does not know",
        ),
        Err(error @ Error::ModelledOnly) => {
            Wait::on(asset, error.to_string()).dead_end(MODELLED_ONLY)
        }
        Err(error) => Wait::on(asset, error.to_string()),
    }
}
