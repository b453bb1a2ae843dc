//! Passes each event to its change, and collects the effects.

use std::collections::BTreeSet;

use control_plane_runtime::{Kernel as _, Runtime};
use plugin_sdk::{
    BoxError, Finding, Follow, Health, Holder, Judgement, Pin, RolloutId, Standing, SyncState,
    port::{SettleEnd, WaitNo},
};
use prodspec_model::{Asset, AssetId, Incarnation, snapshot};

use super::{
    Input, Strategist,
    changes::{Answer, Change},
    groups::Groups,
    steps::{HandedOver, Work},
};
use crate::{
    bug::{Bug, planted},
    change::{BESIDE, Fields, Intent, Out, PlannedTarget, Stored},
    kernel::{Effects, Event, Kernel, Taken},
    line::StoppedLine,
    record::State,
};

/// A change that begins, or continues after a takeover.
pub(super) struct Begun {
    intent: Intent,
    fields: Fields,
    pub(super) kernel: Kernel,
    effects: Effects,
}

impl Begun {
    /// The change beside the newest incarnation, while the line is as given.
    ///
    /// # Errors
    /// When its stored data cannot be read.
    pub(super) fn of<R: Runtime>(
        strategist: &Strategist<R>,
        (latest, line): (&Incarnation, Option<StoppedLine>),
        stored: &Stored,
        first_call: u64,
    ) -> Result<Self, BoxError> {
        let now = strategist.runtime.now();
        let intent = Intent::of(stored, latest)?;
        let fields = Fields::of(stored, &intent, now.mono, first_call);
        let mut recovered = intent.recovered(stored);
        recovered.ties = fields.ties();
        recovered.line = line;
        let found = stored.record.change.on.find(latest.snapshot());
        let found = found.map(|asset| asset.id());
        let known: BTreeSet<&AssetId> = fields.targets().chain(&stored.record.beside).collect();
        recovered.expected = found.filter(|id| !known.contains(id)).collect();
        let mut effects = Effects::default();
        let (config, types) = (strategist.config.clone(), strategist.types.clone());
        let kernel = Kernel::recover(now, config, types, recovered, &mut effects);
        Ok(Self {
            intent,
            fields,
            kernel,
            effects,
        })
    }
}

impl<R: Runtime> Groups<R> {
    /// Begins a change, or continues it after a takeover.
    ///
    /// # Errors
    /// When its stored data cannot be read.
    pub(super) fn begin_change(&mut self, stored: &Stored) -> Result<(), BoxError> {
        let number = stored.record.number;
        if self.changes.has_begun(&stored.rollout.policy, number) {
            return Ok(());
        }
        let (latest, line) = (&self.latest, self.line.clone());
        let first_call = self.changes.first_call();
        let begun = Begun::of(&self.strategist, (latest, line), stored, first_call)?;
        let Begun {
            intent,
            fields,
            kernel,
            effects,
        } = begun;
        let key = stored.rollout.policy.clone();
        let targets = fields.targets().cloned().collect();
        self.changes.follow.push(Follow::Assets(targets));
        let mut record = stored.record.clone();
        let matches = |asset: Asset| record.change.on.matches(&asset);
        let is_there = |id: &AssetId| self.latest.asset(id).is_some_and(matches);
        // Those that have gone while there was no owner come anew.
        record.beside.retain(is_there);
        let change = Change {
            record,
            holder: stored.holder(),
            intent,
            fields,
            foreseen: None,
            has_ended: false,
            taken: Taken::new(),
        };
        self.changes.add(&key, kernel, change);
        self.collect_change(&key, effects);
        self.note_gone(&key);
        self.go_on_with(&key);
        Ok(())
    }

    /// R102: an answer or a standing of a change that finds an asset unhealthy which another change moved later is no
    /// verdict on this one.
    fn suspended(&self, key: &AssetId, event: &mut Event) {
        match event {
            Event::Judged {
                answer: Ok(health), ..
            } if health.judgement == Judgement::Unhealthy => {
                if let Some(other) = self.changes.last_mover(key) {
                    let why =
                        format!("unhealthy, and `{other}` was the last to change these assets");
                    let finding = Finding::new(Judgement::Unknown, why).validator("other changes");
                    *health = Health::found(health.as_of, finding);
                }
            }
            Event::Standings(standings) => {
                for (asset, standing) in standings {
                    let unhealthy = matches!(standing.state, SyncState::Unhealthy { .. });
                    let other = || self.changes.last_mover(key);
                    let is_shared = || self.changes.is_shared(key, asset);
                    if unhealthy && is_shared() && other().is_some() {
                        standing.state = SyncState::out_of_sync(self.strategist.runtime.now().wall);
                    }
                }
            }
            _ => {}
        }
    }

    /// Passes an event to the rollout of a change.
    pub(super) fn step_change(&mut self, key: &AssetId, mut event: Event) {
        let now = self.strategist.runtime.now();
        self.suspended(key, &mut event);
        let Some(kernel) = self.changes.kernels.get_mut(key) else {
            return;
        };
        let mut effects = Effects::default();
        kernel.step(now, event, &mut effects);
        self.collect_change(key, effects);
    }

    /// R102: passes to each change which domains the others have taken, if that has changed.
    pub(super) fn note_taken(&mut self) {
        if !self.changes.any_is_alone() {
            return;
        }
        let now = self.strategist.runtime.now();
        for (key, taken) in self.changes.taken(now) {
            let known = self.changes.all.get_mut(&key).map(|it| &mut it.taken);
            if let Some(known) = known.filter(|known| **known != taken) {
                known.clone_from(&taken);
                self.step_change(&key, Event::Taken(taken));
            }
        }
    }

    fn collect_change(&mut self, key: &AssetId, effects: Effects) {
        self.collect_with(key, effects, None);
    }

    /// Takes over the effects of a change's kernel. Its pins are moved by edits, and its head and its end are its own. The first
    /// step is made durable together with `records`.
    pub(super) fn collect_with(
        &mut self,
        key: &AssetId,
        mut effects: Effects,
        mut records: Option<HandedOver>,
    ) {
        for mut step in std::mem::take(&mut effects.steps) {
            step.head = None;
            let moves = std::mem::take(&mut step.moves);
            self.log_step(&step);
            match records.take() {
                Some(records) => self.work.push(Work::HandOver(key.clone(), step, records)),
                None if step.is_empty() => {}
                None => self.work.push(Work::Step(key.clone(), step)),
            }
            if let Some(sender) = self.changes.sender.clone().filter(|_| !moves.is_empty()) {
                let moved = Input::Moved(key.clone(), moves);
                // If the strategist has ended, the next owner finds the moves in the records.
                self.work
                    .push(Work::then(move || drop(sender.unbounded_send(moved))));
            }
        }
        effects.released.clear();
        self.perform(key, effects);
        self.note_end(key);
    }

    /// Gives up the fields of a change whose rollout has ended, once that is durable.
    fn note_end(&mut self, key: &AssetId) {
        let newest = self.changes.kernels.get(key).and_then(Kernel::newest);
        let over = newest.is_some_and(|rollout| {
            rollout.state.has_ended() && !matches!(rollout.state, State::Superseded { .. })
        });
        let is_back = newest.is_some_and(|it| matches!(it.state, State::RolledBack { .. }));
        let Some(change) = self.changes.all.get_mut(key) else {
            return;
        };
        if !over || std::mem::replace(&mut change.has_ended, true) {
            return;
        }
        let targets = change.fields.targets().cloned().collect();
        let over = Input::Over(vec![change.holder.clone()]);
        if let Some(sender) = self.changes.sender.clone() {
            // In this order: once the fields are free, the next change of the name may have records of the same targets.
            self.work.push(Work::Forget(key.clone(), targets));
            let give_up = move || drop(sender.unbounded_send(over));
            self.work.push(Work::then(give_up));
        }
        self.note_changes();
        let beside = self.changes.beside(key).into_iter();
        for other in beside.filter(|_| is_back) {
            self.step_change(&other, Event::TakenBack);
        }
    }

    /// Passes to each group whether changes of its assets are live, if that has changed.
    pub(super) fn note_changes(&mut self) {
        let busy = self.changes.groups(&self.latest);
        let before = std::mem::replace(&mut self.changes.busy, busy.clone());
        for policy in busy.symmetric_difference(&before) {
            self.step(policy, Event::Changes(busy.contains(policy)));
        }
    }

    /// Passes an event to the fields of a change, and the consequences to its rollout.
    fn with_fields(&mut self, key: &AssetId, event: impl FnOnce(&mut Fields, &Intent, &mut Out)) {
        let Some(change) = self.changes.all.get_mut(key) else {
            return;
        };
        let mut out = Out::default();
        event(&mut change.fields, &change.intent, &mut out);
        let calls = out.calls.into_iter().map(|call| (key.clone(), call));
        self.changes.calls.extend(calls);
        if !out.standings.is_empty() {
            self.step_change(key, Event::Standings(out.standings));
        }
        for asset in out.left {
            self.leave_change(key, asset);
        }
    }

    /// A target leaves a change: its field is another program's or a person's now.
    fn leave_change(&mut self, key: &AssetId, asset: AssetId) {
        let since = self.strategist.runtime.now().wall;
        let Some(change) = self.changes.all.get_mut(key) else {
            return;
        };
        change.foreseen = None;
        let gone = Standing::at(Pin::Default, None, SyncState::InSync { since });
        let took = Event::Took {
            latest: change.intent.leaves(&asset),
            changed: vec![asset.clone()],
            // In the same event: the kernel must not look for a newer rollout in between.
            come: vec![(asset.clone(), gone)],
        };
        if self.latest.asset(&asset).is_some() {
            tracing::info!(partition = %self.strategist.partition, change = %key, %asset, "a person or another program has set a field of a change; the change leaves the asset alone from now on");
        }
        self.step_change(key, took);
        if self.changes.sender.is_none() {
            return;
        }
        if self.latest.asset(&asset).is_some() {
            self.pass_over(key, vec![asset.clone()]);
        }
        self.work.push(Work::Forget(key.clone(), vec![asset]));
    }

    /// Assets that match the filter of a change, and do not become its targets again: a person has set their fields, or
    /// they have the values already.
    fn pass_over(&mut self, key: &AssetId, assets: Vec<AssetId>) {
        self.with_beside(key, |beside| beside.extend(assets.iter().cloned()));
        self.came(key, Vec::new(), assets);
    }

    fn with_beside(&mut self, key: &AssetId, edit: impl FnOnce(&mut BTreeSet<AssetId>)) {
        let Some(change) = self.changes.all.get_mut(key) else {
            return;
        };
        let before = change.record.beside.len();
        edit(&mut change.record.beside);
        if change.record.beside.len() != before {
            let record = Box::new(change.record.clone());
            self.work.push(Work::Change(key.clone(), record));
        }
    }

    pub(super) fn came(&mut self, key: &AssetId, come: Vec<AssetId>, gone: Vec<AssetId>) {
        let now = self.strategist.runtime.now();
        let kernel = self.changes.kernels.get(key);
        if !come.is_empty() && !kernel.is_some_and(|kernel| kernel.admits(now)) {
            // Too late. They are remembered as far as there is room for them.
            self.with_beside(key, |beside| {
                let room = BESIDE.saturating_sub(beside.len());
                beside.extend(come.iter().take(room).cloned());
            });
        }
        if !come.is_empty() || !gone.is_empty() {
            self.step_change(key, Event::Came { come, gone });
        }
    }

    /// Assets that have come join the change that holds their fields, or are passed over.
    pub(super) fn arrived(
        &mut self,
        (key, holder, rollout): (&AssetId, &Holder, RolloutId),
        targets: &[PlannedTarget],
        beside: Vec<AssetId>,
    ) {
        let change = self.changes.all.get(key);
        if change.is_some_and(|it| !it.has_ended && it.holder == *holder) {
            if change.is_some_and(|it| it.record.is_over(rollout)) {
                // It was handed over to other values meanwhile. They come again.
                let assets = targets.iter().map(|it| it.before.id()).collect();
                return self.work.push(Work::Forget(key.clone(), assets));
            }
            if planted(Bug::PassesOver) {
                return self.pass_over(key, targets.iter().map(|it| it.before.id()).collect());
            }
            self.join_change(key, targets);
            let latest = &self.latest;
            let there = beside.into_iter().filter(|id| latest.asset(id).is_some());
            self.pass_over(key, there.collect());
            self.note_gone(key);
            return self.note_changes();
        }
        // It has ended meanwhile.
        if change.is_none() {
            let assets = targets.iter().map(|it| it.before.id()).collect();
            self.work.push(Work::Forget(key.clone(), assets));
        }
        let over = Input::Over(vec![holder.clone()]);
        if let Some(sender) = self.changes.sender.clone() {
            self.work
                .push(Work::then(move || drop(sender.unbounded_send(over))));
        }
    }

    /// Adds assets that came to a live change. Before this, their fields were reserved and their records written.
    fn join_change(&mut self, key: &AssetId, targets: &[PlannedTarget]) {
        let now = self.strategist.runtime.now();
        let Some(change) = self.changes.all.get_mut(key) else {
            return;
        };
        change.foreseen = None;
        let joins = match change.intent.join(targets) {
            Ok(joins) => joins,
            Err(error) => {
                tracing::error!(partition = %self.strategist.partition, change = %key, error = &*error as &dyn std::error::Error, "failed to read assets that join a change; the next owner of the partition adds them");
                return;
            }
        };
        let mut out = Out::default();
        change.fields.join(targets, &mut out);
        let assets: Vec<AssetId> = targets.iter().map(|it| it.before.id()).collect();
        let ties = change.fields.ties();
        self.changes.follow.push(Follow::Assets(assets));
        self.step_change(key, Event::Joined { joins, ties });
        self.with_fields(key, |fields, intent, all| {
            *all = out;
            fields.go_on(now, intent, all);
        });
    }

    pub(super) fn moved(&mut self, key: &AssetId, moves: &[(AssetId, Pin)]) {
        let now = self.strategist.runtime.now();
        self.with_fields(key, |fields, intent, out| {
            fields.moved(now, intent, moves, out)
        });
    }

    pub(super) fn answered(&mut self, key: &AssetId, answer: Answer) {
        let now = self.strategist.runtime.now();
        self.with_fields(key, |fields, intent, out| match answer {
            Answer::Edited(call, id, made) => fields.edited(now, intent, (call, id), made, out),
            Answer::Looked(call, id, left) => fields.looked(now, intent, (call, id), left, out),
        });
    }

    pub(super) fn settled(&mut self, wait: WaitNo, end: SettleEnd) {
        let now = self.strategist.runtime.now();
        if let Some((key, call)) = self.changes.waits.remove(&wait) {
            self.with_fields(&key, |fields, intent, out| {
                fields.settled(now, intent, call, end, out)
            });
        }
    }

    /// Passes standings to the changes whose targets they are about.
    pub(super) fn stand_changes(&mut self, standings: &[(AssetId, Standing)]) {
        let now = self.strategist.runtime.now();
        for key in self.changes.all.keys().cloned().collect::<Vec<_>>() {
            self.with_fields(&key, |fields, intent, out| {
                for (asset, standing) in standings {
                    fields.stands(now, intent, asset, standing, out);
                }
                fields.go_on(now, intent, out);
            });
        }
    }

    /// Passes a newer incarnation to the changes: their policies may be others, and assets may have come and gone.
    pub(super) fn took_changes(&mut self, changed: &[snapshot::Change]) {
        for key in self.changes.all.keys().cloned().collect::<Vec<_>>() {
            let Some(change) = self.changes.all.get_mut(&key) else {
                continue;
            };
            change.foreseen = None;
            if let Some(latest) = change.intent.took(&self.latest) {
                let (changed, come) = (Vec::new(), Vec::new());
                self.step_change(
                    &key,
                    Event::Took {
                        latest,
                        changed,
                        come,
                    },
                );
            }
            self.note_come(&key, changed);
            self.note_gone(&key);
        }
        self.note_changes();
    }

    /// Assets that match the filter of a change now may join it.
    fn note_come(&mut self, key: &AssetId, changed: &[snapshot::Change]) {
        let Some(change) = self.changes.all.get(key) else {
            return;
        };
        let (mut come, mut gone) = (Vec::new(), Vec::new());
        for one in changed {
            let (id, filter) = (one.id(), &change.record.change.on);
            let matches = |of: &Option<Asset>| of.as_ref().is_some_and(|it| filter.matches(it));
            let known = change.fields.is_target(&id) || change.record.beside.contains(&id);
            match (matches(&one.before), matches(&one.after)) {
                (false, true) if !known => come.push(id),
                (true, false) => gone.push(id),
                _ => {}
            }
        }
        self.with_beside(key, |beside| beside.retain(|id| !gone.contains(id)));
        self.came(key, come, gone);
    }

    /// Targets that are not in the newest incarnation leave the change.
    fn note_gone(&mut self, key: &AssetId) {
        let Some(change) = self.changes.all.get(key) else {
            return;
        };
        let targets = change.fields.targets();
        let gone = targets.filter(|id| self.latest.asset(id).is_none());
        let gone: Vec<AssetId> = gone.cloned().collect();
        self.with_fields(key, |fields, _, out| fields.gone(&gone, out));
    }

    pub(super) fn tick_changes(&mut self) {
        let now = self.strategist.runtime.now();
        for key in self.changes.all.keys().cloned().collect::<Vec<_>>() {
            let wake = self.changes.kernels.get(&key).and_then(Kernel::next_wake);
            if wake.is_some_and(|at| at <= now.mono) {
                self.step_change(&key, Event::Tick);
            }
            self.go_on_with(&key);
        }
    }

    fn go_on_with(&mut self, key: &AssetId) {
        let now = self.strategist.runtime.now();
        self.with_fields(key, |fields, intent, out| fields.go_on(now, intent, out));
    }
}
