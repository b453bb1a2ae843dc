//! The world around the kernel.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use plugin_sdk::{
    By, Dispatch, DispatchRequest, Standing,
    operation::{EffectKey, ExecutionId, Fence, Probed, Ran, Start, StartCause},
    plugin,
    port::{Made, SettleRequest, Settlement},
    testing,
};
use prodspec_model::{AssetId, Incarnation};

use super::{stored::Stored, *};
use crate::{
    cron::Wanted,
    record::{Ended, KeyRecord},
    view, watch,
};

/// A call in flight.
#[derive(Debug, Clone)]
pub(super) struct InFlight {
    pub(super) function: Arc<str>,
    pub(super) key: EffectKey,
    pub(super) fence: Fence,
    pub(super) run: Run,
}

/// A kernel, with the store, the clock and the functions around it.
pub(super) struct World {
    pub(super) kernel: Lane,
    settings: Settings,
    pub(super) stored: Stored,
    /// Commits that are not durable yet, oldest first.
    pending: Vec<(CommitNo, bool, Vec<Record>)>,
    pub(super) now: Now,
    token: u64,
    /// The end of the lease.
    fresh_until: Mono,
    pub(super) calls: BTreeMap<CallNo, InFlight>,
    pub(super) probes: BTreeMap<CallNo, EffectKey>,
    pub(super) dispatches: BTreeMap<CallNo, DispatchRequest>,
    pub(super) edits: BTreeMap<CallNo, PreparedEdit>,
    pub(super) settles: BTreeMap<CallNo, SettleRequest>,
    pub(super) released: Vec<String>,
    pub(super) abandoned: BTreeSet<CallNo>,
    replies: BTreeMap<ReplyNo, Reply>,
    next_reply: u64,
    commits: usize,
    pub(super) urgent: usize,
    pub(super) intent: BTreeMap<AssetId, Wanted>,
    pub(super) watches: BTreeMap<AssetId, watch::Wanted>,
    /// The newest last.
    pub(super) sealed: Vec<Incarnation>,
    /// The assets that the kernel follows.
    pub(super) followed: BTreeSet<AssetId>,
    /// The standing of each asset.
    pub(super) standings: BTreeMap<AssetId, Standing>,
}

impl World {
    pub(super) fn new(
        workflows: impl IntoIterator<Item = Workflow>,
        functions: impl IntoIterator<Item = Function>,
    ) -> Self {
        let settings = Settings {
            workflows: workflows
                .into_iter()
                .map(|it| (it.name().clone(), it))
                .collect(),
            functions: functions
                .into_iter()
                .map(|it| (it.info.name.clone(), it))
                .collect(),
            ..Settings::default()
        };
        Self::with_settings(settings)
    }

    pub(super) fn with_settings(settings: Settings) -> Self {
        let now = Now {
            mono: Mono(1_000_000_000),
            wall: "2026-03-04T12:00:00Z".parse::<Timestamp>().unwrap(),
        };
        let kernel = Lane::recover(
            settings.clone(),
            FencingToken(1),
            Recovered::default(),
            Some(testing::incarnation(1, [])),
            now,
            &mut Effects::default(),
        );
        let mut world = Self {
            kernel,
            settings,
            stored: Stored::default(),
            pending: Vec::new(),
            now,
            token: 1,
            fresh_until: now.mono,
            calls: BTreeMap::new(),
            probes: BTreeMap::new(),
            dispatches: BTreeMap::new(),
            edits: BTreeMap::new(),
            settles: BTreeMap::new(),
            released: Vec::new(),
            abandoned: BTreeSet::new(),
            replies: BTreeMap::new(),
            next_reply: 0,
            commits: 0,
            urgent: 0,
            intent: BTreeMap::new(),
            watches: BTreeMap::new(),
            sealed: vec![testing::incarnation(1, [])],
            followed: BTreeSet::new(),
            standings: BTreeMap::new(),
        };
        world.lease(Duration::from_secs(1 << 30));
        world.tell();
        world
    }

    #[cfg(feature = "planted-bugs")]
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn step(&mut self, event: Event) {
        let mut effects = Effects::default();
        self.kernel.step(self.now, event, &mut effects);
        self.take(effects);
    }

    fn take(&mut self, effects: Effects) {
        assert_eq!(effects.violation, None);
        if let Some(commit) = effects.commit {
            self.commits += 1;
            self.urgent += usize::from(effects.urgent);
            self.pending.push((commit, effects.urgent, effects.records));
        }
        self.replies.extend(effects.replies);
        self.follow(effects.follow);
        for call in effects.calls {
            match call {
                Call::Run(no, run) => {
                    assert!(
                        self.now.mono < self.fresh_until,
                        "{} without a lease",
                        run.key
                    );
                    self.judge(&run);
                    let in_flight = InFlight {
                        function: run.function.clone(),
                        key: run.key.clone(),
                        fence: run.fence,
                        run: *run,
                    };
                    self.calls.insert(no, in_flight);
                }
                Call::Edit(no, edit) => drop(self.edits.insert(no, *edit)),
                Call::Settle(no, request) => drop(self.settles.insert(no, *request)),
                Call::Release(holder) => self.released.push(holder.to_string()),
                Call::Probe(no, _, key) => drop(self.probes.insert(no, key)),
                Call::Dispatch(no, request) => drop(self.dispatches.insert(no, *request)),
                Call::Abandon(no) => {
                    self.abandoned.insert(no);
                    self.calls.remove(&no);
                    self.probes.remove(&no);
                    self.dispatches.remove(&no);
                    self.edits.remove(&no);
                    self.settles.remove(&no);
                }
            }
        }
    }

    /// What has to hold of every call: its attempt is durable unless the function is safe, and the first one of an action is
    /// enabled by the states that are known.
    fn judge(&self, run: &Run) {
        let function = &self.settings.functions[&run.function].info;
        let id = &run.key.execution;
        let step = self.stored.steps.get(&(id.clone(), run.key.step.clone()));
        if function.repeat != Repeat::Safe {
            let durable = step.map(|step| {
                (
                    step.run,
                    step.attempt,
                    step.call.as_ref().map(|call| call.token.0),
                )
            });
            let expected = (run.key.run, run.fence.attempt, Some(self.token));
            assert_eq!(
                durable,
                Some(expected),
                "{} is called before its attempt is durable",
                run.key
            );
        }
        assert!(
            !self.stored.ended.contains_key(id),
            "{id} has ended and calls {}",
            run.function
        );
        if function.repeat != Repeat::Safe && run.fence.attempt == 1 {
            let live = &self.stored.live[id];
            let workflow = &self.stored.definitions[&live.origin.definition];
            let mut position = workflow.first();
            for ((_, machine), step) in self.stored.steps.iter().filter(|((of, _), _)| of == id) {
                let machine = workflow.machine_no(machine).unwrap();
                position.set(machine, workflow.state_no(machine, &step.state).unwrap());
            }
            if live.cancelled.is_some() {
                position.cancel();
            }
            let machine = workflow.machine_no(&run.key.step).unwrap();
            assert!(
                workflow.is_enabled(machine, &position),
                "{} is called but not enabled",
                run.key
            );
        }
    }

    /// Makes everything durable.
    pub(super) fn sync(&mut self) {
        while !self.pending.is_empty() {
            let (commit, _, records) = self.pending.remove(0);
            records
                .into_iter()
                .for_each(|record| self.stored.apply(record));
            self.step(Event::Durable(commit));
        }
    }

    /// The process dies, and another owner takes over. What is not durable is lost.
    pub(super) fn crash(&mut self) {
        self.token += 1;
        self.pending.clear();
        self.calls.clear();
        self.probes.clear();
        self.edits.clear();
        self.settles.clear();
        self.dispatches.clear();
        self.followed.clear();
        let mut effects = Effects::default();
        self.kernel = Lane::recover(
            self.settings.clone(),
            FencingToken(self.token),
            self.stored.recovered(&self.sealed),
            self.sealed.last().cloned(),
            self.now,
            &mut effects,
        );
        self.take(effects);
        self.lease(Duration::from_secs(1 << 30));
        self.tell();
    }

    /// Another owner takes over, whose keys have this identity. What is not durable is lost.
    pub(super) fn own_as(&mut self, identity: KeyIdentity) {
        self.settings.identity = identity;
        self.crash();
    }

    pub(super) fn lease(&mut self, time: Duration) {
        self.fresh_until = self.now.mono + time;
        self.step(Event::Lease(self.now.mono + time));
    }

    /// Lets time pass, with a tick at each time at which the kernel wants one.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.mono + time;
        while let Some(next) = self.kernel.next_wake().filter(|next| *next <= end) {
            let next = next.max(self.now.mono);
            self.now.wall += next.since(self.now.mono);
            self.now.mono = next;
            self.step(Event::Tick);
        }
        self.now.wall += end.since(self.now.mono);
        self.now.mono = end;
    }

    pub(super) fn hear(&mut self, command: Command) -> Reply {
        let no = ReplyNo(self.next_reply);
        self.next_reply += 1;
        let name = match &command {
            Command::Start { start, .. } | Command::Operate { start, .. } => {
                Some((&start.workflow, start.key.clone()))
            }
            Command::Reopen(ended, _) => Some((&ended.id.workflow, ended.live.key.clone())),
            Command::Join(join, _) => {
                let key = KeyRecord::of_asset(&join.asset);
                Some((&join.start.workflow, Some(key)))
            }
            Command::Runs(workflow, asset) => Some((workflow, Some(KeyRecord::of_asset(asset)))),
            _ => None,
        };
        let known = name.and_then(|(workflow, key)| {
            let name = KeyRecord::name(workflow, &key?);
            self.stored.keys.get(&name).cloned()
        });
        self.step(Event::Heard {
            command,
            by: By::new("ann", "test"),
            known: known.map(Box::new),
            reply: no,
        });
        self.replies.remove(&no).unwrap()
    }

    pub(super) fn start_with(&mut self, start: Start) -> Reply {
        self.hear(Command::Start {
            start: Box::new(start),
            cause: StartCause::Command,
            chain: Vec::new(),
        })
    }

    /// Starts a workflow under a key and returns the execution.
    pub(super) fn start(&mut self, workflow: &str, key: &str) -> ExecutionId {
        match self.start_with(Start::of(workflow).key(key)) {
            Reply::Started { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn say(&mut self, execution: &ExecutionId, word: Say) -> Reply {
        self.hear(Command::Say(execution.clone(), word))
    }

    /// Restarts machines of an execution that has ended.
    pub(super) fn reopen(&mut self, id: &ExecutionId, machines: &[&str]) -> Reply {
        let ended = self.read_ended(id);
        let machines = machines.iter().map(|it| (*it).into()).collect();
        self.hear(Command::Reopen(ended, machines))
    }

    /// What the store has of an execution that has ended.
    pub(super) fn read_ended(&self, id: &ExecutionId) -> Box<RecoveredExecution> {
        Box::new(self.stored.execution(id, &self.stored.ended[id].live))
    }

    /// Whether no step of a live execution has memory for what it has only around its attempts, and each edit is packed.
    pub(super) fn rests_without_memory(&self, workflow: &str, key: &str) -> bool {
        let name = (workflow.into(), key.into());
        let execution = &self.kernel.live[&self.kernel.keys[&name]];
        execution
            .steps
            .values()
            .all(|step| !step.rare.takes_memory() && step.edit.is_packed())
    }

    /// The functions that are called now, sorted.
    pub(super) fn called(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.calls.values().map(|call| &*call.function).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn call_of(&self, function: &str) -> Option<CallNo> {
        let mut calls = self.calls.iter();
        calls
            .find(|(_, call)| &*call.function == function)
            .map(|(no, _)| *no)
    }

    /// Answers the call of a function.
    pub(super) fn answer(
        &mut self,
        function: &str,
        answer: Result<Ran, plugin::Error>,
    ) -> InFlight {
        let no = self
            .call_of(function)
            .unwrap_or_else(|| panic!("{function} is not called, but {:?}", self.called()));
        let call = self.calls.remove(&no).unwrap();
        if let Ok(Ran::Done(answer)) = &answer {
            let keys = answer
                .starts
                .iter()
                .filter_map(|start| Some(KeyRecord::name(&start.workflow, start.key.as_ref()?)));
            let known = keys.filter_map(|name| self.stored.keys.get(&name).cloned());
            self.step(Event::Known(known.collect()));
        }
        self.step(Event::Answered(no, answer));
        call
    }

    /// Answers the edit that is asked for.
    pub(super) fn edited(&mut self, answer: Result<Made, plugin::Error>) -> PreparedEdit {
        let (no, edit) = self.edits.pop_first().unwrap();
        self.step(Event::Edited(no, answer));
        edit
    }

    /// Answers the wait for the assets of an edit.
    pub(super) fn settled(&mut self, answer: Result<Settlement, plugin::Error>) -> SettleRequest {
        let (no, request) = self.settles.pop_first().unwrap();
        self.step(Event::Settled(no, answer));
        request
    }

    pub(super) fn probed(&mut self, answer: Probed) {
        let no = self.probes.pop_first().unwrap().0;
        self.step(Event::Probed(no, Ok(answer)));
    }

    pub(super) fn probe_fails(&mut self, why: &str) {
        let (no, _) = self.probes.pop_first().unwrap();
        self.step(Event::Probed(no, Err(plugin::Error::permanent(why))));
    }

    pub(super) fn dispatched(&mut self, answer: impl Fn(&DispatchRequest) -> Dispatch) {
        while let Some((no, request)) = self.dispatches.pop_first() {
            self.step(Event::Dispatched(no, Ok(answer(&request))));
        }
    }

    /// Answers the questions that the dispatch stack has now, but not those that follow from the answers.
    pub(super) fn dispatched_once(&mut self, answer: impl Fn(&DispatchRequest) -> Dispatch) {
        for (no, request) in std::mem::take(&mut self.dispatches) {
            self.step(Event::Dispatched(no, Ok(answer(&request))));
        }
    }

    pub(super) fn with(&mut self, function: Function) {
        let functions = &mut self.settings.functions;
        functions.insert(function.info.name.clone(), function);
    }

    pub(super) fn with_workflow(&mut self, workflow: Workflow) {
        let workflows = &mut self.settings.workflows;
        workflows.insert(workflow.name().clone(), workflow);
    }

    pub(super) fn without_workflow(&mut self, workflow: &str) {
        self.settings.workflows.remove(&workflow.into());
    }

    pub(super) fn without(&mut self, function: &str) {
        self.settings.functions.remove(function);
    }

    pub(super) fn commits(&self) -> usize {
        self.commits
    }

    pub(super) fn last_commit(&self) -> &[Record] {
        &self.pending.last().unwrap().2
    }

    fn id(&self, workflow: &str, key: &str) -> ExecutionId {
        self.stored.keys[&KeyRecord::name(&workflow.into(), key)]
            .execution
            .clone()
    }

    pub(super) fn shown(&mut self, workflow: &str, key: &str) -> view::Execution {
        let id = self.id(workflow, key);
        match self.hear(Command::Show(id)) {
            Reply::Shown(Some(shown)) => *shown,
            other => panic!("{other:?}"),
        }
    }

    /// How an execution has ended. `None`: it is live.
    pub(super) fn outcome(&mut self, workflow: &str, key: &str) -> Option<Outcome> {
        self.sync();
        let id = self.id(workflow, key);
        let ended = self.stored.ended.get(&id);
        ended.map(|ended| ended.outcome.clone())
    }

    pub(super) fn ended(&mut self, workflow: &str, key: &str) -> &Ended {
        self.sync();
        let id = self.id(workflow, key);
        &self.stored.ended[&id]
    }

    pub(super) fn ended_count(&self) -> usize {
        self.stored.ended.len()
    }

    pub(super) fn live(&self) -> usize {
        self.stored.live.len()
    }

    pub(super) fn log(&self, workflow: &str, key: &str) -> Vec<crate::record::Entry> {
        let id = self.id(workflow, key);
        let logs = self.stored.logs.iter().filter(|((of, _), _)| *of == id);
        logs.flat_map(|(_, log)| log.0.clone()).collect()
    }
}
