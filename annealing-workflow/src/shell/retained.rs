//! What the loop of a lane knows of executions that have ended, and when it looks for old ones.

use std::sync::Arc;

use control_plane_runtime::Runtime;
use control_plane_store::Write;
use futures::channel::mpsc::UnboundedSender;
use plugin_sdk::Mono;

use super::{
    Input,
    build::Workflows,
    history::{History, Kept},
    retention::{self, EVERY, Found},
    writes::definition_key,
};
use crate::{
    kernel::{Lane, Record},
    record::Ended,
};

/// The history of a lane. After a takeover it is read beside the loop.
pub(super) struct Retained {
    sender: UnboundedSender<Input>,
    history: History,
    is_complete: bool,
    /// Whether definitions stay, because it is not known which ones are in use.
    spares_definitions: bool,
    /// When the next pass is due.
    pub(super) next: Mono,
}

impl Retained {
    pub(super) fn new(sender: UnboundedSender<Input>, now: Mono) -> Self {
        Self {
            sender,
            history: History::default(),
            is_complete: false,
            spares_definitions: false,
            next: now,
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
        let over = self.history.over(&workflows.settings.config, now);
        retention::pass(workflows, &self.sender, over, now);
        if self.spares_definitions {
            return Vec::new();
        }
        let unused = kernel
            .forget_definitions(|it| self.history.has(it))
            .into_iter();
        let keys = unused.map(|it| definition_key(&workflows.partition, it));
        keys.map(Write::Delete).collect()
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
                self.spares_definitions = definitions.is_none();
                kernel.knows_definitions(definitions.unwrap_or_default());
                // What has ended since then is known better.
                let is_old = |it: &Kept| !kernel.is_live(&it.id) && !self.history.has_ended(&it.id);
                let ended: Vec<_> = all.into_iter().filter(is_old).collect();
                ended.into_iter().for_each(|kept| self.history.add(kept));
                self.is_complete = true;
                self.pass(workflows, kernel)
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

    pub(super) fn ended(&mut self, ended: &Ended) {
        self.history.add(Kept::of(ended));
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
