//! The processes of production as commands: a program that uses the testbed adds them to its command line, because cells
//! start that same program for their tasks and balancers.

use super::{balancer, cell, frontend, press};

/// The error of a process of production, with its causes.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A process of production. Only a control plane and cells start these, so the commands are hidden.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Process {
    /// Run one cell: all processes of one cluster. Started by the control plane.
    #[command(hide = true)]
    Cell(cell::Options),
    /// Run one task of a job. Started by its cell.
    #[command(hide = true)]
    Frontend(frontend::Options),
    /// Run the balancer of a cell. Started by its cell.
    #[command(hide = true)]
    Balancer(balancer::Options),
    /// Run the press. Started by the control plane.
    #[command(hide = true)]
    Press(press::Options),
}

impl Process {
    /// Runs the process until it is terminated or turned down.
    ///
    /// # Errors
    ///
    /// When the process cannot start or continue, for instance because its directory cannot be written.
    pub async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Cell(options) => cell::run(options).await?,
            Self::Frontend(options) => frontend::run(options).await?,
            Self::Balancer(options) => balancer::run(options).await?,
            Self::Press(options) => press::run(options).await?,
        }
        Ok(())
    }
}
