//! Goals: how far production is, and which assets are not there yet.

use annealing_enforcer::{AskError, AssetStatus};
use annealing_strategist::{View, change};
use control_plane_runtime::Runtime;
use control_plane_store::{incarnations, records::HeldField};
use plugin_sdk::{AssetView, FieldEdit, FieldPath, Problems, with_causes};
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo, Message, SourceName, goal::Goal, rollout::RollOut,
};
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
    let look = Look {
        handle,
        latest,
        views,
    };
    let missing = look.missing(&asset, &goal, &targets).await;
    let missing = missing.map_err(|error| with_causes(&error));
    let is_over = goal.by <= handle.shared.runtime.now().wall;
    GoalView {
        asset,
        targets: targets.len(),
        is_late: is_over && missing.as_ref().is_ok_and(|missing| !missing.is_empty()),
        missing,
        goal,
    }
}

/// One look at the sources, at enforcement and at the rollouts.
struct Look<'a, R> {
    handle: &'a Handle<R>,
    latest: &'a Incarnation,
    views: &'a [View],
}

impl<R: Runtime> Look<'_, R> {
    /// Finds the targets that do not have the value in production.
    async fn missing(
        &self,
        asset: &AssetId,
        goal: &Goal,
        targets: &[Asset],
    ) -> Result<Vec<Missing>, Error> {
        let wanted =
            RollOut::new(asset.as_str(), asset.clone()).set(&goal.field, goal.value.clone());
        let sought = sought(self.handle, &wanted, targets).await?;
        let status = self.handle.generation().await?.status();
        let in_force = status.seen.get(&sought.source) == Some(&sought.revision);
        let held = self.handle.held_fields().await?;
        let mut missing = Vec::new();
        for target in targets {
            let id = target.id();
            let edit = sought.fields.get(&id).and_then(|edits| edits.first());
            let (has, why) = match edit {
                Some(edit) => (edit.was.clone(), self.not_set(&held, &sought.source, edit)),
                None if !in_force => {
                    let why =
                        "the source has the value, and no incarnation in force is made from it yet";
                    (Some(goal.value.clone()), why.to_owned())
                }
                None => match self.not_in_sync(target).await? {
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

    /// Why production does not have the newest content of an asset. `None`: it has.
    async fn not_in_sync(&self, asset: &Asset) -> Result<Option<String>, Error> {
        let (id, types) = (asset.id(), self.handle.shared.pipeline.types());
        if types.is_modelled_only(asset.type_str()) {
            return Ok(None);
        }
        let explained = match self.handle.enforcer.explain(&id).await {
            Err(AskError::UnknownAsset { .. }) => {
                return Ok(Some("enforcement does not know the asset yet".to_owned()));
            }
            explained => explained?,
        };
        let Some(own) = explained.chain.first() else {
            return Ok(None);
        };
        if let Some(why) = self.held_back(asset, own.incarnation).await? {
            return Ok(Some(why));
        }
        Ok(
            (own.status != AssetStatus::Settled).then(|| match &own.waiting {
                Some(waiting) => format!("the source has the value, and the push waits: {waiting}"),
                None => "the source has the value, and the push is under way".to_owned(),
            }),
        )
    }

    /// Why the asset is enforced with older content: its rollout has not reached it. `None`: it is enforced with the newest.
    async fn held_back(
        &self,
        asset: &Asset,
        at: Option<IncarnationNo>,
    ) -> Result<Option<String>, Error> {
        let Some(no) = at else {
            return Ok(Some(
                "it has no pin yet: its rollout has not reached it".to_owned(),
            ));
        };
        if no == self.latest.no() {
            return Ok(None);
        }
        let pinned = match self.handle.shared.incarnations.load(no).await {
            Ok(pinned) => pinned.asset(&asset.id()),
            Err(incarnations::Error::Unknown(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let same = pinned.is_some_and(|it| it.digest() == asset.digest());
        Ok((!same).then(|| format!("it is held at {no}: its rollout has not reached it")))
    }

    /// Why a field does not have the value yet.
    fn not_set(&self, held: &[HeldField], source: &SourceName, edit: &FieldEdit) -> String {
        let name = |edit: &FieldEdit| format!("{} {}", edit.document, edit.path);
        let mut held = held.iter().filter(|it| it.overwritten.is_none());
        let held = held.find(|it| it.source == *source && name(&it.edit) == name(edit));
        let Some(held) = held else {
            return "no live change and no program has set it".to_owned();
        };
        let holder = held.holder.to_string();
        let mut live = self.views.iter().filter(|it| change::is_key(&it.policy));
        let change = live.find(|it| {
            holder
                .rsplit_once('#')
                .is_some_and(|(key, _)| key == it.policy.as_str())
        });
        match change.and_then(|view| view.waits.first()) {
            Some(wait) => format!("`{holder}` has it in hand, and waits: {}", wait.why),
            None => format!("`{holder}` has it in hand"),
        }
    }
}

/// Checks that a goal names a field.
pub(crate) fn valid(goal: &Goal, view: &AssetView<'_>, problems: &mut Problems) {
    if goal.field.is_empty() || goal.field.parse::<FieldPath>().is_err() {
        let why = "must be a field of the targets' entries, such as `version`";
        problems.push(view.problem(why).field("payload.field"));
    }
}
