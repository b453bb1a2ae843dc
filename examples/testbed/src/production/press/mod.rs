//! The press: a process that prints posters. Printing cannot be compared with intent, as a cell's job can: a second print
//! is a second poster. So the press remembers keys, and makes the effect of each key once.
//!
//! - [`api`]: the calls, and the lines of the journal. [`client`]: the client, which can also start the press.
//! - `state`: keys, fences and prints, each on disk before it takes effect. `serve`: the HTTP interface.
//!
//! It keeps running when the process that started it exits. A restarted press goes on from its journal.

pub mod api;
pub mod client;
mod serve;
mod state;

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    path::PathBuf,
};

use tokio::net::TcpListener;

use self::state::Press;
use super::{
    api::{ADDRESS_FILE, Address},
    files::{lock, replace_file},
    frontend::terminated,
};

/// Command line options of the press.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Directory of the press: its journal, and a file for each print.
    #[arg(long)]
    dir: PathBuf,
}

/// Serves until a termination signal arrives.
///
/// # Errors
///
/// When another process of this press is running, or its directory cannot be written.
pub async fn run(options: Options) -> io::Result<()> {
    fs::create_dir_all(&options.dir)?;
    let dir = options.dir.canonicalize()?;
    let Some(_lock) = lock(&dir)? else {
        return Err(io::Error::other(
            "another process of this press is running: connect to that one",
        ));
    };
    let instance = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
    let press = Press::open(dir.clone(), instance.clone())?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = Address {
        address: listener.local_addr()?,
        instance,
    };
    let file = dir.join(ADDRESS_FILE);
    replace_file(&file, &serde_json::to_vec(&address)?)?;
    tokio::select! {
        served = serve::serve(press, listener) => served?,
        () = terminated() => {}
    }
    // The address is no longer in use.
    let _ = fs::remove_file(file);
    Ok(())
}
