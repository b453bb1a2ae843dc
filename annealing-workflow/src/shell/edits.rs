//! The calls of the kernel that go to the port to intent.

use std::{collections::BTreeSet, time::Duration};

use control_plane_runtime::{Runtime, catch_panic};
use control_plane_store::{record, records::Holder};
use plugin_sdk::{plugin, with_causes};

use super::{
    build::Workflows,
    calls::{Calls, InFlight, tell_keys},
};
use crate::{
    intent::SettleReply,
    kernel::{CallNo, Event, HOLDER, PreparedEdit, SettleRequest},
    record::Live,
};

/// Time until the fields of an execution are given up again.
const RELEASE_AGAIN: Duration = Duration::from_secs(5);

/// Why an edit is not made without the port to intent.
const NO_INTENT: &str =
    "these workflows are attached without a port to intent; attach them with `.with_intent(..)`";

impl<R: Runtime> Calls<R> {
    pub(super) fn edit(&mut self, no: CallNo, edit: PreparedEdit) {
        let intent = self.intent.clone();
        let (workflows, sender) = self.keys();
        let made = self.task(no, async move {
            let mut answer = match intent {
                Some(intent) => intent.edit(&edit).await,
                None => Err(plugin::Error::permanent(NO_INTENT)),
            };
            // What starts with the edit may have been started long ago, under a key that only the store knows.
            if answer.is_ok()
                && let Err(error) = tell_keys(&workflows, &sender, &edit.edit.starts).await
            {
                answer = Err(plugin::Error::transient(with_causes(&error)));
            }
            Event::Edited(no, answer)
        });
        self.workflows.runtime.spawn(made);
    }

    /// Hands a wait to the port, which tells its end to the loop. Until then it is a number in `in_flight`.
    pub(super) fn settle(&mut self, no: CallNo, request: SettleRequest) {
        let reply = SettleReply::new(no, self.settled.clone());
        let Some(intent) = &self.intent else {
            return reply.settled(Err(plugin::Error::permanent(NO_INTENT)));
        };
        self.in_flight.insert(no, InFlight::Settling);
        if let Err(panic) = catch_panic(|| intent.settle(request, reply)) {
            let partition = &self.workflows.partition;
            tracing::error!(%partition, %panic, "the port to intent has panicked; the step waits for production again");
        }
    }

    /// Gives up the fields of an execution that has ended. Until it succeeds they are refused to all others, so it is tried
    /// until then, unless the execution is live again, or the ownership ends.
    pub(super) fn release(&self, holder: Holder) {
        let Some(intent) = self.intent.clone() else {
            return;
        };
        let (workflows, sender) = self.keys();
        self.workflows.runtime.spawn(Box::pin(async move {
            while let Err(error) = intent.release(&holder).await {
                let partition = &workflows.partition;
                tracing::warn!(%partition, %holder, error = &*error as &dyn std::error::Error, "failed to give up the fields of an execution that has ended; trying again");
                let mut live = None;
                while live.is_none() {
                    workflows.runtime.sleep(RELEASE_AGAIN).await;
                    if sender.is_closed() {
                        return;
                    }
                    live = workflows.is_live(&holder).await;
                }
                if live == Some(true) {
                    return;
                }
            }
        }));
    }

    /// Gives up the fields of executions that ended before this owner began.
    pub(super) fn release_others(&self, live: BTreeSet<Holder>) {
        let Some(intent) = self.intent.clone() else {
            return;
        };
        let partition = self.workflows.partition.clone();
        self.workflows.runtime.spawn(Box::pin(async move {
            if let Err(error) = intent.release_others(&live).await {
                tracing::warn!(%partition, error = &*error as &dyn std::error::Error, "failed to give up the fields of executions that have ended; the next owner gives them up");
            }
        }));
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
        let Some(intent) = &self.intent else {
            return;
        };
        if let Err(panic) = catch_panic(|| intent.forget(no)) {
            let partition = &self.workflows.partition;
            tracing::error!(%partition, %panic, "the port to intent has panicked; it may keep a wait that is over");
        }
    }
}
