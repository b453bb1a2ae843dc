//! Starts of executions.

use std::sync::Arc;

use plugin_sdk::{
    By, Now,
    operation::{AssetRun, ExecutionId, KeyIdentity, Start, StartCause},
    workflow::{StateName, WorkflowName},
};

use prodspec_model::{AssetId, Digest, operation::History};
use serde_json::Value;

use super::{
    Bug, CHAIN, Lane,
    event::{Command, CommitNo, Effects, Record, Reply, digest},
    log::LogHead,
    origins::Origins,
    refused::Refused,
    sparse::Sparse,
    state::{About, Execution, ExecutionNo, Phase, Step, StepId},
    text::cut,
};
use crate::{
    definition::{MachineNo, Outcome, Workflow},
    record::{Changed, Entry, KeyRecord, LaneRecord, Live, Origin, What},
};

/// An execution to start.
pub(super) struct Starting {
    pub(super) start: Start,
    pub(super) workflow: Workflow,
    /// The digest of the operation from which the workflow is compiled. `None`: it is a registered workflow.
    pub(super) operation: Option<Digest>,
    pub(super) cause: StartCause,
    pub(super) chain: Vec<String>,
    /// If it runs for an asset, its runs, with this one last.
    pub(super) runs: Vec<AssetRun>,
    /// The assets that it is about, for a run of a watch.
    pub(super) changed: Option<Changed>,
    /// How many runs of its schedule or watch are kept.
    pub(super) history: Option<History>,
}

impl Starting {
    /// The execution before its first step.
    fn execution(
        self,
        now: Now,
        id: ExecutionId,
        by: &By,
        watch: Option<AssetId>,
        identity: KeyIdentity,
        origins: &mut Origins,
    ) -> Execution {
        let start = self.start;
        let origin = Origin {
            definition: self.workflow.digest(),
            operation: self.operation,
            by: by.clone(),
            cause: self.cause,
            chain: self.chain,
            watch,
            labels: start.labels,
            identity,
            history: self.history,
        };
        let live = Live {
            origin: origins.shared(origin),
            key: start.key,
            started: now.wall,
            cancelled: None,
            terminated: None,
            paused: None,
            waits: false,
            given_up: false,
            claims: Box::default(),
            bound: None,
            ends: 0,
        };
        Execution {
            id,
            position: self.workflow.first(),
            workflow: self.workflow,
            live,
            input: Sparse::of(start.input),
            about: About::of(self.runs, self.changed),
            start: None,
            steps: Default::default(),
            context: Default::default(),
            transitions: 0,
            log: LogHead::default(),
            taken_over: false,
            started_in: CommitNo::default(),
        }
    }
}

impl Lane {
    /// Starts an execution, or finds the one that its key has started.
    pub(super) fn start(
        &mut self,
        now: Now,
        command: Command,
        by: &By,
        known: Option<Box<KeyRecord>>,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        let Command::Start {
            start,
            cause,
            chain,
        } = command
        else {
            return Ok(Reply::Taken);
        };
        start.check()?;
        if let Some(found) = self.found(&start, None, known)? {
            return Ok(found);
        }
        let workflow = self.settings.workflows.get(&start.workflow).cloned();
        let workflow = workflow.ok_or_else(|| self.no_workflow(&start.workflow))?;
        let starting = Starting {
            start: *start,
            workflow,
            operation: None,
            cause,
            chain,
            runs: Vec::new(),
            changed: None,
            history: None,
        };
        self.start_new(now, starting, by, out)
    }

    /// Starts an execution that was not started before.
    pub(super) fn start_new(
        &mut self,
        now: Now,
        starting: Starting,
        by: &By,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        if self.latest.is_none() {
            return Err(Refused::NoIntent);
        }
        if self.live.len() >= self.settings.config.live {
            return Err(Refused::TooMany(self.live.len()));
        }
        if starting.chain.len() > CHAIN {
            let chain = starting.chain.join(" > ");
            return Err(Refused::Loop { chain });
        }
        // Executions of a workflow share its name in memory.
        let id = self.next_id(starting.workflow.name());
        if let Some(changed) = &starting.changed {
            out.records
                .push(Record::Changed(id.clone(), changed.clone()));
        }
        let watch = self.watch_behind(&starting.cause);
        let (identity, origins) = (self.settings.identity, &mut self.origins);
        let execution = starting.execution(now, id.clone(), by, watch, identity, origins);
        self.begin_execution(now, execution, out);
        Ok(Reply::Started {
            id,
            new: true,
            outcome: None,
        })
    }

    /// The id of the execution that starts next.
    pub(super) fn next_id(&self, workflow: &WorkflowName) -> ExecutionId {
        ExecutionId::new(workflow.clone(), self.next_execution)
    }

    /// The execution that the key of a start has started before.
    pub(super) fn found(
        &self,
        start: &Start,
        operation: Option<Digest>,
        known: Option<Box<KeyRecord>>,
    ) -> Result<Option<Reply>, Refused> {
        let Some(key) = &start.key else {
            return Ok(None);
        };
        let name = (start.workflow.clone(), key.clone());
        let live = self.live_under(&name);
        let keeps = !self.planted(Bug::CollectKeys);
        let recent = self.recent.get(&name).filter(|_| keeps);
        let (id, input, outcome) = match (live, recent, known.filter(|_| keeps)) {
            (Some(live), ..) => (
                live.id.clone(),
                digest(&live.input, live.live.origin.operation),
                None,
            ),
            (None, Some(recent), _) => (
                recent.execution.clone(),
                recent.input,
                recent.outcome.clone(),
            ),
            (None, None, Some(known)) => {
                (known.execution.clone(), known.input, known.outcome.clone())
            }
            (None, None, None) => return Ok(None),
        };
        match input == digest(&start.input, operation) {
            true => Ok(Some(Reply::Started {
                id,
                new: false,
                outcome,
            })),
            false => Err(Refused::OtherInput(id)),
        }
    }

    pub(super) fn no_workflow(&self, name: &WorkflowName) -> Refused {
        let known: Vec<&str> = self
            .settings
            .workflows
            .keys()
            .map(WorkflowName::as_str)
            .collect();
        Refused::UnknownWorkflow(name.clone(), known.join(", "))
    }

    fn begin_execution(&mut self, now: Now, mut execution: Execution, out: &mut Effects) {
        execution.started_in = CommitNo(self.commit.0 + 1);
        let no = ExecutionNo(self.next_execution);
        self.next_execution += 1;
        let next = self.next_execution;
        // A step of the kernel may start several executions; the last number counts.
        out.records
            .retain(|record| !matches!(record, Record::Lane(_)));
        out.records.push(Record::Lane(LaneRecord { next }));
        if self.stored.insert(execution.workflow.digest()) {
            let definition = execution.workflow.clone();
            out.records.push(Record::Definition(definition));
        }
        let id = execution.id.clone();
        if !execution.input.is_null() {
            let input = Value::clone(&execution.input);
            out.records.push(Record::Input(id.clone(), input));
        }
        if let Some(record) = execution.key_record(None) {
            self.keys
                .insert((record.workflow.clone(), record.key.clone()), no);
            out.records.push(Record::Key(Box::new(record)));
        }
        let started = Entry {
            at: now.wall,
            machine: None,
            what: What::Started(execution.live.origin.by.clone()),
        };
        self.log.entry(no).or_default().push(started);
        let machines: Vec<_> = execution.workflow.numbers().collect();
        let waits = self.is_gated(&execution);
        self.live.insert(no, Box::new(execution));
        self.live_changed.insert(no);
        out.urgent = true;
        match waits {
            true => self.await_start(now, no, out),
            false => self.look_at(no, machines),
        }
    }

    /// Starts the child execution of a step and waits for its end. The key is that of the step, so it is started once.
    pub(super) fn start_child(
        &mut self,
        now: Now,
        id: StepId,
        workflow: &WorkflowName,
        out: &mut Effects,
    ) {
        let Some(execution) = self.live.get(&id.execution) else {
            return;
        };
        let by = execution.live.origin.by.clone();
        let command = execution.child(id.machine, workflow);
        match self.start(now, command, &by, None, out) {
            Ok(Reply::Started {
                id: child,
                outcome: None,
                ..
            }) => self.enter(now, id, Phase::Child(Box::new(child)), None),
            Ok(Reply::Started {
                id: child,
                outcome: Some(outcome),
                ..
            }) => self.child_was(now, id, &child, &outcome),
            Err(Refused::UnknownWorkflow(name, _)) => {
                let name = Arc::from(name.as_str());
                self.missing(now, id, name);
            }
            Err(Refused::TooMany(_)) => {
                let why = super::state::Why::NoDispatch("too many executions are live".into());
                self.enter(
                    now,
                    id,
                    Phase::Delayed(why),
                    Some(now.mono + super::DISPATCH),
                );
            }
            refused => {
                let why = match refused {
                    Err(refused) => refused.to_string(),
                    Ok(_) => "the start was not answered".to_owned(),
                };
                if let Some(step) = self.step_mut(id) {
                    step.rare.error = Some(cut(why));
                }
                self.conclude(now, id, &StateName::from(StateName::FAILED));
            }
        }
        self.changed(id);
    }

    /// Tells the step that waits for a child execution how it ended.
    pub(super) fn child_ended(
        &mut self,
        now: Now,
        parent: &ExecutionId,
        child: &ExecutionId,
        outcome: &Outcome,
        out: &mut Effects,
    ) {
        let Some(no) = self.no_of(parent) else {
            return;
        };
        let Some(execution) = self.live.get(&no) else {
            return;
        };
        let waits = |step: &Step| matches!(&step.phase, Phase::Child(it) if **it == *child);
        let machine = execution.steps.iter().find(|(_, step)| waits(step));
        let Some((machine, _)) = machine else {
            return;
        };
        let id = StepId {
            execution: no,
            machine,
        };
        match self
            .step_mut(id)
            .and_then(|step| step.rare.older_child.take())
        {
            // The new run was waiting for it.
            Some(_) => {
                self.go_on(now, id, out);
                self.changed(id);
            }
            None => self.child_was(now, id, child, outcome),
        }
    }

    fn child_was(&mut self, now: Now, id: StepId, child: &ExecutionId, outcome: &Outcome) {
        let succeeded = *outcome == Outcome::Succeeded;
        if let Some(step) = self.step_mut(id).filter(|_| !succeeded) {
            step.rare.error = Some(format!("{child} {outcome}"));
        }
        let outcome = if succeeded {
            StateName::DONE
        } else {
            StateName::FAILED
        };
        self.conclude(now, id, &StateName::from(outcome));
    }
}

impl Execution {
    /// The record of its key. `None`: it has none.
    pub(super) fn key_record(&self, outcome: Option<Outcome>) -> Option<KeyRecord> {
        Some(KeyRecord {
            workflow: self.id.workflow.clone(),
            key: self.live.key.clone()?,
            execution: self.id.clone(),
            input: digest(&self.input, self.live.origin.operation),
            outcome,
            until: None,
            runs: self.about.runs.clone(),
        })
    }

    /// The start of the child execution of a machine.
    fn child(&self, machine: MachineNo, workflow: &WorkflowName) -> Command {
        let input = self.action(machine).map(|action| action.input.clone());
        let mut start = Start::of(workflow.clone()).input(input.unwrap_or_default());
        let key = self.key(machine);
        let moves = self.steps.at(machine).map_or(0, |step| step.transitions);
        // A machine may start several children in one run, one after the other.
        start.key = Some(match moves {
            0 => key.to_string().into(),
            _ => format!("{key} {moves}").into(),
        });
        start.labels = self.live.origin.labels.clone();
        let mut chain = self.live.origin.chain.clone();
        chain.push(self.id.to_string());
        Command::Start {
            start: Box::new(start),
            cause: StartCause::Parent(self.id.clone()),
            chain,
        }
    }
}
