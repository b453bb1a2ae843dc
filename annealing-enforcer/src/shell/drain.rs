//! The orderly end of an ownership: nothing new starts, and pushes under way have some time to end and to be recorded.

use std::{future::poll_fn, task::Poll, time::Duration};

use control_plane_runtime::Runtime;
use futures::{
    FutureExt,
    channel::{mpsc::UnboundedReceiver, oneshot},
    future::{BoxFuture, FusedFuture, join_all, select},
};

use super::{
    error::Error,
    input::Input,
    ownership::{End, Ownership, Turn},
};
use crate::kernel::Event;

/// The time that engines beside the ownership have to record what they hand over, when the time for calls is over.
const HAND_OVER: Duration = Duration::from_secs(5);

/// Completes when `shutdown` does. Unlike `shutdown`, it may be polled again after that and completes each time.
pub(super) fn told(shutdown: impl Future<Output = ()> + Send + 'static) -> BoxFuture<'static, ()> {
    let mut shutdown = Box::pin(shutdown.fuse());
    let told = poll_fn(move |cx| match shutdown.is_terminated() {
        true => Poll::Ready(()),
        false => shutdown.poll_unpin(cx),
    });
    told.boxed()
}

impl<R: Runtime> Ownership<R> {
    /// Waits until the pushes under way have ended and all records are durable, at most for [`Config::drain`].
    ///
    /// [`Config::drain`]: crate::Config::drain
    pub(super) async fn drain(
        &mut self,
        inputs: &mut UnboundedReceiver<Input>,
    ) -> Result<End, Error> {
        self.beside.stops.iter().for_each(|task| task.abort());
        self.step(Event::Drain);
        let (pushes, within) = (self.kernel.pushing(), self.drain);
        let until = self.runtime.now().mono + within;
        self.attached.drains(&mut self.kernel, until);
        let engines = join_all(std::mem::take(&mut self.beside.drains)).map(drop);
        let handed_over = self.runtime.sleep_until(until + HAND_OVER);
        let mut engines: BoxFuture<'static, ()> =
            select(handed_over, engines.boxed()).map(drop).boxed();
        tracing::info!(
            pushes,
            ?within,
            "shutting down: no push starts, and pushes under way may end"
        );
        let mut end = self.runtime.sleep(within);
        while self.kernel.pushing() > 0 {
            match self.turn(inputs, &mut end).await {
                Turn::Went => {}
                Turn::Until => {
                    self.leaves_open();
                    break;
                }
                Turn::Over(ended) => return ended,
            }
        }
        // R26: the lease is renewed until the engines beside have recorded what is left.
        loop {
            match self.turn(inputs, &mut engines).await {
                Turn::Went => {}
                Turn::Until => break,
                Turn::Over(ended) => return ended,
            }
        }
        if self.kernel.pushing() > 0 {
            return Ok(End::Shutdown);
        }
        let (reply, recorded) = oneshot::channel();
        self.when_durable(reply);
        let mut over: BoxFuture<'static, ()> = select(end, recorded).map(drop).boxed();
        loop {
            match self.turn(inputs, &mut over).await {
                Turn::Went => {}
                Turn::Until => return Ok(End::Shutdown),
                Turn::Over(ended) => return ended,
            }
        }
    }

    /// Logs the pushes that are left to the next owner.
    fn leaves_open(&self) {
        let (pushes, within) = (self.kernel.pushing(), self.drain);
        tracing::warn!(
            pushes,
            ?within,
            "pushes did not end while shutting down; the next owner finds out their outcomes"
        );
    }
}
