//! Output to the terminal. No other module of the control plane writes there, so that text from plugins, people and
//! sources cannot reach the terminal as control sequences.
//!
//! Each call prints one line: line ends and escape sequences in the text are shown as visible characters (R73).
//! Printing lines does not fail when the terminal is gone.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    panic::PanicHookInfo,
};

use control_plane::sdk::text::{shown, shown_json};
use serde::Serialize;

/// Prints a line on standard output.
pub fn say(line: impl Display) {
    // The control plane goes on when standard output is closed.
    let _ = writeln!(io::stdout().lock(), "{}", shown(&line.to_string()));
}

/// Prints several lines on standard output.
pub fn say_all(lines: impl IntoIterator<Item = impl Display>) {
    lines.into_iter().for_each(say);
}

/// Prints data as indented JSON on standard output. Control characters are escaped, as in all other output.
///
/// # Errors
/// When the data cannot be written as JSON.
pub fn say_json(data: &impl Serialize) -> serde_json::Result<()> {
    let json = serde_json::to_string_pretty(data)?;
    let _ = writeln!(io::stdout().lock(), "{}", shown_json(&json));
    Ok(())
}

/// Prints a list: as JSON, or the lines of each element, or that there is `none`.
///
/// # Errors
/// When the list cannot be written as JSON.
pub fn say_list<T: Serialize>(
    all: &[T],
    json: bool,
    none: &str,
    lines: impl Fn(&T) -> Vec<String>,
) -> serde_json::Result<()> {
    if json {
        return say_json(&all);
    }
    if all.is_empty() {
        say(none);
    }
    say_all(all.iter().flat_map(lines));
    Ok(())
}

/// Prints a line on standard error, with control characters made visible.
pub fn complain(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(&line.to_string()));
}

/// Returns true if standard output is a terminal.
pub fn is_watched() -> bool {
    io::stdout().is_terminal()
}

/// The last lines of a terminal, which are redrawn when they change.
#[derive(Debug, Default)]
pub struct Screen {
    /// The lines that the terminal shows now.
    shown: Vec<String>,
}

impl Screen {
    /// Replaces the lines on the terminal by `lines`, cut to the size of the terminal.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn show(&mut self, lines: &[String]) -> io::Result<()> {
        let now = fitting(lines, size());
        if now == self.shown {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        if !self.shown.is_empty() {
            // Move up to the first of the old lines and clear everything from there on.
            write!(out, "\x1b[{}F\x1b[J", self.shown.len())?;
        }
        writeln!(out, "{}", now.join("\n"))?;
        out.flush()?;
        self.shown = now;
        Ok(())
    }
}

/// Returns the rows and columns of the terminal, 24 and 80 if they are unknown.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stdout());
    let known = size.ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    let (rows, columns) = known.map_or((24, 80), |size| (size.ws_row.max(4), size.ws_col.max(20)));
    (rows.into(), columns.into())
}

/// Cuts lines to a terminal's rows and columns, so that it neither wraps nor scrolls. Control characters are escaped.
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

/// Writer for the log: each event becomes one line on standard error.
#[derive(Debug)]
pub struct Log;

impl Write for Log {
    /// Prints one event. `tracing` passes each event in a single call.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        complain(text.strip_suffix('\n').unwrap_or(&text));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Installs a panic hook that prints through this module, because a panic message may quote an answer of production.
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
    fn r73_live_line_is_escaped_before_it_is_cut() {
        let lines = ["\x1b[2J".repeat(10), "short\n".into(), "not seen".into()];
        let fitting = fitting(&lines, (3, 20));
        assert_eq!(fitting, [r"\u{1b}[2J\u{1b}[2J…", r"short\u{a}"]);
    }
}
