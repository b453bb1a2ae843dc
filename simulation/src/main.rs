//! Runs seeds and says what came of them.

use std::{io::Write, process::ExitCode};

use clap::Parser;
use simulation::{Scenario, Sum, run_all};

/// Runs enforcement and rollouts on many seeds in virtual time.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Run every seed twice, and see that it goes the same way. Otherwise every 50th.
    #[arg(long)]
    check_replay: bool,
    /// How many of the last events of a failing seed are shown.
    #[arg(long, default_value_t = 60)]
    events: usize,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// From so many seeds on, everything that can be seen must have been seen.
const ENOUGH: u64 = 200;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let again = |seed| arguments.check_replay || seed % 50 == 0;
    let sum = run_all(arguments.seed, arguments.seeds, Scenario::choose, again);
    let never = sum.never();
    let unseen = arguments.seeds >= ENOUGH && !never.is_empty();
    let mut out = std::io::stdout().lock();
    // A reader that is gone is not told.
    let _ = if arguments.json {
        serde_json::to_string(&sum)
            .map(|json| writeln!(out, "{json}"))
            .map(|_| ())
    } else {
        let _ = tell(&mut out, &sum, &never, arguments.events);
        Ok(())
    };
    let failed = unseen || !sum.violations.is_empty() || !sum.not_replayed.is_empty();
    ExitCode::from(u8::from(failed))
}

fn tell(out: &mut impl Write, sum: &Sum, never: &[&str], events: usize) -> std::io::Result<()> {
    for (name, count) in &sum.counts {
        writeln!(out, "{count:>12} {name}")?;
    }
    for (seed, what, tail) in &sum.violations {
        for event in &tail[tail.len().saturating_sub(events)..] {
            writeln!(out, "  {event}")?;
        }
        writeln!(out, "seed {seed}: {what}")?;
    }
    for seed in &sum.not_replayed {
        writeln!(out, "seed {seed} went differently the second time")?;
    }
    if !never.is_empty() {
        writeln!(out, "never seen: {}", never.join(", "))?;
    }
    writeln!(
        out,
        "{} seeds, {} violations; {} steps, at least {} a seed; at least {} assets",
        sum.seeds,
        sum.violations.len(),
        sum.steps,
        sum.fewest_steps,
        sum.fewest_assets
    )
}
