//! Passes each event to its change, and collects the effects.

use control_plane_runtime::{Kernel as _, Runtime};
use plugin_sdk::{
    BoxError, Finding, Follow, Health, Judgement, Pin, Standing, SyncState,
    port::{SettleEnd, WaitNo},
};
use prodspec_model::AssetId;

use super::{
    Input,
    changes::{Answer, Change},
    groups::Groups,
    steps::Work,
};
use crate::{
    change::{Fields, Intent, Out, Stored},
    kernel::{Effects, Event, Kernel},
    record::State,
};

impl<R: Runtime> Groups<R> {
    /// Begins a change, or continues it after a takeover.
    ///
    /// # Errors
    /// When its stored data cannot be read.
    pub(super) fn begin_change(&mut self, stored: &Stored) -> Result<(), BoxError> {
        if self.changes.has(&stored.rollout.policy) {
            return Ok(());
        }
        let now = self.strategist.runtime.now();
        let intent = Intent::of(stored, &self.latest)?;
        let fields = Fields::of(stored, &intent, now.mono, self.changes.first_call());
        let key = stored.rollout.policy.clone();
        let mut recovered = intent.recovered(stored);
        recovered.ties = fields.ties();
        let mut effects = Effects::default();
        let (config, types) = (
            self.strategist.config.clone(),
            self.strategist.types.clone(),
        );
        let kernel = Kernel::recover(now, config, types, recovered, &mut effects);
        let targets = fields.targets().cloned().collect();
        self.changes.follow.push(Follow::Assets(targets));
        let change = Change {
            holder: stored.holder(),
            intent,
            fields,
            has_ended: false,
        };
        self.changes.kernels.insert(key.clone(), kernel);
        self.changes.all.insert(key.clone(), change);
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

    fn collect_change(&mut self, key: &AssetId, mut effects: Effects) {
        for step in &mut effects.steps {
            // The head is the change's own, and its end.
            step.head = None;
        }
        for step in std::mem::take(&mut effects.steps) {
            let mut step = step;
            let moves = std::mem::take(&mut step.moves);
            let one = Effects {
                steps: vec![step],
                ..Effects::default()
            };
            self.perform(key, one);
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
        let Some(change) = self.changes.all.get_mut(key) else {
            return;
        };
        if !over || std::mem::replace(&mut change.has_ended, true) {
            return;
        }
        let targets = change.fields.targets().cloned().collect();
        let over = Input::Over(change.holder.clone());
        if let Some(sender) = self.changes.sender.clone() {
            let give_up = move || drop(sender.unbounded_send(over));
            self.work.push(Work::then(give_up));
            self.work.push(Work::Forget(key.clone(), targets));
        }
        self.note_changes();
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
        let gone = Standing::at(Pin::Default, None, SyncState::InSync { since });
        let took = Event::Took {
            latest: change.intent.leaves(&asset),
            changed: vec![asset.clone()],
            // In the same event: the kernel must not look for a newer rollout in between.
            come: vec![(asset.clone(), gone)],
        };
        tracing::info!(partition = %self.strategist.partition, change = %key, %asset, "a person or another program has set a field of a change; the change leaves the asset alone from now on");
        self.step_change(key, took);
        if self.changes.sender.is_some() {
            self.work.push(Work::Forget(key.clone(), vec![asset]));
        }
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

    /// Passes a newer incarnation to the changes: their policies may be others.
    pub(super) fn took_changes(&mut self) {
        for key in self.changes.all.keys().cloned().collect::<Vec<_>>() {
            let Some(change) = self.changes.all.get_mut(&key) else {
                continue;
            };
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
            self.note_gone(&key);
        }
        self.note_changes();
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
