//! R105: how often the comparison of a health policy condemns a good version, and how soon it condemns a bad one.
//!
//! `cargo run --release -p benches --bin health_study -- [--runs 400] [--faults 100] [--only TEXT]`
//!
//! Each run is a rollout of one asset that is looked at in each of 1,000 windows, through the validator that services use. A false
//! alarm is a run without a fault in which one of the looks is unhealthy. The delay of a fault is the number of windows until the
//! first look that is unhealthy, as the median of the runs that judge.
#![allow(clippy::print_stdout, reason = "the program prints its figures")]

mod cases;
mod run;

use clap::Parser;
use rand::{SeedableRng, rngs::SmallRng};

use cases::{Case, all};
use run::{Ended, LOOKS, run};

/// Any error; the program only prints it.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// The command line of the program.
#[derive(Debug, Parser)]
#[command(about = "Counts false alarms of comparisons, and delays until faults are seen.")]
struct Options {
    /// Number of runs without a fault of each case.
    #[arg(long, default_value_t = 400)]
    runs: u64,
    /// Number of runs with each fault of each case.
    #[arg(long, default_value_t = 100)]
    faults: u64,
    /// Only cases whose names contain this text.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> Result<(), Error> {
    let options = Options::parse();
    println!(
        "| no fault: {} runs of {LOOKS} looks | false alarms, guard 1 | guard 1.5 | not judged | x2 seen after | x10 |",
        options.runs
    );
    println!("|---|---|---|---|---|---|");
    for case in all().iter().filter(|it| it.name.contains(&options.only)) {
        println!("{}", line(case, &options)?);
    }
    Ok(())
}

/// The line of the table for one case.
fn line(case: &Case, options: &Options) -> Result<String, Error> {
    let null = runs(case, 1.0, options.runs)?;
    let all = null.len().max(1) as f64;
    let share =
        |of: fn(&Ended) -> bool| 100.0 * null.iter().filter(|it| of(it)).count() as f64 / all;
    let delay = |times: f64| -> Result<String, Error> {
        let ended = runs(case, times, options.faults)?;
        let judged: Vec<&Ended> = ended.iter().filter(|it| !it.not_judged).collect();
        let mut seen: Vec<u32> = judged
            .iter()
            .map(|it| it.seen.unwrap_or(u32::MAX))
            .collect();
        seen.sort_unstable();
        Ok(match seen.get(seen.len() / 2) {
            None => "not judged".to_owned(),
            Some(&u32::MAX) => "-".to_owned(),
            Some(windows) => windows.to_string(),
        })
    };
    Ok(format!(
        "| {} | {:.1}% | {:.1}% | {:.0}% | {} | {} |",
        case.name,
        share(|it| it.alarm_at_1),
        share(|it| it.alarm),
        share(|it| it.not_judged),
        delay(2.0)?,
        delay(10.0)?,
    ))
}

fn runs(case: &Case, times: f64, many: u64) -> Result<Vec<Ended>, Error> {
    (0..many)
        .map(|seed| run(case, times, &mut SmallRng::seed_from_u64(seed)))
        .collect()
}
