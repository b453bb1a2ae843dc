//! A cell: the process of one cluster. It runs the tasks and the balancer as child processes and replaces those that
//! die. It keeps running when the process that started it exits.
//!
//! - `serve`: the HTTP interface. `calls`: its operations. `state`: the state under one lock, and reconciliation.
//! - `plan`: a pure function that chooses the next steps for tasks. `job` and `front`: the state of a job and of the
//!   balancer. `task` and `proxy`: their processes. `backoff`: delays between restarts.
//! - `peers`: the balancers of other cells, for the global balancer.
//! - `site`: what processes and peers know of the cell, and their reports to it.
//! - `epochs`: how far the balancer follows its routings. `numbers`: the numbers of processes and routings.
//! - `fence`: refuses calls of old owners. `error`: why a call is refused. `journal`: records every change.
//!
//! The wanted state is kept in memory only. When a cell is killed, its children exit too, because their standard input
//! is closed. A restarted cell is empty until a caller sets its jobs and its balancer again.

mod backoff;
mod calls;
mod epochs;
mod error;
mod fence;
mod front;
mod job;
mod journal;
mod numbers;
mod peers;
mod plan;
mod proxy;
mod serve;
mod site;
mod state;
mod task;

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    path::PathBuf,
    process::Command,
};

use tokio::net::TcpListener;

use self::{fence::Fences, journal::Journal, state::Cell};
use super::{
    api::{ADDRESS_FILE, Address},
    files::{lock, replace_file},
    frontend::terminated,
};

/// Command line options of a cell.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Name of the cell, the same as its cluster's.
    #[arg(long)]
    name: String,
    /// Directory of the cell. The directories of other cells are its siblings.
    #[arg(long)]
    dir: PathBuf,
}

/// Why a cell ended with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process of this cell is running. There is at most one per directory.
    #[error("another process of this cell is running: connect to that one")]
    Taken,
    /// A file or socket failed. A cell that cannot write its journal must not change production, so it exits.
    #[error("a file or socket of the cell failed: check its directory, then start it again")]
    Io(#[from] io::Error),
}

/// Serves until turned down, terminated, or unable to write its journal.
///
/// # Errors
///
/// [`Error::Taken`] when another process of this cell is running, [`Error::Io`] when its directory cannot be written.
pub async fn run(options: Options) -> Result<(), Error> {
    fs::create_dir_all(&options.dir)?;
    let dir = options.dir.canonicalize()?;
    let _lock = lock(&dir)?.ok_or(Error::Taken)?;
    let instance = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
    let journal = Journal::open(&dir, &options.name, &instance)?;
    let cell = Cell::begin(
        options.name,
        instance,
        dir.clone(),
        journal,
        Fences::open(&dir)?,
    )?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = Address {
        address: listener.local_addr()?,
        instance: cell.instance().into(),
    };
    let file = dir.join(ADDRESS_FILE);
    replace_file(
        &file,
        &serde_json::to_vec(&address).map_err(io::Error::from)?,
    )?;
    tokio::select! {
        served = serve::serve(cell.clone(), listener) => served?,
        () = terminated() => {}
    }
    // The address is no longer in use.
    let _ = fs::remove_file(file);
    Ok(cell.ended()?)
}

/// Returns a command that starts this program. On Linux it works even if the file was replaced since the start.
fn this_program() -> io::Result<Command> {
    use std::os::unix::process::CommandExt;
    let mut command = if cfg!(target_os = "linux") {
        Command::new("/proc/self/exe")
    } else {
        Command::new(std::env::current_exe()?)
    };
    // Tools such as `ps` show the name of the program instead of the link.
    if let Some(name) = std::env::current_exe()?.file_name() {
        command.arg0(name);
    }
    Ok(command)
}
