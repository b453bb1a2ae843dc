//! R22: content that only waited in a failed rollout may come again when a fix of what failed has completed.

use crate::world::State;

/// The contents of a failed rollout: asset numbers, each with the mark of the new content.
#[derive(Debug, Clone, Default)]
pub(super) struct FailedRollout {
    /// Number of the rollout in its group.
    id: u64,
    /// Contents that the rollout had brought when it stopped or began to go back.
    reached: Vec<(usize, u64)>,
    /// Contents that waited for their turn, and had not failed before.
    waited: Vec<(usize, u64)>,
}

impl State {
    /// Records that the rollout `id` to `to` has stopped or begins to go back. It may do one after the other.
    pub(super) fn has_failed(&mut self, group: usize, id: u64, to: u32) {
        let mut reached = self.brought_by(group, to);
        let pinned = |at: usize| self.judge.eyes[at].pinned.map(|(no, _)| no);
        reached.retain(|(at, _)| pinned(*at) == Some(to));
        let all = &mut self.judge.groups[group].failed;
        let mut failed = match all.iter().position(|failed| failed.id == id) {
            Some(before) => all.remove(before),
            None => FailedRollout {
                id,
                ..FailedRollout::default()
            },
        };
        failed.reached.extend(reached);
        failed.reached.sort_unstable();
        failed.reached.dedup();
        let had: Vec<usize> = failed.reached.iter().map(|(at, _)| *at).collect();
        failed.waited.retain(|(at, _)| !had.contains(at));
        all.push(failed);
    }

    /// Records that a rollout to `to` has stopped because it failed. Content that it had not reached waits for a fix of
    /// it, and not for a fix of a later rollout, which leaves that content out.
    pub(super) fn has_stopped(&mut self, group: usize, id: u64, to: u32) {
        self.has_failed(group, id, to);
        for (at, mark) in self.brought_by(group, to) {
            self.waited(group, at, mark);
        }
    }

    /// Records that a content waited for its turn in the newest failed rollout.
    pub(super) fn waited(&mut self, group: usize, at: usize, mark: u64) {
        let failed = self.judge.groups[group].failed.last_mut();
        let known = |failed: &FailedRollout| {
            let reached = failed.reached.iter().any(|(had, _)| *had == at);
            reached || failed.waited.contains(&(at, mark))
        };
        if let Some(failed) = failed.filter(|failed| !known(failed)) {
            failed.waited.push((at, mark));
        }
    }

    /// The group has completed a rollout to `head`. Content that only waited in an earlier one counts as failed no longer
    /// if all that the earlier one had brought is different now, or has left the group.
    pub(super) fn release_waited(&mut self, group: usize, head: u32) {
        let all = std::mem::take(&mut self.judge.groups[group].failed);
        let stays = |(at, mark): &(usize, u64)| {
            let ours = self.group_at(head, *at) == Some(group);
            ours && self.mark_at(head, *at) == Some(*mark)
        };
        let (left, fixed): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|failed| failed.reached.is_empty() || failed.reached.iter().any(stays));
        self.judge.groups[group].failed = left;
        for (at, mark) in fixed.into_iter().flat_map(|failed| failed.waited) {
            let eye = &mut self.judge.eyes[at];
            if eye.failed == Some(mark) {
                self.judge.look("released");
                self.judge.eyes[at].failed = None;
            }
        }
    }
}
