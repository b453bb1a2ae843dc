//! Reads the standard output and the standard error of a program at the same time, each within its limit, without
//! waiting longer than asked.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read},
    os::fd::{AsFd, BorrowedFd},
    process::{ChildStderr, ChildStdout},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
};

use super::group::Pipes;

/// Maximum number of bytes that are kept of the beginning and of the end of standard error, each.
const KEPT: usize = 4 << 10;

/// Maximum number of reads of one pipe in a row, so that a program that prints without end does not hold up the others.
const READS: usize = 16;

/// What a program has printed so far.
pub(super) struct Capture {
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    pub(super) output: Vec<u8>,
    pub(super) errors: Errors,
}

/// The beginning and the end of standard error.
#[derive(Debug, Default)]
pub(super) struct Errors {
    first: Vec<u8>,
    last: VecDeque<u8>,
    /// Number of bytes between the two that were not kept.
    between: u64,
}

impl Capture {
    /// Captures from these two pipes.
    ///
    /// # Errors
    /// When the pipes cannot be read without waiting.
    pub(super) fn new((out, err): Pipes) -> io::Result<Self> {
        out.iter().try_for_each(|pipe| no_waiting(pipe.as_fd()))?;
        err.iter().try_for_each(|pipe| no_waiting(pipe.as_fd()))?;
        Ok(Self {
            out,
            err,
            output: Vec::new(),
            errors: Errors::default(),
        })
    }

    /// Whether a process can still print to standard output.
    pub(super) fn is_output_open(&self) -> bool {
        self.out.is_some()
    }

    /// Whether a process can still print to standard output or standard error.
    pub(super) fn is_open(&self) -> bool {
        self.out.is_some() || self.err.is_some()
    }

    /// Waits at most `wait` until there is something to read, and reads it.
    pub(super) fn read(&mut self, wait: Duration) -> io::Result<()> {
        let fds = [
            self.out.as_ref().map(AsFd::as_fd),
            self.err.as_ref().map(AsFd::as_fd),
        ];
        let mut fds: Vec<PollFd<'_>> = fds
            .iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        let wait = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => self.drain(),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what is there, without waiting.
    fn drain(&mut self) -> io::Result<()> {
        let output = &mut self.output;
        drain(&mut self.out, |bytes| output.extend_from_slice(bytes))?;
        drain(&mut self.err, |bytes| self.errors.extend(bytes))
    }
}

fn no_waiting(pipe: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?)
}

/// Passes what can be read from a pipe to `take`, at most [`READS`] times. Closes the pipe at its end.
fn drain<P: Read>(pipe: &mut Option<P>, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    for _ in 0..READS {
        let Some(open) = pipe else { break };
        match open.read(&mut buffer) {
            Ok(0) => *pipe = None,
            Ok(read) => take(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Errors {
    fn extend(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(KEPT - self.first.len()));
        self.first.extend_from_slice(first);
        self.last.extend(rest);
        let over = self.last.len().saturating_sub(KEPT);
        self.last.drain(..over);
        self.between += over as u64;
    }

    /// The text, with its lines joined by ` | `, for a problem of one line. Empty if nothing was printed.
    pub(super) fn text(&self) -> String {
        let left_out = match self.between {
            0 => String::new(),
            left_out => format!("\n[{left_out} bytes left out]\n"),
        };
        let last: Vec<u8> = self.last.iter().copied().collect();
        let whole = [&*self.first, left_out.as_bytes(), &*last].concat();
        let text = String::from_utf8_lossy(&whole);
        let lines = text.lines().map(str::trim_end);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        lines.join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn r46_first_and_last_bytes_of_standard_error_are_kept(
            chunks in proptest::collection::vec(0..3 * KEPT, 0..8),
        ) {
            let mut errors = Errors::default();
            let total: usize = chunks.iter().sum();
            let printed: Vec<u8> = (0..total).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect();
            let mut rest = &*printed;
            for chunk in chunks {
                errors.extend(&rest[..chunk]);
                rest = &rest[chunk..];
            }
            let text = errors.text();
            if total <= 2 * KEPT {
                prop_assert_eq!(text.as_bytes(), printed);
            } else {
                let (first, last) = (&printed[..KEPT], &printed[total - KEPT..]);
                prop_assert!(text.as_bytes().starts_with(first) && text.as_bytes().ends_with(last));
                let left_out = format!("| [{} bytes left out] |", total - 2 * KEPT);
                prop_assert!(text.contains(&left_out));
            }
        }
    }

    #[test]
    fn lines_of_standard_error_become_one_line() {
        let mut errors = Errors::default();
        errors.extend(b"Error: no such file\r\n\n  a.yaml\n\xff\n");
        assert_eq!(errors.text(), "Error: no such file |   a.yaml | \u{fffd}");
    }
}
