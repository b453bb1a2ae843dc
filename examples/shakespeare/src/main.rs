//! The `shakespeare` program: the command line only, so that everything else can be tested as a library.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::run()
}
