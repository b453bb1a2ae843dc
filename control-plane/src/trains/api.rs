//! R104: trains, for people and programs: questions, commands, and the preview.

use std::{collections::BTreeMap, time::Duration};

use annealing_strategist::{
    change,
    train::{Arrival, Command, Idle, TrainRecord, preview},
};
use control_plane_runtime::Runtime;
use control_plane_store::{Batch, CommitError, Expect, Version, owner, record};
use jiff::Timestamp;
use plugin_sdk::By;
use prodspec_model::{Asset, AssetId, train::Train};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::trains;
use crate::{
    goals::in_lines,
    handle::{Error, Handle},
    in_intent::declared,
};

/// Maximum number of commits that conflict with those of others, one after the other.
const ATTEMPTS: u32 = 20;

/// A train as it is in intent, and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrainView {
    /// The asset of the train.
    pub asset: AssetId,
    /// The train in the incarnation in force.
    pub train: Train,
    /// Its durable state: the versions, with the facts about each one in each stage.
    pub record: TrainRecord,
    /// The stages, in their order.
    pub stages: Vec<StageView>,
    /// The goals about the field that the train carries, for assets of its stages, each with its progress in one line. Empty in a
    /// process that does not own the partition.
    pub goals: BTreeMap<AssetId, String>,
}

/// A stage of a train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageView {
    /// Name of the stage in its train.
    pub name: String,
    /// The key of its changes, or in a train of heads the policy of its group, for commands and questions about the rollout under
    /// way.
    pub key: AssetId,
    /// The version that is rolled out there, or else the newest one that is ripe there.
    pub has: Option<Value>,
    /// Whether a version is rolled out there now.
    pub runs: bool,
    /// The version that enters next, or the reason why none does now.
    pub next: Result<Value, Idle>,
}

impl<R: Runtime> Handle<R> {
    /// The trains of the partition.
    pub fn trains(&self) -> Trains<'_, R> {
        Trains(self)
    }
}

/// The trains of a partition: questions about them, and commands to them.
#[derive(Debug, Clone, Copy)]
pub struct Trains<'a, R>(&'a Handle<R>);

impl<R: Runtime> Trains<'_, R> {
    /// Returns all trains of the incarnation in force, with their versions and stages.
    ///
    /// # Errors
    /// If there is no incarnation yet, or the store cannot be read.
    pub async fn all(&self) -> Result<Vec<TrainView>, Error> {
        let mut views = Vec::new();
        for (asset, train) in trains(&self.0.latest().await?) {
            views.push(self.view(asset, train).await?);
        }
        Ok(views)
    }

    /// The train that an asset is. `None`: it is none.
    pub(crate) async fn of(&self, asset: Asset) -> Result<Option<TrainView>, Error> {
        let Some((asset, train)) = declared(asset) else {
            return Ok(None);
        };
        Ok(Some(self.view(asset, train).await?))
    }

    async fn view(&self, asset: AssetId, train: Train) -> Result<TrainView, Error> {
        let record = self.record(&asset).await?;
        let goals = self.goals(&train).await?;
        TrainView::of(asset, train, record, goals, self.now())
    }

    /// The goals about the field of a train, each in one line.
    async fn goals(&self, train: &Train) -> Result<BTreeMap<AssetId, String>, Error> {
        let mut goals = self.0.shared.goals.borrow().clone();
        let latest = self.0.latest().await?;
        let is_of_stage = |asset: &Asset| train.stages.iter().any(|it| it.targets.matches(asset));
        goals.retain(|_, goal| goal.field == train.carries);
        goals.retain(|_, goal| {
            let mut targets = goal.targets.find(latest.snapshot());
            targets.any(|asset| is_of_stage(&asset))
        });
        Ok(in_lines(self.0, goals).await.unwrap_or_default())
    }

    /// Gives a command to the train `asset`: offer, hotfix, skip, hold, release, abandon. It is durable when the call returns.
    ///
    /// # Errors
    /// If there is no such train, the command does not fit its state, or this process does not own the partition.
    pub async fn command(&self, asset: &AssetId, command: Command, by: By) -> Result<(), Error> {
        self.0.generation().await?;
        let (train, now) = (self.train(asset).await?, self.now());
        let edit = |record: &mut TrainRecord| {
            record.command(&train, command.clone(), by.clone(), now)?;
            record.decide(&train, now);
            Ok(())
        };
        let edited = edit_record(self.0, asset, edit).await;
        // Also after a failure: the commit may have been made.
        self.0.shared.trains.notify_one();
        edited.map(drop)
    }

    /// Returns the expected arrivals of versions at the stages of the train `asset` until `until`, if all goes well: those under
    /// way, and those of `offers`, each with the time of its offering. A stage takes as long as it took for its newest ripe
    /// version, or as long as `takes` says.
    ///
    /// # Errors
    /// If there is no such train, or the store cannot be read.
    pub async fn preview(
        &self,
        asset: &AssetId,
        takes: &BTreeMap<String, Duration>,
        offers: &[(Timestamp, Value)],
        until: Timestamp,
    ) -> Result<Vec<Arrival>, Error> {
        let (train, record) = (self.train(asset).await?, self.record(asset).await?);
        let mut all = record.times();
        all.extend(takes.iter().map(|(stage, it)| (stage.clone(), *it)));
        Ok(preview(&record, &train, &all, offers, (self.now(), until)))
    }

    fn now(&self) -> Timestamp {
        self.0.shared.runtime.now().wall
    }

    async fn train(&self, asset: &AssetId) -> Result<Train, Error> {
        let latest = self.0.latest().await?;
        let train = latest.asset(asset).and_then(declared);
        let train = train.map(|(_, train)| train);
        train.ok_or_else(|| Error::UnknownAsset {
            partition: self.0.shared.partition.clone(),
            asset: asset.clone(),
        })
    }

    pub(super) async fn record(&self, asset: &AssetId) -> Result<TrainRecord, Error> {
        let (store, partition) = (&self.0.shared.store, &self.0.shared.partition);
        let stored = record::load::<TrainRecord>(&**store, partition, asset.as_str()).await?;
        Ok(stored.map(|it| it.value).unwrap_or_default())
    }
}

impl TrainView {
    fn of(
        asset: AssetId,
        train: Train,
        record: TrainRecord,
        goals: BTreeMap<AssetId, String>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let stages = (0..train.stages.len()).map(|at| {
            let name = train.stages[at].name.clone();
            let has = record.has(&name).and_then(|no| record.version(no));
            Ok(StageView {
                key: match train.carries_heads() {
                    true => train.stages[at].policy.id.clone(),
                    false => change::key_of(&change_name(&asset, &name)).map_err(Error::Store)?,
                },
                has: has.map(|version| version.value.clone()),
                runs: record.run(&name).is_some(),
                next: record.next(&train, at, now).map(|it| it.value.clone()),
                name,
            })
        });
        Ok(Self {
            stages: stages.collect::<Result<_, Error>>()?,
            asset,
            train,
            record,
            goals,
        })
    }
}

/// The name of the changes of a stage.
pub(super) fn change_name(train: &AssetId, stage: &str) -> String {
    format!("{train}/{stage}")
}

/// Changes the record of a train, as the owner of the partition. Nothing is written if nothing changes.
pub(super) async fn edit_record<R: Runtime>(
    handle: &Handle<R>,
    asset: &AssetId,
    edit: impl Fn(&mut TrainRecord) -> Result<(), String>,
) -> Result<TrainRecord, Error> {
    let (store, partition) = (&handle.shared.store, &handle.shared.partition);
    let key = record::key(
        partition,
        <TrainRecord as record::Record>::KIND,
        asset.as_str(),
    );
    let (owner, token) = (owner::key(partition), handle.desk().await?.token);
    let token = Version(token.0);
    for _ in 0..ATTEMPTS {
        let stored = record::load::<TrainRecord>(&**store, partition, asset.as_str()).await?;
        let expected = Expect::as_found(stored.as_ref().map(|it| it.version));
        let before = stored
            .as_ref()
            .map(|it| it.value.clone())
            .unwrap_or_default();
        let mut after = before.clone();
        edit(&mut after).map_err(|why| Error::Train(asset.clone(), why))?;
        if after == before {
            return Ok(after);
        }
        let write = match stored {
            Some(stored) => record::Stored {
                value: after.clone(),
                ..stored
            }
            .rewrite(partition, asset.as_str())?,
            None => record::put(partition, asset.as_str(), &after)?,
        };
        let batch = Batch::new().expect(key.clone(), expected).write(write);
        match store.commit(batch.expect_at(owner.clone(), token)).await {
            Ok(_) => return Ok(after),
            Err(CommitError::Conflict { key, .. }) if key == owner => {
                return Err(handle.not_owner().await?);
            }
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => return Err(Error::Store(error.into())),
        }
    }
    Err(Error::Store(
        "the record of the train keeps changing".into(),
    ))
}
