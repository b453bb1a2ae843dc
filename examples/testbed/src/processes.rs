//! The process table: finds the processes of a state directory by their command lines, and kills single processes by
//! their process id.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};

/// Returns the ids of all processes whose arguments begin with `wanted`.
fn with_arguments(wanted: &[&str]) -> Vec<u32> {
    let Ok(table) = fs::read_dir("/proc") else {
        return vec![];
    };
    let mut found = Vec::new();
    for entry in table.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|pid| pid.parse().ok()) else {
            continue;
        };
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let arguments: Vec<&str> = line.split('\0').skip(1).collect();
        if arguments.starts_with(wanted) && running(pid) {
            found.push(pid);
        }
    }
    found
}

/// Returns the process id of the cell `name` with the directory `dir`; none if it is not running.
pub fn cell(name: &str, dir: &Path) -> Option<u32> {
    let dir = dir.to_string_lossy();
    with_arguments(&["cell", "--name", name, "--dir", &dir])
        .first()
        .copied()
}

/// Returns the process id of the press with the directory `dir`; none if it is not running.
pub fn press(dir: &Path) -> Option<u32> {
    let dir = dir.to_string_lossy();
    with_arguments(&["press", "--dir", &dir]).first().copied()
}

/// Returns true if the process exists and is not a zombie.
pub fn running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Returns the child processes of `parent`: their ids and command lines.
pub fn children(parent: u32) -> Vec<(u32, String)> {
    let Ok(table) = fs::read_dir("/proc") else {
        return vec![];
    };
    let child = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let after_name = stat.rsplit(") ").next()?;
        let of: u32 = after_name.split(' ').nth(1)?.parse().ok()?;
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        (of == parent && running(pid)).then(|| (pid, line.replace('\0', " ").trim().to_owned()))
    };
    table.flatten().filter_map(child).collect()
}

/// Kills a process with SIGKILL. Does nothing if the process does not exist.
pub fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::KILL);
    }
}
