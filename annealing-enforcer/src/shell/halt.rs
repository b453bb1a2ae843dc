//! A partition that stopped itself because an invariant did not hold. The reason is durable; at each start nothing is
//! done before an operator has cleared it.

use std::{sync::Arc, time::Duration};

use control_plane_runtime::{Outage, Runtime};
use control_plane_store::{
    Batch, CommitError, Store, Version, owner,
    record::{self, Rewrites},
    records::{Ended, Stopped, excerpt},
};
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, Either, select},
};
use plugin_sdk::FencingToken;
use prodspec_model::PartitionId;

use super::{enforcer::Enforcer, error::Error, input::Input, ownership::End, phase::Phase};

/// The wait before the store is asked again.
const AGAIN: Duration = Duration::from_millis(200);

impl<R: Runtime> Enforcer<R> {
    /// Stops the partition because of the invariant that was `violated`, or because of an earlier stop that is not
    /// cleared. Returns when an operator has cleared it or the ownership has ended. `None`: nothing stops the
    /// partition.
    pub(super) async fn halted(
        &mut self,
        token: FencingToken,
        violated: Option<String>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<Option<End>, Error> {
        let record = StopRecord {
            runtime: self.runtime.clone(),
            store: self.store.clone(),
            partition: self.partition.clone(),
            token,
            rewrites: Rewrites::default(),
        };
        let stopped = match violated {
            Some(why) => {
                let stopped = Stopped::new(excerpt(why), self.runtime.now().wall, token);
                self.phase.set(Phase::Stopped(stopped.clone()));
                if let Some(end) = self.remember(&record, &stopped, shutdown).await? {
                    return Ok(Some(end));
                }
                stopped
            }
            None => match select(Box::pin(record.read()), &mut *shutdown).await {
                Either::Left((stopped, _)) => match stopped? {
                    Some(stopped) => stopped,
                    None => return Ok(None),
                },
                Either::Right(_) => return Ok(Some(End::Shutdown)),
            },
        };
        self.phase.set(Phase::Stopped(stopped.clone()));
        let (partition, why) = (&self.partition, &stopped.why);
        tracing::error!(
            %partition, since = %stopped.at, why,
            "enforcement stopped itself; check production and the decisions of the named assets, then clear the stop"
        );
        self.until_cleared(&record, stopped, shutdown)
            .await
            .map(Some)
    }

    /// Stores the reason why enforcement stopped. The next start has to know it, so a shutdown waits for that, at most
    /// for [`Config::drain`](crate::Config::drain). `Some`: the ownership has ended.
    async fn remember(
        &self,
        record: &StopRecord<R>,
        stopped: &Stopped,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<Option<End>, Error> {
        let within = self.config.drain;
        let over = async {
            shutdown.await;
            self.runtime.sleep(within).await;
        };
        match select(Box::pin(record.write(stopped)), Box::pin(over)).await {
            Either::Left((owns, _)) => Ok((!owns?).then_some(End::Lost)),
            Either::Right(_) => {
                tracing::error!(
                    partition = %self.partition, why = stopped.why, ?within,
                    "enforcement stopped itself, and the reason could not be stored before the shutdown; the next start enforces again, so check production first"
                );
                Ok(Some(End::Shutdown))
            }
        }
    }

    /// Waits until an operator clears the stop, or the ownership ends.
    async fn until_cleared(
        &mut self,
        record: &StopRecord<R>,
        stopped: Stopped,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<End, Error> {
        loop {
            let input = futures::select_biased! {
                () = shutdown.fuse() => return Ok(End::Shutdown),
                input = self.inputs.next() => input,
            };
            match input {
                Some(Input::Clear(by, reply)) => {
                    let at = self.runtime.now().wall;
                    tracing::info!(partition = %self.partition, %by, "an operator cleared the stop; enforcement starts again");
                    let cleared = Stopped {
                        cleared: Some(Ended { by, at }),
                        ..stopped
                    };
                    if !record.write(&cleared).await? {
                        return Ok(End::Lost);
                    }
                    self.phase.set(Phase::Elsewhere);
                    // The caller may have gone.
                    let _ = reply.send(Ok(()));
                    return Ok(End::Again);
                }
                Some(Input::Lost) => return Ok(End::Lost),
                Some(Input::Stopped(why)) => return Err(Error::Stopped(why)),
                Some(Input::Of(of, input)) if of == record.token => match *input {
                    Input::Lost => return Ok(End::Lost),
                    Input::Stopped(why) => return Err(Error::Stopped(why)),
                    _ => {}
                },
                // Dropping the reply of any other question gives the caller [`AskError::Stopped`].
                _ => {}
            }
        }
    }
}

/// Reads and writes the record of the stop.
struct StopRecord<R> {
    runtime: R,
    store: Arc<dyn Store>,
    partition: PartitionId,
    token: FencingToken,
    rewrites: Rewrites,
}

impl<R: Runtime> StopRecord<R> {
    /// The stop of the partition, if there is one that is not cleared.
    async fn read(&self) -> Result<Option<Stopped>, Error> {
        let mut outage = Outage::default();
        loop {
            match record::load::<Stopped>(&*self.store, &self.partition, "").await {
                Ok(stopped) => {
                    let noted = stopped.map(|stored| {
                        self.rewrites.note(&self.partition, "", &stored);
                        stored.value
                    });
                    return Ok(noted.filter(Stopped::holds));
                }
                Err(error @ control_plane_store::Error::Unavailable { .. }) => {
                    if outage.failed(self.runtime.now().mono) {
                        tracing::warn!(%error, "cannot read whether enforcement stopped itself; trying again until it can");
                    }
                    self.runtime.sleep(AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes the record under this ownership's token. `false`: another process owns the partition now.
    async fn write(&self, stopped: &Stopped) -> Result<bool, Error> {
        let owner = owner::key(&self.partition);
        let batch = Batch::new()
            .expect_at(owner, Version(self.token.0))
            .write(self.rewrites.put(&self.partition, "", stopped)?);
        let mut outage = Outage::default();
        loop {
            match self.store.commit(batch.clone()).await {
                Ok(_) => return Ok(true),
                Err(CommitError::Conflict { .. }) => return Ok(false),
                Err(error) if error.may_resubmit() => {
                    if outage.failed(self.runtime.now().mono) {
                        tracing::warn!(%error, "failed to store the reason why enforcement stopped; trying again until it is stored");
                    }
                    self.runtime.sleep(AGAIN).await;
                }
                Err(error) => return Err(control_plane_store::Error::from(error).into()),
            }
        }
    }
}
