//! The `testbed` program: the processes of production and nothing else. The tests of this crate start it.

use std::process::ExitCode;

use clap::Parser;
use testbed::{production::Process, voice};

/// Run one process of production: a cell, one of its tasks, or its balancer.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    process: Process,
}

fn main() -> ExitCode {
    voice::complain_of_panics();
    tracing_subscriber::fmt()
        .with_writer(|| voice::Log)
        .with_ansi(false)
        .init();
    match run(Cli::parse().process) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            voice::complain(error);
            ExitCode::FAILURE
        }
    }
}

fn run(process: Process) -> Result<(), testbed::production::Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = runtime.block_on(process.run());
    // A blocking read of standard input may still be waiting; it must not delay the exit.
    runtime.shutdown_background();
    done
}
