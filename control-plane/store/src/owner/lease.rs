//! How long a process may go on by itself.

use std::time::Duration;

use plugin_sdk::Mono;

/// The time in which nobody else can have taken over. Cheap to copy: hand it to whoever starts things.
///
/// ```
/// use std::time::Duration;
/// use plane_store::owner::Lease;
/// use plugin_sdk::Mono;
/// let lease = Lease { renewed_at: Mono(0), term: Duration::from_secs(15) };
/// assert!(lease.may_start(Mono(0) + Duration::from_secs(9)));
/// assert!(!lease.may_start(Mono(0) + Duration::from_secs(10)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// When the last heartbeat that went through was begun, by the clock of its process.
    pub renewed_at: Mono,
    /// After how long without a heartbeat others take over.
    pub term: Duration,
}

impl Lease {
    /// Whether something may be started at `now`: until two thirds of a term have passed.
    pub fn may_start(&self, now: Mono) -> bool {
        now < self.ends_at()
    }

    /// From when on nothing may be started.
    pub fn ends_at(&self) -> Mono {
        self.renewed_at + self.term / 3 * 2
    }

    /// When to beat again: early enough to fail twice and still be in time.
    pub fn renew_at(&self) -> Mono {
        self.renewed_at + self.term / 9 * 2
    }
}
