//! The side of the owner: finds commands, takes them, and hands them to the loop of the lane.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use control_plane_runtime::{Outage, Runtime};
use control_plane_store::{
    Batch, CommitError, Error, Key, Version, Versioned, Write, owner,
    record::{self, Record, Rewrites, Stored},
};
use futures::{FutureExt, StreamExt, channel::mpsc::UnboundedSender};
use plugin_sdk::{
    BoxError, FencingToken, Mono,
    operation::{ExecutionId, Start, StartCause},
    with_causes,
    workflow::MachineName,
};

use super::commands;
use crate::{
    kernel::{Asked, Command, Event, Refused, Say},
    operation::Operated,
    record::{AnswerRecord, InboxId, InboxRecord, KeyRecord, Taken},
    shell::{
        Input, Workflows, fence, recover,
        retention::Found,
        submit::{Submitted, submit},
    },
};

/// Longest time between two scans: hints may be lost.
const SCAN: Duration = Duration::from_secs(5);
/// Time between two removals of old answers.
const REMOVE: Duration = Duration::from_secs(60);
/// Number of rows that are read at once.
const PAGE: usize = 100;
/// Age at which what was read for a command is read again. Shorter than the time for which the kernel knows the keys of
/// executions that have ended.
const FRESH: Duration = Duration::from_secs(10);

/// Reads the inbox for one ownership, until the caller drops the future.
pub(in crate::shell) async fn read<R: Runtime>(
    workflows: Arc<Workflows<R>>,
    rewrites: Rewrites,
    token: FencingToken,
    fence: Version,
    sender: UnboundedSender<Input>,
) {
    let mut hints = workflows.store.watch(commands(&workflows.partition));
    let mut remove = workflows.runtime.now().mono + REMOVE;
    let mut reader = Reader {
        workflows: &workflows,
        rewrites: &rewrites,
        token,
        fence,
        sender: &sender,
        unsent: BTreeSet::new(),
        unreadable: BTreeSet::new(),
    };
    let mut outage = Outage::default();
    loop {
        let mut read = reader.scan().await;
        if read.is_ok() && remove <= workflows.runtime.now().mono {
            remove = workflows.runtime.now().mono + REMOVE;
            read = reader.old_answers().await;
        }
        if let Err(error) = read {
            if outage.failed(workflows.runtime.now().mono) {
                tracing::warn!(partition = %workflows.partition, %error, "failed to read the inbox of the workflows; reading it again every 5 s");
            }
            workflows.runtime.sleep(SCAN).await;
            continue;
        }
        outage.over(
            workflows.runtime.now().mono,
            "reading the inbox of the workflows",
        );
        let scan = workflows.runtime.sleep(SCAN);
        futures::select_biased! {
            hint = hints.next().fuse() => if hint.is_none() {
                workflows.runtime.sleep(SCAN).await;
            },
            () = scan.fuse() => {}
        }
    }
}

/// A command that is ready for the kernel.
struct Ready {
    command: Result<Command, Refused>,
    known: Option<Box<KeyRecord>>,
    /// When the store was read for it.
    read: Mono,
}

struct Reader<'a, R> {
    workflows: &'a Workflows<R>,
    rewrites: &'a Rewrites,
    token: FencingToken,
    fence: Version,
    sender: &'a UnboundedSender<Input>,
    /// Commands that are taken, or may be, and that the lane has not got. All others whose rows name this lane it has got, and
    /// rows that do not name it cannot be taken any more: their versions are not as expected. So each is sent once, also if
    /// scans read the store as it was some commits ago.
    unsent: BTreeSet<InboxId>,
    /// Commands that cannot be read.
    unreadable: BTreeSet<InboxId>,
}

impl<R: Runtime> Reader<'_, R> {
    /// Takes all commands of the inbox, the oldest first. Handled commands are gone, so the scan is short, and it begins at
    /// the start each time: the clocks of the callers may differ.
    async fn scan(&mut self) -> Result<(), Error> {
        let partition = &self.workflows.partition;
        let mut rest = Some(record::range(partition, InboxRecord::KIND));
        while let Some(range) = rest {
            let page = self.workflows.store.scan(range, PAGE).await?;
            for (key, row) in &page.rows {
                let name = key.as_str().rsplit('/').next().unwrap_or_default();
                self.row(InboxId(name.into()), key, row).await?;
            }
            rest = page.rest;
        }
        Ok(())
    }

    /// Takes one command, unless the lane has it, or it is gone or changed since it was read.
    async fn row(&mut self, id: InboxId, key: &Key, row: &Versioned) -> Result<(), Error> {
        let mut stored = match record::decode::<InboxRecord>(key, row) {
            Ok(stored) => stored,
            Err(error) => {
                if self.unreadable.insert(id) {
                    tracing::error!(partition = %self.workflows.partition, error = with_causes(&error), "a command in the inbox of the workflows cannot be read; remove its row");
                }
                return Ok(());
            }
        };
        let taken = stored.value.taken;
        let is_taken = taken.is_some_and(|taken| taken.fence == self.fence.0);
        if is_taken && !self.unsent.contains(&id) {
            return Ok(());
        }
        let ready = self.ready(&stored.value).await?;
        stored.value.taken = Some(self.next_taken(taken));
        let is_unsent = !self.unsent.insert(id.clone());
        if !self.take(&id, key, &stored).await? {
            // It may be taken in a row that is newer than this one.
            if !is_unsent {
                self.unsent.remove(&id);
            }
            return Ok(());
        }
        // Else the next scan reads it again.
        if self.workflows.runtime.now().mono < ready.read + FRESH {
            self.unsent.remove(&id);
            let InboxRecord { by, at, .. } = stored.value;
            let (command, known) = (ready.command, ready.known);
            let asked = Event::Asked {
                id,
                at,
                command,
                by,
                known,
            };
            // The ownership may have ended: then the next owner takes it.
            drop(self.sender.unbounded_send(Input::Asked(asked)));
        }
        Ok(())
    }

    fn next_taken(&self, before: Option<Taken>) -> Taken {
        let fence = self.fence.0;
        let lanes = match before {
            None => 1,
            Some(before) if before.fence == fence => before.lanes,
            Some(before) => before.lanes + 1,
        };
        Taken { fence, lanes }
    }

    /// Makes it durable that this owner has the command: from then on it cannot be withdrawn. `false`: it is gone.
    async fn take(
        &self,
        id: &InboxId,
        key: &Key,
        stored: &Stored<InboxRecord>,
    ) -> Result<bool, Error> {
        let partition = &self.workflows.partition;
        let batch = Batch::new()
            .expect_at(owner::key(partition), Version(self.token.0))
            .expect_at(key.clone(), stored.version)
            .write(stored.rewrite(partition, &id.0)?);
        let batch = fence::behind(batch, partition, self.fence);
        let Submitted { last, uncertain } = submit(self.workflows, batch).await;
        match last {
            Ok(_) => Ok(true),
            // Also if the ownership has ended. After an attempt without a certain outcome it may be that attempt.
            Err(CommitError::Conflict { .. }) if !uncertain => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what the kernel has to know for a command.
    async fn ready(&self, stored: &InboxRecord) -> Result<Ready, Error> {
        let read = self.workflows.runtime.now().mono;
        let refused = |why: String| Ready {
            command: Err(Refused::ByOwner(why)),
            known: None,
            read,
        };
        let ended = stored.taken.map_or(0, |taken| {
            let is_mine = taken.fence == self.fence.0;
            taken.lanes.saturating_sub(u32::from(is_mine))
        });
        if ended >= InboxRecord::OWNERS {
            return Ok(refused(format!(
                "{ended} owners ended before they had handled the command; nothing was changed: find out why they ended, then give it again"
            )));
        }
        let Ok(asked) = serde_json::from_value::<Asked>(stored.command.clone()) else {
            let why = "the owner does not know this command, because its program version is older; update it, then give the command again";
            return Ok(refused(why.to_owned()));
        };
        match self.command(asked).await {
            Ok((command, known)) => Ok(Ready {
                command: Ok(command),
                known: known.map(Box::new),
                read,
            }),
            Err(error) => match error.downcast::<Error>() {
                // It passes.
                Ok(error)
                    if matches!(*error, Error::Unavailable { .. } | Error::Poisoned { .. }) =>
                {
                    Err(*error)
                }
                Ok(error) => Ok(refused(with_causes(&*error))),
                Err(error) => Ok(refused(with_causes(&*error))),
            },
        }
    }

    async fn command(&self, asked: Asked) -> Result<(Command, Option<KeyRecord>), BoxError> {
        let cause = StartCause::Command;
        Ok(match asked {
            Asked::Start(start) => {
                let known = self.known(&start).await?;
                let start = Box::new(start);
                let chain = Vec::new();
                (
                    Command::Start {
                        start,
                        cause,
                        chain,
                    },
                    known,
                )
            }
            Asked::Operate { start, operation } => {
                let functions = &self.workflows.settings.functions;
                let operation =
                    Operated::new(&start.workflow, &operation, |it| functions.contains_key(it))?;
                let known = self.known(&start).await?;
                let (start, operation) = (Box::new(start), Box::new(operation));
                (
                    Command::Operate {
                        start,
                        operation,
                        cause,
                    },
                    known,
                )
            }
            Asked::Say {
                execution,
                word: Say::Restart(machines),
            } => self.restart(execution, machines).await?,
            Asked::Say { execution, word } => (Command::Say(execution, word), None),
            Asked::Schedule { asset, word } => (Command::Schedule(asset, word), None),
            Asked::Workflow { workflow, word } => (Command::Workflow(workflow, word), None),
            Asked::Watch { asset, word } => (Command::Watch(asset, word), None),
        })
    }

    async fn known(&self, start: &Start) -> Result<Option<KeyRecord>, Error> {
        match &start.key {
            Some(key) => {
                recover::load_key(self.workflows, self.rewrites, &start.workflow, key).await
            }
            None => Ok(None),
        }
    }

    /// A restart, also of an execution that has ended.
    async fn restart(
        &self,
        id: ExecutionId,
        machines: Vec<MachineName>,
    ) -> Result<(Command, Option<KeyRecord>), BoxError> {
        let (workflows, rewrites) = (self.workflows, self.rewrites);
        let Some(read) = recover::ended(workflows, rewrites, &id).await? else {
            return Ok((Command::Say(id, Say::Restart(machines)), None));
        };
        let known = match &read.live.key {
            Some(key) => recover::load_key(workflows, rewrites, &id.workflow, key).await?,
            None => None,
        };
        Ok((Command::Reopen(Box::new(read), machines), known))
    }

    /// Removes the answers that are as old as answers get.
    async fn old_answers(&self) -> Result<(), Error> {
        let partition = &self.workflows.partition;
        let now = self.workflows.runtime.now().wall;
        let mut rest = Some(record::range(partition, AnswerRecord::KIND));
        while let Some(range) = rest {
            let page = self.workflows.store.scan(range, PAGE).await?;
            let old = page.rows.iter().filter(|(key, row)| {
                let at = record::decode::<AnswerRecord>(key, row).map(|it| it.value.at);
                at.is_ok_and(|at| now.duration_since(at).unsigned_abs() > AnswerRecord::KEPT)
            });
            let writes: Vec<_> = old.map(|(key, _)| Write::Delete(key.clone())).collect();
            if !writes.is_empty() {
                drop(
                    self.sender
                        .unbounded_send(Input::Found(Found::Keys(writes))),
                );
            }
            rest = page.rest;
        }
        Ok(())
    }
}
