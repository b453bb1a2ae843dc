//! The regeneration kernel, which decides when to run. It is pure: the shell performs its effects and reports how they
//! ended.
//!
//! A change starts a run after a quiet time, at the latest some time after the first change. There is one run at a
//! time; any number of changes during a run lead to exactly one more run. Sources are also read periodically, because
//! hints can be lost. Failed reads and seals are tried again with growing pauses.

use std::time::Duration;

use plugin_sdk::{Mono, Now};

/// The times after which runs start and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time without a change before a run starts. 200 ms by default.
    pub quiet: Duration,
    /// Maximum time from the first change to the start of a run. 5 s by default.
    pub latest: Duration,
    /// Time after which sources are read again without a hint. 1 min by default.
    pub reread: Duration,
    /// Pause after the first failed read or seal. It doubles with each failure, up to `reread`. 1 s by default.
    pub retry: Duration,
    /// Maximum time to read one source. 30 s by default.
    pub read_deadline: Duration,
    /// Maximum time for all generators and validators of one run. 5 min by default.
    pub generate_deadline: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(200),
            latest: Duration::from_secs(5),
            reread: Duration::from_secs(60),
            retry: Duration::from_secs(1),
            read_deadline: Duration::from_secs(30),
            generate_deadline: Duration::from_secs(300),
        }
    }
}

/// The events that the shell reports to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A source may have changed.
    SourceChanged,
    /// A caller asks for a run without waiting for quiet.
    Asked,
    /// The time of the last [`Effect::Wake`] has come.
    Tick,
    /// All sources were read, with or without success.
    Read,
    /// The generators and validators have ended.
    Generated(Generated),
    /// The guards and external validators have ended.
    Validated(Verdict),
    /// The store has answered. True: the incarnation, or the revisions of an unchanged run, are durable. False: they
    /// are not.
    Recorded(bool),
}

/// The result of a run of generators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generated {
    /// The result differs from the incarnation in force.
    Changed,
    /// The result is equal to the incarnation in force.
    Unchanged,
    /// The content has errors. Only a change of the sources can help.
    Refused,
    /// A source or the store could not be read. Trying again can help.
    Failed,
}

/// The verdict of the guards and external validators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The incarnation can be sealed.
    Passed,
    /// The incarnation cannot be sealed until its content changes or an operator gives an override.
    Refused,
    /// The verdict is unknown because the overrides could not be read. Trying again can help.
    Failed,
}

/// The effects that the shell performs for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Read every source, then report [`Event::Read`].
    ReadSources,
    /// Run the generators whose inputs changed, then report [`Event::Generated`].
    RunGenerators,
    /// Ask the guards and external validators, then report [`Event::Validated`].
    Validate,
    /// Seal the incarnation, then report [`Event::Recorded`].
    Seal,
    /// Record the revisions of the sources that were read, then report [`Event::Recorded`].
    RecordRevisions,
    /// Report [`Event::Tick`] at this time. Replaces every earlier `Wake`.
    Wake(Mono),
}

/// The step of a run that is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Idle,
    Reading,
    Generating,
    Validating,
    Recording,
}

/// The times of changes for which no run has started yet.
#[derive(Debug, Clone, Copy)]
struct Pending {
    first: Mono,
    last: Mono,
}

/// The regeneration kernel: decides when to read, generate, validate and seal.
///
/// ```
/// use control_plane_runtime::Kernel as _;
/// use plugin_sdk::{Mono, Now};
/// use prodspec_gen::kernel::{Effect, Event, Kernel, Timing};
///
/// let at = |ms: u64| Now { mono: Mono(ms * 1_000_000), wall: Default::default() };
/// let mut kernel = Kernel::new(Timing::default());
/// let mut effects = Vec::new();
/// kernel.step(at(0), Event::SourceChanged, &mut effects);
/// assert_eq!(effects, [Effect::Wake(at(200).mono)]);
/// effects.clear();
/// kernel.step(at(200), Event::Tick, &mut effects);
/// assert_eq!(effects, [Effect::ReadSources]);
/// ```
#[derive(Debug)]
pub struct Kernel {
    timing: Timing,
    phase: Phase,
    pending: Option<Pending>,
    asked: bool,
    failures: u32,
    /// The time of the next run without a change: a retry or a periodic read.
    again: Option<Mono>,
}

impl Kernel {
    /// A kernel without pending changes and without a run in progress.
    pub fn new(timing: Timing) -> Self {
        Self {
            timing,
            phase: Phase::Idle,
            pending: None,
            asked: false,
            failures: 0,
            again: None,
        }
    }

    /// Whether a run is in progress.
    pub fn is_running(&self) -> bool {
        self.phase != Phase::Idle
    }

    fn note_change(&mut self, now: Mono) {
        match &mut self.pending {
            Some(pending) => pending.last = now,
            None => {
                self.pending = Some(Pending {
                    first: now,
                    last: now,
                });
            }
        }
    }

    /// The time at which the next run is due. `None`: no run is due.
    fn due(&self, now: Mono) -> Option<Mono> {
        if self.asked {
            return Some(now);
        }
        let Timing { quiet, latest, .. } = self.timing;
        let pending = self
            .pending
            .map(|pending| (pending.last + quiet).min(pending.first + latest));
        [pending, self.again].into_iter().flatten().min()
    }

    /// Starts a run if one is due, or asks to be woken when the next one is due.
    fn rest(&mut self, now: Mono, out: &mut Vec<Effect>) {
        match self.due(now) {
            Some(due) if due <= now => {
                self.pending = None;
                self.asked = false;
                self.again = None;
                self.phase = Phase::Reading;
                out.push(Effect::ReadSources);
            }
            Some(due) => out.push(Effect::Wake(due)),
            None => {}
        }
    }

    fn end(&mut self, now: Mono, failed: bool) {
        self.phase = Phase::Idle;
        self.failures = if failed { self.failures + 1 } else { 0 };
        let pause = match self.failures {
            0 => self.timing.reread,
            n => (self.timing.retry * 2_u32.pow((n - 1).min(16))).min(self.timing.reread),
        };
        self.again = Some(now + pause);
    }

    /// Goes on after a phase has ended: starts the next phase, or ends the run.
    fn proceed(&mut self, now: Mono, event: Event, out: &mut Vec<Effect>) {
        let (phase, effect) = match (self.phase, event) {
            (Phase::Reading, Event::Read) => (Phase::Generating, Effect::RunGenerators),
            (Phase::Generating, Event::Generated(Generated::Changed)) => {
                (Phase::Validating, Effect::Validate)
            }
            (Phase::Generating, Event::Generated(Generated::Unchanged)) => {
                (Phase::Recording, Effect::RecordRevisions)
            }
            (Phase::Validating, Event::Validated(Verdict::Passed)) => {
                (Phase::Recording, Effect::Seal)
            }
            (Phase::Generating, Event::Generated(ended)) => {
                return self.end(now, ended == Generated::Failed);
            }
            (Phase::Validating, Event::Validated(ended)) => {
                return self.end(now, ended == Verdict::Failed);
            }
            (Phase::Recording, Event::Recorded(durable)) => return self.end(now, !durable),
            // The answer does not belong to the present phase.
            _ => return,
        };
        self.phase = phase;
        out.push(effect);
    }
}

impl control_plane_runtime::Kernel for Kernel {
    type Event = Event;
    type Effects = Vec<Effect>;

    fn step(&mut self, now: Now, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::SourceChanged => self.note_change(now.mono),
            Event::Asked => self.asked = true,
            Event::Tick => {}
            answer => self.proceed(now.mono, answer, out),
        }
        if !self.is_running() {
            self.rest(now.mono, out);
        }
    }
}

#[cfg(test)]
mod tests;
