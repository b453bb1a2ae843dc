//! Lets listeners hear the feed while the lane runs.

use std::{sync::Arc, time::Duration};

use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::{Error, record};
use futures::{StreamExt, channel::mpsc::UnboundedSender, future};
use plugin_sdk::{
    BoxError, By, Mono,
    operation::{ExecutionId, Start, StartCause},
    with_causes,
};

use super::{
    Input, build::Workflows, error::AskError, feed::Heard, handle::Handle, listener::Listener,
};
use crate::record::{Ended, FeedPosition, ListenerRecord, Told, What};

/// Wait before a listener begins again that could not read or write.
const AGAIN: Duration = Duration::from_secs(5);
/// Number of parts of the feed after which it is stored how far a listener has heard.
const PARTS: usize = 64;
/// Longest time for which that is not stored.
const STORE: Duration = Duration::from_secs(1);

/// Lets all listeners hear, until the caller drops the future.
pub(super) async fn listen<R: Runtime>(
    workflows: Arc<Workflows<R>>,
    handle: Handle<R>,
    sender: UnboundedSender<Input>,
) {
    let all = workflows.listeners.iter().map(|listener| async {
        let ear = Ear {
            workflows: &workflows,
            handle: &handle,
            sender: &sender,
            listener,
        };
        loop {
            if let Err(error) = ear.hear().await {
                tracing::warn!(partition = %workflows.partition, listener = %listener.name, error = &*error as &dyn std::error::Error, "a listener cannot hear the feed; beginning again in 5 s");
            }
            workflows.runtime.sleep(AGAIN).await;
        }
    });
    future::join_all(all).await;
}

/// A listener with what it needs.
struct Ear<'a, R> {
    workflows: &'a Arc<Workflows<R>>,
    handle: &'a Handle<R>,
    sender: &'a UnboundedSender<Input>,
    listener: &'a Listener,
}

impl<R: Runtime> Ear<'_, R> {
    async fn hear(&self) -> Result<(), BoxError> {
        let runtime = &self.workflows.runtime;
        let feed = self.workflows.follow(Some(self.begin().await?));
        futures::pin_mut!(feed);
        // The last part that was heard and is not stored, the number of such parts, and when the first was heard.
        let mut unstored: Option<(FeedPosition, usize, Mono)> = None;
        loop {
            let next = match &unstored {
                None => feed.next().await,
                Some((position, parts, since)) => {
                    let next = timeout_at(runtime, *since + STORE, feed.next()).await;
                    if next.is_none() || *parts >= PARTS {
                        self.store(position);
                        unstored = None;
                    }
                    match next {
                        Some(next) => next,
                        None => continue,
                    }
                }
            };
            let Some(heard) = next.transpose()? else {
                return Ok(());
            };
            self.react(&heard).await?;
            let (parts, since) = match unstored {
                Some((_, parts, since)) => (parts + 1, since),
                None => (1, runtime.now().mono),
            };
            unstored = Some((heard.position, parts, since));
        }
    }

    /// The place after which the listener goes on. One that is new begins at the end of the feed.
    async fn begin(&self) -> Result<FeedPosition, BoxError> {
        let (store, partition) = (&*self.workflows.store, &self.workflows.partition);
        let stored = record::load::<ListenerRecord>(store, partition, &self.listener.name).await?;
        if let Some(stored) = stored {
            return Ok(stored.value.heard);
        }
        let last = self.workflows.last_place(None).await?;
        let last = last.unwrap_or_else(FeedPosition::before_all);
        self.store(&last);
        Ok(last)
    }

    fn store(&self, position: &FeedPosition) {
        let heard = ListenerRecord {
            heard: position.clone(),
        };
        // The ownership may have ended; the next owner hears from the last place that is stored.
        let told = Input::Listened(self.listener.name.clone(), heard);
        drop(self.sender.unbounded_send(told));
    }

    async fn react(&self, heard: &Heard) -> Result<(), BoxError> {
        for (n, told) in heard.numbers.iter().zip(&heard.told) {
            let is_end = matches!(told.entry.what, What::Ended(_));
            let ended = match told.execution().filter(|_| is_end) {
                Some(execution) => self.ended(execution).await?,
                None => None,
            };
            // It may be live again, or have ended once more: then this end is not known any more.
            let ended = ended.filter(|ended| ended.ended == told.entry.at);
            if is_end && ended.is_none() {
                tracing::warn!(partition = %self.workflows.partition, listener = %self.listener.name, of = %told.about, "a listener cannot hear an end that is not kept any more");
            }
            // A bug of the listener must not end the lane.
            let hears = || self.listener.hears(told, ended.as_ref());
            let start = std::panic::catch_unwind(std::panic::AssertUnwindSafe(hears));
            match start {
                Ok(Some(start)) => self.start(heard, n, told, start).await?,
                Ok(None) => {}
                Err(_) => {
                    tracing::error!(partition = %self.workflows.partition, listener = %self.listener.name, of = %told.about, "a listener panicked; the entry is left out");
                }
            }
        }
        Ok(())
    }

    /// An execution that has ended. `None`: it is not kept any more, or only a newer program version can read it.
    async fn ended(&self, execution: &ExecutionId) -> Result<Option<Ended>, AskError> {
        match self.handle.ended(execution).await {
            Err(AskError::Store(Error::Damaged { .. })) => Ok(None),
            read => read,
        }
    }

    /// The executions and watches that led to an execution. Empty if it is not kept any more.
    async fn chain(&self, execution: &ExecutionId) -> Result<Vec<String>, BoxError> {
        if let Some(live) = self.handle.live(execution).await? {
            return Ok(live.live.origin.chain.clone());
        }
        let ended = self.ended(execution).await?;
        Ok(ended
            .map(|ended| ended.live.origin.chain.clone())
            .unwrap_or_default())
    }

    async fn start(
        &self,
        heard: &Heard,
        n: &usize,
        told: &Told,
        mut start: Start,
    ) -> Result<(), BoxError> {
        let (name, position) = (&self.listener.name, &heard.position);
        start
            .key
            .get_or_insert(format!("{name} {position} {n}").into());
        let mut chain = match told.execution() {
            Some(execution) => self.chain(execution).await?,
            None => Vec::new(),
        };
        let of = told.about.to_string();
        chain.push(of.clone());
        let cause = StartCause::Listener {
            name: name.to_string(),
            of: of.clone(),
        };
        let by = By::new(format!("listener {name}"), of);
        match self.handle.start_in_chain(start, cause, chain, by).await {
            Ok(_) => Ok(()),
            // It would be refused again.
            Err(AskError::Refused(refused)) if !refused.passes() => {
                tracing::warn!(partition = %self.workflows.partition, listener = %name, of = %told.about, error = with_causes(&refused), "the start of a listener is refused");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}
