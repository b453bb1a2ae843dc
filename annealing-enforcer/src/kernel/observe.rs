//! Observations: diffs of an asset for a check of another asset. Checks share them, and each carries a stamp.

use std::collections::VecDeque;

use plugin_sdk::{Diff, Mono, Now, Observation, Run, Stamp, observe::Error, plugin};
use prodspec_model::{Asset, AssetId, Digest, Incarnation, addons::DependsOn};

use super::{
    Kernel,
    branch::Branch,
    event::{Call, Effects, Target},
    retry::STOOD_STILL,
    state::{
        attempt::{Attempt, Phase},
        numbers::SlotNo,
        numbers::TypeNo,
        observations::{Asker, Finding, Queued, Running},
    },
};
use crate::bug::Bug;

impl Kernel {
    /// Answers a check's question about `id`, or starts an observation.
    pub(super) fn observe(&mut self, now: Now, ticket: u64, id: &AssetId, out: &mut Effects) {
        let id = &self.present_id(id.clone());
        match self.table.find(id.as_str()) {
            Some(slot) => self.observe_slot(now, Asker::Check(ticket), slot, out),
            None => out.replies.push((ticket, Err(self.unknown(id)))),
        }
    }

    /// The reason why an asset without a slot cannot be observed. Enforced assets of the newest incarnation have a slot.
    fn unknown(&self, id: &AssetId) -> Error {
        match self.table.latest().asset(id) {
            Some(_) => Error::ModelledOnly,
            None => Error::Gone,
        }
    }

    /// Answers a question of a check or a survey about an asset, or starts an observation.
    pub(super) fn observe_slot(&mut self, now: Now, asker: Asker, slot: SlotNo, out: &mut Effects) {
        match self.observation_of(slot) {
            Ok((asset, _)) if !self.is_observable(slot, &asset) => {
                let why = Error::failed(super::without_plugin::why(asset.type_str()));
                self.answer(now, vec![asker], &Err(why), out);
            }
            Err(why) => self.answer(now, vec![asker], &Err(why), out),
            Ok((asset, incarnation)) => self.observe_asset(
                now,
                Queued {
                    askers: vec![asker],
                    slot,
                    asset,
                    incarnation,
                    until: now.mono + self.config.check_deadline,
                },
                out,
            ),
        }
    }

    /// Returns the content of an asset to diff (R16): the one at its own pin; without an intent, the newest known one.
    fn observation_of(&self, slot: SlotNo) -> Result<(Asset, Incarnation), Error> {
        if self.planted(Bug::JudgeAtConsumer)
            && let Some(there) = self.at_consumer(slot)
        {
            return Ok(there);
        }
        if let Some(intent) = self.table.intent(slot) {
            return Ok(intent);
        }
        if let Some(there) = self.table.elsewhere(slot) {
            return Ok((there.asset.clone(), there.last.clone()));
        }
        let latest = self.table.latest().clone();
        // The slot was given up, or no incarnation in use has the asset.
        let id = self.table.id(slot).ok_or(Error::Gone)?;
        let asset = latest.asset(&id).ok_or(Error::Gone)?;
        Ok((asset, latest))
    }

    /// Returns the content of a provider at the incarnation of a consumer that is being checked. Only a planted bug uses
    /// it.
    fn at_consumer(&self, slot: SlotNo) -> Option<(Asset, Incarnation)> {
        let id = self.table.id(slot)?;
        let checked = |it: &&Attempt| matches!(it.phase, Phase::Checking);
        let uses = |it: &Attempt| {
            let consumer = it.incarnation.asset(&self.table.id(it.slot)?)?;
            let mut edges = DependsOn::edges_of(&consumer).into_iter();
            edges.find(|edge| edge.provider.id == id)
        };
        let mut consumers = self.attempts.iter().filter(checked);
        let consumer = consumers.find(|it| uses(it).is_some())?;
        let there = consumer.incarnation.asset(&id);
        let there = there.filter(|asset| self.table.enforces(asset))?;
        Some((there, consumer.incarnation.clone()))
    }

    /// Passes the result of an observation to all askers.
    fn answer(
        &mut self,
        now: Now,
        askers: Vec<Asker>,
        found: &Result<Observation, Error>,
        out: &mut Effects,
    ) {
        for asker in askers {
            match asker {
                Asker::Check(ticket) => out.replies.push((ticket, found.clone())),
                Asker::Survey(shared) => self.surveyed(now, &shared, out),
            }
        }
    }

    fn observe_asset(&mut self, now: Now, asked: Queued, out: &mut Effects) {
        let slot = self.table.slot(asked.slot);
        // An edit may have given the asset another type, and so another plugin.
        let kind = self.kind_of(asked.asset.type_str()).unwrap_or(slot.kind);
        let seq = slot.seq;
        let stamp = Stamp {
            slot: asked.slot.bare(),
            seq,
        };
        let cause = self.cause_of(asked.slot);
        let not_yet = self.table.is_not_yet(asked.slot);
        if slot.in_flight() || self.old_id_of(asked.slot).is_some() {
            self.count(Branch::ObservedInFlight);
            let diff = Diff::InProgress {
                check_again_in: self.config.backoff_base,
            };
            let found = Observation {
                diff,
                stamp,
                as_of: now.wall,
                cause,
                not_yet,
            };
            self.answer(now, asked.askers, &Ok(found), out);
            return;
        }
        let content = asked.asset.digest();
        let not_before = now.mono - self.config.observation_ttl;
        if let Some(fresh) = self
            .observations
            .reusable(asked.slot, seq, content, not_before)
        {
            let found = Observation {
                diff: fresh.diff.clone(),
                stamp,
                as_of: fresh.as_of,
                cause,
                not_yet,
            };
            self.answer(now, asked.askers, &Ok(found), out);
            self.count(Branch::ObservationShared);
            return;
        }
        let Some(asked) = self.share(kind, seq, content, asked) else {
            return self.count(Branch::ObservationShared);
        };
        self.kinds[kind.index()].asked.push_back(asked);
        self.start_observations(now, kind, out);
    }

    /// Joins an observation of the same content that is under way or queued. Returns the question if there is none.
    fn share(
        &mut self,
        kind: TypeNo,
        seq: u32,
        content: Digest,
        mut asked: Queued,
    ) -> Option<Queued> {
        let askers = std::mem::take(&mut asked.askers);
        match self.observations.join(asked.slot, seq, content, askers) {
            Ok(()) => return None,
            Err(askers) => asked.askers = askers,
        }
        let mut queued = self.kinds[kind.index()].asked.iter_mut();
        let same =
            |other: &&mut Queued| other.slot == asked.slot && other.asset.digest() == content;
        let Some(other) = queued.find(same) else {
            return Some(asked);
        };
        other.askers.extend(asked.askers);
        other.until = asked.until;
        None
    }

    /// Starts the observations for which the plugin has capacity.
    pub(super) fn start_observations(&mut self, now: Now, kind: TypeNo, out: &mut Effects) {
        while !self.kinds[kind.index()].asked.is_empty() && self.may_diff(now, kind) {
            let Some(asked) = self.kinds[kind.index()].asked.pop_front() else {
                return;
            };
            let slot = self.table.slot_mut(asked.slot);
            slot.n += 1;
            let run = Run {
                slot: asked.slot.bare(),
                n: slot.n,
                incarnation: asked.incarnation.no(),
            };
            let state = &mut self.kinds[kind.index()];
            state.diffs += 1;
            state.breaker.called();
            let deadline = now.mono + state.config.diff_deadline;
            let content = asked.asset.digest();
            let running = Running {
                askers: asked.askers,
                kind,
                seq: slot.seq,
                started: now,
                deadline,
                prolonged: false,
                content,
            };
            self.observations.start(asked.slot, run.n, running);
            self.count(Branch::Observed);
            out.calls.push(Call::Diff(Target {
                run,
                fence: self.table.fences.of(asked.slot),
                plugin: kind,
                asset: asked.asset,
                incarnation: asked.incarnation,
            }));
        }
    }

    /// Handles a diff that no attempt waits for. Returns whether it was an observation.
    pub(super) fn observed(
        &mut self,
        now: Now,
        run: Run,
        answer: Result<Diff, plugin::Error>,
        out: &mut Effects,
    ) -> bool {
        let slot = SlotNo::of_run(run);
        let Some(running) = self.observations.end(slot, run.n) else {
            return false;
        };
        let error = answer.as_ref().err();
        self.diff_ended(now, running.kind, slot, error, false, out);
        let stamp = Stamp {
            slot: slot.bare(),
            seq: running.seq,
        };
        let cause = self.cause_of(slot);
        let not_yet = self.table.is_not_yet(slot);
        let found = match &answer {
            Ok(diff) => Ok(Observation {
                diff: diff.clone(),
                stamp,
                as_of: running.started.wall,
                cause,
                not_yet,
            }),
            Err(error) => Err(Error::failed(error.to_string())),
        };
        if let Ok(diff) = answer {
            let entry = self.table.slot(slot);
            if entry.seq == running.seq && !entry.in_flight() {
                self.level_seen(now, slot, &diff, true, running.started);
            }
            let fresh = Finding {
                diff,
                seq: running.seq,
                as_of: running.started.wall,
                since: running.started.mono,
                content: running.content,
            };
            self.observations.found(slot, fresh);
            self.observations
                .age(now.mono - self.config.observation_ttl);
        }
        self.answer(now, running.askers, &found, out);
        // The asset may have left meanwhile.
        self.give_up(now, slot);
        true
    }

    /// Drops questions of checks that have given up.
    pub(super) fn expire_asked(&mut self, now: Now, out: &mut Effects) {
        let mut late = Vec::new();
        for kind in &mut self.kinds {
            let is_late = |asked: &Queued| asked.until <= now.mono;
            if kind.asked.front().is_some_and(is_late) {
                let (gone, kept) = kind.asked.drain(..).partition::<VecDeque<_>, _>(is_late);
                kind.asked = kept;
                late.extend(gone);
            }
        }
        for asked in late {
            let why = "its plugin had no capacity for a diff before the deadline of the check";
            self.answer(now, asked.askers, &Err(Error::failed(why)), out);
            self.give_up(now, asked.slot);
        }
    }

    /// Extends the deadline of an observation; see [`Kernel::prolong`].
    fn prolong_observation(&mut self, now: Now, due: Mono, slot: SlotNo, n: u32) -> bool {
        let late = now.mono.since(due);
        let Some(running) = self.observations.running(slot, n) else {
            return false;
        };
        if late <= STOOD_STILL || running.prolonged {
            return false;
        }
        let most = self.kinds[running.kind.index()].config.diff_deadline;
        self.observations
            .prolong(slot, n, now.mono + late.min(most));
        true
    }

    /// Ends observations whose deadline has passed, and drops findings that are no longer fresh.
    pub(super) fn expire_observations(&mut self, now: Now, out: &mut Effects) {
        while let Some((due, slot, n)) = self.observations.overdue(now.mono) {
            if self.prolong_observation(now, due, slot, n) {
                continue;
            }
            let run = Run {
                slot: slot.bare(),
                n,
                incarnation: prodspec_model::IncarnationNo(0),
            };
            self.count(Branch::DiffDeadline);
            out.calls.push(Call::Abandon(run));
            self.observed(
                now,
                run,
                Err(plugin::Error::transient("the diff passed its deadline")),
                out,
            );
        }
        self.observations
            .age(now.mono - self.config.observation_ttl);
    }
}
