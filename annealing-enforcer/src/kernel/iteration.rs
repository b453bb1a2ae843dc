//! What is known of an asset while it is restless: from the diff that may find something to the one that finds nothing.

use std::sync::Arc;

use jiff::Timestamp;
use plugin_sdk::{Cause, Change, Claim, Delay, Guard, Key, Mono, Now, Observed};
use prodspec_model::{Digest, Incarnation, IncarnationNo};

use super::{cure::Before, people::Word, slot::NONE, waiting::wall_at};

/// The pin of an iteration whose asset was pinned anew since its diff.
pub(super) const REPINNED: u32 = u32::MAX;

/// A restless asset.
#[derive(Debug, Clone)]
pub(super) struct Iteration {
    pub(super) slot: u32,
    pub(super) phase: Phase,
    /// Makes old timers and old parkings recognisable: rises with every change of phase.
    pub(super) generation: u32,
    /// The call under way was given the time that it lost because this process stood still.
    pub(super) prolonged: bool,
    /// When it wakes by itself, while it waits.
    pub(super) wakes: Option<Mono>,
    /// When the call of push under way has to be over.
    pub(super) call_until: Mono,
    /// The number of the call under way.
    pub(super) run: u32,
    /// The intent that this run is about.
    pub(super) incarnation: Incarnation,
    pub(super) cause: Cause,
    /// The newest incarnation when the diff started: intent that changed later voids what it finds.
    pub(super) latest: IncarnationNo,
    /// The slot's pin and push counter when the diff started: what the finding rests on.
    pub(super) pin: u32,
    pub(super) seq: u32,
    pub(super) diff_started: Mono,
    pub(super) check_started: Mono,
    /// The kernel's counts of new edges, and of assets found in sync, when the check started.
    pub(super) edges_seen: u64,
    pub(super) settles_seen: u64,
    pub(super) change: Option<Arc<Change>>,
    pub(super) observed: Observed,
    pub(super) turndown: bool,
    /// This run is about the content that the asset settled with last, not about its intent (R6).
    pub(super) cures: bool,
    /// The next diff of this run is of that content.
    pub(super) looks_for_drift: bool,
    /// The diff under way is to tell what became of the push in flight only: it is of what was pushed, not of the
    /// asset's intent, which is of another type.
    pub(super) resolves: bool,
    /// The incarnation that the push in flight is of. Diffs of it may be at a newer one meanwhile.
    pub(super) pushed_at: Option<Incarnation>,
    /// What the asset settled with last, until the push in flight has begun.
    pub(super) before: Option<Before>,
    /// How well the provider kept old calls out when the push in flight began, if that was under another owner.
    pub(super) pushed_guard: Option<Guard>,
    /// When the push, with all its follow-ups, has to be over.
    pub(super) push_until: Mono,
    /// What is being written is how long a follow-up may take, not a push that is to start.
    pub(super) follows: bool,
    /// Until when all evidence that the push rests on is young enough.
    pub(super) good_until: Mono,
    pub(super) relies_on: Vec<u32>,
    pub(super) claims: Vec<Claim>,
    /// The words of people that let the push in flight through.
    pub(super) words: Vec<Word>,
    /// How many of the claims an earlier push took.
    pub(super) held: usize,
    pub(super) permit: bool,
    /// Its push is the one that shows whether the plugin's pushes work again.
    pub(super) probes: bool,
    /// Consecutive failures.
    pub(super) failures: u32,
    /// Consecutive voids by newer incarnations.
    pub(super) voids: u8,
    /// Consecutive refusals because evidence was overtaken or too old.
    pub(super) stales: u8,
    /// The change pushed last, and how many times in a row it was pushed successfully.
    pub(super) pushed: Option<(Digest, u32)>,
    /// Successful pushes, of whatever change, since it was in sync or its intent changed; for how many it was slowed.
    pub(super) pushes: u32,
    pub(super) slowed: u32,
    /// Checks named a time before which they will not pass this very change.
    pub(super) asleep: Option<Asleep>,
    /// Until when the provider asked not to be pushed, and what it said.
    pub(super) throttled: Option<(Mono, String)>,
    /// Woken because this claim may be free.
    pub(super) woken_for: Option<Key>,
    /// The classes of failures of pushes that operators were told of since it was in sync or pushed, one bit each.
    pub(super) told: u8,
    /// What the last recorded decision said, so that it is not said again.
    pub(super) said: Option<Digest>,
}

/// A change that checks will not pass before a known time.
#[derive(Debug, Clone)]
pub(super) struct Asleep {
    pub(super) change: Digest,
    pub(super) until: Timestamp,
    /// When that is by the monotonic clock: a wall clock that is put back does not prolong it.
    pub(super) at_latest: Mono,
    pub(super) delays: Vec<Delay>,
}

impl Asleep {
    /// Whether it is still to sleep, now that its turn at a rate comes at `turn`, if it waits for one.
    pub(super) fn lasts(&mut self, now: Now, turn: Option<Mono>) -> bool {
        if let Some(turn) = turn.filter(|turn| *turn < self.at_latest) {
            (self.until, self.at_latest) = (wall_at(now, turn), turn);
        }
        now.wall < self.until && now.mono < self.at_latest
    }
}

/// Where a restless asset is in its loop.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// In a queue for a diff.
    Queued,
    /// The diff is under way.
    Diffing,
    /// The push has to wait for the plugin's capacity.
    Permit,
    /// The checks are under way.
    Checking,
    /// Admitted; the journal is not durable up to this record yet.
    Journaling(u64),
    /// The push is under way.
    Pushing,
    /// The provider works on it; call it again later.
    Continuing,
    /// Nothing to do until a timer or an event.
    Waiting(Wait),
}

/// What a waiting asset waits for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Wait {
    /// It failed so many times in a row; only changed intent cuts this short.
    Backoff(String),
    /// Checks delay it. Asleep until the given time, if they named one.
    Delayed(Vec<Delay>, Option<Timestamp>),
    /// Another push relies on it, or a claim is taken.
    Parked {
        /// Which it is, for people.
        why: String,
        /// What is in the way.
        behind: Behind,
    },
    /// Paused, observe-only, without approval, without turndown, another system's: a person has to act.
    Held(String),
    /// A push may still be under way under an old owner, or after its deadline.
    Unknown,
    /// Work on it is under way in production.
    InProgress,
    /// In sync; intent falls due by time.
    LookAgain,
    /// No ownership that is sure to last.
    Lease,
}

/// What is in a parked asset's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behind {
    /// Whoever holds this key.
    Claim(Key),
    /// The push of this slot, or those that rely on it.
    Push(u32),
    /// Nobody in particular.
    Many,
}

impl Wait {
    /// Whether something other than time and changed intent may end it.
    pub(super) fn is_patient(&self) -> bool {
        matches!(self, Self::Backoff(_) | Self::Unknown)
    }
}

impl Iteration {
    pub(super) fn new(slot: u32, incarnation: Incarnation, cause: Cause) -> Self {
        Self {
            slot,
            phase: Phase::Queued,
            generation: 0,
            prolonged: false,
            wakes: None,
            call_until: Mono(0),
            run: 0,
            incarnation,
            cause,
            latest: IncarnationNo::default(),
            pin: 0,
            seq: 0,
            diff_started: Mono(0),
            check_started: Mono(0),
            edges_seen: 0,
            settles_seen: 0,
            change: None,
            observed: Observed::default(),
            turndown: false,
            cures: false,
            looks_for_drift: false,
            resolves: false,
            pushed_at: None,
            before: None,
            pushed_guard: None,
            push_until: Mono(0),
            follows: false,
            good_until: Mono(0),
            relies_on: Vec::new(),
            claims: Vec::new(),
            words: Vec::new(),
            held: 0,
            permit: false,
            probes: false,
            failures: 0,
            voids: 0,
            stales: 0,
            pushed: None,
            pushes: 0,
            slowed: 0,
            asleep: None,
            throttled: None,
            woken_for: None,
            told: 0,
            said: None,
        }
    }
}

impl Iteration {
    /// Starts over for another asset. What a diff, a check or a push sets before it is read is left as it is.
    fn reset(&mut self, slot: u32, incarnation: Incarnation, cause: Cause) {
        (self.slot, self.incarnation, self.cause) = (slot, incarnation, cause);
        self.phase = Phase::Queued;
        (self.failures, self.voids, self.stales) = (0, 0, 0);
        (self.change, self.said, self.told) = (None, None, 0);
        self.forget_pushes();
        (self.asleep, self.throttled) = (None, None);
        (self.woken_for, self.wakes) = (None, None);
        (self.turndown, self.follows) = (false, false);
        (self.cures, self.looks_for_drift) = (false, false);
        (self.pushed_at, self.pushed_guard) = (None, None);
        (self.permit, self.probes) = (false, false);
        self.relies_on.clear();
        self.claims.clear();
        self.words.clear();
    }

    /// In sync, or meant to be otherwise: what was pushed before says nothing about whether it converges.
    pub(super) fn forget_pushes(&mut self) {
        (self.pushed, self.pushes, self.slowed) = (None, 0, 0);
    }

    /// Another phase: timers and parkings of the one before no longer count.
    pub(super) fn advance(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Whether it waits for a person.
    pub(super) fn is_held(&self) -> bool {
        matches!(&self.phase, Phase::Waiting(Wait::Held(_)))
    }
}

/// Iterations by number, with the numbers of ended ones used again.
#[derive(Debug, Default)]
pub(super) struct Iterations {
    all: Vec<Option<Box<Iteration>>>,
    /// The first generation of the next iteration with this number: timers of ended ones never match.
    generations: Vec<u32>,
    free: Vec<u32>,
    /// Boxes of ended iterations: the path of an asset in sync allocates nothing.
    #[allow(clippy::vec_box, reason = "the boxes are what is used again")]
    spare: Vec<Box<Iteration>>,
}

impl Iterations {
    pub(super) fn insert(&mut self, slot: u32, incarnation: Incarnation, cause: Cause) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.generations.push(0);
            (self.all.len() - 1) as u32
        });
        let mut iteration = match self.spare.pop() {
            Some(mut spare) => {
                spare.reset(slot, incarnation, cause);
                spare
            }
            None => Box::new(Iteration::new(slot, incarnation, cause)),
        };
        iteration.generation = self.generations[at as usize];
        self.all[at as usize] = Some(iteration);
        at
    }

    pub(super) fn at(&self, at: u32) -> Option<&Iteration> {
        self.all.get(at as usize)?.as_deref()
    }

    pub(super) fn at_mut(&mut self, at: u32) -> Option<&mut Iteration> {
        self.all.get_mut(at as usize)?.as_deref_mut()
    }

    pub(super) fn remove(&mut self, at: u32) {
        if at == NONE {
            return;
        }
        if let Some(boxed) = self.all.get_mut(at as usize).and_then(Option::take) {
            self.generations[at as usize] = boxed.generation.wrapping_add(1);
            self.free.push(at);
            if self.spare.len() < 64 {
                self.spare.push(boxed);
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Iteration> {
        self.all.iter().filter_map(|entry| entry.as_deref())
    }
}
