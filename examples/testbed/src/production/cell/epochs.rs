//! How far the balancer has followed the routings of its cell. Jobs wait for it before they stop a drained task.

/// The last epoch sent to the balancer, and the last one that it acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epochs {
    pub(super) said: u64,
    pub(super) acknowledged: u64,
}
