//! Speaking to people: the one module that writes to the terminal, a line at a time, so that no text which comes from
//! plugins, people or sources gets there but as text.
//!
//! What is said is one line, whatever is in it: line ends and escape sequences of it are shown (R73). It never fails
//! because the terminal has gone.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    panic::PanicHookInfo,
};

use control_plane::sdk::text::{shown, shown_json};
use serde::Serialize;

/// Says a line on standard output.
pub(crate) fn say(line: impl Display) {
    // A closed pipe is no reason to stop controlling.
    let _ = writeln!(io::stdout().lock(), "{}", shown(&line.to_string()));
}

/// Says several lines.
pub(crate) fn say_all(lines: impl IntoIterator<Item = impl Display>) {
    lines.into_iter().for_each(say);
}

/// Says data as JSON: for programs, and all the same no terminal obeys it.
///
/// # Errors
/// When the data cannot be written as JSON.
pub(crate) fn say_json(data: &impl Serialize) -> serde_json::Result<()> {
    let json = serde_json::to_string_pretty(data)?;
    let _ = writeln!(io::stdout().lock(), "{}", shown_json(&json));
    Ok(())
}

/// Says a line on standard error.
pub fn complain(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(&line.to_string()));
}

/// Whether a person looks at standard output.
pub(crate) fn is_watched() -> bool {
    io::stdout().is_terminal()
}

/// The lines at the end of a terminal that are replaced whenever they change.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    /// As they are there.
    shown: Vec<String>,
}

impl Screen {
    /// Shows these lines in place of the last ones, as far as they fit.
    ///
    /// # Errors
    /// When the terminal has gone.
    pub(crate) fn show(&mut self, lines: &[String]) -> io::Result<()> {
        let now = fitting(lines, size());
        if now == self.shown {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        if !self.shown.is_empty() {
            // Up to where the last one began, and everything from there on away.
            write!(out, "\x1b[{}F\x1b[J", self.shown.len())?;
        }
        writeln!(out, "{}", now.join("\n"))?;
        out.flush()?;
        self.shown = now;
        Ok(())
    }
}

/// Rows and columns of the terminal.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let known = size.ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    let (rows, columns) = known.map_or((24, 80), |size| (size.ws_row.max(4), size.ws_col.max(20)));
    (rows.into(), columns.into())
}

/// What a terminal of so many rows and columns shows of these lines without wrapping or scrolling, ready to be written.
fn fitting(lines: &[String], (rows, columns): (usize, usize)) -> Vec<String> {
    let fitting = |line: &String| {
        let mut line = shown(line).into_owned();
        if line.chars().count() >= columns {
            line = line.chars().take(columns - 2).collect();
            line.push('…');
        }
        line
    };
    lines.iter().take(rows - 1).map(fitting).collect()
}

/// Where the log goes: each event is a line on standard error.
#[derive(Debug)]
pub struct Log;

impl Write for Log {
    /// Takes a whole event, as `tracing` hands it over.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        complain(text.strip_suffix('\n').unwrap_or(&text));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Panics are said as everything else is: their messages may quote what production answered.
pub fn complain_of_panics() {
    std::panic::set_hook(Box::new(|panic| {
        complain(said_by(panic));
        let trace = std::backtrace::Backtrace::capture();
        if trace.status() == std::backtrace::BacktraceStatus::Captured {
            trace.to_string().lines().for_each(complain);
        }
    }));
}

fn said_by(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map(|place| format!(" at {place}"));
    let message = panic.payload_as_str().unwrap_or("no message");
    format!("panicked{}: {message}", place.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r73_a_live_line_is_shown_before_it_is_cut() {
        let lines = ["\x1b[2J".repeat(10), "short\n".into(), "not seen".into()];
        let fitting = fitting(&lines, (3, 20));
        assert_eq!(fitting, [r"\u{1b}[2J\u{1b}[2J…", r"short\u{a}"]);
    }
}
