//! The error that a `main` function returns: it is printed as words for people.

use std::fmt;

use crate::{error::BoxError, text::shown};

/// Any error, for the return type of `main`. A program that ends with `Err` prints the `Debug` form of its error, which of
/// most types shows fields instead of the message. That of a `Failure` is the message, followed by a line for each cause.
/// Text of sources and plugins in it cannot control the terminal (R73).
///
/// ```
/// use plugin_sdk::{BoxError, Failure};
///
/// #[derive(Debug, thiserror::Error)]
/// #[error("the cell does not answer")]
/// struct Unreachable(#[source] std::io::Error);
///
/// fn ask() -> Result<(), BoxError> {
///     Err(Unreachable(std::io::Error::other("connection refused")).into())
/// }
///
/// fn main() -> Result<(), Failure> {
///     # return Ok(assert_eq!(
///     #     format!("{:?}", Failure::from(ask().unwrap_err())),
///     #     "the cell does not answer\n  because: connection refused",
///     # ));
///     ask()?; // prints `Error: the cell does not answer`, and the cause
///     Ok(())
/// }
/// ```
pub struct Failure(BoxError);

impl Failure {
    /// Returns the error that was wrapped.
    pub fn into_inner(self) -> BoxError {
        self.0
    }
}

impl<E: Into<BoxError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Debug for Failure {
    /// Writes the words of the error and of its causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_lines(f, &self.0.to_string())?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            f.write_str("\n  because: ")?;
            write_lines(f, &cause.to_string())?;
            next = cause.source();
        }
        Ok(())
    }
}

fn write_lines(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for (nth, line) in text.lines().enumerate() {
        if nth > 0 {
            f.write_str("\n")?;
        }
        f.write_str(&shown(line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r73_failure_is_words_without_control_characters() {
        let failure = Failure::from("two\nlines \x1b[2J");
        assert_eq!(format!("{failure:?}"), "two\nlines \\u{1b}[2J");
    }

    #[test]
    fn failure_takes_any_error() {
        let parsed = || -> Result<u32, Failure> { Ok("x".parse::<u32>()?) };
        let text = format!("{:?}", parsed().unwrap_err());
        assert_eq!(text, "invalid digit found in string");
        let boxed = || -> Result<(), Failure> { Err(BoxError::from("boxed"))? };
        let error = boxed().unwrap_err().into_inner();
        assert_eq!(error.to_string(), "boxed");
    }
}
