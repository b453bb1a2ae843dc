//! What people said to rollouts, as far as the judge goes by it: a word counts from the moment when it is said, since it
//! may be heard any time; one that was refused counts for nothing.

use std::time::Duration;

use annealing_strategist::Command;

use crate::{executor::Instant, world::State};

/// How long after a word was heard, and the store is there, it is done at the latest.
const LATE: Duration = Duration::from_secs(60);

/// A person's word to the rollout of a group. Kept unless it was refused.
#[derive(Debug, Clone)]
pub struct Word {
    number: u64,
    at: Instant,
    group: usize,
    word: Command,
    /// Until when it may be heard.
    until: Instant,
    /// The newest incarnation that was there then.
    newest: u32,
    /// How much the group had completed.
    completed: u64,
    /// What was failed, and was not tried again, before somebody said so.
    undone: Vec<(usize, Option<u64>, bool)>,
}

impl Word {
    /// Whether it was said to the rollouts of `group`.
    pub(super) fn is_of(&self, group: usize) -> bool {
        self.group == group
    }

    fn goes_on(&self) -> bool {
        !matches!(
            self.word,
            Command::Pause | Command::Abort | Command::Promote
        )
    }
}

impl State {
    /// A person says something to a rollout; it may be heard until then. Answers the word's number.
    pub fn said(&mut self, group: usize, word: Command, until: Instant) -> u64 {
        let newest = self.sealed.accepted.keys().last().copied().unwrap_or(0);
        let number = self.judge.words.last().map_or(0, |last| last.number + 1);
        let mut undone = Vec::new();
        // What a person stops has not failed, and may come again after newer intent.
        if matches!(word, Command::Retry | Command::Abort) {
            let here = |at: &usize| self.plan.wishes[*at].group == Some(group);
            for at in (0..self.judge.eyes.len()).filter(here) {
                let eye = &mut self.judge.eyes[at];
                undone.push((at, eye.failed, eye.again));
                eye.failed = eye.failed.filter(|_| word == Command::Abort);
                eye.again = true;
            }
        }
        let word = Word {
            number,
            at: self.now,
            group,
            word,
            until,
            newest,
            completed: self.judge.groups[group].completed,
            undone,
        };
        if word.goes_on() {
            self.goes_on(group);
        }
        self.judge.words.push(word);
        number
    }

    /// The store was away, for whom it may concern: what was heard in that time is done when it is back.
    pub fn words_waited(&mut self, since: Instant) {
        let until = self.now + LATE;
        let waited = self.judge.words.iter_mut().filter(|it| it.until >= since);
        for word in waited {
            word.until = word.until.max(until);
        }
    }

    /// A word was refused: it excuses nothing any more.
    pub fn refused(&mut self, number: u64) {
        let words = &mut self.judge.words;
        let Some(at) = words.iter().position(|word| word.number == number) else {
            return;
        };
        let word = words.remove(at);
        let completed = self.judge.groups[word.group].completed;
        let mut later = self.judge.words[at..].iter();
        let again = later
            .any(|it| it.group == word.group && matches!(it.word, Command::Retry | Command::Abort));
        if again {
            return;
        }
        for (at, failed, again) in word.undone {
            let eye = &mut self.judge.eyes[at];
            eye.again &= again;
            // What was completed meanwhile may have let it be forgotten.
            if completed == word.completed {
                eye.failed = eye.failed.or(failed);
            }
        }
    }

    /// A word was obeyed. After a pause, or an end, nothing more of what the group was rolling out gets its turn.
    pub fn heard(&mut self, number: u64) {
        let words = &self.judge.words;
        let Some(at) = words.iter().position(|word| word.number == number) else {
            return;
        };
        let word = &words[at];
        let (group, stops) = (
            word.group,
            [Command::Pause, Command::Abort].contains(&word.word),
        );
        let mut since = words[at + 1..].iter().filter(|it| it.group == group);
        if !stops || since.any(|it| it.goes_on()) || self.judge.groups[group].turned >= word.at {
            return;
        }
        // What it was rolling out when that was said: what came after it is not what was stopped.
        let (wishes, eyes) = (self.plan.wishes.iter(), &self.judge.eyes);
        let here = wishes
            .zip(eyes)
            .filter(|(wish, _)| wish.steady && wish.group == Some(group));
        let moved = here.filter_map(|(_, eye)| eye.pinned);
        let to = moved
            .filter(|(_, when)| *when <= word.at)
            .map(|(to, _)| to)
            .max();
        let new = |to: &u32| self.judge.groups[group].head.is_none_or(|head| *to > head);
        self.judge.groups[group].stopped = to.filter(new).map(|to| (to, self.now));
    }

    /// What was stopped is stopped no longer: a person said so, or it went back, or was completed.
    pub(super) fn goes_on(&mut self, group: usize) {
        let eye = &mut self.judge.groups[group];
        (eye.stopped, eye.turned) = (None, self.now);
    }

    /// What a person has stopped stands: an asset may only be pushed to it if its pin had moved before.
    pub(super) fn judge_stopped(&mut self, at: usize, group: usize, to: u32) {
        let Some((what, since)) = self.judge.groups[group].stopped else {
            return;
        };
        self.judge.look("stopped");
        let pinned = self.judge.eyes[at].pinned;
        if what == to && pinned.is_some_and(|(no, when)| no == to && when > since) {
            let what = format!("asset/{at:02} gets its turn in @{to}, which people have stopped");
            self.violated("R18", what);
        }
    }

    /// Whether what an asset has had since `since`, new in `to`, may have been let go on, baked and well or not: what comes
    /// after a person's word is not meant by it.
    pub(super) fn is_promoted(&self, at: usize, to: u32, since: Instant) -> bool {
        let group = self.plan.wishes[at].group;
        let mut words = self.judge.words.iter();
        words.any(|it| {
            let lets = Some(it.group) == group && it.word == Command::Promote;
            lets && since <= it.until && (self.now < it.until || to <= it.newest)
        })
    }

    /// Whether somebody has said, since `group` last completed something, that what it rolls out shall go back.
    pub(super) fn is_told_back(&self, group: usize) -> bool {
        let back = |word| matches!(word, Command::RollBack | Command::Retry);
        let completed = self.judge.groups[group].completed;
        let mut words = self.judge.words.iter();
        words.any(|it| {
            let heard = it.completed == completed || self.now < it.until;
            it.group == group && back(it.word) && heard
        })
    }

    /// Whether what failed in `group` may just be tried again.
    pub(super) fn is_forgiven(&self, group: usize) -> bool {
        let mut words = self.judge.words.iter();
        words.any(|it| it.group == group && it.word == Command::Retry && self.now < it.until)
    }
}
