//! Speaking to people: one line at a time, whole, and never failing because nobody listens any more.

use std::{
    fmt::Display,
    io::{self, Write},
};

/// Says a line on standard output.
pub(crate) fn say(line: impl Display) {
    // A closed pipe is no reason to stop controlling.
    let _ = writeln!(io::stdout().lock(), "{line}");
}
