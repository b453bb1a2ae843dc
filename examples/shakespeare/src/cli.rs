//! What the program can be asked to do: its own module, so that adding a command never touches `main`.

use std::{error::Error, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use control_plane::model::AssetId;
use shakespeare::{
    command::{Failure, Several, ask, check, down, load, plan, rollout, run, tell},
    control::client,
    demo,
    place::Place,
    production::{balancer, cell, frontend},
    voice::{self, complain},
};
use tracing_subscriber::EnvFilter;

/// The Shakespeare service on real processes, and the control plane that keeps it as its manifest says.
///
/// Without a command: `run`.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The state directory.
    #[arg(long, global = true, default_value = "state")]
    state: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Turn everything up, heal it and follow edits until Ctrl-C.
    Run,
    /// Stop controlling, and remove everything that runs and all state.
    Down,
    /// What incarnation a manifest would give, or every problem found. Touches nothing.
    Check {
        /// The manifest.
        file: PathBuf,
    },
    /// What becomes of every asset that is not in sync: pushed now, in turn, held, leaving intent, or destroyed.
    Plan,
    /// Why an asset, or each, is or is not being pushed.
    Explain {
        /// Which asset.
        asset: Option<AssetId>,
    },
    /// How things stand.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// How the rollout of the last edit is, and what people say to it.
    Rollout {
        /// Without one: `status`.
        #[command(subcommand)]
        verb: Option<rollout::Verb>,
    },
    /// Send requests until Ctrl-C, so that there is something to judge a rollout by.
    Load,
    /// Let a change that destroys through.
    Approve(tell::Approve),
    /// Lift a guard or a check for one change.
    Override(tell::Override),
    /// Forget an orphan that is known about; it is left running.
    Acknowledge(tell::About),
    /// Vouch that a push whose outcome is unknown does not run any more.
    Over(tell::About),
    /// Enforce again what stopped itself because an invariant did not hold: you have looked at why.
    Clear(tell::Clear),
    /// Stop pushes.
    Pause(tell::Pause),
    /// Push again.
    Resume(tell::Resume),
    /// A scripted session in a directory of its own, judged from outside.
    Demo(demo::Options),
    /// One cluster: started by whoever needs it.
    #[command(hide = true)]
    Cell(cell::Options),
    /// One task of a job: started by its cell.
    #[command(hide = true)]
    Frontend(frontend::Options),
    /// The proxy in front of a cell: started by its cell.
    #[command(hide = true)]
    Balancer(balancer::Options),
}

/// Runs what the command line asks for.
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
    let production = matches!(
        command,
        Command::Cell(_) | Command::Frontend(_) | Command::Balancer(_)
    );
    let level = if production { "info" } else { "warn" };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| level.into()))
        .with_writer(|| voice::Log)
        .with_ansi(false)
        .init();
    let done = runtime.block_on(dispatch(place, command));
    // A read of standard input may still be waiting: do not wait for it.
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
        Command::Cell(options) => cell::run(options).await?,
        Command::Frontend(options) => frontend::run(options).await?,
        Command::Balancer(options) => balancer::run(options).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each cause, and for each detail of a cause.
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
