//! The policy groups that govern assets which are waited for. The strategist is asked one question at a time about each,
//! which all waits of its assets share.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use plugin_sdk::Mono;
use prodspec_model::AssetId;

use super::rests::Left;

/// First wait before an answer about a policy group counts, and before the next question. It doubles.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// Longest such wait.
pub(super) const SELDOM: Duration = Duration::from_secs(30);

/// Number of a batch of waits that began together: all of it is asked about, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct BatchNo(pub(super) u64);

/// The policy groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<AssetId, Group>,
    /// The times at which answers count.
    due: BTreeSet<(Mono, AssetId)>,
}

#[derive(Debug)]
struct Group {
    /// Number of assets of waits that it governs, each counted for each wait.
    members: usize,
    wait: Duration,
    /// The last batch of waits that the present question, or its answer, is about.
    about: BatchNo,
    /// The answer, and when it counts. `None`: the strategist is asked.
    answer: Option<(Mono, Option<Left>)>,
}

impl Groups {
    /// Adds an asset of a wait. Returns whether the strategist has to be asked about the group now.
    pub(super) fn join(&mut self, now: Mono, policy: &AssetId, batch: BatchNo) -> bool {
        let Some(group) = self.groups.get_mut(policy) else {
            let group = Group {
                members: 1,
                wait: AGAIN,
                about: batch,
                answer: None,
            };
            self.groups.insert(policy.clone(), group);
            return true;
        };
        group.members += 1;
        group.wait = AGAIN;
        if let Some((at, _)) = &mut group.answer
            && *at > now + AGAIN
        {
            self.due.remove(&(*at, policy.clone()));
            *at = now + AGAIN;
            self.due.insert((*at, policy.clone()));
        }
        false
    }

    /// Removes an asset of a wait. Returns whether it was the last of the group: then no answer is needed any more.
    pub(super) fn leave(&mut self, policy: &AssetId) -> bool {
        let Some(group) = self.groups.get_mut(policy) else {
            return false;
        };
        group.members -= 1;
        if group.members > 0 {
            return false;
        }
        if let Some((at, _)) = group.answer {
            self.due.remove(&(at, policy.clone()));
        }
        self.groups.remove(policy);
        true
    }

    /// Keeps an answer until it counts: what was in flight may still settle until then.
    pub(super) fn answered(&mut self, now: Mono, policy: &AssetId, left: Option<Left>) {
        let Some(group) = self.groups.get_mut(policy) else {
            return;
        };
        let at = now + group.wait;
        group.wait = (group.wait * 2).min(SELDOM);
        group.answer = Some((at, left));
        self.due.insert((at, policy.clone()));
    }

    /// Takes an answer that counts now, with the last batch that it is about. The strategist has to be asked again if the
    /// group is still there when the answer has been handled; that question is about all waits up to `batch`.
    pub(super) fn pop_due(
        &mut self,
        now: Mono,
        batch: BatchNo,
    ) -> Option<(AssetId, Option<Left>, BatchNo)> {
        let (at, _) = self.due.first()?;
        if *at > now {
            return None;
        }
        let (_, policy) = self.due.pop_first()?;
        let group = self.groups.get_mut(&policy)?;
        let (_, left) = group.answer.take()?;
        let about = std::mem::replace(&mut group.about, batch);
        Some((policy, left, about))
    }

    pub(super) fn contains(&self, policy: &AssetId) -> bool {
        self.groups.contains_key(policy)
    }

    /// The next time at which an answer counts.
    pub(super) fn next_wake(&self) -> Option<Mono> {
        self.due.first().map(|(at, _)| *at)
    }
}
