//! A cell: one cluster, as one process that outlives whoever started it. It owns its tasks and its balancer as child
//! processes and keeps as many running as asked.
//!
//! - `serve`: the HTTP interface. `calls`: what it can do. `state`: the one lock, and reconciling.
//! - `plan`: which task next, pure. `job` and `front`: a job and the balancer as they are. `task` and `proxy`: their
//!   processes.
//! - `peers`: other cells, for the global balancer. `fence`, `journal`: whose word counts, and what came of it.
//!
//! What was asked is kept in memory only: a killed cell takes its children down with it (their standard input closes)
//! and comes back empty, at whoever's wish.

mod backoff;
mod calls;
mod fence;
mod front;
mod job;
mod journal;
mod peers;
mod plan;
mod proxy;
mod serve;
mod state;
mod task;

use std::{
    fs::{self, File, TryLockError},
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use tokio::net::TcpListener;

use self::{
    fence::{Fences, replace_file},
    journal::Journal,
    state::Cell,
};
use super::{api::Address, frontend::terminated};

/// The file in a cell's directory that says where it is.
pub(super) const ADDRESS_FILE: &str = "address";

/// Which cell to be.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The cluster's name.
    #[arg(long)]
    name: String,
    /// Its directory; those of other cells lie beside it.
    #[arg(long)]
    dir: PathBuf,
}

/// Why a cell ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// One process per directory.
    #[error("another process is this cell already: use that one")]
    Taken,
    /// It cannot say what it does, so it must not do anything.
    #[error("a file or socket of the cell failed: look at its directory and start it again")]
    Io(#[from] io::Error),
}

/// Serves until turned down, terminated, or unable to write its journal.
///
/// # Errors
///
/// When another process is this cell already, or its directory cannot be written.
pub async fn run(options: Options) -> Result<(), Error> {
    fs::create_dir_all(&options.dir)?;
    let dir = options.dir.canonicalize()?;
    let _lock = lock(&dir)?;
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
    // Whoever reads it later would only find nobody there.
    let _ = fs::remove_file(file);
    Ok(cell.ended()?)
}

/// Held for the life of the process; the kernel lets go of it, however the process ends.
fn lock(dir: &Path) -> Result<File, Error> {
    let file = File::create(dir.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Taken),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// This very program, even if the file it was started from has been replaced since.
fn this_program() -> io::Result<Command> {
    use std::os::unix::process::CommandExt;
    let mut command = if cfg!(target_os = "linux") {
        Command::new("/proc/self/exe")
    } else {
        Command::new(std::env::current_exe()?)
    };
    command.arg0("shakespeare");
    Ok(command)
}
