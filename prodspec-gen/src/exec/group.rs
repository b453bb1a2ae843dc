//! A running program with the processes that it started: one process group, which is killed as a whole.
//!
//! The group is killed only before the program is reaped, because its number can belong to another group afterwards.
//! Both happen on the thread that started the program.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A program that leads a process group of its own. Dropping it kills the group.
#[derive(Debug)]
pub(super) struct Group {
    /// The program, until it is reaped.
    leader: Option<Child>,
}

impl Group {
    /// Starts a program. Returns it with its pipes.
    pub(super) fn start(command: &mut Command) -> io::Result<(Self, Pipes)> {
        let mut leader = command.process_group(0).spawn()?;
        let pipes = (leader.stdout.take(), leader.stderr.take());
        let leader = Some(leader);
        Ok((Self { leader }, pipes))
    }

    /// Whether the program has ended. It is not reaped.
    pub(super) fn has_ended(&self) -> bool {
        let Some(leader) = &self.leader else {
            return true;
        };
        let now = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // An error means that the program is no longer known, so it has ended.
        !matches!(waitid(WaitId::Pid(Pid::from_child(leader)), now), Ok(None))
    }

    /// Kills the group, with what a program that has ended left behind in it, and reaps the program.
    pub(super) fn end(mut self) -> io::Result<ExitStatus> {
        let leader = self.leader.take();
        leader.map_or_else(|| Err(io::ErrorKind::NotFound.into()), end)
    }
}

/// Standard output and standard error of a program.
pub(super) type Pipes = (
    Option<std::process::ChildStdout>,
    Option<std::process::ChildStderr>,
);

fn end(mut leader: Child) -> io::Result<ExitStatus> {
    if let Err(error) = kill_process_group(Pid::from_child(&leader), Signal::KILL) {
        tracing::debug!(%error, "a process group had ended before it was killed");
    }
    leader.wait()
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader.take() {
            let _ = end(leader);
        }
    }
}
