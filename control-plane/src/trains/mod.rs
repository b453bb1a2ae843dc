//! R104: trains, as the owner of the partition runs them. The kernel decides; here its decisions become changes, and their
//! ends become its events.

mod api;
mod heads;

use std::{collections::BTreeSet, time::Duration};

use annealing_strategist::{
    AskError, Command as RolloutCommand, Rollout, State,
    change::Known,
    train::{Idle, Outcome, Run, TrainRecord, VersionNo},
};
use control_plane_runtime::{Outage, Runtime};
use jiff::Timestamp;
use plugin_sdk::{By, Mono};
use prodspec_model::{Asset, AssetId, Incarnation, rollout::RollOut, train::Train};

pub use api::{StageView, TrainView, Trains};
pub(crate) use heads::versions;

use self::api::{change_name, edit_record};
use crate::{
    attempt::{Attempt, LOOK, Wait, attempt, later, rests, soon},
    handle::{Error, Handle},
    in_intent::{InIntent, declared},
    roll_out::newest,
    sought::sought,
};

impl InIntent<Train> {
    /// Looks at all trains, and carries out their decisions. Returns the events that are worth another look. A train that
    /// fails does not hold up the others.
    pub(crate) async fn look<R: Runtime>(
        &mut self,
        handle: &Handle<R>,
        latest: &Incarnation,
        outage: &mut Outage,
    ) -> Result<Vec<Wait>, Error> {
        self.take(latest);
        let (mut waits, mut failed) = (Vec::new(), false);
        let shared = heads::shared(self.all.values());
        for (asset, train) in &self.all {
            let one = One {
                handle,
                latest,
                asset,
                train,
                shared: &shared,
            };
            match one.look().await {
                Ok(more) => waits.extend(more),
                Err(error @ (Error::NotOwner { .. } | Error::Rollout(_))) => return Err(error),
                Err(error) => {
                    failed = true;
                    waits.push(later(handle));
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
    latest.snapshot().iter().filter_map(declared)
}

/// One train at one look.
struct One<'a, R> {
    handle: &'a Handle<R>,
    latest: &'a Incarnation,
    asset: &'a AssetId,
    train: &'a Train,
    /// The policies whose groups are stages of more than one train.
    shared: &'a BTreeSet<AssetId>,
}

impl<R: Runtime> One<'_, R> {
    fn mono(&self) -> Mono {
        self.handle.shared.runtime.now().mono
    }

    fn now(&self) -> Timestamp {
        self.handle.shared.runtime.now().wall
    }

    /// Decides, and carries that out, until there is nothing more to do now.
    async fn look(&self) -> Result<Vec<Wait>, Error> {
        loop {
            let now = self.now();
            let offer = self.offer().await?;
            let record = self
                .edit(|record| {
                    record.hear(offer.as_ref(), now);
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
                    waits.push(later(self.handle));
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
    ) -> Result<Option<Wait>, Error> {
        let step = match self.train.carries_heads() {
            true => self.follow_group(stage, run, record).await?,
            false => self.follow_change(stage, run, record).await?,
        };
        match step {
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

    /// Finds the next step for a rollout to a stage by a change.
    async fn follow_change(
        &self,
        stage: &str,
        run: &Run,
        record: &TrainRecord,
    ) -> Result<Step, Error> {
        let name = change_name(self.asset, stage);
        let known = newest(self.handle, &name).await?;
        let last = known.as_ref().map_or(0, |known| known.number);
        let Some(number) = run.number else {
            match known.map(|known| known.rollout) {
                Some(live) if live.state.has_ended() => {}
                Some(Rollout {
                    state: State::Stopped { .. },
                    ..
                }) => return Ok(Step::Waits(later(self.handle))),
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
        match known.rollout.state {
            State::Completed => Ok(Step::Ended(self.completed(&known.change).await?)),
            state => self.go_on(stage, run, known.rollout.policy, state).await,
        }
    }

    /// Finds the next step for a rollout of a group or a change, `key`, that has begun.
    async fn go_on(
        &self,
        stage: &str,
        run: &Run,
        key: AssetId,
        state: State,
    ) -> Result<Step, Error> {
        match state {
            State::Completed => Ok(Step::Ended(Outcome::Completed)),
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
                None => Ok(Step::Waits(later(self.handle))),
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
            Err(Error::Rollout(AskError::Refused(_))) | Ok(()) => {
                Ok(Step::Waits(soon(self.handle)))
            }
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
        Ok(match attempt(self.handle, &change, by, older).await? {
            Attempt::Begun => Step::Again,
            Attempt::Later(_) => Step::Waits(soon(self.handle)),
            Attempt::Refused(why) => Step::Ended(Outcome::NotBegun(why.to_string())),
        })
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
        Ok(Step::Waits(rests(self.handle, key).await?))
    }

    /// Waits until the first stage opens.
    fn opens(&self, record: &TrainRecord) -> Option<Wait> {
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
    Waits(Wait),
    /// It has changed: look again.
    Again,
}
