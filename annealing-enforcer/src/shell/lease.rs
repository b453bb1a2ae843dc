//! The end of the lease, shared with the calls that are about to begin.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use plugin_sdk::Mono;

/// The time until which this ownership may begin pushes. Cheap to clone; all clones are of one lease.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseEnd(Arc<AtomicU64>);

impl LeaseEnd {
    pub(super) fn set(&self, until: Mono) {
        self.0.store(until.0, Ordering::SeqCst);
    }

    pub(super) fn get(&self) -> Mono {
        Mono(self.0.load(Ordering::SeqCst))
    }
}
