//! Starts the program: the runtime, the log, and the errors that end it.

use std::{error::Error, future::Future, process::ExitCode};

use tracing_subscriber::EnvFilter;

use crate::{
    control::client,
    program::{Failure, Several},
    voice::{self, complain},
};

/// Runs a command in a runtime of its own and prints its error, if any. The log goes to standard error, with the events
/// of `level` and above unless the environment variable `RUST_LOG` says otherwise.
pub fn start(level: &str, command: impl Future<Output = Result<ExitCode, Failure>>) -> ExitCode {
    voice::complain_of_panics();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| level.into()))
        .with_writer(|| voice::Log)
        .with_ansi(false)
        .init();
    match block_on(command) {
        Ok(code) => code,
        Err(error) => {
            report(&*error);
            ExitCode::FAILURE
        }
    }
}

fn block_on(command: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = runtime.block_on(command);
    // A blocking read of standard input may still be waiting; it must not delay the exit.
    runtime.shutdown_background();
    done
}

/// Prints an error: a line for each cause, followed by the details of that cause.
fn report(error: &(dyn Error + 'static)) {
    let mut next = Some(error);
    let mut lead = "error";
    while let Some(error) = next {
        complain(format_args!("{lead}: {error}"));
        details(error).into_iter().for_each(complain);
        lead = "  because";
        next = error.source();
    }
}

fn details(error: &(dyn Error + 'static)) -> Vec<String> {
    if let Some(Several { rest, .. }) = error.downcast_ref() {
        return rest.clone();
    }
    match error.downcast_ref() {
        Some(client::Error::Problems(problems)) => {
            problems.iter().map(ToString::to_string).collect()
        }
        _ => vec![],
    }
}
