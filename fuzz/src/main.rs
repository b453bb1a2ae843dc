//! Runs parsers, editors and decoders with mutated inputs, and checks their laws.
//!
//! `cargo run --release -p fuzz -- [TARGET ...] [--seconds N] [--inputs N] [--seed S]`, and `-- TARGET --input FILE` for one input again.
//! Each target runs in a process of its own, whose memory and processor time are limited, so that a stack overflow, a run
//! without an end and an allocation without a bound are findings too.
#![allow(clippy::print_stdout, reason = "the program prints its findings")]

mod corpus;
mod judge;
mod minimise;
mod mutate;
mod process;
mod random;
mod report;
mod run;
mod seeds;
mod target;
mod targets;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, builder::PossibleValuesParser};

/// The command line of the program.
#[derive(Debug, Parser)]
#[command(about = "Runs fuzz targets with mutated inputs and checks their laws.")]
struct Options {
    /// Names of the targets; all of them if none is named.
    #[arg(value_parser = PossibleValuesParser::new(targets::ALL.map(|(name, _)| name)))]
    targets: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Most inputs for each target. With it, and enough seconds, runs are the same on every machine.
    #[arg(long, default_value_t = u64::MAX)]
    inputs: u64,
    /// Seed of the mutations. The same seed gives the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run the bytes of this file only, once.
    #[arg(long, requires = "targets")]
    input: Option<PathBuf>,
    /// Run in this process. The program calls itself with it.
    #[arg(long, hide = true, requires = "targets")]
    alone: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let mut all_well = true;
    for (name, make) in targets::ALL {
        if options.targets.is_empty() || options.targets.iter().any(|wanted| wanted == name) {
            all_well &= match (&options.alone, &options.input) {
                (Some(noted), None) => process::alone(make, &options, noted),
                (_, Some(file)) => process::once(make, file),
                (None, None) => process::watched(name, &options),
            };
        }
    }
    match all_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
