//! Scenarios of the performance promise, with their peers, limits and naive twins in the same run.
//!
//! `cargo run --release -p benches -- SCENARIO [--assets N ...] [--json] [--smoke]`, or `-- all`.
#![allow(
    clippy::print_stdout,
    reason = "printing figures is what this program is for"
)]

mod assets;
mod harness;
mod measure;
mod ours;
mod peers;
mod report;
mod scenarios;
mod shared;

use clap::Parser;

/// Any error; benches only report it.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the user asks for.
#[derive(Debug, Parser)]
#[command(about = "Runs a scenario and its peers, and compares them.")]
struct Options {
    /// Which scenario, or `all`.
    #[arg(value_parser = scenarios::names())]
    scenario: String,
    /// How many assets, targets or consumers; several numbers run it several times.
    #[arg(long, visible_aliases = ["targets", "consumers"], num_args = 1..)]
    assets: Vec<usize>,
    /// One JSON object per phase instead of a table.
    #[arg(long)]
    json: bool,
    /// Small sizes, once: shows that everything runs, measures nothing.
    #[arg(long)]
    smoke: bool,
    /// Runs this side only, in this process, and prints its samples. The harness calls itself with it.
    #[arg(long, hide = true)]
    side: Option<String>,
}

fn main() -> Result<(), Error> {
    let options = Options::parse();
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
