//! When to run: the regeneration kernel. Pure; the shell performs its effects and says how they ended.
//!
//! A change starts a run after a time of quiet, at the latest some time after the first change; one run at a time; any
//! number of changes during a run make exactly one more. Sources are read again from time to time, since hints may be
//! lost; what failed outside is tried again with growing pauses.

use std::time::Duration;

use plugin_sdk::{Mono, Now};

/// When changes start a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// So long must it be quiet after a change. 200 ms by default.
    pub quiet: Duration,
    /// At the latest so long after the first change. 5 s by default.
    pub latest: Duration,
    /// Without any hint, sources are read again after so long. 1 min by default.
    pub reread: Duration,
    /// The first pause after a failed read or seal; doubles up to `reread`. 1 s by default.
    pub retry: Duration,
    /// So long may one source take to be read. 30 s by default.
    pub read_deadline: Duration,
    /// So long may generators and validators of one run take. 5 min by default.
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

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A source may have changed.
    SourceChanged,
    /// Somebody wants a run at once.
    Asked,
    /// The time asked for with [`Effect::Wake`] has come.
    Tick,
    /// Every source was read, or could not be.
    Read,
    /// The generators ran.
    Generated(Generated),
    /// Guards and external validators were asked.
    Validated(Verdict),
    /// The incarnation is durable, or the unchanged revisions are recorded; or not (`false`).
    Recorded(bool),
}

/// How a run of generators ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generated {
    /// There is something new.
    Changed,
    /// The result is what is in force.
    Unchanged,
    /// There are errors in the content: only a change can help.
    Refused,
    /// A source could not be read, or the store: trying again can help.
    Failed,
}

/// What guards and external validators say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may be sealed.
    Passed,
    /// It may not, until it changes or somebody overrides.
    Refused,
    /// They could not be asked.
    Failed,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Read every source, then say [`Event::Read`].
    ReadSources,
    /// Run the generators whose inputs changed, then say [`Event::Generated`].
    RunGenerators,
    /// Ask guards and external validators, then say [`Event::Validated`].
    Validate,
    /// Seal, then say [`Event::Recorded`].
    Seal,
    /// Record which revisions were seen, then say [`Event::Recorded`].
    RecordRevisions,
    /// Say [`Event::Tick`] then. Replaces every earlier one.
    Wake(Mono),
}

/// What is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Idle,
    Reading,
    Generating,
    Validating,
    Recording,
}

/// Changes that no run has taken up yet.
#[derive(Debug, Clone, Copy)]
struct Pending {
    first: Mono,
    last: Mono,
}

/// Decides when to run.
///
/// ```
/// use plane_runtime::Kernel as _;
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
    /// When to run although nothing is pending: a retry or the next look from time to time.
    again: Option<Mono>,
}

impl Kernel {
    /// Nothing known, nothing under way.
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

    /// Whether a run is under way.
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

    /// When the next run is due.
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

    /// Starts a run that is due, or says when to look again.
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

    /// What follows when a phase ended: the next one, or the end of the run.
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
            // An answer that nobody waits for.
            _ => return,
        };
        self.phase = phase;
        out.push(effect);
    }
}

impl plane_runtime::Kernel for Kernel {
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
