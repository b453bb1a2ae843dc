//! The command line that all services share: its own module, so that adding a command touches one table.

use std::{path::PathBuf, process::ExitCode};

use clap::Subcommand;
use control_plane::model::AssetId;

use super::{ask, check, down, load, plan, rollout, run, tell, train, triggers, workflow};
use crate::{place::Place, production::Process, program::Failure, service::Service};

/// A command of the program. [`Command::Process`] is for the control plane and for cells, the others are for people.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
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
    /// Show the rollouts: of the last edit, and of changes. Begin a change, or give a command.
    Rollout {
        /// What to do. Without it: `status`.
        #[command(subcommand)]
        verb: Option<rollout::Verb>,
    },
    /// Show the trains: versions on their way through stages. Or give one a command.
    Train {
        /// The command. Without it: `status`.
        #[command(subcommand)]
        verb: Option<train::Verb>,
    },
    /// Start a workflow, show executions, or give them a word.
    Workflow {
        /// What to do.
        #[command(subcommand)]
        verb: workflow::Verb,
    },
    /// Show the schedules: their next slots, what runs, and what became of the slots before.
    Schedules {
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the watches: what waits, what runs, and how many runs have started.
    Watches {
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Send requests until Ctrl-C. The health of a rollout is judged by their answers.
    Load,
    /// Show the changes that wait for approvals, in sets of equal changes.
    Approvals,
    /// Approve one change of an asset, or a set of changes.
    Approve(tell::Approve),
    /// Override a guard or a check for one change.
    Override(tell::Override),
    /// Remove an orphan from the list of orphans. Its processes are left running. A schedule or a watch ends.
    Acknowledge(tell::About),
    /// Confirm that a push with an unknown outcome is over and will not take effect any more.
    Over(tell::About),
    /// Start enforcement again after a violated invariant stopped it. Find out why it stopped first.
    Clear(tell::Clear),
    /// Pause pushes, or a schedule or a watch: nothing new starts.
    Pause(tell::Pause),
    /// End a pause, so that pushes and runs start again.
    Resume(tell::Resume),
    /// Run one of the processes of production.
    #[command(flatten)]
    Process(Process),
}

impl Command {
    /// Returns the level of the log if the environment names none. Processes of production log to files, so they log
    /// more.
    pub fn log_level(&self) -> &'static str {
        match self {
            Self::Process(_) => "info",
            _ => "warn",
        }
    }

    /// Performs the command for the service `S` in the state directory `place`.
    ///
    /// # Errors
    /// When the command fails. The message says what to do next.
    pub async fn perform<S: Service>(self, place: Place) -> Result<ExitCode, Failure> {
        match self {
            Self::Run => run::run::<S>(place).await?,
            Self::Down => down::down::<S>(&place).await?,
            Self::Check { file } => return check::check::<S>(&place, &file).await,
            Self::Plan => plan::plan(&place).await?,
            Self::Explain { asset } => ask::explain(&place, asset.as_ref()).await?,
            Self::Status { json } => ask::status(&place, json).await?,
            Self::Rollout { verb } => rollout::rollout(&place, verb).await?,
            Self::Train { verb } => train::train(&place, verb).await?,
            Self::Workflow { verb } => workflow::workflow(&place, verb).await?,
            Self::Schedules { json } => triggers::schedules(&place, json).await?,
            Self::Watches { json } => triggers::watches(&place, json).await?,
            Self::Load => load::load(&place).await?,
            Self::Approvals => ask::approvals(&place).await?,
            Self::Approve(said) => tell::tell(&place, said.into()).await?,
            Self::Override(said) => tell::tell(&place, said.into()).await?,
            Self::Acknowledge(said) => tell::tell(&place, said.acknowledged()).await?,
            Self::Over(said) => tell::tell(&place, said.over()).await?,
            Self::Clear(said) => tell::tell(&place, said.into()).await?,
            Self::Pause(said) => tell::tell(&place, said.into()).await?,
            Self::Resume(said) => tell::tell(&place, said.into()).await?,
            Self::Process(process) => process.run().await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
