//! Runs a program once, in a process group of its own, until it has ended, printed too much, or was late. Nothing of it
//! is left running.

use std::{
    io,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use control_plane_runtime::Runtime;

use super::{
    call::Call,
    capture::{Capture, Errors},
    group::{Group, Pipes},
    task::Task,
};

/// Time between two looks at a program that prints nothing, and at its caller, who may have given up.
const LOOK: Duration = Duration::from_millis(20);

/// Time between two looks at a program that can no longer print, because it is about to end.
const SOON: Duration = Duration::from_millis(2);

/// How long the output may stay open after the program has ended.
const LINGER: Duration = Duration::from_secs(1);

/// Why a program is not left to itself any longer.
#[derive(Debug)]
enum End {
    /// It has ended, and its output is complete.
    Complete,
    /// It has ended, and another process keeps its output open.
    Lingers,
    /// It did not end by its deadline.
    Late,
    /// It printed more than allowed.
    TooMuch,
    /// The caller no longer waits.
    GivenUp,
}

/// Runs the program at `path` with the settings of `task`, and returns its output.
///
/// # Errors
/// A message that says what happened, what the program printed to standard error, and what to do next.
pub(super) fn run(task: &Task, path: &Path, call: &Call) -> Result<Vec<u8>, String> {
    let named = path.display();
    let (program, pipes) = start(task, path).map_err(|error| {
        let place = task.dir.as_ref().map_or_else(String::new, |dir| {
            format!(" and its directory `{}`", dir.display())
        });
        format!("`{named}` cannot be run: {error}; check that it{place} exists and that this process may use it")
    })?;
    let ended = Capture::new(pipes).and_then(|mut capture| {
        let end = follow(&mut capture, task, &program, call)?;
        Ok((end, capture))
    });
    let status = program.end();
    let cannot = |error| {
        format!(
            "the output of `{named}` cannot be read: {error}; it was killed, and runs again with the next reading"
        )
    };
    let (end, mut capture) = ended.map_err(cannot)?;
    // Takes in what was printed to standard error before the kill.
    capture.read(Duration::ZERO).map_err(cannot)?;
    let said = said(&capture.errors);
    match (end, status) {
        (End::Complete, Ok(status)) if status.success() => Ok(capture.output),
        (End::Complete, status) => Err(format!("{}{said}", failed(path, status))),
        (end, _) => Err(format!("{}{said}", end.message(path, task))),
    }
}

fn start(task: &Task, path: &Path) -> io::Result<(Group, Pipes)> {
    let mut command = Command::new(path);
    command.args(&task.args).env_clear().envs(&task.env.0);
    if let Some(dir) = &task.dir {
        command.current_dir(dir);
    }
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Group::start(&mut command)
}

/// Reads what the program prints, until it has ended or must end.
fn follow(capture: &mut Capture, task: &Task, program: &Group, call: &Call) -> io::Result<End> {
    let now = || call.runtime.now().mono;
    let deadline = now() + task.deadline;
    let mut linger = None;
    loop {
        // Before the reading: what a program has printed is all there once it has ended.
        let ended = program.has_ended();
        let wait = if capture.is_open() && !ended {
            LOOK
        } else {
            SOON
        };
        capture.read(wait)?;
        if call.is_given_up() {
            return Ok(End::GivenUp);
        }
        if capture.output.len() as u64 > task.parsing.limits.bytes {
            return Ok(End::TooMuch);
        }
        if ended {
            let late = *linger.get_or_insert_with(|| now() + LINGER);
            match (capture.is_output_open(), capture.is_open()) {
                (_, false) => return Ok(End::Complete),
                (true, _) if now() >= late => return Ok(End::Lingers),
                (false, _) if now() >= late => return Ok(End::Complete),
                _ => {}
            }
        } else if now() >= deadline {
            return Ok(End::Late);
        }
    }
}

impl End {
    fn message(&self, path: &Path, task: &Task) -> String {
        let path = path.display();
        match self {
            Self::Late => format!(
                "`{path}` did not end within {:?} and was killed with its process group; make it faster, or raise the deadline",
                task.deadline
            ),
            Self::TooMuch => format!(
                "`{path}` printed more than {} bytes and was killed with its process group; print less, or raise the output limit",
                task.parsing.limits.bytes
            ),
            Self::Lingers => format!(
                "`{path}` has ended, but a process that it started kept its output open for another {LINGER:?}, so the process group was killed; let the program wait for the processes that it starts"
            ),
            Self::GivenUp | Self::Complete => {
                format!("`{path}` was killed, because its caller no longer waits for it")
            }
        }
    }
}

/// The message of a program that did not succeed.
fn failed(path: &Path, status: io::Result<ExitStatus>) -> String {
    let path = path.display();
    match status {
        Ok(status) => format!("`{path}` ended with {status}; fix what it reports"),
        Err(error) => format!(
            "the exit status of `{path}` is unknown: {error}; do not ignore SIGCHLD and do not reap the children of others in this process"
        ),
    }
}

/// What the program printed to standard error, for a problem.
fn said(errors: &Errors) -> String {
    match &*errors.text() {
        "" => "; it printed nothing to standard error".into(),
        text => format!("; standard error: {text}"),
    }
}
