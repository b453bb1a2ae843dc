//! Goals: how far production is, and which assets are not there yet.

use annealing_enforcer::{AskError, AssetStatus};
use annealing_strategist::{View, change};
use control_plane_runtime::Runtime;
use plugin_sdk::{AssetView, FieldPath, Problems, with_causes};
use prodspec_model::{Asset, AssetId, Incarnation, Message, goal::Goal, rollout::RollOut};
use serde::Serialize;
use serde_json::Value;

use crate::{
    handle::{Error, Handle},
    roll_out::sought,
};

/// A goal in the incarnation in force, and how far production is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GoalView {
    /// The asset of the goal.
    pub asset: AssetId,
    /// The goal as it is in intent.
    pub goal: Goal,
    /// Number of assets that the goal is for.
    pub targets: usize,
    /// Those that do not have the value in production, ordered by id. Why this is not known, if it is not.
    pub missing: Result<Vec<Missing>, String>,
    /// Whether the deadline has passed before the goal is reached.
    pub is_late: bool,
}

/// An asset that does not have the value of a goal in production.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Missing {
    /// The asset, one of the targets.
    pub asset: AssetId,
    /// The value in the source. `None`: the field is not there.
    pub has: Option<Value>,
    /// The event that the asset waits for.
    pub why: String,
}

impl GoalView {
    /// Whether all assets that the goal is for have the value in production.
    pub fn is_reached(&self) -> bool {
        self.missing.as_ref().is_ok_and(Vec::is_empty)
    }
}

impl<R: Runtime> Handle<R> {
    /// Returns all goals of the incarnation in force, with their progress. Asks enforcement about each asset that they are for.
    ///
    /// # Errors
    /// If there is no incarnation yet, or this process does not own the partition.
    pub async fn goals(&self) -> Result<Vec<GoalView>, Error> {
        let (latest, views) = (self.latest().await?, self.rollouts().await?);
        let mut goals = Vec::new();
        for asset in latest.snapshot().iter() {
            if asset.type_str() == Goal::TYPE
                && let Ok(goal) = asset.payload::<Goal>()
            {
                goals.push(progress(self, asset.id(), goal, &latest, &views).await);
            }
        }
        Ok(goals)
    }
}

async fn progress<R: Runtime>(
    handle: &Handle<R>,
    asset: AssetId,
    goal: Goal,
    latest: &Incarnation,
    views: &[View],
) -> GoalView {
    let targets: Vec<Asset> = goal.targets.find(latest.snapshot()).collect();
    let missing = missing(handle, &asset, &goal, &targets, views).await;
    let missing = missing.map_err(|error| with_causes(&error));
    let mut view = GoalView {
        asset,
        targets: targets.len(),
        missing,
        is_late: false,
        goal,
    };
    let is_over = view.goal.by <= handle.shared.runtime.now().wall;
    view.is_late = is_over && !view.is_reached();
    view
}

/// Finds the targets that do not have the value in production.
async fn missing<R: Runtime>(
    handle: &Handle<R>,
    asset: &AssetId,
    goal: &Goal,
    targets: &[Asset],
    views: &[View],
) -> Result<Vec<Missing>, Error> {
    let wanted = RollOut::new(asset.as_str(), asset.clone()).set(&goal.field, goal.value.clone());
    let fields = sought(handle, &wanted, targets).await?.fields;
    let mut missing = Vec::new();
    for target in targets {
        let id = target.id();
        let (has, why) = match fields.get(&id).and_then(|edits| edits.first()) {
            Some(edit) => (edit.was.clone(), not_set(&id, views)),
            None => match not_in_sync(handle, &id).await? {
                Some(why) => (Some(goal.value.clone()), why),
                None => continue,
            },
        };
        missing.push(Missing {
            asset: id,
            has,
            why,
        });
    }
    Ok(missing)
}

/// Why production is not as the source says about an asset. `None`: it is.
async fn not_in_sync<R: Runtime>(
    handle: &Handle<R>,
    asset: &AssetId,
) -> Result<Option<String>, Error> {
    let explained = match handle.enforcer.explain(asset).await {
        Err(AskError::UnknownAsset { .. }) => return Ok(None),
        explained => explained?,
    };
    let own = explained.chain.first();
    let own = own.filter(|it| it.status != AssetStatus::Settled);
    Ok(own.map(|it| match &it.waiting {
        Some(waiting) => format!("the source has the value, and the push waits: {waiting}"),
        None => "the source has the value, and the push is under way".to_owned(),
    }))
}

/// Why a field does not have the value yet, as far as live changes say.
fn not_set(asset: &AssetId, views: &[View]) -> String {
    let mut live = views.iter().filter(|view| change::is_key(&view.policy));
    let change = live.find(|view| view.targets.iter().any(|it| it.asset == *asset));
    match change.map(|view| (&view.policy, view.waits.first())) {
        Some((key, Some(wait))) => format!("`{key}` is live on it, and waits: {}", wait.why),
        Some((key, None)) => format!("`{key}` is live on it"),
        None => "no change that is live sets it".to_owned(),
    }
}

/// Checks that a goal names a field.
pub(crate) fn valid(goal: &Goal, view: &AssetView<'_>, problems: &mut Problems) {
    if goal.field.is_empty() || goal.field.parse::<FieldPath>().is_err() {
        let why = "must be a field of the targets' entries, such as `version`";
        problems.push(view.problem(why).field("payload.field"));
    }
}
