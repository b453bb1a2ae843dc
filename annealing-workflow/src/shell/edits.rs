//! The calls of the kernel that go to the port to intent.

use std::{sync::Arc, time::Duration};

use control_plane_runtime::{Runtime, catch_panic};
use control_plane_store::record;
use futures::{StreamExt, channel::mpsc::UnboundedReceiver, future::join};
use plugin_sdk::{
    Edits, Holder, plugin,
    port::{SettleReply, SettleRequest, WaitNo},
    with_causes,
};

use super::{
    build::Workflows,
    calls::{Calls, tell_keys},
};
use crate::{
    kernel::{CallNo, Event, HOLDER, PreparedEdit},
    record::Live,
};

/// Time until the fields of an execution are given up again.
const RELEASE_AGAIN: Duration = Duration::from_secs(5);

/// Why an edit is not made without the port to intent.
const NO_EDITS: &str =
    "these workflows are attached without a port to intent; attach them with `.with_edits(..)`";

impl<R: Runtime> Calls<R> {
    pub(super) fn edit(&mut self, no: CallNo, edit: PreparedEdit) {
        let edits = self.edits.clone();
        let (workflows, sender) = self.keys();
        let made = self.task(no, async move {
            let mut answer = match edits {
                Some(edits) => edits.edit(&edit.edit).await,
                None => Err(plugin::Error::permanent(NO_EDITS)),
            };
            // What starts with the edit may have been started long ago, under a key that only the store knows.
            if answer.is_ok()
                && let Err(error) = tell_keys(&workflows, &sender, &edit.starts).await
            {
                answer = Err(plugin::Error::transient(with_causes(&error)));
            }
            Event::Edited(no, answer)
        });
        self.workflows.runtime.spawn(made);
    }

    /// Hands a wait to the port, which tells its end to the loop. Until then only the kernel knows that it is under way.
    pub(super) fn settle(&self, no: CallNo, request: SettleRequest) {
        let reply = SettleReply::new(WaitNo(no.0), self.settled.clone());
        let Some(edits) = &self.edits else {
            return reply.settled(Err(plugin::Error::permanent(NO_EDITS)));
        };
        if let Err(panic) = catch_panic(|| edits.settle(request, reply)) {
            let partition = &self.workflows.partition;
            tracing::error!(%partition, %panic, "the port to intent has panicked; the step waits for production again");
        }
    }

    /// Gives up the fields of an execution that has ended.
    pub(super) fn release(&self, holder: Holder) {
        // The session may have ended meanwhile: the next owner gives them up.
        let _ = self.ended.unbounded_send(holder);
    }
}

/// Gives up the fields of executions that ended before this owner began, and of those that end from now on. Drop the future to
/// end it: the next owner gives up the rest.
pub(super) async fn release_all<R: Runtime>(
    workflows: Arc<Workflows<R>>,
    edits: Option<Arc<dyn Edits>>,
    ended: UnboundedReceiver<Holder>,
) {
    // Without a port no execution holds fields.
    let Some(edits) = edits else { return };
    let releasing = Arc::new(Releasing { workflows, edits });
    let later = ended.for_each_concurrent(None, |holder| {
        let releasing = releasing.clone();
        async move { releasing.release(&holder, Some(false)).await }
    });
    join(releasing.release_ended(), later).await;
}

/// Gives up fields.
struct Releasing<R> {
    workflows: Arc<Workflows<R>>,
    edits: Arc<dyn Edits>,
}

impl<R: Runtime> Releasing<R> {
    /// Gives up the fields of an execution, unless it is live. Until that succeeds they are refused to all others, so it is
    /// tried until then. `live`: whether it is live, if that is known.
    async fn release(&self, holder: &Holder, mut live: Option<bool>) {
        loop {
            match live {
                Some(true) => return,
                Some(false) => match self.edits.release(holder).await {
                    Ok(()) => return,
                    Err(error) => {
                        let partition = &self.workflows.partition;
                        tracing::warn!(%partition, %holder, error = &*error as &dyn std::error::Error, "failed to give up the fields of an execution that has ended; trying again");
                    }
                },
                None => {}
            }
            self.workflows.runtime.sleep(RELEASE_AGAIN).await;
            live = self.workflows.is_live(holder).await;
        }
    }

    async fn release_ended(&self) {
        let holders = loop {
            match self.edits.holders().await {
                Ok(holders) => break holders,
                Err(error) => {
                    let partition = &self.workflows.partition;
                    tracing::warn!(%partition, error = &*error as &dyn std::error::Error, "failed to read which programs hold fields; executions that have ended may hold some; trying again");
                }
            }
            self.workflows.runtime.sleep(RELEASE_AGAIN).await;
        };
        for holder in holders {
            if holder.to_string().starts_with(HOLDER) {
                let live = self.workflows.is_live(&holder).await;
                self.release(&holder, live).await;
            }
        }
    }
}

impl<R: Runtime> Workflows<R> {
    /// Whether the execution that is this holder is live. `None`: the store does not tell.
    async fn is_live(&self, holder: &Holder) -> Option<bool> {
        let id = holder.to_string();
        let id = id.strip_prefix(HOLDER).unwrap_or(&id);
        let live = record::load::<Live>(&*self.store, &self.partition, id).await;
        live.ok().map(|live| live.is_some())
    }
}

impl<R> Calls<R> {
    /// Tells the port that the end of a wait does not count any more.
    pub(super) fn forget(&self, no: CallNo) {
        let Some(edits) = &self.edits else {
            return;
        };
        if let Err(panic) = catch_panic(|| edits.forget(WaitNo(no.0))) {
            let partition = &self.workflows.partition;
            tracing::error!(%partition, %panic, "the port to intent has panicked; it may keep a wait that is over");
        }
    }
}
