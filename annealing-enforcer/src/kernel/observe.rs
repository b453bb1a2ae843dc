//! Observations: diffs of an asset for a check of another asset. Checks share them, and each carries a stamp.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;
use plugin_sdk::{Diff, Mono, Now, Observation, Run, Stamp, plugin};
use prodspec_model::{Asset, AssetId, Digest, Incarnation};

use super::{
    Kernel,
    branch::Branch,
    event::{Call, Effects, Target},
    waiting::STOOD_STILL,
};

/// Observations under way, and those fresh enough to be shared.
#[derive(Debug, Default)]
pub(super) struct Observations {
    running: BTreeMap<(u32, u32), Running>,
    deadlines: BTreeSet<(Mono, u32, u32)>,
    fresh: BTreeMap<u32, Fresh>,
    /// The entries of `fresh`, present and former ones, by age.
    by_age: VecDeque<(Mono, u32)>,
}

/// An observation that waits for the plugin's capacity.
#[derive(Debug)]
pub(super) struct Asked {
    tickets: Vec<u64>,
    slot: u32,
    asset: Asset,
    incarnation: Incarnation,
    /// Time at which the check that asked gives up.
    until: Mono,
}

impl Asked {
    pub(super) fn is_of(&self, slot: u32) -> bool {
        self.slot == slot
    }
}

#[derive(Debug)]
struct Running {
    tickets: Vec<u64>,
    kind: u16,
    seq: u32,
    started: Now,
    deadline: Mono,
    /// `true`: its deadline was extended once, because this process stood still.
    prolonged: bool,
    content: Digest,
}

#[derive(Debug)]
struct Fresh {
    diff: Diff,
    seq: u32,
    as_of: Timestamp,
    since: Mono,
    content: Digest,
}

impl Observations {
    #[cfg(test)]
    pub(super) fn running_of(&self, kind: u16) -> u32 {
        let of = |running: &&Running| running.kind == kind;
        self.running.values().filter(of).count() as u32
    }

    pub(super) fn next_deadline(&self) -> Option<Mono> {
        self.deadlines.first().map(|entry| entry.0)
    }

    /// Drops the finding about `slot`, for a push starts or the intent changed.
    pub(super) fn forget(&mut self, slot: u32) {
        self.fresh.remove(&slot);
    }

    /// Drops findings from before `not_before`.
    fn age(&mut self, not_before: Mono) {
        while let Some((since, slot)) = self.by_age.pop_front_if(|entry| entry.0 < not_before) {
            if self
                .fresh
                .get(&slot)
                .is_some_and(|fresh| fresh.since <= since)
            {
                self.fresh.remove(&slot);
            }
        }
    }

    fn reusable(&self, slot: u32, seq: u32, content: Digest, not_before: Mono) -> Option<&Fresh> {
        let fresh = self.fresh.get(&slot)?;
        (fresh.seq == seq && fresh.content == content && fresh.since >= not_before).then_some(fresh)
    }
}

impl Kernel {
    /// Answers a check's question about `id`, or starts an observation.
    pub(super) fn observe(&mut self, now: Now, ticket: u64, id: &AssetId, out: &mut Effects) {
        match self.observation_of(id) {
            Err(why) => out.replies.push((ticket, Err(why))),
            Ok((slot, asset, incarnation)) => self.observe_asset(
                now,
                Asked {
                    tickets: vec![ticket],
                    slot,
                    asset,
                    incarnation,
                    until: now.mono + self.config.check_deadline,
                },
                out,
            ),
        }
    }

    /// Returns the content of `id` to diff (R16): the one at its own pin; without an intent, the newest known one.
    fn observation_of(&self, id: &AssetId) -> Result<(u32, Asset, Incarnation), String> {
        let slot = self.table.find(id.as_str()).ok_or_else(|| {
            format!("cannot observe `{id}`: no plugin enforces it, or it is not known")
        })?;
        if let Some((asset, incarnation)) = self.table.intent(slot) {
            return Ok((slot, asset, incarnation));
        }
        if let Some(there) = self.table.elsewhere(slot) {
            return Ok((slot, there.asset.clone(), there.last.clone()));
        }
        let latest = self.table.latest().clone();
        let asset = latest
            .asset(id)
            .ok_or_else(|| format!("cannot observe `{id}`: no incarnation in use has it"))?;
        Ok((slot, asset, latest))
    }

    fn observe_asset(&mut self, now: Now, asked: Asked, out: &mut Effects) {
        let slot = self.table.slot(asked.slot);
        // An edit may have given the asset another type, and so another plugin.
        let kind = self.kind_of(asked.asset.type_str()).unwrap_or(slot.kind);
        let seq = slot.seq;
        let stamp = Stamp {
            slot: asked.slot,
            seq,
        };
        let cause = self.cause_of(asked.slot);
        if slot.in_flight() {
            self.count(Branch::ObservedInFlight);
            let diff = Diff::InProgress {
                check_again_in: self.config.backoff_base,
            };
            let found = Observation {
                diff,
                stamp,
                as_of: now.wall,
                cause,
            };
            out.replies.extend(
                asked
                    .tickets
                    .iter()
                    .map(|ticket| (*ticket, Ok(found.clone()))),
            );
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
            };
            out.replies.extend(
                asked
                    .tickets
                    .iter()
                    .map(|ticket| (*ticket, Ok(found.clone()))),
            );
            self.count(Branch::ObservationShared);
            return;
        }
        let Some(asked) = self.share(kind, seq, content, asked) else {
            return self.count(Branch::ObservationShared);
        };
        self.kinds[kind as usize].asked.push_back(asked);
        self.start_observations(now, kind, out);
    }

    /// Joins an observation of the same content that is under way or queued. Returns the question if there is none.
    fn share(&mut self, kind: u16, seq: u32, content: Digest, asked: Asked) -> Option<Asked> {
        let mut running = self.observations.running.iter_mut();
        let same = running.find(|((slot, _), running)| {
            *slot == asked.slot && running.seq == seq && running.content == content
        });
        if let Some((_, running)) = same {
            running.tickets.extend(asked.tickets);
            return None;
        }
        let mut queued = self.kinds[kind as usize].asked.iter_mut();
        let same = |other: &&mut Asked| other.slot == asked.slot && other.asset.digest() == content;
        let Some(other) = queued.find(same) else {
            return Some(asked);
        };
        other.tickets.extend(asked.tickets);
        other.until = asked.until;
        None
    }

    /// Starts the observations for which the plugin has capacity.
    pub(super) fn start_observations(&mut self, now: Now, kind: u16, out: &mut Effects) {
        while !self.kinds[kind as usize].asked.is_empty() && self.may_diff(now, kind) {
            let Some(asked) = self.kinds[kind as usize].asked.pop_front() else {
                return;
            };
            let slot = self.table.slot_mut(asked.slot);
            slot.n += 1;
            let run = Run {
                slot: asked.slot,
                n: slot.n,
                incarnation: asked.incarnation.no(),
            };
            let state = &mut self.kinds[kind as usize];
            state.diffs += 1;
            state.breaker.called();
            let deadline = now.mono + state.config.diff_deadline;
            let content = asked.asset.digest();
            let running = Running {
                tickets: asked.tickets,
                kind,
                seq: slot.seq,
                started: now,
                deadline,
                prolonged: false,
                content,
            };
            self.observations.running.insert((run.slot, run.n), running);
            self.observations
                .deadlines
                .insert((deadline, run.slot, run.n));
            self.count(Branch::Observed);
            out.calls.push(Call::Diff(Target {
                run,
                plugin: kind,
                asset: asked.asset,
                incarnation: asked.incarnation,
            }));
        }
    }

    /// Handles a diff that no iteration waits for. Returns whether it was an observation.
    pub(super) fn observed(
        &mut self,
        now: Now,
        run: Run,
        answer: Result<Diff, plugin::Error>,
        out: &mut Effects,
    ) -> bool {
        let Some(running) = self.observations.running.remove(&(run.slot, run.n)) else {
            return false;
        };
        self.observations
            .deadlines
            .remove(&(running.deadline, run.slot, run.n));
        let error = answer.as_ref().err();
        self.diff_ended(now, running.kind, run.slot, error, false, out);
        let stamp = Stamp {
            slot: run.slot,
            seq: running.seq,
        };
        let cause = self.cause_of(run.slot);
        for ticket in running.tickets {
            let found = answer.clone().map(|diff| Observation {
                diff,
                stamp,
                as_of: running.started.wall,
                cause,
            });
            out.replies
                .push((ticket, found.map_err(|error| error.to_string())));
        }
        if let Ok(diff) = answer {
            let entry = self.table.slot(run.slot);
            if entry.seq == running.seq && !entry.in_flight() {
                self.level_seen(now, run.slot, &diff, true, running.started);
            }
            let fresh = Fresh {
                diff,
                seq: running.seq,
                as_of: running.started.wall,
                since: running.started.mono,
                content: running.content,
            };
            let since = fresh.since;
            self.observations.fresh.insert(run.slot, fresh);
            self.observations.by_age.push_back((since, run.slot));
            self.observations
                .age(now.mono - self.config.observation_ttl);
        }
        true
    }

    /// Drops questions of checks that have given up.
    pub(super) fn expire_asked(&mut self, now: Now, out: &mut Effects) {
        for kind in &mut self.kinds {
            if kind
                .asked
                .front()
                .is_none_or(|asked| asked.until > now.mono)
            {
                continue;
            }
            kind.asked.retain(|asked| {
                let late = asked.until <= now.mono;
                let answer = || {
                    Err(
                        "its plugin had no capacity for a diff before the deadline of the check"
                            .to_owned(),
                    )
                };
                let tickets = asked.tickets.iter().filter(|_| late);
                out.replies
                    .extend(tickets.map(|ticket| (*ticket, answer())));
                !late
            });
        }
    }

    /// Extends the deadline of an observation; see [`Kernel::prolong`].
    fn prolong_observation(&mut self, now: Now, due: Mono, slot: u32, n: u32) -> bool {
        let late = now.mono.since(due);
        let Some(running) = self.observations.running.get_mut(&(slot, n)) else {
            return false;
        };
        if late <= STOOD_STILL || running.prolonged {
            return false;
        }
        let most = self.kinds[running.kind as usize].config.diff_deadline;
        (running.deadline, running.prolonged) = (now.mono + late.min(most), true);
        let again = (running.deadline, slot, n);
        self.observations.deadlines.remove(&(due, slot, n));
        self.observations.deadlines.insert(again);
        true
    }

    /// Ends observations whose deadline has passed, and drops findings that are no longer fresh.
    pub(super) fn expire_observations(&mut self, now: Now, out: &mut Effects) {
        while let Some(&(due, slot, n)) = self
            .observations
            .deadlines
            .first()
            .filter(|entry| entry.0 <= now.mono)
        {
            if self.prolong_observation(now, due, slot, n) {
                continue;
            }
            let run = Run {
                slot,
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
