//! Panics as values: a panic of user code, or of one task, must not end what runs beside it.

use std::{any::Any, fmt, panic::AssertUnwindSafe};

use futures::FutureExt;

/// A panic that was caught. It is shown as its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic(String);

impl Panic {
    /// The message of the panic; "(no message)" if it has none.
    pub fn message(&self) -> &str {
        &self.0
    }

    fn of(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Self(text.unwrap_or("(no message)").to_owned())
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Panic {}

/// Runs `work` and returns its output. State that `work` has changed may be inconsistent after a panic; the caller
/// discards it.
///
/// # Errors
/// The panic that ended `work`.
///
/// ```
/// let panicked = control_plane_runtime::catch_panic(|| panic!("on purpose")).map(|()| 1);
/// assert_eq!(panicked.unwrap_err().message(), "on purpose");
/// ```
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    let ended = std::panic::catch_unwind(AssertUnwindSafe(work));
    ended.map_err(|panic| Panic::of(&*panic))
}

/// Polls `future` to its end and returns its output. See [`catch_panic`].
///
/// # Errors
/// The panic that ended `future`.
pub async fn catch_panic_in<F: Future>(future: F) -> Result<F::Output, Panic> {
    let ended = AssertUnwindSafe(future).catch_unwind().await;
    ended.map_err(|panic| Panic::of(&*panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_has_the_message_of_either_kind_of_text_or_none() {
        let formatted = catch_panic(|| panic!("number {}", 7)).map(|()| 1);
        assert_eq!(formatted.unwrap_err().to_string(), "number 7");
        let no_text = catch_panic(|| std::panic::panic_any(7_u8)).map(|()| 1);
        assert_eq!(no_text.unwrap_err().to_string(), "(no message)");
    }
}
