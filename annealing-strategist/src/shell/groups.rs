//! All policy groups of a partition: passes each event to its group, and collects the effects of all kernels.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use control_plane_runtime::{Kernel as _, Runtime};
use plugin_sdk::{GroupHead, Mono, Pin, Standing};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, snapshot::Change};

use super::{
    Strategist,
    calls::Goals,
    changes::Changes,
    handle::Reply,
    kernels::{Kernels, unknown, without_rollouts},
    logged::Logged,
    recover::Group,
    steps::Work,
    waiting::Waiting,
};
use crate::{
    group::{examined, policy_of},
    kernel::{Call, Command, Effects, Event, Heads, Kernel, Record, Refused, Step, View},
    line::StoppedLine,
    preview::Course,
    record::{By, Rollout},
    train::Carried,
};

/// The standings to report to each group, by its policy asset.
pub(super) type Pending = BTreeMap<AssetId, Vec<(AssetId, Standing)>>;

/// All policy groups, with the data that they share.
pub(super) struct Groups<R> {
    pub(super) strategist: Arc<Strategist<R>>,
    pub(super) kernels: Kernels,
    pub(super) changes: Changes,
    pub(super) latest: Incarnation,
    /// The head of every group that has one.
    heads: Heads,
    /// The groups that are stages of trains of heads.
    pub(super) carried: Carried,
    /// Set while the line is stopped.
    pub(super) line: Option<StoppedLine>,
    /// The last reported standings of assets with a pin of their own, for groups that such an asset joins.
    stands: BTreeMap<AssetId, Standing>,
    /// Assets that rollouts have let go. They are passed on to their new groups once all groups have processed their
    /// events.
    released: Vec<(AssetId, Vec<AssetId>)>,
    asked: BTreeMap<u64, Reply<Result<(), Refused>>>,
    replies: u64,
    /// Log lines about rollouts. `None`: a rehearsal, which logs nothing.
    logged: Option<Logged>,
    /// Callers that wait for a group to come to rest.
    pub(super) waiting: Waiting,
    /// Steps and answers that the shell has to process in order.
    pub(super) work: Vec<Work>,
    pub(super) calls: Vec<(AssetId, Call)>,
}

impl<R: Runtime> Groups<R> {
    pub(super) fn new(
        strategist: Arc<Strategist<R>>,
        latest: Incarnation,
        heads: Heads,
        pins: Vec<(AssetId, Standing)>,
    ) -> Self {
        Self {
            strategist,
            kernels: BTreeMap::new(),
            changes: Changes::default(),
            carried: Carried::default(),
            latest,
            heads,
            line: None,
            stands: pins.into_iter().collect(),
            released: Vec::new(),
            asked: BTreeMap::new(),
            replies: 0,
            logged: Some(Logged::default()),
            waiting: Waiting::default(),
            work: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// Logs nothing about rollouts from now on.
    pub(super) fn quiet(mut self) -> Self {
        self.logged = None;
        self
    }

    /// Adds groups with their stored data. All of them exist before any passes assets on, because an asset may move
    /// to any of them.
    pub(super) fn add(&mut self, groups: Vec<Group>) {
        self.bring(groups);
        self.pass_all_on();
    }

    fn bring(&mut self, groups: Vec<Group>) {
        let added: Vec<_> = groups
            .into_iter()
            .map(|group| self.recover(group))
            .collect();
        let mut moved = BTreeSet::new();
        for (policy, effects) in added {
            self.perform(&policy, effects);
            if self.note_head(&policy) {
                moved.insert(policy);
            }
        }
        self.tell_heads(&moved);
    }

    fn recover(&mut self, mut group: Group) -> (AssetId, Effects) {
        group.recovered.heads = self.heads.clone();
        group.recovered.line = self.line.clone();
        group.recovered.has_changes = self.changes.busy.contains(&group.recovered.policy);
        let policy = group.recovered.policy.clone();
        if let (Some(logged), Some(newest)) = (&mut self.logged, &group.recovered.newest) {
            logged.recovered(newest);
        }
        if group.adopted {
            let step = Step {
                head: group.recovered.head.clone(),
                ..Step::default()
            };
            self.work.push(Work::Step(policy.clone(), step));
        }
        let mut effects = Effects::default();
        let kernel = Kernel::recover(
            self.strategist.runtime.now(),
            self.strategist.config.clone(),
            self.strategist.types.clone(),
            group.recovered,
            &mut effects,
        );
        self.kernels.insert(policy.clone(), kernel);
        (policy, effects)
    }

    /// Passes one event to one group, then passes on the assets that it lets go.
    pub(super) fn step(&mut self, policy: &AssetId, event: Event) {
        self.tell(policy, event);
        self.pass_all_on();
    }

    pub(super) fn tell(&mut self, policy: &AssetId, event: Event) {
        let now = self.strategist.runtime.now();
        let Some(kernel) = self.kernels.get_mut(policy) else {
            return;
        };
        let mut effects = Effects::default();
        kernel.step(now, event, &mut effects);
        self.collect(policy, effects);
    }

    pub(super) fn tick(&mut self) {
        self.tick_changes();
        let now = self.strategist.runtime.now().mono;
        let due = |kernel: &Kernel| kernel.next_wake().is_some_and(|at| at <= now);
        let due = self.kernels.iter().filter(|(_, kernel)| due(kernel));
        let due: Vec<AssetId> = due.map(|(policy, _)| policy.clone()).collect();
        for policy in due {
            self.step(&policy, Event::Tick);
        }
    }

    pub(super) fn next_wake(&self) -> Option<Mono> {
        let groups = self.kernels.values().filter_map(Kernel::next_wake);
        groups.chain(self.changes.next_wake()).min()
    }

    pub(super) fn person(
        &mut self,
        policy: &AssetId,
        command: Command,
        by: By,
        reply: Reply<Result<(), Refused>>,
    ) {
        let is_change = self.changes.has(policy);
        if !is_change && !self.kernels.contains_key(policy) {
            return drop(reply.send(Err(unknown(policy, &self.kernels))));
        }
        self.replies += 1;
        let number = self.replies;
        self.asked.insert(number, reply);
        let event = Event::Command {
            command,
            by,
            reply: number,
        };
        match is_change {
            true => self.step_change(policy, event),
            false => self.step(policy, event),
        }
    }

    /// Stops the line, or lets it go on.
    pub(super) fn set_line(
        &mut self,
        line: Option<StoppedLine>,
        reply: Reply<Result<(), Refused>>,
    ) {
        let line = match line.map(StoppedLine::fit).transpose().map_err(Refused) {
            Ok(line) => line,
            Err(refused) => return drop(reply.send(Err(refused))),
        };
        let mut except = line.iter().flat_map(|line| &line.except);
        let has_rollouts = |key: &AssetId| {
            let kernel = self.kernels.get(key);
            kernel.is_some_and(|kernel| !kernel.is_by_edits()) || self.changes.has(key)
        };
        if let Some(other) = except.find(|key| !has_rollouts(key)) {
            let why = without_rollouts(other, &self.kernels, &self.changes.kernels);
            return drop(reply.send(Err(why)));
        }
        self.line = line.clone();
        self.work.push(Work::Line(line.clone()));
        for policy in self.kernels.keys().cloned().collect::<Vec<_>>() {
            self.step(&policy, Event::Line(line.clone()));
        }
        for key in self.changes.kernels.keys().cloned().collect::<Vec<_>>() {
            self.step_change(&key, Event::Line(line.clone()));
        }
        self.work.push(Work::tell(reply, Ok(())));
    }

    /// The incarnations at which the targets of a live rollout get their contents.
    pub(super) fn goals(&mut self, key: &AssetId) -> Option<Goals> {
        let latest = &self.latest;
        if let Some(change) = self.changes.all.get_mut(key) {
            return Some(Goals::Change(change.foreseen(latest)));
        }
        let kernel = self.kernels.get(key)?;
        Some(Goals::Group {
            to: kernel.rolls_out()?.clone(),
            latest: kernel.latest().clone(),
        })
    }

    /// The live rollout of a group or a change, to play it.
    pub(super) fn course(&self, key: &AssetId) -> Result<Course, Refused> {
        let changes = &self.changes.kernels;
        let kernel = self.kernels.get(key).or_else(|| changes.get(key));
        let kernel = kernel.ok_or_else(|| unknown(key, &self.kernels))?;
        kernel.course(self.strategist.runtime.now())
    }

    pub(super) fn views(&self) -> Vec<View> {
        let now = self.strategist.runtime.now();
        let kernels = self.kernels.values().chain(self.changes.kernels.values());
        kernels.map(|kernel| kernel.view(now)).collect()
    }

    pub(super) fn referenced(&self) -> Vec<IncarnationNo> {
        let kernels = self.kernels.values().chain(self.changes.kernels.values());
        kernels.flat_map(Kernel::referenced).collect()
    }

    /// Answers the callers that waited for a group that has come to rest.
    pub(super) fn rest(&mut self) {
        let Self {
            waiting,
            latest,
            kernels,
            work,
            ..
        } = self;
        waiting.look(latest, kernels, work);
        let Changes {
            waiting, kernels, ..
        } = &mut self.changes;
        waiting.look(latest, kernels, work);
        self.changes.answer_arrivals();
        self.changes.drop_ended();
    }

    /// Takes in a newer incarnation, and tells each group which of its assets change. Returns all changes.
    pub(super) fn took(&mut self, newer: Incarnation) -> Vec<Change> {
        let older = std::mem::replace(&mut self.latest, newer.clone());
        let mut changed: BTreeMap<AssetId, Vec<AssetId>> = BTreeMap::new();
        let (mut before, mut come) = (Vec::new(), Pending::new());
        let all = older.snapshot().diff(newer.snapshot());
        self.carried.change(&all);
        for change in &all {
            let id = change.id();
            let was = change.before.as_ref().and_then(policy_of);
            let is = self.group_of(&id);
            // If another group's rollout still holds the asset, its group is told when that rollout lets go.
            let stays = change.after.as_ref().and_then(policy_of) == was;
            if let Some(policy) = was.clone().filter(|was| !stays && is.as_ref() != Some(was))
                && self.kernels.contains_key(&policy)
            {
                changed.entry(policy).or_default().push(id.clone());
            }
            // The group that the asset will belong to has to exist when the asset is passed on.
            let named = change.after.as_ref().and_then(policy_of);
            for policy in named.iter().chain(&is) {
                changed.entry(policy.clone()).or_default();
                if change.before.is_some() {
                    before.push(policy.clone());
                }
            }
            let Some(policy) = is else { continue };
            if was.as_ref() != Some(&policy) {
                self.hand_over(&policy, &id, &mut come);
            }
            changed.entry(policy).or_default().push(id);
        }
        self.found(&older, &before, (&mut changed, &mut come));
        self.tell_took(&older, changed, come);
        self.pass_all_on();
        all
    }

    /// Creates the groups of assets that change which do not exist. `before`: the groups of assets that existed in `older`.
    fn found(
        &mut self,
        older: &Incarnation,
        before: &[AssetId],
        (changed, come): (&mut BTreeMap<AssetId, Vec<AssetId>>, &mut Pending),
    ) {
        for policy in changed.keys().cloned().collect::<Vec<_>>() {
            if self.kernels.contains_key(&policy) {
                continue;
            }
            // Assets that existed before keep their content: the group begins with the older incarnation as its head.
            let head = before.contains(&policy).then(|| older.clone());
            let group = match self.carried.has(&policy) {
                // It notes its changes below, and takes them in when the train lets it.
                true => {
                    let mut group = Group::new(policy, older.clone(), head);
                    group.recovered.sealed = Some(self.latest.clone());
                    group
                }
                false => {
                    let mut group = Group::new(policy.clone(), self.latest.clone(), head);
                    group.recovered.pins = come.remove(&policy).unwrap_or_default();
                    group.recovered.pending = changed.remove(&policy).unwrap_or_default();
                    group
                }
            };
            self.bring(vec![group]);
        }
    }

    /// Passes each standing to the group of its asset.
    pub(super) fn standings_changed(&mut self, standings: Vec<(AssetId, Standing)>) {
        let mut told = Pending::new();
        for (asset, standing) in standings {
            match standing.pin {
                Pin::Default => drop(self.stands.remove(&asset)),
                _ => drop(self.stands.insert(asset.clone(), standing.clone())),
            }
            if let Some(policy) = self.group_of(&asset) {
                told.entry(policy).or_default().push((asset, standing));
            }
        }
        for (policy, standings) in told {
            self.step(&policy, Event::Standings(standings));
        }
    }

    /// Adds the last standing of an asset that joins another group: enforcement does not report it again.
    pub(super) fn hand_over(&self, policy: &AssetId, asset: &AssetId, to: &mut Pending) {
        if let Some(standing) = self.stands.get(asset) {
            let told = to.entry(policy.clone()).or_default();
            told.push((asset.clone(), standing.clone()));
        }
    }

    /// Returns the group that an asset belongs to: the one whose rollout holds it, or else the one that governs it.
    pub(super) fn group_of(&self, asset: &AssetId) -> Option<AssetId> {
        let holds = |(_, kernel): &(&AssetId, &Kernel)| kernel.owns(&self.latest, asset);
        if let Some((policy, _)) = self.kernels.iter().find(holds) {
            return Some(policy.clone());
        }
        let says = self.latest.asset(asset).as_ref().and_then(policy_of);
        says.or_else(|| {
            let governs = |(_, kernel): &(&AssetId, &Kernel)| kernel.names(&self.latest, asset);
            let found = self.kernels.iter().find(governs);
            found.map(|(policy, _)| policy.clone())
        })
    }

    pub(super) fn log_step(&mut self, step: &Step) {
        for record in &step.records {
            if let Record::Rollout(rollout) = record {
                self.log(rollout);
            }
        }
    }

    fn log(&mut self, rollout: &Rollout) {
        if let Some(logged) = &mut self.logged {
            logged.tell(&self.strategist.partition, rollout);
        }
    }

    /// Takes over the effects of a kernel. If its head has moved, tells the other groups.
    fn collect(&mut self, policy: &AssetId, effects: Effects) {
        self.perform(policy, effects);
        if self.note_head(policy) {
            self.tell_heads(&[policy.clone()].into());
        }
    }

    pub(super) fn perform(&mut self, policy: &AssetId, effects: Effects) {
        for step in &effects.steps {
            self.log_step(step);
        }
        let steps = effects.steps.into_iter().filter(|step| !step.is_empty());
        self.work
            .extend(steps.map(|step| Work::Step(policy.clone(), step)));
        self.calls
            .extend(effects.calls.into_iter().map(|call| (policy.clone(), call)));
        for (number, answer) in effects.replies {
            if let Some(reply) = self.asked.remove(&number) {
                self.work.push(Work::tell(reply, answer));
            }
        }
        if !effects.released.is_empty() {
            self.released.push((policy.clone(), effects.released));
        }
    }

    /// Remembers the head of a group. Returns whether it has moved.
    fn note_head(&mut self, policy: &AssetId) -> bool {
        let head = self.kernels.get(policy).and_then(Kernel::head);
        let known = self.heads.get(policy).map(GroupHead::by_number);
        let Some(head) = head.filter(|head| known != Some(head.by_number())) else {
            return false;
        };
        let head = head.clone();
        Arc::make_mut(&mut self.heads).insert(policy.clone(), head);
        true
    }

    /// Tells each group once that the heads of `moved`, as far as those are other groups, have moved.
    fn tell_heads(&mut self, moved: &BTreeSet<AssetId>) {
        let by_another = |policy: &&AssetId| moved.iter().any(|other| other != *policy);
        let told = self.kernels.keys().filter(by_another).cloned();
        let told: Vec<AssetId> = told.collect();
        examined(told.len());
        for policy in told {
            self.tell(&policy, Event::Heads(self.heads.clone()));
        }
    }

    pub(super) fn pass_all_on(&mut self) {
        while let Some((policy, released)) = self.released.pop() {
            self.pass_on(&policy, released);
        }
    }

    /// Passes on assets that a rollout has let go and that another group governs now.
    fn pass_on(&mut self, policy: &AssetId, released: Vec<AssetId>) {
        let mut others: BTreeMap<AssetId, Vec<AssetId>> = BTreeMap::new();
        let mut come = Pending::new();
        for asset in released {
            if let Some(other) = self.group_of(&asset).filter(|other| other != policy) {
                self.hand_over(&other, &asset, &mut come);
                others.entry(other).or_default().push(asset);
            }
        }
        for (other, changed) in others {
            let Some(kernel) = self.kernels.get(&other) else {
                continue;
            };
            let took = Event::Took {
                latest: kernel.latest().clone(),
                changed,
                come: come.remove(&other).unwrap_or_default(),
            };
            self.tell(&other, took);
        }
    }
}
