//! Peers that are no Rust: scripts for python3 and node in the folder `peers` of this crate. Each takes the number of units
//! and prints its samples as JSON. A peer whose interpreter, package or server is not installed is left out.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use testing_postgres::Server;

use crate::{Error, measure::Sample};

/// The exit code of a script whose package is not installed.
const NOT_INSTALLED: i32 = 77;
/// Where the programs of PostgreSQL are.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Ticks per second in `/proc`: `USER_HZ`, 100 on Linux.
const TICKS: f64 = 100.0;

/// Runs the python script `name`, which needs no server.
pub(crate) fn python(name: &str, n: usize) -> Result<Vec<Sample>, Error> {
    run("python3", &format!("{name}.py"), n, None)
}

/// Runs the python script `name` on a PostgreSQL server of its own.
pub(crate) fn python_on_postgres(name: &str, n: usize) -> Result<Vec<Sample>, Error> {
    on_postgres(|url| run("python3", &format!("{name}.py"), n, Some(url)))
}

/// Runs the node script `name`, which needs no server.
pub(crate) fn node(name: &str, n: usize) -> Result<Vec<Sample>, Error> {
    run("node", &format!("{name}.js"), n, None)
}

/// Runs the node script `name` on a PostgreSQL server of its own.
pub(crate) fn node_on_postgres(name: &str, n: usize) -> Result<Vec<Sample>, Error> {
    on_postgres(|url| run("node", &format!("{name}.js"), n, Some(url)))
}

/// Runs a script and returns its samples; none if something that it needs is not installed.
fn run(interpreter: &str, script: &str, n: usize, url: Option<&str>) -> Result<Vec<Sample>, Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(script);
    let output = Command::new(interpreter)
        .arg(path)
        .arg(n.to_string())
        .args(url)
        .stderr(Stdio::inherit())
        .output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        output => output?,
    };
    match output.status.code() {
        Some(0) => Ok(serde_json::from_slice(&output.stdout)?),
        Some(NOT_INSTALLED) => Ok(Vec::new()),
        _ => Err(format!("{script} ended with {}", output.status).into()),
    }
}

/// Whether the programs of PostgreSQL are installed.
pub(crate) fn postgres_is_installed() -> bool {
    Path::new(POSTGRES).exists()
}

/// A runtime of one thread that can reach a server.
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Runs a side with the URL of an empty database; none if PostgreSQL is not installed. The processor time of the server
/// counts as that of the side's only sample.
pub(crate) fn on_postgres(
    peer: impl FnOnce(&str) -> Result<Vec<Sample>, Error>,
) -> Result<Vec<Sample>, Error> {
    if !postgres_is_installed() {
        return Ok(Vec::new());
    }
    let server = Server::start();
    let database = server.database();
    let data = database.directory().join("data");
    let before = server_time(&data)?;
    let mut samples = peer(&database.url())?;
    let spent = server_time(&data)? - before;
    if let [sample] = &mut *samples {
        sample.cpu_s += spent;
        sample.ns_each = Some(sample.cpu_s * 1e9 / sample.n.max(1) as f64);
    }
    Ok(samples)
}

/// Processor time of a server and of all processes that it has started, in seconds.
fn server_time(data: &Path) -> Result<f64, Error> {
    let pid = fs::read_to_string(data.join("postmaster.pid"))?;
    let pid: u32 = pid.lines().next().unwrap_or_default().parse()?;
    let mut ticks = 0;
    for process in fs::read_dir("/proc")? {
        // A process may end meanwhile: then its parent has its time.
        if let Some(times) = times(process?.path()) {
            if times.pid == pid {
                ticks += times.own + times.children;
            } else if times.parent == pid {
                ticks += times.own;
            }
        }
    }
    Ok(ticks as f64 / TICKS)
}

/// What the kernel tells of a process, times in ticks.
struct Times {
    pid: u32,
    parent: u32,
    own: u64,
    children: u64,
}

/// The times of a process. `None`: the path is not that of a process, or it has ended.
fn times(process: PathBuf) -> Option<Times> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    // The name of the program, in parentheses, may have spaces.
    let (pid, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Times {
        pid: pid.parse().ok()?,
        parent: u32::try_from(number(1)?).ok()?,
        own: number(11)? + number(12)?,
        children: number(13)? + number(14)?,
    })
}
