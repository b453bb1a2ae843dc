//! The calls of the kernel that go to the port to intent.

use std::collections::BTreeSet;

use control_plane_runtime::Runtime;
use control_plane_store::records::Holder;
use futures::future::BoxFuture;
use plugin_sdk::{BoxError, plugin, with_causes};

use super::calls::{Calls, tell_keys};
use crate::kernel::{CallNo, Event, PreparedEdit};

/// Why an edit is not made without the port to intent.
const NO_INTENT: &str =
    "these workflows are attached without a port to intent; attach them with `.with_intent(..)`";

impl<R: Runtime> Calls<R> {
    pub(super) fn edit(&mut self, no: CallNo, edit: PreparedEdit) {
        let intent = self.intent.clone();
        let (workflows, sender) = self.keys();
        self.spawn(no, async move {
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
    }

    pub(super) fn settle(&mut self, no: CallNo, edit: PreparedEdit) {
        let intent = self.intent.clone();
        self.spawn(no, async move {
            let answer = match intent {
                Some(intent) => intent.settled(&edit).await,
                None => Err(plugin::Error::permanent(NO_INTENT)),
            };
            Event::Settled(no, answer)
        });
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
