//! The `testbed` program: the processes of production and nothing else. The tests of this crate start it.

use std::process::ExitCode;

use clap::Parser;
use testbed::{command::start, production::Process};

/// Run one process of production: a cell, one of its tasks, or its balancer.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    process: Process,
}

fn main() -> ExitCode {
    let Cli { process } = Cli::parse();
    start("info", async {
        process.run().await?;
        Ok(ExitCode::SUCCESS)
    })
}
