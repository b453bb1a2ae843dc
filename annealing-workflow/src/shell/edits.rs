//! The calls of the kernel that go to the port to intent.

use std::collections::BTreeSet;

use control_plane_runtime::{Runtime, catch_panic};
use control_plane_store::records::Holder;
use futures::future::BoxFuture;
use plugin_sdk::{BoxError, plugin, with_causes};

use super::calls::{Calls, InFlight, tell_keys};
use crate::{
    intent::SettleReply,
    kernel::{CallNo, Event, PreparedEdit, SettleRequest},
};

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

    /// Gives up the fields of an execution that has ended.
    pub(super) fn release(&self, holder: Holder) {
        if let Some(intent) = self.intent.clone() {
            self.give_up(Box::pin(async move { intent.release(&holder).await }));
        }
    }

    /// Gives up the fields of executions that ended before this owner began.
    pub(super) fn release_others(&self, live: BTreeSet<Holder>) {
        if let Some(intent) = self.intent.clone() {
            self.give_up(Box::pin(async move { intent.release_others(&live).await }));
        }
    }

    fn give_up(&self, release: BoxFuture<'static, Result<(), BoxError>>) {
        let partition = self.workflows.partition.clone();
        self.workflows.runtime.spawn(Box::pin(async move {
            if let Err(error) = release.await {
                tracing::warn!(%partition, error = &*error as &dyn std::error::Error, "failed to give up the fields of executions that have ended; the next owner gives them up");
            }
        }));
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
