//! Changes: fields of sources that are set for some assets, step by step, at the pace of a policy.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use annealing_strategist::{
    AskError, Rollout, State,
    change::{self, Known, Planned, PlannedTarget},
    preview::Schedule,
};
use control_plane_runtime::Runtime;
use control_plane_store::{Batch, BatchId};
use futures::channel::oneshot;
use plugin_sdk::{BoxError, By, ChangeId, FieldEdit, FieldPath, Holder, Problem, RolloutId};
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo, SourceName,
    addons::RolloutPolicyRef,
    rollout::{RollOut, RolloutPolicy, Update},
};

use crate::{
    SourceEdit,
    handle::{Error, Handle},
    in_intent::declared,
    sought::{Sought, sought},
};

/// A change that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RollingOut {
    /// The key of the change, for commands and questions about its rollout.
    pub key: AssetId,
    /// Number of targets that it updates. 0: all of them have the values already, and it has ended.
    pub targets: usize,
}

/// The reason why a change did not begin. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RollOutRefused {
    /// The name is not one, or the change sets no field.
    #[error("{0}")]
    Malformed(String),
    /// The name was used before, for another change.
    #[error(
        "the name `{0}` was used for a change of other content; give this one a name of its own"
    )]
    NameUsed(String),
    /// An asset declares a change of other content with the name.
    #[error("`{0}` is an asset of other content; edit it, or give this change a name of its own")]
    Declared(AssetId),
    /// No change with the key is live.
    #[error("`{0}` is no live change; to set other values, begin one")]
    NotLive(AssetId),
    /// A change is to be handed over to more than other values.
    #[error(
        "a change is handed over to other values of the same fields, and this one differs from `{0}` in more than these; begin one with a name of its own"
    )]
    OtherThanValues(String),
    /// A change is to be handed over to the values that it sets.
    #[error("`{0}` sets these values already")]
    SameValues(String),
    /// The change has begun, and its rollout is not known yet.
    #[error("`{0}` is about to begin; ask again in some seconds")]
    Begins(AssetId),
    /// There is no such policy.
    #[error("there is no rollout policy `{0}`; name the id of a policy asset")]
    NoPolicy(AssetId),
    /// No asset matches the filter.
    #[error("no asset matches the filter of the change; widen it")]
    NoTarget,
    /// A target is not of a group that is updated by edits.
    #[error(
        "`{asset}` {why}; changes are for assets of policy groups that are updated by edits: set `update: edits` in the policy, and wait until it takes hold"
    )]
    NotByEdits {
        /// The target that cannot be updated.
        asset: AssetId,
        /// Its group, and how that is updated.
        why: String,
    },
    /// A target is made from another source than those of the change.
    #[error(
        "`{0}` is made from the source `{source}`, and the targets of the change are not; make one change for each source", source = .1.0
    )]
    OtherSource(AssetId, SourceName),
    /// The field of a target is not known.
    #[error(
        "it is not known from which entry of a source `{0}` is made; give its generator a provenance"
    )]
    NoEntry(AssetId),
    /// The targets are made from several sources.
    #[error("`{0}` and `{1}` are made from two sources; make one change for each source")]
    TwoSources(AssetId, AssetId),
    /// The field cannot be set.
    #[error("the field `{path}` of `{asset}` cannot be set: {why}")]
    Field {
        /// The target that cannot be updated.
        asset: AssetId,
        /// The field, in its document.
        path: FieldPath,
        /// The reason, for the person.
        why: String,
    },
    /// The edit template of a type does not take the change.
    #[error("the edit template for `{0}` does not take the change: {1}")]
    Template(AssetId, Box<Problem>),
    /// The content of a target does not depend on its field.
    #[error(
        "the content of `{0}` does not change by the fields of the change; name fields that its generator reads"
    )]
    Unaffected(AssetId),
}

impl<R: Runtime> Handle<R> {
    /// Begins a change: its fields are set for its targets, step by step, as its policy says. The change is tried as a whole
    /// first, and all its fields are reserved for it. Requested again under the same name, it is the same change; one that was
    /// rolled back or stopped for good begins anew.
    ///
    /// The rollout of the change takes the same commands as that of a policy group, with [`RollingOut::key`] in the place of the
    /// policy asset.
    ///
    /// # Errors
    /// [`RollOutRefused`] or [`EditRefused`](crate::EditRefused) with the first reason found: nothing was changed. If this process does not own the
    /// partition.
    pub async fn roll_out(&self, change: &RollOut, by: By) -> Result<RollingOut, Error> {
        let key = change::requested_key(&change.name).map_err(|error| malformed(&error))?;
        let known = newest(self, &change.name).await?;
        let asset = self.latest().await?.asset(&key);
        let is_other = |(_, declared): (_, RollOut)| declared != *change;
        if asset.and_then(declared).is_some_and(is_other) {
            return Err(RollOutRefused::Declared(key).into());
        }
        match &known {
            Some(known) if known.change != *change => {
                Err(RollOutRefused::NameUsed(change.name.clone()).into())
            }
            Some(known) if !matches!(known.rollout.state, State::RolledBack { .. }) => {
                begun(self, &known.rollout).await
            }
            _ => self.roll_out_next(change, by, known.as_ref()).await,
        }
    }

    /// Begins the next change with a name, after `known`, which is over.
    pub(crate) async fn roll_out_next(
        &self,
        change: &RollOut,
        by: By,
        known: Option<&Known>,
    ) -> Result<RollingOut, Error> {
        let latest = self.latest().await?;
        let (planned, edit) = self.planned_change(&latest, change, by, known).await?;
        let batch = planned.batch(&self.shared.partition, known)?;
        let rolling = RollingOut {
            key: planned.key().clone(),
            targets: planned.len(),
        };
        let number = number_after(known);
        match self.begin((planned, edit, batch)).await {
            Ok(()) => Ok(rolling),
            // The same change may have begun meanwhile.
            Err(error) => match known_as(self, change, number).await? {
                Some(rollout) => begun(self, &rollout).await,
                None => Err(error),
            },
        }
    }

    /// Tries a change that follows `known`. Returns it with the edit that reserves its fields.
    async fn planned_change(
        &self,
        latest: &Incarnation,
        change: &RollOut,
        by: By,
        known: Option<&Known>,
    ) -> Result<(Planned, SourceEdit), Error> {
        let first = known.map_or(1, |known| known.rollout.id.0 + 1);
        let number = number_after(known);
        let targets = targets(self, change, latest).await?;
        let sought = sought(self, change, &targets).await?;
        let is_set = |id: &AssetId| !sought.fields.contains_key(id);
        let beside: BTreeSet<AssetId> = targets.iter().map(Asset::id).filter(is_set).collect();
        let source = sought.source.clone();
        let holder = Planned::holder_of(&change.name, number).map_err(|error| malformed(&error))?;
        let (edit, fields) = tried(self, (by.clone(), holder), sought, BTreeSet::new()).await?;
        let at = (latest.no(), self.shared.runtime.now().wall);
        let of = (number, RolloutId(first));
        let planned = Planned::new((change.clone(), by), of, at, source, &fields, beside);
        let planned = planned.map_err(|error| malformed(&error))?;
        Ok((planned, edit))
    }

    /// Returns when each target of a change would move if it began now and all went well. The change is tried as by
    /// [`roll_out`](Self::roll_out), and nothing is changed. Each target takes `settles_after` from its edit until production
    /// has it. Other changes, checks and pauses are not played.
    ///
    /// # Errors
    /// As for [`roll_out`](Self::roll_out), or if the policy of the change would never let it end.
    pub async fn preview_roll_out(
        &self,
        change: &RollOut,
        settles_after: Duration,
    ) -> Result<Schedule, Error> {
        change::requested_key(&change.name).map_err(|error| malformed(&error))?;
        let by = By::new("preview", "nothing is changed");
        let latest = self.latest().await?;
        let known = newest(self, &change.name).await?;
        let planned = self.planned_change(&latest, change, by, known.as_ref());
        let (planned, _) = planned.await?;
        let strategist = &self.shared.strategist;
        Ok(strategist.preview(&planned, &latest, settles_after)?)
    }

    /// Reserves the fields of a change, and begins it, both or nothing: also if the caller has gone meanwhile.
    async fn begin(
        &self,
        (planned, edit, batch): (Planned, SourceEdit, Batch),
    ) -> Result<(), Error> {
        let (desk, handle) = (self.desk().await?, self.clone());
        let (sender, answer) = oneshot::channel();
        let task = async move {
            let begin = async {
                desk.reserve(&edit, batch).await?;
                if !planned.is_empty() {
                    // The strategist that runs now: an earlier one may have ended without having read the records.
                    handle.rolling().await?.roll_out(planned).await?;
                }
                Ok::<(), Error>(())
            };
            // The caller may have gone.
            let _ = sender.send(begin.await);
        };
        self.shared.runtime.spawn(Box::pin(task));
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(self.not_owner().await?),
        }
    }

    /// Waits until a change has come to rest: it is complete, rolled back, or stopped and waits for a person. Returns its rollout
    /// then.
    ///
    /// # Errors
    /// If it is not over within `within`, there is no such change, or this process does not own the partition.
    pub async fn wait_roll_out(&self, key: &AssetId, within: Duration) -> Result<Rollout, Error> {
        match self.wait_rollout(key, IncarnationNo(0), within).await {
            Err(Error::Rollout(AskError::Refused(refused))) => {
                // It may have ended before.
                let newest = self.past_rollouts(key).await?.pop();
                let ended = newest.filter(|rollout| rollout.state.has_ended());
                ended.ok_or(Error::Rollout(AskError::Refused(refused)))
            }
            outcome => {
                let begins = || RollOutRefused::Begins(key.clone()).into();
                outcome?.rollout.ok_or_else(begins)
            }
        }
    }
}

/// The number of the next change with a name.
fn number_after(known: Option<&Known>) -> u64 {
    known.map_or(1, |known| known.number + 1)
}

/// The newest change with a name.
pub(crate) async fn newest<R: Runtime>(
    handle: &Handle<R>,
    name: &str,
) -> Result<Option<Known>, Error> {
    change::key_of(name).map_err(|error| malformed(&error))?;
    let shared = &handle.shared;
    let known = Known::of(&*shared.store, &shared.partition, name).await;
    known.map_err(Error::Store)
}

/// The rollout of a change, if it has begun as number `number` of its name.
async fn known_as<R: Runtime>(
    handle: &Handle<R>,
    change: &RollOut,
    number: u64,
) -> Result<Option<Rollout>, Error> {
    let known = newest(handle, &change.name).await?;
    let same = known.filter(|known| known.change == *change && known.number == number);
    Ok(same.map(|known| known.rollout))
}

async fn begun<R: Runtime>(handle: &Handle<R>, rollout: &Rollout) -> Result<RollingOut, Error> {
    let live = async || {
        let views = handle.rollouts().await?;
        let mut views = views.into_iter();
        Ok::<_, Error>(views.find(|view| view.policy == rollout.policy))
    };
    let mut view = live().await?;
    if view.is_none() && !rollout.state.has_ended() {
        handle.rolling().await?.take_up(&rollout.policy).await?;
        view = live().await?;
    }
    let targets = match view {
        Some(view) => view.targets.len(),
        None if rollout.state.has_ended() => 0,
        None => return Err(RollOutRefused::Begins(rollout.policy.clone()).into()),
    };
    Ok(RollingOut {
        key: rollout.policy.clone(),
        targets,
    })
}

/// The assets that a change is for.
async fn targets<R: Runtime>(
    handle: &Handle<R>,
    change: &RollOut,
    latest: &Incarnation,
) -> Result<Vec<Asset>, Error> {
    if change.set.is_empty() {
        let why = "the change sets no field; add one with `.set(...)`";
        return Err(RollOutRefused::Malformed(why.to_owned()).into());
    }
    let policy = latest.asset(&change.policy.id);
    if policy.is_none_or(|asset| asset.payload::<RolloutPolicy>().is_err()) {
        return Err(RollOutRefused::NoPolicy(change.policy.id.clone()).into());
    }
    let targets: Vec<Asset> = change.on.find(latest.snapshot()).collect();
    if targets.is_empty() {
        return Err(RollOutRefused::NoTarget.into());
    }
    by_edits(handle, &targets).await?;
    Ok(targets)
}

/// Checks that assets are of policy groups that are updated by edits.
pub(crate) async fn by_edits<R: Runtime>(
    handle: &Handle<R>,
    targets: &[Asset],
) -> Result<(), Error> {
    let views = handle.rollouts().await?;
    let by_edits: BTreeSet<&AssetId> = views
        .iter()
        .filter(|view| view.update == Update::Edits)
        .map(|view| &view.policy)
        .collect();
    for target in targets {
        let why = match policy_of(target) {
            Some(policy) if by_edits.contains(&policy) => continue,
            Some(policy) => {
                format!("is of the group of `{policy}`, which is updated by pins now")
            }
            None => "is of no policy group".to_owned(),
        };
        let asset = target.id();
        return Err(RollOutRefused::NotByEdits { asset, why }.into());
    }
    Ok(())
}

/// Tries to set all fields. The edit may change the assets `beneath`, too. Returns the edit of all fields, to be reserved, and
/// the targets.
pub(crate) async fn tried<R: Runtime>(
    handle: &Handle<R>,
    (by, holder): (By, Holder),
    sought: Sought,
    beneath: BTreeSet<AssetId>,
) -> Result<(SourceEdit, Vec<PlannedTarget>), Error> {
    let Sought { source, fields } = sought;
    let distinct: BTreeMap<String, &FieldEdit> = fields
        .values()
        .flatten()
        .map(|edit| (format!("{} {}", edit.document, edit.path), edit))
        .collect();
    let reserved = ChangeId::from(BatchId::fresh().0);
    let edit = SourceEdit::new(&source.0, by)
        .id(reserved.clone())
        .fields(distinct.into_values().cloned())
        .held_by(holder)
        .blast_radius(usize::MAX)
        .only(fields.keys().cloned().chain(beneath).collect());
    let mut targets = Vec::new();
    if fields.is_empty() {
        return Ok((edit, targets));
    }
    let changes = handle.desk().await?.attempt_alone(&edit).await?;
    let mut changes: BTreeMap<AssetId, _> = changes.into_iter().map(|it| (it.id(), it)).collect();
    for (asset, edits) in fields {
        let content = changes
            .remove(&asset)
            .and_then(|it| it.before.zip(it.after));
        let (before, after) = content.ok_or(RollOutRefused::Unaffected(asset.clone()))?;
        if policy_of(&before) != policy_of(&after) {
            let why = "would leave its policy group by the change".to_owned();
            return Err(RollOutRefused::NotByEdits { asset, why }.into());
        }
        targets.push(PlannedTarget {
            before,
            after,
            edits,
            reserved: reserved.clone(),
        });
    }
    Ok((edit, targets))
}

/// The policy asset of the group of an asset.
pub(crate) fn policy_of(asset: &Asset) -> Option<AssetId> {
    let group = asset.addon::<RolloutPolicyRef>().ok().flatten();
    group.map(|group| group.policy.id)
}

pub(crate) fn malformed(error: &BoxError) -> Error {
    RollOutRefused::Malformed(error.to_string()).into()
}
