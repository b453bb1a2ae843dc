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
    /// When the next pass is due.
    pub(super) next: Mono,
}

impl Retained {
    pub(super) fn new(sender: UnboundedSender<Input>, now: Mono) -> Self {
        Self {
            sender,
            history: History::default(),
            is_complete: false,
            next: now,
        }
    }

    /// Begins a pass if it is due.
    pub(super) fn look<R: Runtime>(&mut self, workflows: &Arc<Workflows<R>>) {
        let now = workflows.runtime.now();
        if now.mono < self.next {
            return;
        }
        self.next = now.mono + EVERY;
        match self.is_complete {
            true => self.pass(workflows),
            false => retention::look(workflows, &self.sender),
        }
    }

    fn pass<R: Runtime>(&self, workflows: &Arc<Workflows<R>>) {
        let now = workflows.runtime.now().wall;
        let over = self.history.over(&workflows.settings.config, now);
        retention::pass(workflows, &self.sender, over);
    }

    /// Takes what a pass has found. Returns the writes to make.
    pub(super) fn found<R: Runtime>(
        &mut self,
        workflows: &Arc<Workflows<R>>,
        kernel: &mut Lane,
        found: Found,
    ) -> Vec<Write> {
        match found {
            Found::History(all) => {
                let ended = all.into_iter().filter(|it| !kernel.is_live(&it.id));
                ended.for_each(|kept| self.history.add(kept));
                self.is_complete = true;
                self.pass(workflows);
                Vec::new()
            }
            Found::Keys(writes) => writes,
            // It may be live again.
            Found::Old(id, mut writes) => match self.history.remove(&id) {
                None => Vec::new(),
                Some((_, definition)) => {
                    if let Some(digest) = definition.filter(|digest| !kernel.uses(*digest)) {
                        kernel.forget_definition(digest);
                        writes.push(Write::Delete(definition_key(&workflows.partition, digest)));
                    }
                    writes
                }
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
