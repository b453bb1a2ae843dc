//! Runs one input and judges it: panics, processor time and memory beside the target's own laws.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

use crate::{
    minimise::minimise,
    target::{Broken, Class, Effort, Target, law},
};

/// The law for panics.
pub(crate) const NO_PANIC: &str = "a run never panics";
/// The law for processor time.
pub(crate) const TIME: &str = "a run ends within its processor time";
/// The law for memory.
pub(crate) const MEMORY: &str = "a run stays within its memory";

/// What a run may use, and how that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Most processor time of one run.
    pub(crate) time: Duration,
    /// Most bytes by which one run raises the highest memory of the process.
    pub(crate) memory: u64,
    /// The processor time of this process so far.
    pub(crate) clock: fn() -> Duration,
    /// The highest resident memory of this process so far, in bytes.
    pub(crate) peak: fn() -> u64,
}

impl Bounds {
    /// The bounds of this process.
    pub(crate) fn of_process() -> Self {
        Self {
            time: Duration::from_secs(2),
            memory: 192 << 20,
            clock: processor_time,
            peak: peak_memory,
        }
    }
}

/// Most inputs that are tried to find a smaller one.
const CANDIDATES: usize = 4_000;
/// Shortest run after which memory is looked at: a shorter one cannot fill much.
const BRIEF: Duration = Duration::from_millis(1);

/// Judges the runs of one target.
pub(crate) struct Judge<'t> {
    target: &'t dyn Target,
    bounds: Bounds,
    /// The highest memory before this run.
    low: u64,
}

impl<'t> Judge<'t> {
    /// A judge of `target`, who allows what the bounds say.
    pub(crate) fn new(target: &'t dyn Target, bounds: Bounds) -> Self {
        let low = (bounds.peak)();
        Self {
            target,
            bounds,
            low,
        }
    }

    /// Runs an input once. A thorough run has no bounds.
    ///
    /// # Errors
    /// The law that it broke.
    pub(crate) fn run(&mut self, input: &[u8], effort: Effort) -> Result<Class, Broken> {
        let began = (self.bounds.clock)();
        let run = catch_unwind(AssertUnwindSafe(|| self.target.run(input, effort)));
        let panicked = |panic: Box<dyn Any + Send>| Broken {
            law: NO_PANIC,
            details: said(&*panic),
        };
        let class = run.map_err(panicked)??;
        let took = (self.bounds.clock)().saturating_sub(began);
        if effort == Effort::Quick && took >= BRIEF {
            self.check(took)?;
        }
        Ok(class)
    }

    fn check(&mut self, took: Duration) -> Result<(), Broken> {
        let Bounds {
            time, memory, peak, ..
        } = self.bounds;
        law(took <= time, TIME, || {
            format!("{took:?} of processor time, {time:?} are allowed")
        })?;
        let high = peak();
        let grew = high.saturating_sub(std::mem::replace(&mut self.low, high));
        law(grew <= memory, MEMORY, || {
            format!("{grew} bytes more, {memory} are allowed")
        })
    }

    /// The smallest input found that breaks the same law, and how it breaks it.
    pub(crate) fn minimise(&mut self, input: &[u8], broken: Broken) -> (Vec<u8>, Broken) {
        let effort = match broken.law {
            // The highest memory of a process never falls, so a second run shows nothing.
            MEMORY => return (input.to_vec(), broken),
            TIME => Effort::Quick,
            _ => Effort::Thorough,
        };
        let mut last = broken;
        let smaller = minimise(input, CANDIDATES, |candidate| {
            match self.run(candidate, effort) {
                Err(found) if found.law == last.law => {
                    last = found;
                    true
                }
                _ => false,
            }
        });
        (smaller, last)
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a text".into())
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default() << 10
}
