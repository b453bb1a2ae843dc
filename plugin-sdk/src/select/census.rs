//! The counts of a rollout's targets by progress and failure domain.

use jiff::Timestamp;

use super::{Domains, Progress, Target};

/// Counts of the targets of a rollout, made in one pass. All places are indexes of targets.
#[derive(Debug, Default)]
pub struct Census {
    all: Tally,
    late: usize,
    /// The counts of the targets that were there when the rollout began.
    first: Tally,
    /// The same, by the number of the domain with which targets are rolled out, then those of targets without one.
    by_domain: Vec<Tally>,
    waiting: Vec<u32>,
    started: Vec<(Timestamp, u32)>,
    under_way: Vec<(Timestamp, u32)>,
}

impl Census {
    pub(super) fn of(targets: &[Target], domains: &Domains) -> Self {
        let mut census = Self {
            by_domain: vec![Tally::default(); domains.names().len() + 1],
            ..Self::default()
        };
        for (place, target) in (0..).zip(targets) {
            census.add(place, target, domains.first_of(place));
        }
        census.first = census.all;
        // If all are late, they are the first.
        if (1..targets.len()).contains(&census.late) {
            census.leave_out_late(targets, domains);
        }
        census
    }

    /// Counts again, without the late targets.
    fn leave_out_late(&mut self, targets: &[Target], domains: &Domains) {
        self.first = Tally::default();
        self.by_domain.fill(Tally::default());
        for (place, target) in (0..).zip(targets) {
            self.first.add_unless_late(target);
            let domain = self.place_of(domains.first_of(place));
            if let Some(tally) = self.by_domain.get_mut(domain) {
                tally.add_unless_late(target);
            }
        }
    }

    fn add(&mut self, place: u32, target: &Target, domain: Option<u32>) {
        self.all.add(target);
        self.late += usize::from(target.late);
        let domain = self.place_of(domain);
        if let Some(tally) = self.by_domain.get_mut(domain) {
            tally.add(target);
        }
        match target.progress {
            Progress::Waiting => self.waiting.push(place),
            Progress::Updated { at } => self.started.push((at, place)),
            Progress::InFlight { since } | Progress::Drifted { since } => {
                self.started.push((since, place));
                self.under_way.push((since, place));
            }
        }
    }

    fn place_of(&self, domain: Option<u32>) -> usize {
        domain.map_or(self.by_domain.len().saturating_sub(1), |number| {
            number as usize
        })
    }

    /// Returns the counts of all targets.
    pub fn all(&self) -> Tally {
        self.all
    }

    /// Returns the counts of the targets that are not [late](Target::late).
    pub fn first(&self) -> Tally {
        self.first
    }

    /// Returns the counts of the targets that are not [late](Target::late) and are rolled out with a domain, named by its
    /// number. `None`: of those that name no domain.
    pub fn in_domain(&self, domain: Option<u32>) -> Tally {
        let tally = self.by_domain.get(self.place_of(domain));
        tally.copied().unwrap_or_default()
    }

    /// Returns the targets that wait to be selected, in ascending order.
    pub fn waiting(&self) -> &[u32] {
        &self.waiting
    }

    /// Returns the targets that do not wait, in ascending order, each with the time of its last settling or, if it is
    /// not settled, since which it is under way.
    pub fn started(&self) -> &[(Timestamp, u32)] {
        &self.started
    }

    /// Returns the targets that are in flight or have drifted, in ascending order, each with the time since which it
    /// is.
    pub fn under_way(&self) -> &[(Timestamp, u32)] {
        &self.under_way
    }
}

/// Counts of some targets, such as those of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The number of targets that are counted.
    pub targets: usize,
    /// The number of [late](Target::late) targets that are left out of this count.
    pub late: usize,
    /// The number of targets that are updated and in sync.
    pub settled: usize,
    /// The time of the last settling. `None`: no target is settled.
    pub last: Option<Timestamp>,
    /// The highest [`Target::order`] among the settled targets.
    pub order: u64,
}

impl Tally {
    /// Counts one more target, with its progress.
    pub fn add(&mut self, target: &Target) {
        self.targets += 1;
        if let Some(at) = target.settled() {
            self.settled += 1;
            self.last = self.last.max(Some(at));
            self.order = self.order.max(target.order);
        }
    }

    fn add_unless_late(&mut self, target: &Target) {
        match target.late {
            true => self.late += 1,
            false => self.add(target),
        }
    }

    /// Counts targets that are not selected yet.
    pub fn add_waiting(&mut self, targets: usize) {
        self.targets += targets;
    }

    /// Whether there are no targets, late ones included.
    pub fn is_empty(&self) -> bool {
        self.targets + self.late == 0
    }

    /// Whether all targets are updated and in sync.
    pub fn is_settled(&self) -> bool {
        self.settled == self.targets
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        Progress, TargetList,
        testing::{NOW, target},
    };

    #[test]
    fn census_counts_by_progress_and_domain_and_follows_edits() {
        let mut targets: TargetList = [
            target("job/a", &["eu", "us"]),
            target("job/b", &["us"]),
            target("job/c", &[]),
        ]
        .into();
        let later = NOW + Duration::from_secs(5);
        targets.set_progress(0, Progress::Updated { at: NOW });
        targets.set_order(0, 7);
        targets.set_progress(1, Progress::InFlight { since: later });
        let census = targets.census();
        assert_eq!(census.waiting(), [2]);
        assert_eq!(census.started(), [(NOW, 0), (later, 1)]);
        assert_eq!(census.under_way(), [(later, 1)]);
        let eu = census.in_domain(Some(0));
        assert_eq!(
            (eu.targets, eu.settled, eu.last, eu.order),
            (1, 1, Some(NOW), 7)
        );
        assert_eq!(
            census.in_domain(Some(1)).targets,
            1,
            "each counts once, in its first domain"
        );
        assert!(!census.in_domain(None).is_settled());
        targets.set_progress(1, Progress::Drifted { since: NOW });
        assert_eq!(targets.census().under_way(), [(NOW, 1)]);
        assert_eq!(targets.set_progress(3, Progress::Waiting), None);
        targets.edit().remove(0);
        assert_eq!(targets.domains().names().len(), 1);
        assert_eq!(targets.census().all().targets, 2);
    }

    #[test]
    fn edit_of_a_clone_changes_no_other_clone() {
        let first: TargetList = [target("job/a", &["eu"])].into();
        let mut other = first.clone();
        assert_eq!(first.census().waiting(), [0]);
        other.set_progress(0, Progress::Updated { at: NOW });
        assert_eq!(first.census().waiting(), [0]);
        assert!(other.census().waiting().is_empty());
        assert_ne!(first, other);
    }
}
