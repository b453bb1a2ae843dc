//! What rollouts, generation and attached engines ask of the enforcer: pins, steps, feeds, and new incarnations.

use async_trait::async_trait;
use control_plane_runtime::Runtime;
use control_plane_store::{Write, limit};
use futures::{
    FutureExt,
    channel::{mpsc, oneshot},
    future::BoxFuture,
};
use plugin_sdk::{
    Actuation, Actuator, BoxError, Cause, Delay, Enforcement, Feed, FencingToken, Observation, Pin,
    observe,
};
use prodspec_model::{AssetId, Incarnation};

use super::Handle;
use crate::{
    kernel::Event,
    shell::{
        error::AskError,
        input::{Ahead, Input, Question},
    },
};

impl<R: Runtime> Handle<R> {
    /// Moves the pin of an asset; returns once that is durable.
    ///
    /// # Errors
    /// [`AskError::Retired`] when the incarnation is being removed; another error when the enforcer is not running.
    pub async fn pin(&self, asset: &AssetId, pin: Pin<Incarnation>) -> Result<(), AskError> {
        self.done(|reply| Input::Pin(asset.clone(), pin, reply))
            .await
    }

    /// Hands a newly sealed incarnation to the enforcer, without waiting for the store's hint.
    pub fn publish(&self, incarnation: Incarnation) {
        // An enforcer that does not run reads the newest incarnation when it starts.
        let _ = self
            .inputs
            .unbounded_send(Input::Kernel(Event::Publish(incarnation)));
    }
}

#[async_trait]
impl<R: Runtime> Actuator for Handle<R> {
    type Write = Write;

    async fn actuate(&self, step: Actuation<Write>) -> Result<(), BoxError> {
        let done = self.done(|reply| Input::Actuate(Box::new(step), reply));
        Ok(done.await?)
    }
}

impl<R: Runtime> Enforcement for Handle<R> {
    fn feed(&self) -> Feed {
        let (reader, items) = mpsc::unbounded();
        let (no, inputs) = (self.feeds.next(), self.inputs.clone());
        // An enforcer that has ended drops the reader, which ends the stream.
        let _ = inputs.unbounded_send(Input::Attach(no, reader));
        Feed::new(items, move |what| {
            // The feed of an enforcer that has ended has ended, too.
            let _ = inputs.unbounded_send(Input::Follow(no, what));
        })
    }

    fn would_wait(
        &self,
        at: &Incarnation,
        assets: Vec<AssetId>,
        cause: Cause,
    ) -> BoxFuture<'static, Vec<(AssetId, Vec<Delay>)>> {
        let (reply, answer) = oneshot::channel();
        // An enforcer that has ended drops the question, and nothing of the ownership moves any more.
        let _ = self.inputs.unbounded_send(Input::Ahead(Box::new(Ahead {
            at: at.clone(),
            assets,
            cause,
            reply,
        })));
        answer.map(Result::unwrap_or_default).boxed()
    }

    fn fenced(&self, seen: FencingToken) {
        if seen.0 <= limit::VERSION {
            // An enforcer that has ended owns nothing.
            let _ = self.inputs.unbounded_send(Input::Fenced(seen));
        }
    }

    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, observe::Error>> {
        let (reply, answer) = oneshot::channel();
        let asset = asset.clone();
        let sent = self
            .inputs
            .unbounded_send(Input::Ask(Question::Observe { asset, reply }));
        let ended = || observe::Error::failed("this process does not own the partition any more");
        async move {
            sent.map_err(|_| ended())?;
            answer.await.map_err(|_| ended())?
        }
        .boxed()
    }
}
