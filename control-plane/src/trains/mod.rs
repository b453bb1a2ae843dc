//! R104: trains, as the owner of the partition runs them. The kernel decides; here its decisions become changes, and their
//! ends become its events.

mod api;

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use annealing_strategist::{
    AskError, Command as RolloutCommand, Rollout, State,
    change::Known,
    train::{Idle, Outcome, Run, TrainRecord, VersionNo},
};
use control_plane_runtime::{Outage, Runtime};
use control_plane_store::CommitError;
use futures::{
    FutureExt,
    future::{BoxFuture, select_all},
};
use jiff::Timestamp;
use plugin_sdk::{BoxError, By, Mono};
use prodspec_gen::Status;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo, Message, rollout::RollOut, train::Train,
};

pub use api::{StageView, TrainView, Trains};

use self::api::{change_name, edit_record};
use crate::{
    arrivals::is_final,
    desk::EditRefused,
    handle::{Error, Handle},
    roll_out::{RollOutRefused, newest, sought},
};

/// Wait before a strategist that has ended is looked for again.
const SOON: Duration = Duration::from_secs(1);
/// Wait before the record of a rollout that is over is read.
const MOMENT: Duration = Duration::from_millis(50);
/// Maximum time between two looks at a train that waits, so that a person's commands to its rollouts are seen, and steps of the
/// wall clock count.
const LOOK: Duration = Duration::from_secs(30);

/// Runs the trains while this process owns the partition. It does not end.
pub(crate) async fn run<R: Runtime>(handle: Handle<R>) -> Infallible {
    let runtime = &handle.shared.runtime;
    let (mut trains, mut outage) = (InIntent::default(), Outage::default());
    loop {
        let mut status = handle.wait_until_owner().await.watch();
        let newest = no(&status.borrow_and_update());
        let waits = match trains.look(&handle, &mut outage).await {
            Ok(waits) => waits,
            // The status changes with the first incarnation.
            Err(Error::NoIncarnation(_)) => Vec::new(),
            // The ownership has ended, or the strategist starts again, or the store cannot be read.
            Err(_) => vec![runtime.sleep(SOON)],
        };
        let changed = status.wait_for(|status| no(status) != newest);
        let changed = changed.map(drop).boxed();
        let told = handle.shared.trains.notified().boxed();
        select_all(waits.into_iter().chain([changed, told])).await;
    }
}

/// The number of the newest incarnation.
fn no(status: &Status) -> Option<IncarnationNo> {
    let newest = status.incarnation.as_ref();
    newest.map(|incarnation| incarnation.id.no)
}

/// The trains in intent, as of an incarnation.
#[derive(Default)]
struct InIntent {
    latest: Option<Incarnation>,
    all: BTreeMap<AssetId, Train>,
}

impl InIntent {
    /// Takes in an incarnation. The first one is read as a whole, the others cost as much as they change.
    fn take(&mut self, newer: &Incarnation) {
        let Some(older) = self.latest.replace(newer.clone()) else {
            self.all = trains(newer).collect();
            return;
        };
        for change in older.snapshot().diff(newer.snapshot()) {
            self.all.remove(&change.id());
            self.all.extend(change.after.and_then(train_of));
        }
    }

    /// Looks at all trains, and carries out their decisions. Returns the events that are worth another look. A train that
    /// fails does not hold up the others.
    async fn look<R: Runtime>(
        &mut self,
        handle: &Handle<R>,
        outage: &mut Outage,
    ) -> Result<Vec<BoxFuture<'static, ()>>, Error> {
        let latest = handle.latest().await?;
        self.take(&latest);
        let (mut waits, mut failed) = (Vec::new(), false);
        for (asset, train) in &self.all {
            let latest = &latest;
            let one = One {
                handle,
                latest,
                asset,
                train,
            };
            match one.look().await {
                Ok(more) => waits.extend(more),
                Err(error @ (Error::NotOwner { .. } | Error::Rollout(_))) => return Err(error),
                Err(error) => {
                    failed = true;
                    waits.push(one.later());
                    if outage.failed(one.mono()) {
                        tracing::warn!(partition = %handle.shared.partition, train = %asset, error = &error as &dyn std::error::Error, "failed to run a train; retrying every 30 s");
                    }
                }
            }
        }
        if !failed {
            let _ = outage.over(handle.shared.runtime.now().mono, "running trains");
        }
        Ok(waits)
    }
}

/// The trains of an incarnation.
fn trains(latest: &Incarnation) -> impl Iterator<Item = (AssetId, Train)> {
    latest.snapshot().iter().filter_map(train_of)
}

fn train_of(asset: Asset) -> Option<(AssetId, Train)> {
    let is_train = asset.type_str() == Train::TYPE;
    let train = is_train.then(|| asset.payload::<Train>().ok()).flatten();
    Some((asset.id(), train?))
}

/// One train at one look.
struct One<'a, R> {
    handle: &'a Handle<R>,
    latest: &'a Incarnation,
    asset: &'a AssetId,
    train: &'a Train,
}

impl<R: Runtime> One<'_, R> {
    fn mono(&self) -> Mono {
        self.handle.shared.runtime.now().mono
    }

    fn now(&self) -> Timestamp {
        self.handle.shared.runtime.now().wall
    }

    /// Decides, and carries that out, until there is nothing more to do now.
    async fn look(&self) -> Result<Vec<BoxFuture<'static, ()>>, Error> {
        loop {
            let now = self.now();
            let record = self
                .edit(|record| {
                    record.hear(self.train, now);
                    record.choose(self.train, self.latest.snapshot());
                    record.decide(self.train, now);
                })
                .await?;
            let (mut waits, mut changed, mut failed) = (Vec::new(), false, None);
            let running = record.stages.iter();
            for (stage, run) in running.filter_map(|(name, it)| Some((name, it.runs.as_ref()?))) {
                match self.advance(stage, run, &record).await {
                    Ok(Some(wait)) => waits.push(wait),
                    Ok(None) => changed = true,
                    // The other stages go on.
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            match failed {
                _ if changed => {}
                Some(error) => return Err(error),
                None => {
                    waits.push(self.later());
                    waits.extend(self.opens(&record));
                    return Ok(waits);
                }
            }
        }
    }

    /// Brings a rollout to a stage forward by one step. Returns an event to wait for, or `None` if there is more to do now.
    async fn advance(
        &self,
        stage: &str,
        run: &Run,
        record: &TrainRecord,
    ) -> Result<Option<BoxFuture<'static, ()>>, Error> {
        match self.follow(stage, run, record).await? {
            Step::Ended(outcome) => {
                let ended = |record: &mut TrainRecord| {
                    let now = self.now();
                    record.ended(stage, run, outcome.clone(), now);
                    record.decide(self.train, now);
                };
                self.edit(ended).await?;
                Ok(None)
            }
            Step::Waits(wait) => Ok(Some(wait)),
            Step::Again => Ok(None),
        }
    }

    /// Changes the record of the train. Nothing is written if nothing changes.
    async fn edit(&self, edit: impl Fn(&mut TrainRecord)) -> Result<TrainRecord, Error> {
        let edit = |record: &mut TrainRecord| {
            edit(record);
            Ok(())
        };
        edit_record(self.handle, self.asset, edit).await
    }

    /// Finds the next step for a rollout to a stage.
    async fn follow(&self, stage: &str, run: &Run, record: &TrainRecord) -> Result<Step, Error> {
        let name = change_name(self.asset, stage);
        let known = newest(self.handle, &name).await?;
        let last = known.as_ref().map_or(0, |known| known.number);
        let Some(number) = run.number else {
            match known.map(|known| known.rollout) {
                Some(live) if live.state.has_ended() => {}
                Some(Rollout {
                    state: State::Stopped { .. },
                    ..
                }) => return Ok(Step::Waits(self.later())),
                Some(live) => return self.over(live.policy).await,
                None => {}
            }
            self.edit(|record| record.number(stage, run, last + 1))
                .await?;
            return Ok(Step::Again);
        };
        let known = match known {
            Some(known) if last >= number => known,
            older => return self.begin((stage, run), record, older.as_ref()).await,
        };
        let key = known.rollout.policy;
        match known.rollout.state {
            State::Completed => Ok(Step::Ended(self.completed(&known.change).await?)),
            State::RolledBack { why } => Ok(Step::Ended(match &run.leaves {
                Some(own) if why.contains(own) => Outcome::Left,
                _ => Outcome::RolledBack(why),
            })),
            State::Superseded { .. } => Ok(Step::Ended(Outcome::Left)),
            State::RollingBack { .. } => self.over(key).await,
            State::Stopped { why } => match &run.leaves {
                Some(own) if why.contains(own) => self.leave(key, own).await,
                Some(own) => {
                    self.edit(|record| record.failed(stage, run, &why, self.now()))
                        .await?;
                    self.leave(key, own).await
                }
                // A person has to act.
                None => Ok(Step::Waits(self.later())),
            },
            _ => match &run.leaves {
                Some(own) => self.leave(key, own).await,
                None => self.over(key).await,
            },
        }
    }

    /// Takes a rollout back. One that has moved nothing is aborted first: only then does it go back.
    async fn leave(&self, key: AssetId, why: &str) -> Result<Step, Error> {
        let by = || By::new(self.asset.as_str(), why);
        let told = self
            .handle
            .tell_rollout(&key, RolloutCommand::RollBack, by())
            .await;
        match told {
            Err(Error::Rollout(AskError::Refused(_))) => {}
            told => {
                told?;
                return self.over(key).await;
            }
        }
        match self
            .handle
            .tell_rollout(&key, RolloutCommand::Abort, by())
            .await
        {
            // It ends just now, or it is not known yet.
            Err(Error::Rollout(AskError::Refused(_))) | Ok(()) => Ok(Step::Waits(self.soon())),
            Err(error) => Err(error),
        }
    }

    /// The outcome of a rollout that is completed. Its targets may have left it: the assets were removed, or a person has set
    /// their fields.
    async fn completed(&self, change: &RollOut) -> Result<Outcome, Error> {
        let targets: Vec<Asset> = change.on.find(self.latest.snapshot()).collect();
        if targets.is_empty() {
            return Ok(Outcome::NotBegun(
                "the assets of the stage are gone".to_owned(),
            ));
        }
        let sought = sought(self.handle, change, &targets).await?;
        if sought.fields.len() < targets.len() {
            return Ok(Outcome::Completed);
        }
        let why = "no asset of the stage has the version any more: a person has set its field";
        Ok(Outcome::RolledBack(why.to_owned()))
    }

    /// Begins the rollout of a version to a stage, after the change `older`.
    async fn begin(
        &self,
        (stage, run): (&str, &Run),
        record: &TrainRecord,
        older: Option<&Known>,
    ) -> Result<Step, Error> {
        if run.leaves.is_some() {
            return Ok(Step::Ended(Outcome::Left));
        }
        let change = match self.change(stage, run.version, record) {
            Ok(change) => change,
            Err(why) => return Ok(Step::Ended(Outcome::NotBegun(why))),
        };
        let by = By::new(
            self.asset.as_str(),
            format!("{} enters {stage}", run.version),
        );
        match self.handle.roll_out_next(&change, by, older).await {
            Ok(_) => Ok(Step::Again),
            // It has begun and is not known yet, or its group is about to be updated by edits.
            Err(Error::RollOut(RollOutRefused::Begins(_))) => Ok(Step::Waits(self.soon())),
            Err(error @ Error::RollOut(_)) if !is_final(self.handle, &error).await => {
                Ok(Step::Waits(self.soon()))
            }
            Err(Error::Edit(EditRefused::Store(error))) if is_too_large(&error) => {
                Ok(Step::Ended(Outcome::NotBegun(error.to_string())))
            }
            // Its outcome is not known.
            Err(error @ Error::Edit(EditRefused::Store(_) | EditRefused::Unknown { .. })) => {
                Err(error)
            }
            Err(error @ (Error::RollOut(_) | Error::Edit(_))) => {
                Ok(Step::Ended(Outcome::NotBegun(error.to_string())))
            }
            Err(error) => Err(error),
        }
    }

    /// The change that rolls a version out to a stage.
    ///
    /// # Errors
    /// The reason why there is none.
    fn change(
        &self,
        stage: &str,
        version: VersionNo,
        record: &TrainRecord,
    ) -> Result<RollOut, String> {
        let at = self.train.stages.iter().position(|it| it.name == stage);
        let at = at.ok_or("the train has no such stage any more")?;
        let version = record
            .version(version)
            .ok_or("the version is not known any more")?;
        let targets = record.targets(self.train, at);
        let targets = targets.ok_or("no asset matches the filter of the stage; widen it")?;
        let policy = self.train.stages[at].policy.id.clone();
        let name = change_name(self.asset, stage);
        let change = RollOut::new(name, policy).set(&self.train.carries, version.value.clone());
        Ok(change.on(targets))
    }

    /// Waits until a rollout has come to rest.
    async fn over(&self, key: AssetId) -> Result<Step, Error> {
        let rolling = self.handle.rolling().await?;
        let runtime = self.handle.shared.runtime.clone();
        let over = async move {
            let rests = rolling.rests(&key, IncarnationNo(0)).await;
            // The end may not be durable yet, or the strategist does not know the change yet.
            runtime
                .sleep(if rests.is_ok() { MOMENT } else { SOON })
                .await;
        };
        Ok(Step::Waits(over.boxed()))
    }

    /// Waits for something that happens by itself.
    fn soon(&self) -> BoxFuture<'static, ()> {
        self.handle.shared.runtime.sleep(SOON)
    }

    /// Waits for another look, since a person may have acted.
    fn later(&self) -> BoxFuture<'static, ()> {
        self.handle.shared.runtime.sleep(LOOK)
    }

    /// Waits until the first stage opens.
    fn opens(&self, record: &TrainRecord) -> Option<BoxFuture<'static, ()>> {
        let now = self.now();
        let stages = 0..self.train.stages.len();
        let opens = stages.filter_map(|at| match record.next(self.train, at, now) {
            Err(Idle::Until(at) | Idle::Refused(_, at)) => Some(at),
            _ => None,
        });
        let wait = Duration::try_from(opens.min()?.duration_since(now)).unwrap_or_default();
        Some(self.handle.shared.runtime.sleep(wait.min(LOOK)))
    }
}

/// The next step for a rollout to a stage.
enum Step {
    /// It is over.
    Ended(Outcome),
    /// It goes on by itself until this event.
    Waits(BoxFuture<'static, ()>),
    /// It has changed: look again.
    Again,
}

/// Whether a commit has more than the store takes.
fn is_too_large(error: &BoxError) -> bool {
    let error = error.downcast_ref::<CommitError>();
    matches!(error, Some(CommitError::TooLarge { .. }))
}
