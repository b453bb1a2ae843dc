//! The bookkeeping of the waits, without clock or IO: which wait is for which assets, and when it is over.
//!
//! A wait is *asked* until a run of generation starts for it, waits for the end of that run, then until enforcement has
//! taken what the run has sealed. From then on it *follows* its assets, each by an entry of an index by asset.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{
    ChangeId, Follow, Mono, Now, Relation, Standing, plugin,
    port::{SettleRequest, Settlement, WaitNo},
};
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo, addons::RolloutPolicyRef};

use super::{
    groups::{BatchNo, Groups},
    rests::Left,
};

/// What the kernel takes in.
#[derive(Debug)]
pub(super) enum Event {
    /// A wait begins. The runs of generation after this number of them have its edit.
    Settle(WaitNo, SettleRequest, u64),
    /// The end of a wait does not count any more.
    Forget(WaitNo),
    /// The run that was [awaited](Kernel::run_to_await) has sealed this incarnation, or has found it unchanged. `None`:
    /// generation has ended.
    Ran(Option<IncarnationNo>),
    /// Enforcement has taken this incarnation.
    Took(Incarnation),
    /// The present standings of assets that are followed.
    Stands(Vec<(AssetId, Standing)>),
    /// All changes with fields that were set by others, and what became of these.
    Overwritten(BTreeMap<ChangeId, String>),
    /// A policy group has come to rest. `None`: it leaves nothing behind, or there is no answer.
    Rests(AssetId, Option<Left>),
    /// Time has passed.
    Tick,
}

/// What a step results in.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Waits that are over.
    pub(super) ended: Vec<(WaitNo, Result<Settlement, plugin::Error>)>,
    /// Assets to follow, or not any more, in this order.
    pub(super) follow: Vec<Follow>,
    /// Policy groups to ask about at an incarnation. `None`: the answer is not needed any more.
    pub(super) questions: Vec<(AssetId, Option<IncarnationNo>)>,
}

/// The waits of one ownership.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    waits: BTreeMap<WaitNo, Wait>,
    /// The waits for each change, whose fields may be set by others.
    changes: BTreeSet<(ChangeId, WaitNo)>,
    overwritten: BTreeMap<ChangeId, String>,
    /// Waits for which no run is waited for yet, each with the number of runs that had begun before its edit.
    asked: BTreeMap<WaitNo, u64>,
    /// Waits for the present run. `None`: there is none.
    running: Option<BTreeSet<WaitNo>>,
    /// Waits until enforcement has taken an incarnation. Forgotten ones stay until then.
    sealed: BTreeSet<(IncarnationNo, WaitNo)>,
    /// The newest incarnation that enforcement has taken.
    latest: Option<Incarnation>,
    /// The waits that follow each asset.
    index: BTreeMap<(AssetId, WaitNo), Entry>,
    groups: Groups,
    /// The newest batch of waits that follow their assets.
    batch: BatchNo,
}

#[derive(Debug)]
struct Wait {
    change: ChangeId,
    assets: Box<[AssetId]>,
    /// Number of its assets that production does not have yet, once it follows them.
    left: usize,
}

/// An asset for which a wait waits.
#[derive(Debug)]
struct Entry {
    /// The content that production has to have. `None`: the edit has removed the asset.
    content: Option<Digest>,
    /// Being in sync at this incarnation or a newer one is enough too.
    at: IncarnationNo,
    /// The policy that governs the asset, if one does.
    policy: Option<AssetId>,
    batch: BatchNo,
}

impl control_plane_runtime::Kernel for Kernel {
    type Event = Event;
    type Effects = Effects;

    fn step(&mut self, now: Now, event: Event, out: &mut Effects) {
        match event {
            Event::Settle(wait, request, begun) => self.settle(wait, request, begun, out),
            Event::Forget(wait) => self.remove(wait, out),
            Event::Ran(sealed) => self.ran(now.mono, sealed, out),
            Event::Took(incarnation) => {
                self.latest = Some(incarnation);
                self.begin(now.mono, out);
            }
            Event::Stands(all) => {
                for (asset, standing) in all {
                    self.stands(&asset, &standing, out);
                }
            }
            Event::Overwritten(all) => self.overwrite(all, out),
            Event::Rests(policy, left) => self.groups.answered(now.mono, &policy, left),
            Event::Tick => self.tick(now.mono, out),
        }
    }
}

impl Kernel {
    /// The run of generation to wait for now: a good one after this number of runs. It is for all waits so far; those that come
    /// later may need a later one.
    pub(super) fn run_to_await(&mut self) -> Option<u64> {
        if self.running.is_some() {
            return None;
        }
        let begun = self.asked.values().copied().max()?;
        self.running = Some(std::mem::take(&mut self.asked).into_keys().collect());
        Some(begun)
    }

    /// The next time at which the kernel needs a [`Event::Tick`].
    pub(super) fn next_wake(&self) -> Option<Mono> {
        self.groups.next_wake()
    }

    /// Whether nothing is kept of any wait.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let Self {
            waits,
            changes,
            asked,
            running,
            sealed,
            index,
            ..
        } = self;
        waits.is_empty()
            && (changes.is_empty() && asked.is_empty() && sealed.is_empty() && index.is_empty())
            && running.as_ref().is_none_or(BTreeSet::is_empty)
            && self.next_wake().is_none()
    }

    fn settle(&mut self, no: WaitNo, request: SettleRequest, begun: u64, out: &mut Effects) {
        let SettleRequest { change, assets, .. } = request;
        if let Some(words) = self.overwritten.get(&change) {
            let end = Settlement::Overwritten(words.clone());
            return out.ended.push((no, Ok(end)));
        }
        self.changes.insert((change.clone(), no));
        self.asked.insert(no, begun);
        let wait = Wait {
            change,
            assets,
            left: 0,
        };
        self.waits.insert(no, wait);
    }

    fn ran(&mut self, now: Mono, sealed: Option<IncarnationNo>, out: &mut Effects) {
        let waits = self.running.take().into_iter().flatten();
        match sealed {
            Some(at) => {
                self.sealed.extend(waits.map(|no| (at, no)));
                self.begin(now, out);
            }
            None => {
                for no in waits {
                    self.remove(no, out);
                    let why =
                        "generation has ended; this process may not own the partition any more";
                    out.ended.push((no, Err(plugin::Error::transient(why))));
                }
            }
        }
    }

    /// Lets the waits whose incarnation enforcement has taken follow their assets.
    fn begin(&mut self, now: Mono, out: &mut Effects) {
        let Some(latest) = self.latest.clone() else {
            return;
        };
        let later = (IncarnationNo(latest.no().0 + 1), WaitNo(0));
        let later = self.sealed.split_off(&later);
        let begun = std::mem::replace(&mut self.sealed, later);
        if begun.is_empty() {
            return;
        }
        self.batch.0 += 1;
        let mut follow = BTreeSet::new();
        for (_, no) in begun {
            self.follow(now, no, &latest, &mut follow, out);
        }
        out.follow
            .push(Follow::Assets(follow.into_iter().collect()));
    }

    /// Lets a wait follow its assets. The feed tells the present standing of each also if it is followed already.
    fn follow(
        &mut self,
        now: Mono,
        no: WaitNo,
        latest: &Incarnation,
        follow: &mut BTreeSet<AssetId>,
        out: &mut Effects,
    ) {
        let Some(wait) = self.waits.get_mut(&no) else {
            return;
        };
        for asset in &wait.assets {
            let policy = policy(latest, asset);
            let entry = Entry {
                content: latest.asset(asset).map(|asset| asset.digest()),
                at: latest.no(),
                policy: policy.clone(),
                batch: self.batch,
            };
            if self.index.insert((asset.clone(), no), entry).is_some() {
                continue;
            }
            wait.left += 1;
            follow.insert(asset.clone());
            if let Some(policy) = policy
                && self.groups.join(now, &policy, self.batch)
            {
                out.questions.push((policy, Some(latest.no())));
            }
        }
        if wait.left == 0 {
            self.end(no, Settlement::Done, out);
        }
    }

    fn stands(&mut self, asset: &AssetId, standing: &Standing, out: &mut Effects) {
        let settled = self.entries(asset, |entry| was_in_sync(standing, entry));
        for no in settled {
            self.remove_entry(asset, no, out);
            let Some(wait) = self.waits.get_mut(&no) else {
                continue;
            };
            wait.left -= 1;
            if wait.left == 0 {
                self.end(no, Settlement::Done, out);
            }
        }
    }

    fn overwrite(&mut self, all: BTreeMap<ChangeId, String>, out: &mut Effects) {
        for (change, words) in &all {
            let (first, last) = (
                (change.clone(), WaitNo(0)),
                (change.clone(), WaitNo(u64::MAX)),
            );
            let waits: Vec<_> = self
                .changes
                .range(first..=last)
                .map(|(_, no)| *no)
                .collect();
            for no in waits {
                self.end(no, Settlement::Overwritten(words.clone()), out);
            }
        }
        self.overwritten = all;
    }

    fn tick(&mut self, now: Mono, out: &mut Effects) {
        while let Some((policy, left, about)) = self.groups.pop_due(now, self.batch) {
            if let Some(left) = left {
                self.left_behind(&policy, &left, about, out);
            }
            if self.groups.contains(&policy)
                && let Some(latest) = &self.latest
            {
                out.questions.push((policy, Some(latest.no())));
            }
        }
    }

    /// Ends the waits for assets that their policy group leaves behind, if they had begun when it was asked.
    fn left_behind(&mut self, policy: &AssetId, left: &Left, about: BatchNo, out: &mut Effects) {
        for asset in &left.assets {
            let behind = |it: &Entry| it.policy.as_ref() == Some(policy) && it.batch <= about;
            for no in self.entries(asset, behind) {
                let why = format!("{asset} was left behind: {}", left.why);
                self.end(no, Settlement::RolledBack(why), out);
            }
        }
    }

    /// The waits that follow an asset and whose entry is such.
    fn entries(&self, asset: &AssetId, such: impl Fn(&Entry) -> bool) -> Vec<WaitNo> {
        let (first, last) = (
            (asset.clone(), WaitNo(0)),
            (asset.clone(), WaitNo(u64::MAX)),
        );
        let entries = self.index.range(first..=last);
        let such = entries.filter(|(_, entry)| such(entry));
        such.map(|((_, no), _)| *no).collect()
    }

    fn end(&mut self, no: WaitNo, end: Settlement, out: &mut Effects) {
        self.remove(no, out);
        out.ended.push((no, Ok(end)));
    }

    fn remove(&mut self, no: WaitNo, out: &mut Effects) {
        let Some(wait) = self.waits.remove(&no) else {
            return;
        };
        self.changes.remove(&(wait.change, no));
        self.asked.remove(&no);
        if let Some(running) = &mut self.running {
            running.remove(&no);
        }
        for asset in &wait.assets {
            self.remove_entry(asset, no, out);
        }
    }

    /// Removes a wait from an asset, and stops following the asset if no wait is left there.
    fn remove_entry(&mut self, asset: &AssetId, no: WaitNo, out: &mut Effects) {
        let Some(entry) = self.index.remove(&(asset.clone(), no)) else {
            return;
        };
        if let Some(policy) = entry.policy
            && self.groups.leave(&policy)
        {
            out.questions.push((policy, None));
        }
        let (first, last) = (
            (asset.clone(), WaitNo(0)),
            (asset.clone(), WaitNo(u64::MAX)),
        );
        if self.index.range(first..=last).next().is_none() {
            out.follow.push(Follow::Not(vec![asset.clone()]));
        }
    }
}

/// The policy that governs an asset, if one does.
fn policy(incarnation: &Incarnation, asset: &AssetId) -> Option<AssetId> {
    let addon = incarnation.asset(asset)?.addon::<RolloutPolicyRef>();
    Some(addon.ok().flatten()?.policy.id)
}

/// Whether production had the wanted content, or newer one.
fn was_in_sync(standing: &Standing, wanted: &Entry) -> bool {
    match standing.relation {
        // What is removed from intent stays in production until it is turned down on its own.
        Relation::Absent | Relation::LeftAlone => wanted.content.is_none(),
        Relation::ModelledOnly => true,
        Relation::Enforced => {
            let newer = standing.in_sync_at.is_some_and(|no| no >= wanted.at);
            let same = standing.content == wanted.content && standing.in_sync_at.is_some();
            wanted.content.is_none() || newer || same
        }
        _ => false,
    }
}
