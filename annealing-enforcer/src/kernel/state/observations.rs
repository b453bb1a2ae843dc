//! Observations under way, findings recent enough to be shared, and the surveys that ask for them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use plugin_sdk::{Diff, Mono, Now, Shared};
use prodspec_model::{Asset, AssetId, Digest, Incarnation};

use super::{numbers::SlotNo, numbers::TypeNo};

/// Observations under way, and those fresh enough to be shared.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Observations {
    running: BTreeMap<(SlotNo, u32), Running>,
    deadlines: BTreeSet<(Mono, SlotNo, u32)>,
    fresh: BTreeMap<SlotNo, Finding>,
    /// The entries of `fresh`, present and former ones, by age.
    by_age: VecDeque<(Mono, SlotNo)>,
    /// Surveys under way, by capacity.
    surveys: BTreeMap<Arc<Shared>, Survey>,
}

/// The receiver of an observation.
#[derive(Debug, Clone)]
pub(in crate::kernel) enum Asker {
    /// The check with this ticket.
    Check(u64),
    /// The survey of this capacity.
    Survey(Arc<Shared>),
}

/// An observation that waits for the plugin's capacity.
#[derive(Debug)]
pub(in crate::kernel) struct Queued {
    pub(in crate::kernel) askers: Vec<Asker>,
    pub(in crate::kernel) slot: SlotNo,
    pub(in crate::kernel) asset: Asset,
    pub(in crate::kernel) incarnation: Incarnation,
    /// Deadline of the latest asker: a check gives up then.
    pub(in crate::kernel) until: Mono,
}

/// An observation under way.
#[derive(Debug)]
pub(in crate::kernel) struct Running {
    pub(in crate::kernel) askers: Vec<Asker>,
    pub(in crate::kernel) kind: TypeNo,
    pub(in crate::kernel) seq: u32,
    pub(in crate::kernel) started: Now,
    pub(in crate::kernel) deadline: Mono,
    /// `true`: its deadline was extended once, because this process stood still.
    pub(in crate::kernel) prolonged: bool,
    pub(in crate::kernel) content: Digest,
}

/// The result of an observation.
#[derive(Debug)]
pub(in crate::kernel) struct Finding {
    pub(in crate::kernel) diff: Diff,
    pub(in crate::kernel) seq: u32,
    pub(in crate::kernel) as_of: Timestamp,
    pub(in crate::kernel) since: Mono,
    pub(in crate::kernel) content: Digest,
}

/// One survey under way.
#[derive(Debug)]
struct Survey {
    /// Number of observations that have not ended.
    left: usize,
    /// Tickets of the questions to answer, each with the asset whose own use is left out.
    tickets: Vec<(u64, AssetId)>,
}

impl Observations {
    pub(in crate::kernel) fn next_deadline(&self) -> Option<Mono> {
        self.deadlines.first().map(|entry| entry.0)
    }

    /// Returns the first observation whose deadline has passed, with that deadline and the number of its call.
    pub(in crate::kernel) fn overdue(&self, now: Mono) -> Option<(Mono, SlotNo, u32)> {
        let first = self.deadlines.first().copied();
        first.filter(|entry| entry.0 <= now)
    }

    /// Notes that an observation starts with call `n`.
    pub(in crate::kernel) fn start(&mut self, slot: SlotNo, n: u32, running: Running) {
        self.deadlines.insert((running.deadline, slot, n));
        self.running.insert((slot, n), running);
    }

    /// Joins an observation of the same content that is under way. Gives the askers back if there is none.
    pub(in crate::kernel) fn join(
        &mut self,
        slot: SlotNo,
        seq: u32,
        content: Digest,
        askers: Vec<Asker>,
    ) -> Result<(), Vec<Asker>> {
        let mut running = self.running.range_mut((slot, 0)..=(slot, u32::MAX));
        let same = running.find(|(_, running)| running.seq == seq && running.content == content);
        match same {
            Some((_, running)) => {
                running.askers.extend(askers);
                Ok(())
            }
            None => Err(askers),
        }
    }

    /// Returns an observation under way.
    pub(in crate::kernel) fn running(&self, slot: SlotNo, n: u32) -> Option<&Running> {
        self.running.get(&(slot, n))
    }

    /// Extends the deadline of an observation, once.
    pub(in crate::kernel) fn prolong(&mut self, slot: SlotNo, n: u32, until: Mono) {
        if let Some(running) = self.running.get_mut(&(slot, n)) {
            self.deadlines.remove(&(running.deadline, slot, n));
            (running.deadline, running.prolonged) = (until, true);
            self.deadlines.insert((until, slot, n));
        }
    }

    /// Removes and returns an observation that has ended.
    pub(in crate::kernel) fn end(&mut self, slot: SlotNo, n: u32) -> Option<Running> {
        let running = self.running.remove(&(slot, n))?;
        self.deadlines.remove(&(running.deadline, slot, n));
        Some(running)
    }

    /// Keeps a finding, to be shared.
    pub(in crate::kernel) fn found(&mut self, slot: SlotNo, finding: Finding) {
        self.by_age.push_back((finding.since, slot));
        self.fresh.insert(slot, finding);
    }

    /// Drops the finding about `slot`, for a push starts or the intent changed.
    pub(in crate::kernel) fn forget(&mut self, slot: SlotNo) {
        self.fresh.remove(&slot);
    }

    /// Drops findings from before `not_before`.
    pub(in crate::kernel) fn age(&mut self, not_before: Mono) {
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

    /// Returns the finding about this content of `slot` from `not_before` or later, with no push since.
    pub(in crate::kernel) fn reusable(
        &self,
        slot: SlotNo,
        seq: u32,
        content: Digest,
        not_before: Mono,
    ) -> Option<&Finding> {
        let fresh = self.fresh.get(&slot)?;
        (fresh.seq == seq && fresh.content == content && fresh.since >= not_before).then_some(fresh)
    }

    /// Joins the survey of a capacity that is under way. Gives the question back if there is none.
    pub(in crate::kernel) fn join_survey(
        &mut self,
        shared: &Shared,
        question: (u64, AssetId),
    ) -> Result<(), (u64, AssetId)> {
        match self.surveys.get_mut(shared) {
            Some(survey) => {
                survey.tickets.push(question);
                Ok(())
            }
            None => Err(question),
        }
    }

    /// Starts a survey of this many observations.
    pub(in crate::kernel) fn start_survey(
        &mut self,
        shared: Arc<Shared>,
        left: usize,
        question: (u64, AssetId),
    ) {
        let tickets = vec![question];
        self.surveys.insert(shared, Survey { left, tickets });
    }

    /// Notes that one observation of a survey has ended. After the last one, removes the survey and returns its
    /// questions.
    pub(in crate::kernel) fn surveyed(&mut self, shared: &Shared) -> Vec<(u64, AssetId)> {
        let Some(survey) = self.surveys.get_mut(shared) else {
            return Vec::new();
        };
        survey.left -= 1;
        if survey.left > 0 {
            return Vec::new();
        }
        let ended = self.surveys.remove(shared);
        ended.map(|survey| survey.tickets).unwrap_or_default()
    }

    #[cfg(test)]
    pub(in crate::kernel) fn running_of(&self, kind: TypeNo) -> u32 {
        let of = |running: &&Running| running.kind == kind;
        self.running.values().filter(of).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kernel::tests::rig::id;

    const CONTENT: Digest = Digest([1; 32]);

    fn running(deadline: Mono) -> Running {
        let wall = Timestamp::UNIX_EPOCH;
        Running {
            askers: Vec::new(),
            kind: TypeNo::from_index(0),
            seq: 0,
            started: Now {
                mono: Mono(0),
                wall,
            },
            deadline,
            prolonged: false,
            content: CONTENT,
        }
    }

    #[test]
    fn r10_observation_of_other_content_or_before_a_push_is_not_joined() {
        let (mut all, slot) = (Observations::default(), SlotNo::FIRST);
        all.start(slot, 1, running(Mono(10)));
        let ask = || vec![Asker::Check(1)];
        assert!(all.join(slot, 0, CONTENT, ask()).is_ok());
        assert!(all.join(slot, 0, Digest([2; 32]), ask()).is_err());
        assert!(all.join(slot, 2, CONTENT, ask()).is_err());
        assert_eq!(all.end(slot, 1).unwrap().askers.len(), 1);
    }

    #[test]
    fn deadline_of_an_observation_moves_with_it() {
        let (mut all, slot) = (Observations::default(), SlotNo::FIRST);
        all.start(slot, 1, running(Mono(10)));
        assert_eq!(all.overdue(Mono(9)), None);
        assert_eq!(all.overdue(Mono(10)), Some((Mono(10), slot, 1)));
        all.prolong(slot, 1, Mono(20));
        assert_eq!(all.next_deadline(), Some(Mono(20)));
        assert!(all.end(slot, 1).unwrap().prolonged);
        assert_eq!(all.next_deadline(), None);
    }

    #[test]
    fn r10_finding_is_shared_until_it_is_old() {
        let (mut all, slot) = (Observations::default(), SlotNo::FIRST);
        let at = |seconds| Mono(0) + Duration::from_secs(seconds);
        for since in [1, 5] {
            all.found(
                slot,
                Finding {
                    diff: Diff::in_sync(),
                    seq: 0,
                    as_of: Timestamp::UNIX_EPOCH,
                    since: at(since),
                    content: CONTENT,
                },
            );
        }
        all.age(at(3));
        assert!(all.reusable(slot, 0, CONTENT, at(3)).is_some());
        assert!(all.reusable(slot, 2, CONTENT, at(3)).is_none());
        all.age(at(6));
        assert!(all.reusable(slot, 0, CONTENT, at(0)).is_none());
    }

    #[test]
    fn r16_survey_answers_its_questions_after_the_last_observation() {
        let mut all = Observations::default();
        let shared = Arc::new(Shared {
            provider: id("p"),
            unit: "qps".into(),
        });
        assert!(all.join_survey(&shared, (1, id("a"))).is_err());
        all.start_survey(shared.clone(), 2, (1, id("a")));
        all.join_survey(&shared, (2, id("b"))).unwrap();
        assert_eq!(all.surveyed(&shared), []);
        assert_eq!(all.surveyed(&shared), [(1, id("a")), (2, id("b"))]);
        assert_eq!(all.surveyed(&shared), [], "the survey has ended");
    }
}
