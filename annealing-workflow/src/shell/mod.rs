//! The shell around the kernel of a lane: it feeds events in and performs effects, and decides nothing.

mod build;
mod calls;
mod cursors;
mod edits;
mod error;
mod executions;
mod feed;
mod fence;
mod handle;
mod history;
mod inbox;
mod intended;
mod lane;
mod listen;
mod listener;
mod pages;
mod recover;
mod request;
mod retained;
mod retention;
mod rows;
mod submit;
mod survived;
mod telemetry;
mod told;
mod writes;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use control_plane_runtime::{Outage, Runtime};
use control_plane_store::{Version, journal::Journal, owner, record::Rewrites};
use futures::{
    FutureExt, StreamExt,
    channel::mpsc::{self, UnboundedReceiver, UnboundedSender},
    future::Either,
};
use plugin_sdk::{
    BoxError, By, Edits, Enforcement, Feed, FeedItem, FencingToken, Mono,
    operation::{ExecutionId, KeyIdentity},
    with_causes,
};
use prodspec_model::Incarnation;

pub use self::{
    build::{BuildError, Workflows, WorkflowsBuilder},
    error::AskError,
    executions::Executions,
    feed::Heard,
    handle::{Handle, Started},
    inbox::Inbox,
    listener::Listener,
};
use self::{
    calls::Calls,
    handle::Trouble,
    lane::{Session, Stored},
    retained::Retained,
    survived::Survives,
};
use crate::{
    kernel::{Command, Event, Recovered, Reply},
    record::{Ended, KeyRecord, ListenerRecord},
};

/// Wait before stored data that could not be read is read again.
const READ_AGAIN: std::time::Duration = std::time::Duration::from_secs(5);

/// An input from outside the feed of enforcement.
pub(crate) enum Input {
    /// A call of the kernel has ended.
    Answered(Event),
    /// A command, with what the store knows of the key of a start.
    Command(Command, By, Option<Box<KeyRecord>>, handle::Answer<Reply>),
    /// A command of another process, as an event of the kernel.
    Asked(Event),
    /// A caller waits for the end of an execution.
    Ends(ExecutionId, handle::Answer<Option<Ended>>),
    /// A caller asks which incarnations are in use.
    Referenced(handle::Answer<Vec<prodspec_model::IncarnationNo>>),
    /// A listener has heard the feed up to here.
    Listened(Arc<str>, ListenerRecord),
    /// Retention has found something.
    Found(retention::Found),
}

/// The lane attached to one ownership of a partition. It does nothing before [`Attached::run`].
pub struct Attached<R> {
    pub(crate) workflows: Arc<Workflows<R>>,
    pub(crate) token: FencingToken,
    pub(crate) enforcement: Arc<dyn Enforcement>,
    pub(crate) inputs: UnboundedReceiver<Input>,
    pub(crate) sender: UnboundedSender<Input>,
    pub(crate) trouble: Trouble,
    pub(crate) edits: Option<Arc<dyn Edits>>,
    pub(crate) rewrites: Rewrites,
}

impl<R: Runtime> Workflows<R> {
    /// Attaches the workflows to one ownership under `token`, whose enforcement is behind `enforcement`. Returns the task
    /// to run and a handle to talk to it.
    pub fn attach(
        self: &Arc<Self>,
        token: FencingToken,
        enforcement: Arc<dyn Enforcement>,
    ) -> (Attached<R>, Handle<R>) {
        let (sender, inputs) = mpsc::unbounded();
        let trouble = Trouble::default();
        let rewrites = Rewrites::default();
        let handle = Handle::new(
            self.clone(),
            sender.clone(),
            trouble.clone(),
            rewrites.clone(),
        );
        let attached = Attached {
            workflows: self.clone(),
            token,
            enforcement,
            inputs,
            sender,
            trouble,
            edits: None,
            rewrites,
        };
        (attached, handle)
    }
}

impl<R: Runtime> Attached<R> {
    /// Sets the port to intent, through which steps edit sources. Without it, an answer with edits is a failure.
    #[must_use]
    pub fn with_edits(mut self, edits: Arc<dyn Edits>) -> Self {
        self.edits = Some(edits);
        self
    }

    /// Runs executions until the ownership ends. In an orderly end it waits for calls in flight and hands the others over.
    /// Drop the future to end it sooner: the next owner goes on from what is durable.
    pub async fn run(self) -> End {
        let Self {
            workflows,
            token,
            enforcement,
            inputs,
            sender,
            trouble,
            edits,
            rewrites,
        } = self;
        let mut feed = enforcement.feed();
        let (latest, lease) = match first(&mut feed).await {
            Ok(first) => first,
            Err(end) => return end,
        };
        let (fence, recovered) = read(&workflows, token, &rewrites, &trouble).await;
        let journal = Journal::new(owner::key(&workflows.partition), token);
        let (ended, to_release) = mpsc::unbounded();
        let releasing = edits::release_all(workflows.clone(), edits.clone(), to_release);
        let calls = Calls::new(
            workflows.clone(),
            enforcement,
            sender.clone(),
            (edits, ended),
            latest,
        );
        let handle = Handle::new(workflows.clone(), sender.clone(), trouble, rewrites.clone());
        let listening = listen::listen(workflows.clone(), handle, sender.clone());
        let asked = inbox::read(
            workflows.clone(),
            rewrites.clone(),
            token,
            fence,
            sender.clone(),
        );
        let retained = Retained::new(&workflows, sender, &recovered);
        let identity = KeyIdentity(workflows.runtime.random());
        let survives = Survives::new(workflows.clone(), identity);
        let stored = Stored {
            recovered,
            identity,
            rewrites,
            retained,
        };
        let session = Session::new(workflows, calls, journal, fence, stored);
        let session = session.run(lease, feed, inputs);
        // All of this ends with the session.
        let beside = futures::future::join3(listening, asked, releasing);
        let beside = beside.then(|_| futures::future::pending::<()>());
        futures::pin_mut!(session, beside);
        match futures::future::select(session, beside).await {
            Either::Left((true, _)) => {
                survives.ends_in_order();
                End::Drained
            }
            _ => End::Lost,
        }
    }
}

/// How a lane has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub enum End {
    /// The ownership ends in order. The lane is not to be started again.
    Drained,
    /// The ownership is lost, or the lane has stopped itself. While the process owns the partition, it may be started again.
    Lost,
}

/// Puts up the fence of the lane and reads what is stored, however often the store fails meanwhile.
async fn read<R: Runtime>(
    workflows: &Workflows<R>,
    token: FencingToken,
    rewrites: &Rewrites,
    trouble: &Trouble,
) -> (Version, Recovered) {
    let mut outage = Outage::default();
    loop {
        let read = async {
            let fence = fence::put(workflows, token).await?;
            Ok::<_, BoxError>((fence, recover::recovered(workflows, rewrites).await?))
        };
        match read.await {
            Ok(read) => {
                outage.over(
                    workflows.runtime.now().mono,
                    "reading the stored executions",
                );
                trouble.set(None);
                return read;
            }
            Err(error) => {
                if outage.failed(workflows.runtime.now().mono) {
                    tracing::warn!(partition = %workflows.partition, error = &*error as &dyn std::error::Error, "failed to read the stored executions; retrying every 5 s");
                }
                trouble.set(Some(with_causes(&*error)));
                workflows.runtime.sleep(READ_AGAIN).await;
            }
        }
    }
}

/// Returns the newest incarnation, and until when the lease is fresh, or how the ownership has ended before.
async fn first(feed: &mut Feed) -> Result<(Incarnation, Mono), End> {
    let mut lease = Mono(0);
    while let Some(item) = feed.next().await {
        match item {
            FeedItem::Lease(until) => lease = until,
            FeedItem::Took(latest) => return Ok((latest, lease)),
            FeedItem::Drains(_) => return Err(End::Drained),
            _ => {}
        }
    }
    Err(End::Lost)
}

impl<R> std::fmt::Debug for Attached<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached")
            .field("workflows", &self.workflows)
            .finish_non_exhaustive()
    }
}
