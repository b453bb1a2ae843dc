//! Measures the scenarios of the performance targets, together with their peers in the same run.
//!
//! `cargo run --release -p benches -- SCENARIO [--backend postgres] [--assets N ...] [--json] [--smoke]`, or `-- all`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the program prints its figures"
)]

mod assets;
mod files;
mod harness;
mod lane;
mod measure;
mod ours;
mod peers;
mod report;
mod scenarios;
mod shared;

use clap::{Parser, ValueEnum};

/// Any error; the program only prints it.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// The command line of the program.
#[derive(Debug, Parser)]
#[command(about = "Runs a scenario and its peers, and compares them.")]
struct Options {
    /// Name of the scenario, or `all`.
    #[arg(value_parser = scenarios::names())]
    scenario: String,
    /// Store of the scenarios `store` and `queue`.
    #[arg(long, value_enum, default_value_t)]
    backend: Backend,
    /// Number of assets, targets, executions and so on; with several numbers the scenario runs once for each.
    #[arg(long, visible_aliases = ["targets", "consumers", "executions", "live", "messages", "schedules", "steps"], num_args = 1..)]
    assets: Vec<usize>,
    /// Print one JSON object per phase instead of a table.
    #[arg(long)]
    json: bool,
    /// Run small sizes once: shows that everything runs, and measures nothing useful.
    #[arg(long)]
    smoke: bool,
    /// Run this side only, in this process, and print its samples as JSON. The harness calls its own program with it.
    #[arg(long, hide = true)]
    side: Option<String>,
}

/// Where a scenario keeps its store.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Backend {
    /// SQLite, in a directory.
    #[default]
    Sqlite,
    /// A PostgreSQL server of the scenario's own.
    Postgres,
}

fn main() -> Result<(), Error> {
    let mut options = Options::parse();
    if matches!(options.backend, Backend::Postgres) {
        options.scenario = scenarios::on_postgres(&options.scenario)?.to_owned();
    }
    if let Some(side) = &options.side {
        let samples = harness::side(&options.scenario, side, &options.assets)?;
        println!("{}", serde_json::to_string(&samples)?);
        return Ok(());
    }
    for scenario in scenarios::named(&options.scenario) {
        let everything = options.scenario == scenarios::ALL;
        for assets in scenario
            .sizes
            .chosen(&options.assets, everything, options.smoke)
        {
            let lines = harness::run(scenario, assets, if options.smoke { 1 } else { 3 })?;
            if lines.is_empty() {
                eprintln!("{}: left out, PostgreSQL is not installed", scenario.name);
                continue;
            }
            for line in &lines {
                if options.json {
                    println!("{}", serde_json::to_string(line)?);
                }
            }
            if !options.json {
                print!("{}", report::table(scenario, assets, &lines));
            }
        }
    }
    Ok(())
}
