//! An attempt: the state of an asset from a diff that may find a difference to the diff that finds none.

use std::sync::Arc;

use jiff::Timestamp;
use plugin_sdk::{Cause, Change, Claim, Delay, Guard, Key, Mono, Now, Observed};
use prodspec_model::{Digest, Incarnation, IncarnationNo};

use super::{
    last_settled::Before,
    numbers::{AttemptNo, SlotNo},
    people::Waiver,
    pin_entry::PinNo,
};
use crate::kernel::clock::wall_at;

/// The bit in [`Attempt::told`] for an asset that does not converge.
pub(in crate::kernel) const NOT_CONVERGING: u8 = 32;

/// The state of the kernel when a check started.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::kernel) struct Seen {
    /// The newest incarnation, whose policies the check reads.
    pub(in crate::kernel) newest: IncarnationNo,
    /// The count of new edges.
    pub(in crate::kernel) edges: u64,
    /// The count of assets found in sync.
    pub(in crate::kernel) settles: u64,
}

/// The state of an asset that is not idle.
#[derive(Debug, Clone)]
pub(in crate::kernel) struct Attempt {
    pub(in crate::kernel) slot: SlotNo,
    pub(in crate::kernel) phase: Phase,
    /// Rises with every change of phase, so that timers and queue entries of former phases are recognised as outdated.
    pub(in crate::kernel) generation: u32,
    /// `true`: the deadline of the call under way was extended once, because this process stood still.
    pub(in crate::kernel) prolonged: bool,
    /// End of the present wait, if the asset waits.
    pub(in crate::kernel) wakes: Option<Mono>,
    /// Deadline of the call of push under way.
    pub(in crate::kernel) call_until: Mono,
    /// Number of the call under way.
    pub(in crate::kernel) run: u32,
    /// The incarnation of which this attempt enforces the asset.
    pub(in crate::kernel) incarnation: Incarnation,
    pub(in crate::kernel) cause: Cause,
    /// The newest incarnation when the diff started. If the intent changes later, the finding is void.
    pub(in crate::kernel) latest: IncarnationNo,
    /// The slot's pin and push counter when the diff started. The finding holds only for these. The pin is
    /// [`PinNo::REPINNED`] if it moved since, or the asset left intent.
    pub(in crate::kernel) pin: PinNo,
    pub(in crate::kernel) seq: u32,
    pub(in crate::kernel) diff_started: Mono,
    pub(in crate::kernel) check_started: Mono,
    pub(in crate::kernel) seen: Seen,
    pub(in crate::kernel) change: Option<Arc<Change>>,
    pub(in crate::kernel) observed: Observed,
    pub(in crate::kernel) turndown: bool,
    /// `true`: this run repairs drift from the content that the asset settled with last, while its intent is delayed
    /// (R6).
    pub(in crate::kernel) cures: bool,
    /// `true`: the next diff of this run compares with that content.
    pub(in crate::kernel) looks_for_drift: bool,
    /// `true`: the diff under way only finds out the outcome of the push in flight. It compares with the pushed
    /// content, because the asset's intent has another type by now.
    pub(in crate::kernel) resolves: bool,
    /// The incarnation of the push in flight. Meanwhile diffs may be at a newer one.
    pub(in crate::kernel) pushed_at: Option<Incarnation>,
    /// The content that the asset settled with last, kept until the push in flight has begun.
    pub(in crate::kernel) before: Option<Before>,
    /// The guard of the provider when the push in flight began, if a former owner began it.
    pub(in crate::kernel) pushed_guard: Option<Guard>,
    /// Deadline of the push with all its follow-ups.
    pub(in crate::kernel) push_until: Mono,
    /// `true`: the record being written holds the deadline of a follow-up. `false`: it opens a new push.
    pub(in crate::kernel) follows: bool,
    /// Time until which all evidence for the push is young enough.
    pub(in crate::kernel) good_until: Mono,
    pub(in crate::kernel) relies_on: Vec<SlotNo>,
    pub(in crate::kernel) claims: Vec<Claim>,
    /// The approvals and overrides that the push in flight uses.
    pub(in crate::kernel) waivers: Vec<Waiver>,
    /// Number of claims, from the front of `claims`, that an earlier push took.
    pub(in crate::kernel) held: usize,
    pub(in crate::kernel) permit: bool,
    /// `true`: this push is the probe of the open breaker for pushes.
    pub(in crate::kernel) probes: bool,
    /// `true`: the last diff or push failed because the asset's own health check refused it.
    pub(in crate::kernel) unhealthy: bool,
    /// Number of consecutive failures.
    pub(in crate::kernel) failures: u32,
    /// Number of consecutive times that a newer incarnation voided the evidence.
    pub(in crate::kernel) voids: u8,
    /// Number of consecutive refusals because of outdated or old evidence.
    pub(in crate::kernel) stales: u8,
    /// Digest of the last pushed change, and how many times in a row it was pushed successfully.
    pub(in crate::kernel) pushed: Option<(Digest, u32)>,
    /// Number of successful pushes since the asset was in sync or its intent changed, and the number at which it was
    /// slowed down last.
    pub(in crate::kernel) pushes: u32,
    pub(in crate::kernel) slowed: u32,
    /// Set if checks named a time before which they will not let this change pass.
    pub(in crate::kernel) asleep: Option<Asleep>,
    /// Time until which the provider asked for no push, and its message.
    pub(in crate::kernel) throttled: Option<(Mono, String)>,
    /// The claim for which the asset was woken, as it may be free.
    pub(in crate::kernel) woken_for: Option<Key>,
    /// The classes of push failures that operators were notified of since the asset was in sync or pushed, one bit
    /// each, and [`NOT_CONVERGING`].
    pub(in crate::kernel) told: u8,
    /// Digest of the last recorded reason to wait, so that it is not recorded twice in a row.
    pub(in crate::kernel) said: Option<Digest>,
}

/// A change that checks will not let pass before a known time.
#[derive(Debug, Clone)]
pub(in crate::kernel) struct Asleep {
    pub(in crate::kernel) change: Digest,
    /// The cause of the delayed push. Checks may let the same change pass for another one.
    pub(in crate::kernel) cause: Cause,
    pub(in crate::kernel) until: Timestamp,
    /// The same time on the monotonic clock: setting the wall clock back does not prolong the wait.
    pub(in crate::kernel) at_latest: Mono,
    pub(in crate::kernel) delays: Vec<Delay>,
}

impl Asleep {
    /// Whether the wait still lasts. `turn` is the asset's turn at a rate, if it has one; an earlier turn shortens the
    /// wait.
    pub(in crate::kernel) fn lasts(&mut self, now: Now, turn: Option<Mono>) -> bool {
        if let Some(turn) = turn.filter(|turn| *turn < self.at_latest) {
            (self.until, self.at_latest) = (wall_at(now, turn), turn);
        }
        now.wall < self.until && now.mono < self.at_latest
    }
}

/// The step of the loop that an asset is in.
#[derive(Debug, Clone)]
pub(in crate::kernel) enum Phase {
    /// The asset is in a queue for a diff.
    Queued,
    /// The diff is under way.
    Diffing,
    /// The asset waits for push capacity of its plugin.
    Permit,
    /// The checks are under way.
    Checking,
    /// The push is admitted, and the record with this number is not durable yet.
    Journaling(u64),
    /// The push is under way.
    Pushing,
    /// The push is in progress in production and is followed up later.
    Continuing,
    /// The asset waits for a timer or an event.
    Waiting(Wait),
}

/// The reason why an asset waits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Wait {
    /// A call failed; the text is the error. Only time, changed intent, a moved pin or a command of an operator ends
    /// the wait.
    Backoff(String),
    /// Pushes succeed, and a diff finds the same change afterwards; the text says how often.
    NotConverging(String),
    /// Checks delay the push; the time is the one that they named, if they did.
    Delayed(Vec<Delay>, Option<Timestamp>),
    /// The push is blocked by another push or by a taken claim.
    Parked {
        /// The blocking push or claim, as text for operators.
        why: String,
        /// The blocking push or claim, as data.
        behind: Behind,
    },
    /// An operator has to act: the asset is paused, observe-only, without approval or turndown, or another system's.
    /// The text says which.
    Held(String),
    /// The outcome of a push is unknown: it may still be under way, started by a former owner or past its deadline.
    Unknown,
    /// Production is still working on the resource.
    InProgress,
    /// The asset is in sync until a time that its plugin named.
    LookAgain,
    /// It is not certain that this process still holds the lease.
    Lease,
}

/// The push or claim that blocks an asset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behind {
    /// The assets that hold a claim on this key.
    Claim(Key),
    /// The push of this slot, or the pushes that rely on it.
    Push(SlotNo),
    /// No particular asset: other pushes in general.
    Many,
}

impl Wait {
    /// Whether only time, changed intent, a moved pin or a command of an operator ends the wait.
    pub(in crate::kernel) fn is_patient(&self) -> bool {
        matches!(
            self,
            Self::Backoff(_) | Self::NotConverging(_) | Self::Unknown
        )
    }
}

impl Attempt {
    /// The delays for which the asset waits, or for which it sleeps while it is looked at for drift.
    pub(in crate::kernel) fn delays(&self) -> Option<&[Delay]> {
        match &self.phase {
            Phase::Waiting(Wait::Delayed(delays, _)) => Some(delays),
            _ => self.asleep.as_ref().map(|it| &*it.delays),
        }
    }

    pub(in crate::kernel) fn new(slot: SlotNo, incarnation: Incarnation, cause: Cause) -> Self {
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
            pin: PinNo::NEWEST,
            seq: 0,
            diff_started: Mono(0),
            check_started: Mono(0),
            seen: Seen::default(),
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
            waivers: Vec::new(),
            held: 0,
            permit: false,
            probes: false,
            unhealthy: false,
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

impl Attempt {
    /// Resets a spare attempt for another asset. Fields that a diff, check or push sets before they are read keep
    /// their values.
    fn reset(&mut self, slot: SlotNo, incarnation: Incarnation, cause: Cause) {
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
        (self.permit, self.probes, self.unhealthy) = (false, false, false);
        self.relies_on.clear();
        self.claims.clear();
        self.waivers.clear();
    }

    /// Forgets the pushes counted so far, because the asset is in sync or its intent changed: they no longer tell
    /// whether it converges.
    pub(in crate::kernel) fn forget_pushes(&mut self) {
        (self.pushed, self.pushes, self.slowed) = (None, 0, 0);
        self.told &= !NOT_CONVERGING;
    }

    /// Begins another phase: timers and queue entries of the former phase no longer count.
    pub(in crate::kernel) fn advance(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Whether the asset waits for an operator.
    pub(in crate::kernel) fn is_held(&self) -> bool {
        matches!(&self.phase, Phase::Waiting(Wait::Held(_)))
    }
}

/// The attempts by number. The numbers of ended attempts are reused.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Attempts {
    all: Vec<Option<Box<Attempt>>>,
    /// By number: the first generation of the next attempt, so that timers of ended ones never match.
    generations: Vec<u32>,
    free: Vec<AttemptNo>,
    /// Boxes of ended attempts, to be reused: an asset that is in sync causes no allocation.
    #[allow(clippy::vec_box, reason = "the boxes themselves are reused")]
    spare: Vec<Box<Attempt>>,
}

impl Attempts {
    pub(in crate::kernel) fn insert(
        &mut self,
        slot: SlotNo,
        incarnation: Incarnation,
        cause: Cause,
    ) -> AttemptNo {
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.generations.push(0);
            AttemptNo::from_index(self.all.len() - 1)
        });
        let mut attempt = match self.spare.pop() {
            Some(mut spare) => {
                spare.reset(slot, incarnation, cause);
                spare
            }
            None => Box::new(Attempt::new(slot, incarnation, cause)),
        };
        attempt.generation = self.generations[at.index()];
        self.all[at.index()] = Some(attempt);
        at
    }

    pub(in crate::kernel) fn at(&self, at: AttemptNo) -> Option<&Attempt> {
        self.all.get(at.index())?.as_deref()
    }

    pub(in crate::kernel) fn at_mut(&mut self, at: AttemptNo) -> Option<&mut Attempt> {
        self.all.get_mut(at.index())?.as_deref_mut()
    }

    pub(in crate::kernel) fn remove(&mut self, at: AttemptNo) {
        if at == AttemptNo::NONE {
            return;
        }
        if let Some(boxed) = self.all.get_mut(at.index()).and_then(Option::take) {
            self.generations[at.index()] = boxed.generation.wrapping_add(1);
            self.free.push(at);
            if self.spare.len() < 64 {
                self.spare.push(boxed);
            }
        }
    }

    pub(in crate::kernel) fn iter(&self) -> impl Iterator<Item = &Attempt> {
        self.all.iter().filter_map(|entry| entry.as_deref())
    }
}
