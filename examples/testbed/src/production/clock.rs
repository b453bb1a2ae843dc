//! The wall clock of production. Journals and logs of different processes are compared by this time. No other code of
//! the example reads the system clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time, in microseconds since 1970, UTC.
#[allow(
    clippy::disallowed_methods,
    reason = "a production process is outside the control plane and has no runtime that passes it the time"
)]
pub fn now_micros() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}
