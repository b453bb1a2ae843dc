//! R104: a train of heads. Each incarnation that changes an asset of its stages is a version, and a rollout of a version to a stage is
//! one of the stage's policy group.

use std::collections::BTreeSet;

use annealing_strategist::{
    AskError, Command as RolloutCommand, GroupOutcome, LetIn, Rollout, State,
    train::{Outcome, Run, TrainRecord, is_version},
};
use control_plane_runtime::Runtime;
use control_plane_store::{incarnations, record};
use plugin_sdk::By;
use prodspec_model::{AssetId, Incarnation, IncarnationNo, train::Train};
use serde_json::Value;

use super::{One, Step};
use crate::{
    attempt::soon,
    handle::{Error, Handle},
    shared::Shared,
};

/// The incarnations that are versions of trains, which retention must spare.
pub(crate) async fn versions<R: Runtime>(shared: &Shared<R>) -> Result<Vec<IncarnationNo>, Error> {
    let records = record::load_all::<TrainRecord>(&*shared.store, &shared.partition).await?;
    let versions = records
        .iter()
        .flat_map(|(_, record)| &record.value.versions);
    Ok(versions.filter_map(|it| Some(it.head()?.no)).collect())
}

/// The policies whose groups are stages of more than one train of heads.
pub(super) fn shared<'a>(trains: impl Iterator<Item = &'a Train>) -> BTreeSet<AssetId> {
    let (mut all, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for train in trains.filter(|it| it.carries_heads()) {
        for stage in &train.stages {
            if !all.insert(&stage.policy.id) {
                shared.insert(stage.policy.id.clone());
            }
        }
    }
    shared
}

impl<R: Runtime> One<'_, R> {
    /// The version that intent offers. `None`: none that is new.
    pub(super) async fn offer(&self) -> Result<Option<Value>, Error> {
        if !self.train.carries_heads() {
            return Ok(self.train.offers.clone());
        }
        let newest = Some(Value::from(self.latest.id().to_string()));
        let record = self.handle.trains().record(self.asset).await?;
        let last = record.versions.iter().rev().find_map(|it| it.head());
        let before = match last {
            Some(last) if last == *self.latest.id() => return Ok(None),
            Some(last) => kept(self.handle, last.no).await?,
            None => None,
        };
        let is_version = |before: &Incarnation| {
            is_version(self.train, before.snapshot(), self.latest.snapshot())
        };
        Ok(newest.filter(|_| before.as_ref().is_none_or(is_version)))
    }

    /// Finds the next step for a rollout to a stage by its policy group.
    pub(super) async fn follow_group(
        &self,
        stage: &str,
        run: &Run,
        record: &TrainRecord,
    ) -> Result<Step, Error> {
        let not_begun = |why: &str| Ok(Step::Ended(Outcome::NotBegun(why.to_owned())));
        let Some(policy) = self.policy(stage) else {
            return not_begun("the train has no such stage any more");
        };
        if self.shared.contains(&policy) {
            return not_begun(
                "its group is a stage of another train, too; give each stage a group of its own",
            );
        }
        let version = record.version(run.version);
        let Some((version, id)) = version.and_then(|it| Some((it, it.head()?))) else {
            return not_begun("the version is not known any more");
        };
        // One that is displaced stays until the hotfix takes over from it.
        if run.leaves.is_some() && (run.number.is_none() || version.abandoned.is_none()) {
            return Ok(Step::Ended(Outcome::Left));
        }
        if run.number.is_none() {
            self.edit(|record| record.number(stage, run, id.no.0.into()))
                .await?;
            return Ok(Step::Again);
        }
        let Some(incarnation) = kept(self.handle, id.no).await? else {
            return not_begun("its incarnation is not kept any more");
        };
        let rolling = self.handle.rolling().await?;
        let rests = match rolling.let_in(&policy, incarnation).await {
            // The strategist has not taken in the incarnation with the train.
            Err(AskError::Refused(_)) => return Ok(Step::Waits(soon(self.handle))),
            entered => match entered? {
                LetIn::Moves => None,
                LetIn::Rests(rests) => Some(*rests),
                LetIn::Overtaken => {
                    let why = "the group has completed a newer incarnation".to_owned();
                    return Ok(Step::Ended(Outcome::RolledBack(why)));
                }
            },
        };
        if version.enters.as_deref() == Some(stage) && rests.is_none() {
            self.displace(&policy, &version.value).await?;
        }
        let state = rests.map_or(State::Running, |rests| state(rests, id.no));
        self.go_on(stage, run, policy, state).await
    }

    fn policy(&self, stage: &str) -> Option<AssetId> {
        let stage = self.train.stages.iter().find(|it| it.name == stage)?;
        Some(stage.policy.id.clone())
    }

    /// Lets a hotfix take over from the version that is rolled out.
    async fn displace(&self, policy: &AssetId, version: &Value) -> Result<(), Error> {
        let by = By::new(
            self.asset.as_str(),
            format!("displaced by the hotfix {version}"),
        );
        let told = self
            .handle
            .tell_rollout(policy, RolloutCommand::HandOver, by);
        match told.await {
            // It has taken over, or the version goes back.
            Ok(()) | Err(Error::Rollout(AskError::Refused(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The state of the rollout of an incarnation to a group that rests.
fn state(rests: GroupOutcome, no: IncarnationNo) -> State {
    // An older rollout may have stopped; a newer incarnation takes over if it mends all that has failed there.
    let is_own = |it: &Rollout| it.to == no || matches!(it.state, State::Stopped { .. });
    let own = rests.rollout.filter(is_own);
    match own.map(|it| it.state) {
        Some(state) if state != State::Completed => state,
        _ if rests.released => State::Completed,
        // Later stages would get this content by this version.
        _ => {
            let first = rests.left_out.first().map(|it| format!(": `{it}`"));
            let why = "content that failed before is left out";
            State::RolledBack {
                why: format!("{why}{}", first.unwrap_or_default()),
            }
        }
    }
}

/// Loads an incarnation. `None`: retention has removed it.
async fn kept<R: Runtime>(
    handle: &Handle<R>,
    no: IncarnationNo,
) -> Result<Option<Incarnation>, Error> {
    match handle.shared.incarnations.load(no).await {
        Ok(incarnation) => Ok(Some(incarnation)),
        Err(incarnations::Error::Unknown(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
