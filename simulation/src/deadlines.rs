//! The times that processes are given, and by which the judge measures them.

use std::time::Duration;

/// Lease term: other processes take over after this time without a heartbeat.
pub const TERM: Duration = Duration::from_secs(15);
/// Deadline of a diff call.
pub const DIFF: Duration = Duration::from_secs(10);
/// Deadline of a push call.
pub const PUSH: Duration = Duration::from_secs(40);
