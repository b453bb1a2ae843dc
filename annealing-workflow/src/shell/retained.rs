//! What the loop of a lane knows of executions that have ended, and when it looks for old ones.

use std::sync::Arc;

use control_plane_runtime::Runtime;
use control_plane_store::Write;
use futures::channel::mpsc::UnboundedSender;
use plugin_sdk::Mono;

use super::{
    Input,
    build::Workflows,
    cursors::Cursors,
    history::{History, Kept},
    retention::{self, EVERY, Found},
    writes::definition_key,
};
use crate::{
    kernel::{Lane, Record, Recovered},
    record::{Ended, FeedPosition},
};

/// The history of a lane. After a takeover it is read beside the loop.
pub(super) struct Retained {
    sender: UnboundedSender<Input>,
    history: History,
    cursors: Cursors,
    is_complete: bool,
    /// Whether definitions stay, because it is not known which ones are in use.
    spares_definitions: bool,
    /// When the next pass is due.
    pub(super) next: Mono,
}

impl Retained {
    pub(super) fn new<R: Runtime>(
        workflows: &Workflows<R>,
        sender: UnboundedSender<Input>,
        recovered: &Recovered,
    ) -> Self {
        let listeners = workflows.listeners.iter();
        Self {
            sender,
            history: History::default(),
            cursors: Cursors::new(listeners.map(|it| it.name.clone())),
            is_complete: false,
            spares_definitions: !recovered.aside.is_empty(),
            next: workflows.runtime.now().mono,
        }
    }

    /// Begins a pass if it is due. Returns the writes to make.
    pub(super) fn look<R: Runtime>(
        &mut self,
        workflows: &Arc<Workflows<R>>,
        kernel: &mut Lane,
    ) -> Vec<Write> {
        let now = workflows.runtime.now();
        if now.mono < self.next {
            return Vec::new();
        }
        self.next = now.mono + EVERY;
        if self.is_complete {
            return self.pass(workflows, kernel);
        }
        retention::look(workflows, &self.sender);
        Vec::new()
    }

    /// Begins a pass. Removes the definitions that nothing keeps to any more, also those between two tracks of an
    /// execution.
    fn pass<R: Runtime>(&self, workflows: &Arc<Workflows<R>>, kernel: &mut Lane) -> Vec<Write> {
        let now = workflows.runtime.now();
        // A wall clock that is set ahead removes nothing early.
        let now = kernel.steady(now).wall.min(now.wall);
        let heard = self.cursors.by_all();
        let over = self.history.over(&workflows.settings.config, now);
        let (over, unheard): (Vec<Kept>, Vec<Kept>) =
            over.into_iter().partition(|it| it.is_heard(heard));
        self.warn_of(workflows, &unheard);
        retention::pass(workflows, &self.sender, over, heard.cloned(), now);
        if self.spares_definitions {
            return Vec::new();
        }
        let unused = kernel
            .forget_definitions(|it| self.history.has(it))
            .into_iter();
        let keys = unused.map(|it| definition_key(&workflows.partition, it));
        keys.map(Write::Delete).collect()
    }

    /// Warns of executions that are kept only because a listener has not heard their ends.
    fn warn_of<R: Runtime>(&self, workflows: &Workflows<R>, unheard: &[Kept]) {
        let (kept, listeners) = (unheard.len(), self.cursors.last());
        // After a takeover, listeners have just begun to hear.
        if self.is_complete && kept > 0 {
            tracing::warn!(partition = %workflows.partition, kept, ?listeners, "old executions are kept because a listener has not heard their ends");
        }
    }

    /// Takes what a pass has found. Returns the writes to make.
    pub(super) fn found<R: Runtime>(
        &mut self,
        workflows: &Arc<Workflows<R>>,
        kernel: &mut Lane,
        found: Found,
    ) -> Vec<Write> {
        match found {
            Found::History(all, definitions) => {
                self.spares_definitions |= definitions.is_none();
                kernel.knows_definitions(definitions.unwrap_or_default());
                // What has ended since then is known better.
                let is_old = |it: &Kept| !kernel.is_live(&it.id) && !self.history.has_ended(&it.id);
                let ended: Vec<_> = all.into_iter().filter(is_old).collect();
                ended.into_iter().for_each(|kept| self.history.add(kept));
                let writes = self.pass(workflows, kernel);
                self.is_complete = true;
                writes
            }
            Found::Keys(writes) => writes,
            // It may be live again, or have ended once more.
            Found::Old(kept, writes) => match self.history.is_kept(&kept) {
                true => {
                    self.history.remove(&kept.id);
                    writes
                }
                false => Vec::new(),
            },
        }
    }

    /// Notes that an execution has ended. `told`: the place of its end in the feed.
    pub(super) fn ended(&mut self, ended: &Ended, told: Option<&FeedPosition>) {
        let told = told.filter(|_| self.cursors.any());
        self.history.add(Kept::of(ended, told.cloned()));
    }

    /// Notes that a listener has heard the feed up to a place, in the step that stores it.
    pub(super) fn heard(&mut self, listener: &str, place: &FeedPosition) {
        self.cursors.heard(listener, place);
    }

    /// Executions that are live again are no history.
    pub(super) fn reopened(&mut self, records: &[Record]) {
        for record in records {
            if let Record::Reopened(id) = record {
                self.history.remove(id);
            }
        }
    }
}
