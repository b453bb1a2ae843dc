//! Runs seeds and says what came of them.

use std::{collections::hash_map::RandomState, hash::BuildHasher, io::Write, process::ExitCode};

use clap::Parser;
use simulation::{Scenario, Sum, run_all};

/// Runs enforcement and rollouts on many seeds in virtual time.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed. Drawn anew, and printed, if it is not said.
    #[arg(long)]
    seed: Option<u64>,
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

/// Drawn seeds are below this.
const DRAWN: u64 = 1_000_000_000_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let first = arguments.seed.unwrap_or_else(drawn);
    if !arguments.json {
        // Before they run: a run that is cut short can be repeated too.
        let _ = writeln!(std::io::stdout(), "{}", told(first, arguments.seeds));
    }
    let again = |seed| arguments.check_replay || seed % 50 == 0;
    let sum = run_all(first, arguments.seeds, Scenario::choose, again);
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

/// A first seed that no earlier run and no test has used, as far as chance allows. Short enough to be typed.
fn drawn() -> u64 {
    // The keys of a hash state come from the system's randomness.
    RandomState::new().hash_one(std::process::id()) % DRAWN
}

/// Which seeds run.
fn told(first: u64, seeds: u64) -> String {
    format!("seeds {first} to {}", first + seeds.saturating_sub(1))
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
