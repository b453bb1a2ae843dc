//! The command line: its own module, so that adding a command does not touch `main`.

use std::{error::Error, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use control_plane::model::AssetId;
use shakespeare::{
    command::{ask, check, down, load, plan, rollout, run, tell},
    control::client,
    demo,
};
use testbed::{
    place::Place,
    production::Process,
    program::{Failure, Several},
    voice::{self, complain},
};
use tracing_subscriber::EnvFilter;

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
    /// Start the service, repair it and follow edits of the manifest until Ctrl-C.
    Run,
    /// Stop the control plane, then remove all processes and all state.
    Down,
    /// Show the incarnation that a manifest would give, or all its problems. Changes nothing.
    Check {
        /// Path of the manifest file.
        file: PathBuf,
    },
    /// Show what happens to each asset that is not in sync: pushed now, in turn, held, leaving intent, or destroyed.
    Plan,
    /// Show why an asset is, or is not, being pushed.
    Explain {
        /// Id of the asset, such as `job/eu`. Without it, all assets.
        asset: Option<AssetId>,
    },
    /// Show the state of the control plane and of production.
    Status {
        /// Print the whole state as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the rollout of the last edit, or give it a command.
    Rollout {
        /// What to do. Without it: `status`.
        #[command(subcommand)]
        verb: Option<rollout::Verb>,
    },
    /// Send requests until Ctrl-C. The health of a rollout is judged by their answers.
    Load,
    /// Approve one destructive change of an asset.
    Approve(tell::Approve),
    /// Override a guard or a check for one change.
    Override(tell::Override),
    /// Remove an orphan from the list of orphans. Its processes are left running.
    Acknowledge(tell::About),
    /// Confirm that a push with an unknown outcome is over and will not take effect any more.
    Over(tell::About),
    /// Start enforcement again after a violated invariant stopped it. Find out why it stopped first.
    Clear(tell::Clear),
    /// Pause pushes: no new push starts.
    Pause(tell::Pause),
    /// End a pause, so that pushes start again.
    Resume(tell::Resume),
    /// Play a scripted session in a directory of its own, and judge it from outside.
    Demo(demo::Options),
    /// The processes of production.
    #[command(flatten)]
    Process(Process),
}

/// Parses the command line and runs its command.
pub(crate) fn run() -> ExitCode {
    voice::complain_of_panics();
    let Cli { state, command } = Cli::parse();
    let command = command.unwrap_or(Command::Run);
    match perform(Place::new(state), command) {
        Ok(code) => code,
        Err(error) => {
            report(&*error);
            ExitCode::FAILURE
        }
    }
}

fn perform(place: Place, command: Command) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let production = matches!(command, Command::Process(_));
    let level = if production { "info" } else { "warn" };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| level.into()))
        .with_writer(|| voice::Log)
        .with_ansi(false)
        .init();
    let done = runtime.block_on(dispatch(place, command));
    // A blocking read of standard input may still be waiting; it must not delay the exit.
    runtime.shutdown_background();
    done
}

async fn dispatch(place: Place, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run => run::run(place).await?,
        Command::Down => down::down(&place).await?,
        Command::Check { file } => return check::check(&place, &file).await,
        Command::Plan => plan::plan(&place).await?,
        Command::Explain { asset } => ask::explain(&place, asset.as_ref()).await?,
        Command::Status { json } => ask::status(&place, json).await?,
        Command::Rollout { verb } => rollout::rollout(&place, verb).await?,
        Command::Load => load::load(&place).await?,
        Command::Approve(said) => tell::tell(&place, said.into()).await?,
        Command::Override(said) => tell::tell(&place, said.into()).await?,
        Command::Acknowledge(said) => tell::tell(&place, said.acknowledged()).await?,
        Command::Over(said) => tell::tell(&place, said.is_over()).await?,
        Command::Clear(said) => tell::tell(&place, said.into()).await?,
        Command::Pause(said) => tell::tell(&place, said.into()).await?,
        Command::Resume(said) => tell::tell(&place, said.into()).await?,
        Command::Demo(options) => return demo::run(options).await,
        Command::Process(process) => process.run().await?,
    }
    Ok(ExitCode::SUCCESS)
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
