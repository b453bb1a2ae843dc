//! The side of the process that gives a command.

use std::{sync::Arc, time::Duration};

use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::{Batch, CommitError, Error, Record, Version, record};
use futures::{FutureExt, StreamExt, stream::BoxStream};
use plugin_sdk::{
    By, Mono,
    operation::{ExecutionId, Start},
    workflow::WorkflowName,
};
use prodspec_model::{AssetId, operation::Operation};

use super::{answers, command_key, commands};
use crate::{
    kernel::{Asked, Refused, Say, ScheduleWord, WorkflowWord},
    operation::Operated,
    record::{AnswerRecord, Answered, Ended, InboxId, InboxRecord},
    shell::{
        AskError, Started, Workflows,
        handle::READS,
        submit::{Submitted, submit},
    },
};

/// Time for which a caller waits for the answer, before it withdraws the command, and once more if an owner has taken it.
const WAIT: Duration = Duration::from_secs(30);
/// Longest time between two looks for the answer: hints may be lost.
const LOOK: Duration = Duration::from_millis(500);
/// Number of rows of the inbox that are read at once.
const PAGE: usize = 100;

/// Gives commands to the owner of the partition from a process that does not own it, through the store. Cheap to clone.
///
/// Every command has the answer that [`Handle`](crate::Handle) would give in the process of the owner, and beside it these
/// ends:
///
/// - [`AskError::Withdrawn`]: no owner has taken the command for 30 s. It is withdrawn: it has changed nothing, and never will.
/// - [`AskError::Unanswered`]: an owner has taken the command and has not answered for another 30 s, or the store does not say
///   what became of it. The command is kept: it may have been handled, or it is handled once by this owner or the next one,
///   at most ten minutes after it was given.
///
/// The same holds for a command whose caller is gone, because its process died or it dropped the future: it is handled
/// once in these ten minutes, or never.
pub struct Inbox<R>(Arc<Workflows<R>>);

impl<R> Clone for Inbox<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Runtime> Workflows<R> {
    /// Commands to the owner of the partition, from a process that does not own it.
    pub fn inbox(self: &Arc<Self>) -> Inbox<R> {
        Inbox(self.clone())
    }
}

/// A command that is written.
struct Written {
    id: InboxId,
    version: Version,
}

impl<R: Runtime> Inbox<R> {
    /// Starts an execution, or finds the one that the same key has started. Returns once it is durable.
    ///
    /// # Errors
    /// As for [`Handle::start`](crate::Handle::start), and those of [the inbox](Self).
    pub async fn start(&self, start: Start, by: By) -> Result<Started, AskError> {
        start.check().map_err(Refused::from)?;
        self.started(Asked::Start(start), by).await
    }

    /// Runs an operation under a name, once per key. Returns once it is durable.
    ///
    /// # Errors
    /// As for [`Handle::run_operation`](crate::Handle::run_operation), and those of [the inbox](Self).
    pub async fn run_operation(
        &self,
        name: impl Into<WorkflowName>,
        operation: &Operation,
        key: impl Into<Arc<str>>,
        by: By,
    ) -> Result<Started, AskError> {
        let start = Start::of(name).key(key);
        // The owner does the same; here the problems have their types.
        let functions = &self.0.settings.functions;
        Operated::new(&start.workflow, operation, |it| functions.contains_key(it))?;
        start.check().map_err(Refused::from)?;
        let operation = operation.clone();
        self.started(Asked::Operate { start, operation }, by).await
    }

    /// Gives a word to a live execution. Returns once it is durable. A restart of one that has ended makes it live again.
    ///
    /// # Errors
    /// As for [`Handle::say`](crate::Handle::say), and those of [the inbox](Self).
    pub async fn say(&self, execution: &ExecutionId, word: Say, by: By) -> Result<(), AskError> {
        let restarts = matches!(word, Say::Restart(_));
        let asked = Asked::Say {
            execution: execution.clone(),
            word,
        };
        let mut tries = 0..READS;
        loop {
            let said = self.ask(asked.clone(), by.clone()).await.map(drop);
            // It may have ended since the owner has looked.
            let moved = matches!(
                said,
                Err(AskError::Refused(
                    Refused::NotLive(_) | Refused::EndedAgain(_)
                ))
            );
            if !(restarts && moved) || tries.next().is_none() {
                return said;
            }
            let (store, partition) = (&*self.0.store, &self.0.partition);
            let name = execution.to_string();
            let ended = record::load::<Ended>(store, partition, &name).await?;
            if ended.is_none() {
                return Err(AskError::Unknown(execution.clone()));
            }
        }
    }

    /// Gives a word to the schedule of an asset. Returns once it is durable.
    ///
    /// # Errors
    /// As for [`Handle::say_to_schedule`](crate::Handle::say_to_schedule), and those of [the inbox](Self).
    pub async fn say_to_schedule(
        &self,
        asset: &AssetId,
        word: ScheduleWord,
        by: By,
    ) -> Result<(), AskError> {
        let asset = asset.clone();
        self.ask(Asked::Schedule { asset, word }, by).await?;
        Ok(())
    }

    /// Starts a run of the schedule of an asset now. Returns its execution once it is durable.
    ///
    /// # Errors
    /// As for [`Handle::run_schedule`](crate::Handle::run_schedule), and those of [the inbox](Self).
    pub async fn run_schedule(&self, asset: &AssetId, by: By) -> Result<ExecutionId, AskError> {
        let (asset, word) = (asset.clone(), ScheduleWord::Run);
        let started = self.started(Asked::Schedule { asset, word }, by).await?;
        Ok(started.id)
    }

    /// Gives a word to the watch of an asset. Returns once it is durable.
    ///
    /// # Errors
    /// As for [`Handle::say_to_watch`](crate::Handle::say_to_watch), and those of [the inbox](Self).
    pub async fn say_to_watch(
        &self,
        asset: &AssetId,
        word: ScheduleWord,
        by: By,
    ) -> Result<(), AskError> {
        let asset = asset.clone();
        self.ask(Asked::Watch { asset, word }, by).await?;
        Ok(())
    }

    /// Gives a word to a workflow. Returns once it is durable.
    ///
    /// # Errors
    /// As for [`Handle::say_to_workflow`](crate::Handle::say_to_workflow), and those of [the inbox](Self).
    pub async fn say_to_workflow(
        &self,
        workflow: &WorkflowName,
        word: WorkflowWord,
        by: By,
    ) -> Result<(), AskError> {
        let workflow = workflow.clone();
        self.ask(Asked::Workflow { workflow, word }, by).await?;
        Ok(())
    }

    async fn started(&self, asked: Asked, by: By) -> Result<Started, AskError> {
        match self.ask(asked, by).await? {
            Answered::Started { id, new, outcome } => Ok(Started { id, new, outcome }),
            _ => Err(self.unanswered()),
        }
    }

    /// Gives a command and waits for its answer.
    async fn ask(&self, asked: Asked, by: By) -> Result<Answered, AskError> {
        let (store, runtime) = (&self.0.store, &self.0.runtime);
        let cancels = matches!(
            asked,
            Asked::Say {
                word: Say::Cancel | Say::Terminate,
                ..
            }
        );
        // A cancel always fits (R30), and so does the last resort.
        if !cancels {
            self.has_room().await?;
        }
        // From before the command, so that no hint is lost between them.
        let mut hints = store.watch(answers(&self.0.partition));
        let written = self.write(&asked, by).await?;
        let until = runtime.now().mono + WAIT;
        let mut answer = self.answer(&written.id, &mut hints, until).await;
        if answer.is_none() {
            if self.withdraw(&written).await {
                return Err(AskError::Withdrawn {
                    partition: self.0.partition.clone(),
                    within: WAIT,
                });
            }
            let until = runtime.now().mono + WAIT;
            answer = self.answer(&written.id, &mut hints, until).await;
        }
        let answer = answer.ok_or_else(|| self.unanswered())?;
        match answer.clone().why() {
            Some(refused) => Err(refused.into()),
            None => Ok(answer),
        }
    }

    fn unanswered(&self) -> AskError {
        AskError::Unanswered(self.0.partition.clone())
    }

    /// Refuses a command if too many wait. Callers that ask at the same time may all pass.
    async fn has_room(&self) -> Result<(), AskError> {
        let mut rest = Some(record::range(&self.0.partition, InboxRecord::KIND));
        let (mut commands, mut bytes) = (0, 0);
        while let Some(range) = rest {
            let page = self.0.store.scan(range, PAGE).await?;
            commands += page.rows.len();
            bytes += page
                .rows
                .iter()
                .map(|(_, row)| row.value.len())
                .sum::<usize>();
            if commands >= InboxRecord::WAITING || bytes >= InboxRecord::WAITING_SIZE {
                return Err(AskError::InboxFull {
                    partition: self.0.partition.clone(),
                    commands,
                    bytes,
                });
            }
            rest = page.rest;
        }
        Ok(())
    }

    async fn write(&self, asked: &Asked, by: By) -> Result<Written, AskError> {
        let at = self.0.runtime.now().wall;
        let id = InboxId::fresh(at);
        let key = command_key(&self.0.partition, &id);
        let command = serde_json::to_value(asked).map_err(|error| Error::Unwritable {
            key: key.clone(),
            source: Arc::new(error),
        })?;
        let record = InboxRecord {
            by,
            at,
            command,
            taken: None,
        };
        let write = record::put(&self.0.partition, &id.0, &record)?;
        let bytes = write.bytes();
        if bytes > InboxRecord::SIZE {
            return Err(AskError::CommandTooLarge { bytes });
        }
        let batch = Batch::new()
            .expect_absent(key)
            .write(write)
            .announce(commands(&self.0.partition));
        let version = self.commit(batch).await?;
        Ok(Written { id, version })
    }

    /// Commits, also if the store needs some attempts.
    ///
    /// # Errors
    /// [`AskError::NotWritten`] if nothing was written, else [`AskError::Unanswered`].
    async fn commit(&self, batch: Batch) -> Result<Version, AskError> {
        let Submitted { last, uncertain } = submit(&self.0, batch).await;
        last.map_err(|error| self.not_written(error, uncertain))
    }

    fn not_written(&self, error: CommitError, uncertain: bool) -> AskError {
        match error {
            CommitError::Unknown { .. } | CommitError::Poisoned { .. } => self.unanswered(),
            _ if uncertain => self.unanswered(),
            error => AskError::NotWritten(error),
        }
    }

    /// Waits for the answer to a command. `None`: there is none in time.
    async fn answer(
        &self,
        id: &InboxId,
        hints: &mut BoxStream<'static, ()>,
        until: Mono,
    ) -> Option<Answered> {
        let (store, runtime) = (&*self.0.store, &self.0.runtime);
        loop {
            // An answer that cannot be read now is looked for again.
            let found = record::load::<AnswerRecord>(store, &self.0.partition, &id.0);
            if let Some(Ok(Some(found))) = timeout_at(runtime, until, found).await {
                return Some(found.value.answer);
            }
            let now = runtime.now().mono;
            if now >= until {
                return None;
            }
            let look = runtime.sleep_until(until.min(now + LOOK));
            futures::select_biased! {
                hint = hints.next().fuse() => if hint.is_none() {
                    runtime.sleep(LOOK).await;
                },
                () = look.fuse() => {}
            }
        }
    }

    /// Withdraws a command. `false`: an owner has taken it, or this cannot be found out.
    async fn withdraw(&self, written: &Written) -> bool {
        let key = command_key(&self.0.partition, &written.id);
        let batch = Batch::new().expect_at(key.clone(), written.version);
        self.commit(batch.delete(key)).await.is_ok()
    }
}

impl<R> std::fmt::Debug for Inbox<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Inbox").field(&self.0).finish()
    }
}
