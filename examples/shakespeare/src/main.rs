//! The `shakespeare` program. It contains the command line only; everything else is in the library, where it is tested.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use shakespeare::{Shakespeare, demo};
use testbed::{
    command::{self, start},
    place::Place,
};

/// Run the Shakespeare service on real processes, with a control plane that keeps it equal to its manifest.
///
/// Without a command, the program does `run`.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The state directory: manifest, store, control socket and the directories of the cells.
    #[arg(long, global = true, default_value = "state")]
    state: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Common(command::Command),
    /// Play a scripted session in a directory of its own, and judge it from outside.
    Demo(demo::Options),
}

fn main() -> ExitCode {
    let Cli { state, command } = Cli::parse();
    match command.unwrap_or(Command::Common(command::Command::Run)) {
        Command::Common(common) => {
            let level = common.log_level();
            start(level, common.perform::<Shakespeare>(Place::new(state)))
        }
        Command::Demo(options) => start("warn", demo::run(options)),
    }
}
