//! Commands of operators to an owner that waits for the first incarnation: each is durable when it is answered, and in
//! force when enforcement starts.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use control_plane_runtime::Runtime;
use control_plane_store::{
    Batch, CommitError, Store, Version, owner,
    record::{self, Rewrites},
    records::Pause,
};
use futures::{FutureExt, StreamExt, future::BoxFuture};
use plugin_sdk::FencingToken;
use prodspec_model::{Incarnation, PartitionId, TypeName};

use super::{
    enforcer::Enforcer,
    error::Error,
    input::{Input, Refused},
    intent::Intent,
    ownership::End,
};
use crate::kernel::{Command, before_intent};

/// The wait before a commit that failed is submitted again.
const AGAIN: Duration = Duration::from_millis(200);

impl<R: Runtime> Enforcer<R> {
    /// Waits for the first incarnation, and answers commands meanwhile. The inner `Err`: the ownership ended first. The
    /// other inputs that wait for the start are appended to `asked`.
    pub(super) async fn first_incarnation(
        &mut self,
        token: FencingToken,
        intent: &Intent<R>,
        asked: &mut Vec<Input>,
        shutdown: &mut BoxFuture<'static, ()>,
    ) -> Result<Result<Incarnation, End>, Error> {
        let early = Early {
            runtime: self.runtime.clone(),
            store: self.store.clone(),
            partition: self.partition.clone(),
            token,
        };
        let types = self.registry.configs().into_iter().map(|kind| kind.name);
        let types = types.collect();
        let mut before: VecDeque<Input> = std::mem::take(asked).into();
        let mut first = intent.first().boxed().fuse();
        loop {
            let input = match before.pop_front() {
                Some(input) => Some(input),
                None => futures::select_biased! {
                    () = shutdown.fuse() => return Ok(Err(End::Shutdown)),
                    newest = first => return Ok(Ok(newest?)),
                    input = self.inputs.next() => input,
                },
            };
            match input {
                Some(Input::Lost) => return Ok(Err(End::Lost)),
                Some(Input::Stopped(why)) => return Err(Error::Stopped(why)),
                Some(Input::Tell(command, reply)) => {
                    let obeyed = early.unless_sealed(&types, intent, &command);
                    let obeyed = futures::select_biased! {
                        () = shutdown.fuse() => return Ok(Err(End::Shutdown)),
                        obeyed = obeyed.boxed().fuse() => obeyed?,
                    };
                    match obeyed {
                        Obeyed::Later => asked.push(Input::Tell(command, reply)),
                        Obeyed::Lost => return Ok(Err(End::Lost)),
                        // The caller may have gone.
                        Obeyed::Now(answer) => drop(reply.send(answer.map_err(Refused::Word))),
                    }
                }
                Some(input) if input.waits_for_start() => asked.push(input),
                // As in a recovery: dropping the reply of a question gives the caller [`AskError::Starting`].
                _ => {}
            }
        }
    }
}

/// What became of a command.
enum Obeyed {
    /// The partition has an incarnation: enforcement starts now, and decides with all that it knows.
    Later,
    /// Another process owns the partition now.
    Lost,
    /// The answer, which is durable.
    Now(Result<(), String>),
}

/// Executes commands under the token of an owner without a kernel.
struct Early<R> {
    runtime: R,
    store: Arc<dyn Store>,
    partition: PartitionId,
    token: FencingToken,
}

impl<R: Runtime> Early<R> {
    /// Executes a command, unless the partition has an incarnation.
    async fn unless_sealed(
        &self,
        types: &BTreeSet<TypeName>,
        intent: &Intent<R>,
        command: &Command,
    ) -> Result<Obeyed, Error> {
        if intent.has_any().await? {
            return Ok(Obeyed::Later);
        }
        let words = intent.words().await?;
        match before_intent(self.runtime.now(), types, words, command.clone()) {
            Err(why) => {
                tracing::info!(?command, why, "refused an operator's command");
                Ok(Obeyed::Now(Err(why)))
            }
            Ok(pause) if self.write(&intent.rewrites(), &pause).await? => {
                tracing::info!(?command, "accepted an operator's command");
                Ok(Obeyed::Now(Ok(())))
            }
            Ok(_) => Ok(Obeyed::Lost),
        }
    }

    /// Writes the record of a pause under this ownership's token. `false`: another process owns the partition now.
    async fn write(&self, rewrites: &Rewrites, pause: &Pause) -> Result<bool, Error> {
        let name = pause.scope.to_string();
        let batch = Batch::new()
            .expect_at(owner::key(&self.partition), Version(self.token.0))
            .write(rewrites.put(&self.partition, &name, pause)?);
        let mut told = false;
        loop {
            match self.store.commit(batch.clone()).await {
                Ok(_) => break,
                Err(CommitError::Conflict { .. }) => return Ok(false),
                Err(error) if error.may_resubmit() => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%error, "failed to store an operator's command; trying again until it is stored");
                    }
                    self.runtime.sleep(AGAIN).await;
                }
                Err(error) => return Err(control_plane_store::Error::from(error).into()),
            }
        }
        // What is unknown in the record is noted as it is stored now.
        if let Some(stored) = record::load::<Pause>(&*self.store, &self.partition, &name).await? {
            rewrites.note(&self.partition, &name, &stored);
        }
        Ok(true)
    }
}
