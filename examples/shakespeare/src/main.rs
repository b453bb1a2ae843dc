//! The `shakespeare` program. It contains the command line only; everything else is in the library, where it is tested.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::run()
}
