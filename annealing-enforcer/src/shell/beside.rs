//! Tasks that end with what they run beside, however that ends: nothing outlives an ownership.

use futures::{
    FutureExt,
    future::{AbortHandle, Abortable, BoxFuture},
};
use plane_runtime::Runtime;

/// A running task. Dropping this ends it.
pub(super) struct Beside(AbortHandle);

impl Beside {
    pub(super) fn start<R: Runtime>(runtime: &R, task: BoxFuture<'static, ()>) -> Self {
        let (handle, registration) = AbortHandle::new_pair();
        runtime.spawn(Abortable::new(task, registration).map(drop).boxed());
        Self(handle)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.abort();
    }
}
