//! Command line program: runs seeds and reports the violations.

use std::{
    collections::{BTreeMap, hash_map::RandomState},
    hash::BuildHasher,
    io::Write,
    process::ExitCode,
};

use clap::Parser;
use simulation::{
    Scenario, Sum,
    changes::{two_at_a_time, year},
    run_all,
};

/// Runs enforcement and rollouts on many seeds in virtual time.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed. If it is not given, a random one is drawn and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Run every seed twice and compare both runs. Without this option every 50th seed runs twice.
    #[arg(long)]
    check_replay: bool,
    /// Maximum number of last events shown for a failing seed.
    #[arg(long, default_value_t = 60)]
    events: usize,
    /// Run changes of sources and trains through the whole control plane, instead of enforcement and rollouts.
    #[arg(long)]
    changes: bool,
    /// Run a year of a train with a version a day for each seed.
    #[arg(long, conflicts_with = "changes")]
    year: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// With at least this many seeds, a counter that stays at zero is a failure, and so is one above its budget.
const ENOUGH: u64 = 200;

/// Upper bound of drawn seeds, exclusive.
const DRAWN: u64 = 1_000_000_000_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let first = arguments.seed.unwrap_or_else(drawn);
    if !arguments.json {
        // Print the seeds first, so that an interrupted run can be repeated.
        let _ = writeln!(std::io::stdout(), "{}", told(first, arguments.seeds));
    }
    if arguments.changes {
        return changes_of(first, arguments.seeds);
    }
    if arguments.year {
        return years_of(first, arguments.seeds);
    }
    let again = |seed| arguments.check_replay || seed % 50 == 0;
    let sum = run_all(first, arguments.seeds, Scenario::choose, again);
    let never = sum.never();
    let over = sum.over_budget();
    let unseen = arguments.seeds >= ENOUGH && !(never.is_empty() && over.is_empty());
    let mut out = std::io::stdout().lock();
    // Ignore the error of a closed pipe.
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

/// Runs changes and trains, and writes the failing seeds and the counters.
fn changes_of(first: u64, seeds: u64) -> ExitCode {
    let reports = simulation::changes::run_all(first, seeds);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut out = std::io::stdout().lock();
    let mut failed = 0;
    for report in &reports {
        for (event, count) in &report.counts {
            *counts.entry(event).or_default() += count;
        }
        if let Some((rule, how)) = &report.violation {
            failed += 1;
            // Ignore the error of a closed pipe, here and below.
            let _ = writeln!(out, "seed {}: {rule}: {how}", report.seed);
        }
    }
    for (event, count) in &counts {
        let _ = writeln!(out, "{count:>12} {event}");
    }
    let steps: u64 = reports.iter().map(|report| report.steps).sum();
    let _ = writeln!(out, "{seeds} seeds, {failed} violations; {steps} steps");
    ExitCode::from(u8::from(failed > 0))
}

/// Runs years, two at a time, and writes how many rollouts have ended without a person.
fn years_of(first: u64, seeds: u64) -> ExitCode {
    let years = two_at_a_time(first, seeds, year);
    let mut out = std::io::stdout().lock();
    let (mut rollouts, mut exceptions, mut failed) = (0, 0, 0);
    for year in &years {
        rollouts += year.rollouts;
        exceptions += year.exceptions.len();
        // Ignore the error of a closed pipe, here and below.
        if let Some((rule, how)) = &year.report.violation {
            failed += 1;
            let _ = writeln!(out, "seed {}: {rule}: {how}", year.report.seed);
        }
        for why in &year.exceptions {
            let _ = writeln!(out, "seed {}: {why}", year.report.seed);
        }
    }
    let _ = writeln!(
        out,
        "{rollouts} rollouts in {seeds} years, {exceptions} waited for a person, {failed} violations"
    );
    let too_many = exceptions * 100 > rollouts * 3;
    ExitCode::from(u8::from(failed > 0 || too_many))
}

/// Draws a random first seed, so that runs differ from earlier runs and from the tests. It is short enough to type.
fn drawn() -> u64 {
    // The keys of a `RandomState` come from the system's randomness.
    RandomState::new().hash_one(std::process::id()) % DRAWN
}

/// The line that names the seeds of this run.
fn told(first: u64, seeds: u64) -> String {
    format!("seeds {first} to {}", first + seeds.saturating_sub(1))
}

/// Writes the counters, the failing seeds with their last events, and a summary.
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
        writeln!(out, "seed {seed} gave different events in its second run")?;
    }
    if !never.is_empty() {
        writeln!(out, "never seen: {}", never.join(", "))?;
    }
    let over = sum.over_budget();
    if !over.is_empty() {
        writeln!(out, "above the budget: {}", over.join(", "))?;
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
