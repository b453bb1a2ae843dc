//! Goals: how far production is, and which assets are not there yet.

use std::{collections::BTreeMap, fmt};

use annealing_enforcer::{AskError, AssetStatus};
use annealing_strategist::{View, change};
use control_plane_runtime::Runtime;
use control_plane_store::{incarnations, records::HeldField};
use plugin_sdk::{AssetView, FieldPath, Problems, Target};
use prodspec_gen::EntryField;
use prodspec_model::{Asset, AssetId, Incarnation, IncarnationNo, goal::Goal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    handle::{Error, Handle},
    in_intent::declared,
};

/// A goal in the incarnation in force, and how far production is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GoalView {
    /// The asset of the goal.
    pub asset: AssetId,
    /// The goal as it is in intent.
    pub goal: Goal,
    /// Number of assets that the goal is for.
    pub targets: usize,
    /// Those that do not have the value in production, ordered by id.
    pub missing: Vec<Missing>,
    /// Whether the deadline has passed before the goal is reached.
    pub is_late: bool,
}

/// An asset that does not have the value of a goal in production.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Missing {
    /// The asset, one of the targets.
    pub asset: AssetId,
    /// The value in the source, as of the last run that made an incarnation. `None`: the field is not there.
    pub has: Option<Value>,
    /// The event that the asset waits for.
    pub why: String,
}

impl fmt::Display for GoalView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (goal, reached) = (&self.goal, self.targets - self.missing.len());
        let (field, value, by) = (&goal.field, &goal.value, goal.by);
        let many = self.targets;
        let late = if self.is_late { ", late" } else { "" };
        write!(
            f,
            "{reached} of {many} have {field} = {value}, due {by}{late}"
        )
    }
}

impl GoalView {
    /// Whether all assets that the goal is for have the value in production. One that is for no asset is not reached.
    pub fn is_reached(&self) -> bool {
        self.targets > 0 && self.missing.is_empty()
    }
}

impl<R: Runtime> Handle<R> {
    /// Returns all goals of the incarnation in force, with their progress. Asks enforcement about each asset that they are for.
    ///
    /// # Errors
    /// If there is no incarnation yet, the store cannot be read, or this process does not own the partition.
    pub async fn goals(&self) -> Result<Vec<GoalView>, Error> {
        let latest = self.latest().await?;
        let goals = latest.snapshot().iter().filter_map(declared);
        progress(self, &latest, goals.collect()).await
    }

    /// The goals that this owner knows, each with its progress in one line. Reads no other asset of intent than their targets.
    pub(crate) async fn goals_in_lines(&self) -> Result<BTreeMap<AssetId, String>, Error> {
        let goals = self.shared.goals.borrow().clone();
        in_lines(self, goals).await
    }
}

/// The progress of each of these goals in one line.
pub(crate) async fn in_lines<R: Runtime>(
    handle: &Handle<R>,
    goals: BTreeMap<AssetId, Goal>,
) -> Result<BTreeMap<AssetId, String>, Error> {
    let latest = handle.latest().await?;
    let views = progress(handle, &latest, goals.into_iter().collect()).await?;
    let lines = views
        .into_iter()
        .map(|it| (it.asset.clone(), it.to_string()));
    Ok(lines.collect())
}

/// The progress of one goal. `None`: the asset is no goal.
pub(crate) async fn goal<R: Runtime>(
    handle: &Handle<R>,
    latest: &Incarnation,
    asset: Asset,
) -> Result<Option<GoalView>, Error> {
    match declared(asset) {
        Some(goal) => Ok(progress(handle, latest, vec![goal]).await?.pop()),
        None => Ok(None),
    }
}

/// The progress of some goals of an incarnation.
async fn progress<R: Runtime>(
    handle: &Handle<R>,
    latest: &Incarnation,
    goals: Vec<(AssetId, Goal)>,
) -> Result<Vec<GoalView>, Error> {
    if goals.is_empty() {
        return Ok(vec![]);
    }
    let mut of_targets = Vec::new();
    for (_, goal) in &goals {
        let targets: Vec<Asset> = goal.targets.find(latest.snapshot()).collect();
        of_targets.push(fields(handle, goal, targets).await?);
    }
    // After the fields: their values are in the incarnation that is in force now.
    let look = Look {
        handle,
        latest: handle.latest().await?,
        views: handle.rollouts().await?,
        held: handle.held_fields().await?,
    };
    let mut views = Vec::new();
    for ((asset, goal), fields) in goals.into_iter().zip(of_targets) {
        views.push(look.view(asset, goal, &fields).await?);
    }
    Ok(views)
}

/// The field of each target, as of the last good run. `None`: it is made from no entry that could have it.
async fn fields<R: Runtime>(
    handle: &Handle<R>,
    goal: &Goal,
    targets: Vec<Asset>,
) -> Result<Vec<(AssetId, Option<EntryField>)>, Error> {
    let generation = handle.generation().await?;
    let path: FieldPath = goal.field.parse().unwrap_or_default();
    let mut fields = Vec::new();
    for target in targets {
        let id = target.id();
        let field = generation.field(&id, &path).await;
        fields.push((id, field));
    }
    Ok(fields)
}

/// One look at enforcement, the rollouts, and the fields that programs hold.
struct Look<'a, R> {
    handle: &'a Handle<R>,
    latest: Incarnation,
    views: Vec<View>,
    held: Vec<HeldField>,
}

impl<R: Runtime> Look<'_, R> {
    async fn view(
        &self,
        asset: AssetId,
        goal: Goal,
        fields: &[(AssetId, Option<EntryField>)],
    ) -> Result<GoalView, Error> {
        let mut missing = Vec::new();
        for (id, field) in fields {
            let has = field.as_ref().and_then(|field| field.edit.was.clone());
            let why = match field {
                None => Some("no entry of a document has the field; see its generator".to_owned()),
                Some(_) if has.as_ref() == Some(&goal.value) => self.not_there(id).await?,
                Some(field) => Some(self.not_set(field)),
            };
            missing.extend(why.map(|why| Missing {
                asset: id.clone(),
                has,
                why,
            }));
        }
        let is_over = goal.by <= self.handle.shared.runtime.now().wall;
        let mut view = GoalView {
            asset,
            targets: fields.len(),
            is_late: false,
            missing,
            goal,
        };
        view.is_late = is_over && !view.is_reached();
        Ok(view)
    }

    /// Why production does not have the newest content of an asset. `None`: it has.
    async fn not_there(&self, id: &AssetId) -> Result<Option<String>, Error> {
        let Some(asset) = self.latest.asset(id) else {
            return Ok(Some("the asset is gone from intent".to_owned()));
        };
        let types = self.handle.shared.pipeline.types();
        if types.is_modelled_only(asset.type_str()) {
            return Ok(self.waits_in_rollout(id));
        }
        let explained = match self.handle.enforcer.explain(id).await {
            Err(AskError::UnknownAsset { .. }) => {
                return Ok(Some("enforcement does not know the asset yet".to_owned()));
            }
            explained => explained?,
        };
        let Some(own) = explained.chain.first() else {
            return Ok(None);
        };
        if let Some(why) = self.held_back(&asset, own.incarnation).await? {
            return Ok(Some(why));
        }
        Ok(
            (own.status != AssetStatus::Settled).then(|| match &own.waiting {
                Some(waiting) => format!("the source has the value, and the push waits: {waiting}"),
                None => "the source has the value, and the push is under way".to_owned(),
            }),
        )
    }

    /// Why a rollout by pins has not brought an asset its newest content. `None`: none is to bring it.
    fn waits_in_rollout(&self, id: &AssetId) -> Option<String> {
        let by_pins = self
            .views
            .iter()
            .filter(|view| !change::is_key(&view.policy));
        let mut waiting = by_pins.filter(|view| {
            let waits = |it: &Target| it.asset == *id && it.settled().is_none();
            view.live && view.targets.iter().any(waits)
        });
        let view = waiting.next()?;
        Some(format!(
            "the rollout of `{}` has not brought it yet",
            view.policy
        ))
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
    fn not_set(&self, field: &EntryField) -> String {
        let mut held = self.held.iter().filter(|it| it.overwritten.is_none());
        let holds = |it: &&HeldField| it.source == field.source && it.edit.overlaps(&field.edit);
        let Some(held) = held.find(holds) else {
            return "no live change and no program has set it".to_owned();
        };
        let holder = held.holder.to_string();
        let key = holder.rsplit_once('#').map(|(key, _)| key);
        let mut views = self.views.iter();
        let change = views.find(|view| key == Some(view.policy.as_str()));
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
