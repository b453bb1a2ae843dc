//! The handle by which people and programs talk to a running lane.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::record::{self, Rewrites};
use futures::channel::{mpsc::UnboundedSender, oneshot};
use plugin_sdk::{
    By,
    operation::{AssetRun, ExecutionId, Join, Runs, Start, StartCause},
    with_causes,
    workflow::{MachineName, WorkflowName},
};
use prodspec_model::{AssetId, IncarnationNo, operation::Operation};

use super::{Input, build::Workflows, error::AskError, recover};
use crate::{
    definition::Outcome,
    kernel::{Command, Refused, Reply, Say},
    operation::Operated,
    query::{ExecutionPage, ExecutionQuery},
    record::{Ended, Entry, KeyRecord, LogRecord, Output, StepRecord},
    view::Execution,
};

/// Number of times that the records of an ended execution are read again for a restart.
pub(super) const READS: usize = 2;

pub(crate) type Answer<T> = oneshot::Sender<T>;

/// The reason why the lane cannot answer now. `None`: it can.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    pub(crate) fn set(&self, why: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn get(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A handle to the running workflows of a partition, in the process that owns it. Other processes give the same commands with
/// [`Inbox`](crate::Inbox). Cheap to clone.
pub struct Handle<R> {
    workflows: Arc<Workflows<R>>,
    inputs: UnboundedSender<Input>,
    trouble: Trouble,
    rewrites: Rewrites,
}

impl<R> Clone for Handle<R> {
    fn clone(&self) -> Self {
        Self {
            workflows: self.workflows.clone(),
            inputs: self.inputs.clone(),
            trouble: self.trouble.clone(),
            rewrites: self.rewrites.clone(),
        }
    }
}

/// The execution that a start has begun, or that its key had begun before.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Started {
    /// Id of the execution that has the key of the start.
    pub id: ExecutionId,
    /// Whether this start began it.
    pub new: bool,
    /// How it ended. `None`: it is live.
    pub outcome: Option<Outcome>,
}

impl<R: Runtime> Handle<R> {
    pub(crate) fn new(
        workflows: Arc<Workflows<R>>,
        inputs: UnboundedSender<Input>,
        trouble: Trouble,
        rewrites: Rewrites,
    ) -> Self {
        Self {
            workflows,
            inputs,
            trouble,
            rewrites,
        }
    }

    pub(super) fn workflows(&self) -> &Workflows<R> {
        &self.workflows
    }

    pub(super) fn no_answer(&self) -> AskError {
        let partition = self.workflows.partition.clone();
        match self.trouble.get() {
            Some(why) => AskError::Unreadable { partition, why },
            None => AskError::NotRunning(partition),
        }
    }

    async fn ask<T>(&self, input: impl FnOnce(Answer<T>) -> Input) -> Result<T, AskError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.inputs.unbounded_send(input(reply));
        sent.map_err(|_| self.no_answer())?;
        answer.await.map_err(|_| self.no_answer())
    }

    pub(super) async fn command(
        &self,
        command: Command,
        by: By,
        known: Option<KeyRecord>,
    ) -> Result<Reply, AskError> {
        let known = known.map(Box::new);
        let reply = self
            .ask(|reply| Input::Command(command, by, known, reply))
            .await?;
        match reply {
            Reply::Refused(refused) => Err(refused.into()),
            reply => Ok(reply),
        }
    }

    /// Starts an execution, or finds the one that the same key has started. Returns once it is durable.
    ///
    /// # Errors
    /// When the start does not fit, or the workflows are not running in this process. Nothing was started then.
    pub async fn start(&self, start: Start, by: By) -> Result<Started, AskError> {
        self.start_because(start, StartCause::Command, by).await
    }

    /// As [`start`](Self::start), for another reason than a command.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub async fn start_because(
        &self,
        start: Start,
        cause: StartCause,
        by: By,
    ) -> Result<Started, AskError> {
        self.start_in_chain(start, cause, Vec::new(), by).await
    }

    /// As [`start_because`](Self::start_because), after a chain of causes.
    pub(super) async fn start_in_chain(
        &self,
        start: Start,
        cause: StartCause,
        chain: Vec<String>,
        by: By,
    ) -> Result<Started, AskError> {
        let known = self.known(&start.workflow, start.key.as_deref()).await?;
        let command = Command::Start {
            start: Box::new(start),
            cause,
            chain,
        };
        match self.command(command, by, known).await? {
            Reply::Started { id, new, outcome } => Ok(Started { id, new, outcome }),
            _ => Err(self.no_answer()),
        }
    }

    /// Runs an operation under a name, once per key: the same key is the same execution, over restarts too. The execution has
    /// the labels of the operation. Returns once it is durable.
    ///
    /// # Errors
    /// When the operation cannot be compiled, calls a function that is not registered, or has the name of a registered
    /// workflow; when the key has started another operation; when the workflows are not running in this process.
    pub async fn run_operation(
        &self,
        name: impl Into<WorkflowName>,
        operation: &Operation,
        key: impl Into<Arc<str>>,
        by: By,
    ) -> Result<Started, AskError> {
        let start = Start::of(name).key(key);
        let functions = &self.workflows.settings.functions;
        let operation = Operated::new(&start.workflow, operation, |it| functions.contains_key(it))?;
        let known = self.known(&start.workflow, start.key.as_deref()).await?;
        let command = Command::Operate {
            start: Box::new(start),
            operation: Box::new(operation),
            cause: StartCause::Command,
        };
        match self.command(command, by, known).await? {
            Reply::Started { id, new, outcome } => Ok(Started { id, new, outcome }),
            _ => Err(self.no_answer()),
        }
    }

    /// Joins the live run of a workflow for an asset, or starts one. Returns once it is durable. A continuation gets the
    /// newest run for its content, if none is live.
    ///
    /// # Errors
    /// When the start does not fit, or the workflows are not running in this process.
    pub async fn join(&self, join: Join, by: By) -> Result<AssetRun, AskError> {
        let workflow = &join.start.workflow;
        let functions = &self.workflows.settings.functions;
        let operation = join.operation.as_ref();
        let operation = operation
            .map(|operation| Operated::new(workflow, operation, |it| functions.contains_key(it)))
            .transpose()?;
        let key = KeyRecord::of_asset(&join.asset);
        let known = self.known(workflow, Some(&key)).await?;
        let command = Command::Join(Box::new(join), operation.map(Box::new));
        match self.command(command, by, known).await? {
            Reply::Joined(run) => Ok(*run),
            _ => Err(self.no_answer()),
        }
    }

    /// The runs of a workflow for an asset.
    ///
    /// # Errors
    /// When the workflows are not running in this process.
    pub async fn runs(&self, workflow: &WorkflowName, asset: &AssetId) -> Result<Runs, AskError> {
        let key = KeyRecord::of_asset(asset);
        let known = self.known(workflow, Some(&key)).await?;
        let command = Command::Runs(workflow.clone(), asset.clone());
        match self.command(command, By::default(), known).await? {
            Reply::Runs(runs) => Ok(Runs::new(self.workflows.runtime.now().wall, runs)),
            _ => Err(self.no_answer()),
        }
    }

    /// What the store knows of the key of a start.
    async fn known(
        &self,
        workflow: &WorkflowName,
        key: Option<&str>,
    ) -> Result<Option<KeyRecord>, AskError> {
        match key {
            Some(key) => {
                Ok(recover::load_key(&self.workflows, &self.rewrites, workflow, key).await?)
            }
            None => Ok(None),
        }
    }

    /// Gives a word to a live execution. Returns once it is durable. A restart of one that has ended makes it live again.
    ///
    /// # Errors
    /// When the word does not fit; the error says what the execution waits for.
    pub async fn say(&self, execution: &ExecutionId, word: Say, by: By) -> Result<(), AskError> {
        if let Say::Restart(machines) = &word {
            return self.restart(execution, machines, &by).await;
        }
        let said = Command::Say(execution.clone(), word);
        self.command(said, by, None).await.map(drop)
    }

    /// Restarts an execution, live or ended. Other restarts may make it live, and let it end, while its records are read.
    async fn restart(
        &self,
        id: &ExecutionId,
        machines: &[MachineName],
        by: &By,
    ) -> Result<(), AskError> {
        let mut tries = 0..READS;
        loop {
            let said = Command::Say(id.clone(), Say::Restart(machines.to_vec()));
            let said = self.command(said, by.clone(), None).await.map(drop);
            let Err(AskError::Refused(Refused::NotLive(_))) = said else {
                return said;
            };
            let said = self.reopen(id, machines, by).await;
            let moved = matches!(
                said,
                Err(AskError::Unknown(_) | AskError::Refused(Refused::EndedAgain(_)))
            );
            if !moved || tries.next().is_none() {
                return said;
            }
        }
    }

    /// Restarts an execution that has ended.
    async fn reopen(
        &self,
        id: &ExecutionId,
        machines: &[MachineName],
        by: &By,
    ) -> Result<(), AskError> {
        let workflows = &self.workflows;
        let read = recover::ended(workflows, &self.rewrites, id).await;
        let read = read.map_err(|error| AskError::Unreadable {
            partition: workflows.partition.clone(),
            why: with_causes(&*error),
        })?;
        let read = read.ok_or_else(|| AskError::Unknown(id.clone()))?;
        let known = self.known(&id.workflow, read.live.key.as_deref()).await?;
        let command = Command::Reopen(Box::new(read), machines.to_vec());
        self.command(command, by.clone(), known).await?;
        Ok(())
    }

    /// A live execution: its machines and what they wait for. `None`: it is not live.
    ///
    /// # Errors
    /// When the workflows are not running in this process.
    pub async fn live(&self, execution: &ExecutionId) -> Result<Option<Execution>, AskError> {
        match self
            .command(Command::Show(execution.clone()), By::default(), None)
            .await?
        {
            Reply::Shown(shown) => Ok(shown.map(|shown| *shown)),
            _ => Err(self.no_answer()),
        }
    }

    /// A page of live executions, in the order of their numbers.
    ///
    /// # Errors
    /// When the workflows are not running in this process.
    pub async fn live_page(&self, query: &ExecutionQuery) -> Result<ExecutionPage, AskError> {
        let command = Command::ShowPage(Box::new(query.clone()));
        match self.command(command, By::default(), None).await? {
            Reply::Page(page) => Ok(page),
            _ => Err(self.no_answer()),
        }
    }

    /// Hands out all live executions that a query asks for, page by page, with the largest pages. Each is as it was when its
    /// page was read.
    ///
    /// # Errors
    /// When the workflows are not running in this process, or stop between two pages.
    pub async fn each_live(
        &self,
        query: &ExecutionQuery,
        mut each: impl FnMut(Execution),
    ) -> Result<(), AskError> {
        let mut next = Some(query.clone().limit(ExecutionQuery::MAX_LIMIT));
        while let Some(query) = next {
            let page = self.live_page(&query).await?;
            page.executions.into_iter().for_each(&mut each);
            next = page.next.map(|number| query.after(number));
        }
        Ok(())
    }

    /// An execution that has ended. `None`: it is live, or is not kept any more.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn ended(&self, execution: &ExecutionId) -> Result<Option<Ended>, AskError> {
        let (store, partition) = (&*self.workflows.store, &self.workflows.partition);
        let ended = record::load::<Ended>(store, partition, &execution.to_string()).await?;
        Ok(ended.map(|ended| ended.value))
    }

    /// Waits until an execution has ended.
    ///
    /// # Errors
    /// [`AskError::NotYet`] if it has not within this time, [`AskError::Unknown`] if there is no such execution.
    pub async fn wait(&self, execution: &ExecutionId, within: Duration) -> Result<Ended, AskError> {
        let runtime = &self.workflows.runtime;
        let until = runtime.now().mono + within;
        let ends = self.ask(|reply| Input::Ends(execution.clone(), reply));
        match timeout_at(runtime, until, ends).await {
            None => Err(AskError::NotYet(execution.clone())),
            Some(answer) => match answer? {
                Some(ended) => Ok(ended),
                None => {
                    let ended = self.ended(execution).await?;
                    ended.ok_or_else(|| AskError::Unknown(execution.clone()))
                }
            },
        }
    }

    /// The log of an execution, oldest entry first, as far as it is kept.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn log(&self, execution: &ExecutionId) -> Result<Vec<Entry>, AskError> {
        let (store, partition) = (&*self.workflows.store, &self.workflows.partition);
        let all =
            record::load_prefix::<LogRecord>(store, partition, &format!("{execution} ")).await?;
        Ok(all
            .into_iter()
            .flat_map(|(_, stored)| stored.value.0)
            .collect())
    }

    /// The output that a machine of an execution has left. `None`: it left none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn output(
        &self,
        execution: &ExecutionId,
        machine: &MachineName,
    ) -> Result<Option<serde_json::Value>, AskError> {
        let (store, partition) = (&*self.workflows.store, &self.workflows.partition);
        let name = StepRecord::name(execution, machine);
        let output = record::load::<Output>(store, partition, &name).await?;
        Ok(output.map(|output| output.value.output))
    }

    /// The incarnations that calls in flight read and that watches need, which retention must spare.
    ///
    /// # Errors
    /// When the workflows are not running in this process.
    pub async fn referenced(&self) -> Result<Vec<IncarnationNo>, AskError> {
        self.ask(Input::Referenced).await
    }
}

impl<R> std::fmt::Debug for Handle<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle")
            .field("workflows", &self.workflows)
            .finish_non_exhaustive()
    }
}
