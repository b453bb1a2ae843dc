//! The number of waiting and of settled targets, kept up to date as single targets change.

use plugin_sdk::{Progress, Target};

/// The numbers of targets in one direction of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    all: usize,
    waiting: usize,
    settled: usize,
}

impl Tally {
    pub(super) fn of(targets: &[Target]) -> Self {
        let waiting = targets.iter().filter(|target| target.is_waiting());
        let settled = targets.iter().filter(|target| target.settled().is_some());
        Self {
            all: targets.len(),
            waiting: waiting.count(),
            settled: settled.count(),
        }
    }

    /// Notes that the progress of one target has changed.
    pub(super) fn change(&mut self, before: Progress, after: Progress) {
        self.waiting = self.waiting + waits(after) - waits(before);
        self.settled = self.settled + settled(after) - settled(before);
    }

    /// Notes that there is one more target.
    pub(super) fn add(&mut self, progress: Progress) {
        self.all += 1;
        self.waiting += waits(progress);
        self.settled += settled(progress);
    }

    /// Notes that a target is gone.
    pub(super) fn remove(&mut self, before: Progress) {
        self.all -= 1;
        self.waiting -= waits(before);
        self.settled -= settled(before);
    }

    /// Whether no target waits.
    pub(super) fn none_waits(self) -> bool {
        self.waiting == 0
    }

    /// Whether a target does not wait.
    pub(super) fn any_has_started(self) -> bool {
        self.waiting < self.all
    }

    /// Whether all targets are settled.
    pub(super) fn all_settled(self) -> bool {
        self.settled == self.all
    }
}

fn waits(progress: Progress) -> usize {
    usize::from(progress == Progress::Waiting)
}

fn settled(progress: Progress) -> usize {
    usize::from(matches!(progress, Progress::Updated { .. }))
}
