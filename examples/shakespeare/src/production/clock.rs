//! The wall clock of production: real processes live in real time, and their journals and logs are compared by it.
//! The only place in the example that reads it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970, UTC.
#[allow(
    clippy::disallowed_methods,
    reason = "a production process is the world outside the control plane: nobody hands it the time"
)]
pub fn now_micros() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as u64)
}
