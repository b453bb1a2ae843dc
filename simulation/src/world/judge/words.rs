//! Commands of operators to rollouts, as far as the judge considers them. A command counts from the moment when it is
//! given, because it may take effect at any time; a refused one does not count.

use std::time::Duration;

use annealing_strategist::Command;

use crate::{executor::Instant, world::State};

/// Maximum time until a received command takes effect, while the store is reachable.
const LATE: Duration = Duration::from_secs(60);

/// An operator's command to the rollout of a group. Kept unless it was refused.
#[derive(Debug, Clone)]
pub struct Word {
    number: u64,
    /// Time at which the command was given.
    at: Instant,
    group: usize,
    word: Command,
    /// Until this time the command may take effect.
    until: Instant,
    /// Newest accepted incarnation when the command was given.
    newest: u32,
    /// Number of rollouts that the group had completed when the command was given.
    completed: u64,
    /// Values of [`Eye::failed`](super::Eye) and [`Eye::again`](super::Eye) that it changed, by asset.
    undone: Vec<(usize, Option<u64>, bool)>,
}

impl Word {
    /// Whether the command is for the rollouts of `group`.
    pub(super) fn is_of(&self, group: usize) -> bool {
        self.group == group
    }

    /// Whether the command lets a stopped rollout go on.
    fn goes_on(&self) -> bool {
        !matches!(
            self.word,
            Command::Pause | Command::Abort | Command::Promote
        )
    }
}

impl State {
    /// Records a command of an operator to a rollout, which may take effect until `until`. Returns the command's
    /// number.
    pub fn said(&mut self, group: usize, word: Command, until: Instant) -> u64 {
        let newest = self.sealed.accepted.keys().last().copied().unwrap_or(0);
        let number = self.judge.words.last().map_or(0, |last| last.number + 1);
        let mut undone = Vec::new();
        // Content that an operator stops has not failed, and may come again with newer intent.
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

    /// Records that the store was unreachable from `since` until now: commands received in that time take effect later.
    pub fn words_waited(&mut self, since: Instant) {
        let until = self.now + LATE;
        let waited = self.judge.words.iter_mut().filter(|it| it.until >= since);
        for word in waited {
            word.until = word.until.max(until);
        }
    }

    /// Removes a refused command, and undoes the changes of [`State::said`].
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
            // A completion meanwhile may have released the failed content.
            if completed == word.completed {
                eye.failed = eye.failed.or(failed);
            }
        }
    }

    /// Records that a command was accepted. After a pause or an abort, no further target of the current rollout may
    /// move.
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
        // The command stops the rollout of the time when it was given, not a later one, which may begin at once.
        let (wishes, eyes) = (self.plan.wishes.iter(), &self.judge.eyes);
        let here = wishes
            .zip(eyes)
            .filter(|(wish, _)| wish.steady && wish.group == Some(group));
        let moved = here.filter_map(|(_, eye)| eye.pinned);
        let to = moved
            .filter(|(_, when)| *when < word.at)
            .map(|(to, _)| to)
            .max();
        let new = |to: &u32| self.judge.groups[group].head.is_none_or(|head| *to > head);
        self.judge.groups[group].stopped = to.filter(new).map(|to| (to, self.now));
    }

    /// Ends a stop: because of a command, a rollback or a completion.
    pub(super) fn goes_on(&mut self, group: usize) {
        let eye = &mut self.judge.groups[group];
        (eye.stopped, eye.turned) = (None, self.now);
    }

    /// R18: in a stopped rollout, an asset is pushed only if its pin had moved before the stop.
    pub(super) fn judge_stopped(&mut self, at: usize, group: usize, to: u32) {
        let Some((what, since)) = self.judge.groups[group].stopped else {
            return;
        };
        self.judge.look("stopped");
        let pinned = self.judge.eyes[at].pinned;
        if what == to && pinned.is_some_and(|(no, when)| no == to && when > since) {
            let what =
                format!("asset/{at:02} moves to @{to} although an operator stopped its rollout");
            self.violated("R18", what);
        }
    }

    /// Whether an operator may have promoted the content that an asset has had since `since`, new in `to`. A promotion
    /// does not cover content that comes after the command.
    pub(super) fn is_promoted(&self, at: usize, to: u32, since: Instant) -> bool {
        let group = self.plan.wishes[at].group;
        let mut words = self.judge.words.iter();
        words.any(|it| {
            let lets = Some(it.group) == group && it.word == Command::Promote;
            lets && since <= it.until && (self.now < it.until || to <= it.newest)
        })
    }

    /// Whether an operator has given the command to roll back, to retry or to hand over since `group` last completed a rollout.
    pub(super) fn is_told_back(&self, group: usize) -> bool {
        let back = |word| matches!(word, Command::RollBack | Command::Retry | Command::HandOver);
        let completed = self.judge.groups[group].completed;
        let mut words = self.judge.words.iter();
        words.any(|it| {
            let heard = it.completed == completed || self.now < it.until;
            it.group == group && back(it.word) && heard
        })
    }

    /// Whether a command to retry in `group` may take effect now.
    pub(super) fn is_forgiven(&self, group: usize) -> bool {
        let mut words = self.judge.words.iter();
        words.any(|it| it.group == group && it.word == Command::Retry && self.now < it.until)
    }
}
