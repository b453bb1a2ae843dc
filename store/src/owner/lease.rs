//! The lease: the time for which a process may act as an owner after its last heartbeat.

use std::time::Duration;

use plugin_sdk::Mono;

/// The right of a process to act as an owner until a point in time. Until [`ends_at`](Self::ends_at) no other process
/// can have taken over. Cheap to copy: each part of the program that starts work gets a copy.
///
/// ```
/// use std::time::Duration;
/// use control_plane_store::owner::Lease;
/// use plugin_sdk::Mono;
/// let lease = Lease { renewed_at: Mono(0), term: Duration::from_secs(15) };
/// assert!(lease.may_start(Mono(0) + Duration::from_secs(9)));
/// assert!(!lease.may_start(Mono(0) + Duration::from_secs(10)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Start of the last heartbeat that succeeded, by the clock of the process.
    pub renewed_at: Mono,
    /// Time without a heartbeat after which other processes may take over. The same in all processes.
    pub term: Duration,
}

impl Lease {
    /// Whether the process may start work at `now`: true until two thirds of a term after the heartbeat.
    pub fn may_start(&self, now: Mono) -> bool {
        now < self.ends_at()
    }

    /// Time from which the process may start nothing: two thirds of a term after the heartbeat.
    pub fn ends_at(&self) -> Mono {
        self.renewed_at + self.term / 3 * 2
    }

    /// Time of the next heartbeat: two ninths of a term after the last one. Two attempts may fail, and the third is
    /// still in time.
    pub fn renew_at(&self) -> Mono {
        self.renewed_at + self.term / 9 * 2
    }
}
