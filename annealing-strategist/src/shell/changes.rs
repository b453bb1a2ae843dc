//! The live changes of a partition, with the kernels of their rollouts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use futures::channel::mpsc::UnboundedSender;
use plugin_sdk::{
    ChangeId, Follow, Holder, Mono, Now, plugin,
    port::{Made, WaitNo},
};
use prodspec_model::{AssetId, Incarnation};

use super::{Input, calls::Foreseen, handle::Reply, kernels::Kernels, waiting::Waiting};
use crate::{
    change::{self, Fields, Intent, LiveChange, RollOutRecord},
    group::policy_of,
    kernel::{Kernel, Taken},
    record::State,
};

/// All live changes.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) kernels: Kernels,
    pub(super) all: BTreeMap<AssetId, Change>,
    /// The calls that wait for production, by the number of the wait.
    pub(super) waits: BTreeMap<WaitNo, (AssetId, u64)>,
    next_wait: u64,
    /// Where notices of durable steps go. `None`: a rehearsal, which has no changes.
    pub(super) sender: Option<UnboundedSender<Input>>,
    /// Callers that wait for assets that come.
    pub(super) asking: Vec<Reply<Vec<LiveChange>>>,
    /// Callers that wait for the end of a change.
    pub(super) waiting: Waiting,
    pub(super) calls: Vec<(AssetId, change::Call)>,
    /// The policy groups whose assets the changes to recover have as targets.
    pub(super) busy: BTreeSet<AssetId>,
    /// Assets to follow from now on, or not any more.
    pub(super) follow: Vec<Follow>,
    /// The number of changes that this owner has begun.
    begun: u64,
    /// The newest of them, by key.
    numbers: BTreeMap<AssetId, u64>,
}

pub(super) struct Change {
    pub(super) record: RollOutRecord,
    pub(super) holder: Holder,
    pub(super) intent: Intent,
    pub(super) fields: Fields,
    /// The contents that the change would bring beside those of the newest incarnation. `None`: to be made anew.
    pub(super) foreseen: Option<Arc<Foreseen>>,
    pub(super) has_ended: bool,
    /// The domains that others have taken, as its rollout knows them.
    pub(super) taken: Taken,
}

impl Change {
    /// The contents that the change would bring beside those of `latest`.
    pub(super) fn foreseen(&mut self, latest: &Incarnation) -> Arc<Foreseen> {
        let (intent, latest) = (&self.intent, latest.clone());
        let make = || {
            let intent = intent.clone();
            Arc::new(LazyLock::new(
                Box::new(move || intent.foreseen(&latest)) as Box<_>
            ))
        };
        self.foreseen.get_or_insert_with(make).clone()
    }
}

/// The answer to a call about fields.
#[derive(Debug)]
pub(crate) enum Answer {
    /// An edit of this id was made, or was not.
    Edited(u64, ChangeId, Result<Made, plugin::Error>),
    /// The fields of an edit of this id that do not have their values.
    Looked(u64, ChangeId, Result<Vec<String>, plugin::Error>),
}

impl Changes {
    /// Whether the change number `number` with a key has begun under this owner. It may be over.
    pub(super) fn has_begun(&self, key: &AssetId, number: u64) -> bool {
        self.numbers
            .get(key)
            .is_some_and(|newest| *newest >= number)
    }

    /// Adds a change that begins.
    pub(super) fn add(&mut self, key: &AssetId, kernel: Kernel, change: Change) {
        self.numbers.insert(key.clone(), change.record.number);
        self.kernels.insert(key.clone(), kernel);
        self.all.insert(key.clone(), change);
    }

    /// Whether there is a change with this key.
    pub(super) fn has(&self, key: &AssetId) -> bool {
        self.all.contains_key(key)
    }

    /// The number that the calls of the next change follow. A late answer to a call of an earlier change with the same key must
    /// not be taken for one of it.
    pub(super) fn first_call(&mut self) -> u64 {
        self.begun += 1;
        self.begun << 32
    }

    /// Forgets the changes that have ended, once those who waited for them have their answers.
    pub(super) fn drop_ended(&mut self) {
        let ended: Vec<Change> = self
            .all
            .extract_if(.., |_, change| change.has_ended)
            .map(|(_, change)| change)
            .collect();
        if ended.is_empty() {
            return;
        }
        let all = &self.all;
        self.kernels.retain(|key, _| all.contains_key(key));
        self.waits.retain(|_, (key, _)| all.contains_key(key));
        let live: BTreeSet<&AssetId> = all.values().flat_map(|it| it.fields.targets()).collect();
        let targets = ended.iter().flat_map(|it| it.fields.targets());
        let targets = targets.filter(|id| !live.contains(id)).cloned();
        self.follow.push(Follow::Not(targets.collect()));
    }

    /// Gives a number to the wait of a call.
    pub(super) fn wait(&mut self, key: &AssetId, call: u64) -> WaitNo {
        self.next_wait += 1;
        let wait = WaitNo(self.next_wait);
        self.waits.insert(wait, (key.clone(), call));
        wait
    }

    pub(super) fn next_wake(&self) -> Option<Mono> {
        let kernels = self.kernels.values().filter_map(Kernel::next_wake);
        let fields = self.all.values().filter_map(|it| it.fields.next_wake());
        kernels.chain(fields).min()
    }

    /// R102: another change that was the last to move targets which both have moved. Of unhealthy assets that one is condemned,
    /// and the other holds until it is judged anew. Of several changes with common targets, one is the last.
    pub(super) fn last_mover(&self, key: &AssetId) -> Option<AssetId> {
        let own = self.all.get(key)?;
        let last = |change: &Change, of: &Change| {
            let targets = change.fields.targets();
            let both = targets.filter(|id| of.fields.moved_at(id).is_some());
            both.filter_map(|id| change.fields.moved_at(id)).max()
        };
        let later = |(other, change): &(&AssetId, &Change)| {
            let (theirs, ours) = (last(change, own), last(own, change));
            theirs.is_some() && (theirs, *other) > (ours, key)
        };
        let others = self.all.iter();
        let others = others.filter(|(other, _)| *other != key && self.is_moving(other));
        others.filter(later).map(|(other, _)| other.clone()).next()
    }

    /// The live changes that have moved a target which this one has moved, too.
    pub(super) fn beside(&self, key: &AssetId) -> Vec<AssetId> {
        let targets: Vec<&AssetId> = match self.all.get(key) {
            Some(change) => change.fields.targets().collect(),
            None => vec![],
        };
        let targets = targets.into_iter().filter(|id| self.is_moved_by(key, id));
        let targets: Vec<&AssetId> = targets.collect();
        let shares = |other: &&AssetId| targets.iter().any(|id| self.is_moved_by(other, id));
        let others = self
            .all
            .iter()
            .filter(|(other, it)| *other != key && !it.has_ended);
        others
            .map(|(other, _)| other)
            .filter(shares)
            .cloned()
            .collect()
    }

    fn is_moved_by(&self, key: &AssetId, asset: &AssetId) -> bool {
        let change = self.all.get(key);
        change.is_some_and(|it| it.fields.moved_at(asset).is_some())
    }

    /// Whether another change has moved this target.
    pub(super) fn is_shared(&self, key: &AssetId, asset: &AssetId) -> bool {
        let mut others = self.all.keys().filter(|other| *other != key);
        others.any(|other| self.is_moved_by(other, asset))
    }

    /// Whether the rollout of a change goes on by itself.
    fn is_moving(&self, key: &AssetId) -> bool {
        let newest = self.kernels.get(key).and_then(Kernel::newest);
        newest.is_some_and(|it| {
            matches!(
                it.state,
                State::Running | State::RollingBack { paused: false, .. }
            )
        })
    }

    /// R102: the domains that each live change must not enter: another one bakes there, or waits for them and is older, and
    /// one of the two keeps apart.
    pub(super) fn taken(&self, now: Now) -> BTreeMap<AssetId, Taken> {
        let live = self.all.iter().filter(|(_, change)| !change.has_ended);
        let live = live.filter_map(|(key, change)| {
            let kernel = self.kernels.get(key)?;
            Some((key, change, kernel, kernel.bakes_in(now)))
        });
        let live: Vec<_> = live.collect();
        let apart = |of: &Change| of.record.change.alone_while_baking;
        let age = |key: &AssetId, of: &Change| (of.record.at, key.clone());
        let of = |own: &AssetId, change: &Change| {
            let mut taken = Taken::new();
            let others = live.iter().filter(|(other, ..)| *other != own);
            let others = others.filter(|(_, other, ..)| apart(change) || apart(other));
            for (key, other, kernel, bakes) in others {
                let older = age(key, other) < age(own, change);
                let waits = kernel.wants().filter(|_| older);
                for domain in bakes.iter().chain(waits) {
                    taken.insert(domain.clone(), (*key).clone());
                }
            }
            taken
        };
        let all = live.iter();
        all.map(|(key, change, ..)| ((*key).clone(), of(key, change)))
            .collect()
    }

    /// Whether a change keeps apart from others, or one that has just ended did.
    pub(super) fn any_is_alone(&self) -> bool {
        let mut all = self.all.values();
        all.any(|change| change.record.change.alone_while_baking)
    }

    /// The live change with this key.
    pub(super) fn live(&self, key: &AssetId) -> Option<LiveChange> {
        let change = self.all.get(key).filter(|it| !it.has_ended)?;
        let kernel = self.kernels.get(key)?;
        Some(LiveChange {
            key: key.clone(),
            change: change.record.change.clone(),
            by: change.record.by.clone(),
            holder: change.holder.clone(),
            source: change.record.source.clone(),
            arrivals: kernel.expected().cloned().collect(),
            known: change.fields.known(),
            version: change.intent.version(),
            rollout: kernel.newest()?.id,
        })
    }

    /// The live changes for which assets have come that may still join them.
    fn arrivals(&self) -> Vec<LiveChange> {
        let expects = |key: &&AssetId| {
            let kernel = self.kernels.get(*key);
            kernel.is_some_and(|kernel| kernel.expected().next().is_some())
        };
        let keys = self.all.keys().filter(expects);
        keys.filter_map(|key| self.live(key)).collect()
    }

    /// Answers those who wait for assets that come, if there are any.
    pub(super) fn answer_arrivals(&mut self) {
        self.asking.retain(|reply| !reply.is_canceled());
        if self.asking.is_empty() {
            return;
        }
        let arrivals = self.arrivals();
        if !arrivals.is_empty() {
            for reply in self.asking.drain(..) {
                // The caller may have gone.
                let _ = reply.send(arrivals.clone());
            }
        }
    }

    /// The policy groups whose assets live changes have as targets.
    pub(super) fn groups(&self, latest: &Incarnation) -> BTreeSet<AssetId> {
        let live = self.all.values().filter(|change| !change.has_ended);
        groups_of(live.flat_map(|change| change.fields.targets()), latest)
    }
}

/// The policy groups of these assets.
pub(super) fn groups_of<'a>(
    assets: impl Iterator<Item = &'a AssetId>,
    latest: &Incarnation,
) -> BTreeSet<AssetId> {
    let assets = assets.filter_map(|id| latest.asset(id));
    assets.filter_map(|asset| policy_of(&asset)).collect()
}
